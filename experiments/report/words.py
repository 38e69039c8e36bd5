"""The words that the report uses for what rows call by short names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.figures.catalogue import BY_NAME

if TYPE_CHECKING:
    from optim.figures.figure import Figure

KINDS = {"exact": "exact", "heuristic": "heuristic", "search": "search"}

OBJECTIVES: dict[str | None, str] = {
    None: "",
    **{figure.name: figure.label for figure in BY_NAME.values() if figure.sense},
}


def gap_words(figure: Figure) -> str:
    """Say what gaps are, where they are not relative; else nothing."""
    if not figure.percent or figure.reference is None:
        return ""
    return f"Gaps are differences in percent of the {BY_NAME[figure.reference].label}."


VERDICTS = {
    "proved optimal": "proved optimal",
    "plan": "plan",
    "refused plan": "breaks limits",
    "proven infeasible": "proven infeasible",
    "no plan": "no plan",
    "not applicable": "not applicable",
    "error": "error",
    "crash": "crash",
    "timeout": "time-out",
    "memory": "out of memory",
}

SHORT_VERDICTS = VERDICTS | {"not applicable": "n/a", "proven infeasible": "infeasible"}
"""The same for narrow columns."""


def shift_text(shift: float) -> str:
    """Say how times are averaged."""
    amount = "1 s" if shift == 1.0 else f"{1000 * shift:g} ms"
    return f"the geometric mean shifted by {amount}"
