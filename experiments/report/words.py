"""The words that the report uses for what rows call by short names."""

from __future__ import annotations

KINDS = {"exact": "exact", "heuristic": "heuristic", "search": "search"}

OBJECTIVES: dict[str | None, str] = {
    "imc_gain": "collocation",
    "internode_traffic": "inter-node traffic",
    "load_distance": "load distance",
    None: "",
}

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
