"""Export: from a plan to the files a foreign system takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.options import read_options
from optim.util.files import write_atomic
from streamplace.clusters.exchange.declarations import EXPORTERS
from streamplace.clusters.exchange.ledger import Ledger
from streamplace.clusters.exchange.placements import Places, places_of_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.instance import Instance
    from optim.format.plan import Plan


@dataclass(frozen=True)
class Exported:
    """The texts by the ending their file gets, and the ledger of their making."""

    texts: dict[str, str]
    ledger: Ledger

    def save(self, path: str | Path) -> list[Path]:
        """Write all files; those with an ending of their own stand beside the first.

        Raises
        ------
        InvalidInput
            A file cannot be written.
        """
        chosen = Path(path)
        stem = chosen.name.removesuffix(".json")
        written = []
        for ending, text in self.texts.items():
            target = chosen if not ending else chosen.with_name(stem + ending)
            write_atomic(target, text)
            written.append(target)
        return written


def export_plan(
    format_name: str,
    instance: Instance,
    plan: Plan | None,
    options: Sequence[tuple[str, str]] = (),
    *,
    ledger: Ledger | None = None,
) -> Exported:
    """Make a foreign system's files of a plan.

    Parameters
    ----------
    format_name
        Name of one of `EXPORTERS`.
    plan
        For this instance; ``None`` only where the format needs none.
    options
        Those of the format, as texts.
    ledger
        Takes what is noticed, so that it is known where the export fails, too.

    Raises
    ------
    InvalidInput
        The plan does not fit the instance or the format, by name.
    """
    exporter = EXPORTERS.get(format_name)
    typed = read_options(exporter.name, exporter.options, options)
    if exporter.needs_plan and plan is None:
        raise InvalidInput(Problem("PLAN", None, "is missing", f"{exporter.name} writes a plan"))
    places = Places(instance.tasks.node) if plan is None else places_of_plan(instance, plan)
    ledger = Ledger() if ledger is None else ledger
    texts = exporter.write(instance, places, typed, ledger)
    ledger.check()
    return Exported(texts, ledger)
