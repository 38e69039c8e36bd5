"""What importers and exporters declare of themselves, their tables, and what they note."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.plugins import Plugins
from streamplace.present.numbers import listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optim.format.instance import Instance
    from optim.options import Option
    from streamplace.clusters.exchange.placements import Places
_SHOWN_FIELDS = 8
_MAX_PROBLEMS = 1000


@dataclass(frozen=True)
class Request:
    """What an importer is asked for: sources, typed options, seconds a web answer may take."""

    sources: tuple[str, ...]
    options: Mapping[str, Any]
    timeout: float


@dataclass(frozen=True)
class Importer:
    """A way from a foreign format to an instance.

    Attributes
    ----------
    name, summary, sources
        Its name, one line, and what it reads.
    options
        Typed, with defaults.
    read
        Makes the document of an instance; raises `InvalidInput` where a document or field that is
        needed is missing, or not what it should be, by path or line.
    follow
        Moves tasks of that document (id of the task to id of the node) with all that hangs on where
        they are; ``None`` where that is the node alone.
    """

    name: str
    summary: str
    sources: str
    options: tuple[Option, ...]
    read: Callable[[Request, Ledger], dict[str, Any]]
    follow: (
        Callable[[dict[str, Any], Mapping[str, str], Mapping[str, Any], Ledger], None] | None
    ) = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace import --json`` lists."""
        return {
            "name": self.name,
            "summary": self.summary,
            "sources": self.sources,
            "options": [option.to_dict() for option in self.options],
        }


@dataclass(frozen=True)
class Exporter:
    """A way from a plan to a foreign format.

    Attributes
    ----------
    name, summary
        Its name and one line.
    options
        Typed, with defaults.
    write
        Gives the texts to write: the ending after the chosen file's stem to its content; the
        empty ending is the file itself. Raises `InvalidInput` where the format or the system
        cannot take the plan.
    needs_plan
        Whether there is anything to write without a plan.
    read_back
        Reads where tasks are out of a file that `write` made; raises `InvalidInput` where it is
        none, or is of other tasks and nodes. ``None`` where nothing in the file says it.
    rescale
        Gives the texts that bring operators to the numbers of tasks of a plan that chooses them, by
        operator id; ``None`` where the format says nothing of them.
    next_step
        How the files are put to use, with ``{0}``, ``{1}``, … for their names; empty for nothing
        to say.
    """

    name: str
    summary: str
    options: tuple[Option, ...]
    write: Callable[[Instance, Places, Mapping[str, Any], Ledger], dict[str, str]]
    needs_plan: bool = True
    read_back: Callable[[str, Instance], Places] | None = None
    next_step: str = ""
    rescale: Callable[[Instance, Mapping[str, int], Ledger], dict[str, str]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace export --json`` lists."""
        return {
            "name": self.name,
            "summary": self.summary,
            "needs_plan": self.needs_plan,
            "options": [option.to_dict() for option in self.options],
        }


IMPORTERS: Plugins[Importer] = Plugins(
    group="streamplace.importers", noun="format", where="FORMAT", declared=f"{__name__}:Importer"
)

EXPORTERS: Plugins[Exporter] = Plugins(
    group="streamplace.exporters", noun="format", where="FORMAT", declared=f"{__name__}:Exporter"
)


class Ledger:
    """Collects notes, ignored fields and problems while sources are read.

    Attributes
    ----------
    readings
        What was inferred and not read; stands in the instance's ``origin`` too.
    warnings
        What the user should look at.
    ignored
        Unknown field name to the number of times it was met.
    next_step
        How what was exported is put to use, where that is not as the exporter declares it, or is
        reported though there are warnings.
    """

    def __init__(self) -> None:
        self.readings: list[str] = []
        self.warnings: list[str] = []
        self.ignored: Counter[str] = Counter()
        self.next_step = ""
        self._problems: list[Problem] = []

    def reading(self, text: str) -> None:
        """Note an inference, once."""
        if text not in self.readings:
            self.readings.append(text)

    def warn(self, text: str) -> None:
        """Note something to look at, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def problem(self, path: str, value: object, reason: str, remedy: str = "") -> None:
        """Note a reason why the sources cannot be taken."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(Problem(path, value, reason, remedy))

    def check(self) -> None:
        """Stop if there is a problem.

        Raises
        ------
        InvalidInput
            With all problems so far.
        """
        if self._problems:
            raise InvalidInput(self._problems)

    def ignored_text(self) -> str:
        """Return the ignored fields in one line; empty if there are none."""
        if not self.ignored:
            return ""
        ordered = sorted(self.ignored.items(), key=lambda item: (-item[1], item[0]))
        shown = listed([f"{name} ×{number}" for name, number in ordered], _SHOWN_FIELDS)
        return f"ignored {plural(self.ignored.total(), 'unknown field')}: {shown}"
