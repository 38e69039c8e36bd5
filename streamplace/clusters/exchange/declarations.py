"""What an importer and an exporter declare of themselves, and the tables of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optim.format.instance import Instance
    from optim.options import Option
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.exchange.placements import Places


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
        Makes the document of an instance.
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
        empty ending is the file itself.
    needs_plan
        Whether there is anything to write without a plan.
    read_back
        Reads where tasks are out of a file that `write` made; ``None`` where nothing says so.
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

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace export --json`` lists."""
        return {
            "name": self.name,
            "summary": self.summary,
            "needs_plan": self.needs_plan,
            "options": [option.to_dict() for option in self.options],
        }


IMPORTERS: Plugins[Importer] = Plugins(
    group="streamplace.importers",
    noun="format",
    where="FORMAT",
    declared=f"{__name__}:Importer",
)

EXPORTERS: Plugins[Exporter] = Plugins(
    group="streamplace.exporters",
    noun="format",
    where="FORMAT",
    declared=f"{__name__}:Exporter",
)
