"""Import and export: from a system's state to an instance, from a plan to a system's files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem, problems_in, raise_any
from optim.format.instance import Instance
from optim.format.parallelism import spoken_of
from optim.format.plan import PLAN_FORMAT, Plan
from optim.format.read import parse_json
from optim.options import number_of, read_options
from optim.rules import NUMBERS
from optim.util.files import write_atomic
from optim.util.process import collection_paused
from streamplace.clusters.exchange.declarations import (
    EXPORTERS,
    IMPORTERS,
    Exporter,
    Ledger,
    Places,
    Request,
    add_network,
    moves_to,
    places_of_plan,
    with_places,
)
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.sources import DEFAULT_TIMEOUT, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence


_MAX_ORIGIN = 20_000
SHARES = "max_utilisation."


@dataclass(frozen=True)
class Imported:
    """An instance and the ledger of its making."""

    instance: Instance
    ledger: Ledger


def import_instance(
    format_name: str,
    sources: Sequence[str],
    options: Sequence[tuple[str, str]] = (),
    *,
    placement: str | None = None,
    name: str | None = None,
    limits: Sequence[tuple[str, str]] = (),
    timeout: float = DEFAULT_TIMEOUT,
    ledger: Ledger | None = None,
) -> Imported:
    """Make an instance.

    Parameters
    ----------
    format_name, options
        One of `IMPORTERS`, and its options as texts.
    sources
        Files, folders or an address, as the format takes them.
    placement
        A file that says where tasks are, in place of what the sources say.
    name
        Of the instance, in place of one made from the source.
    limits
        What a plan must keep, as texts, such as ``max_migrations`` and ``10``.
    timeout
        Seconds that an answer over the net may take.
    ledger
        Takes what is noticed, so that it is known where the import fails, too.

    Raises
    ------
    InvalidInput
        Anything that cannot be taken, by path.
    """
    importer = IMPORTERS.get(format_name)
    typed = read_options(importer.name, importer.options, options)
    bounds = _read_limits(limits)
    ledger = Ledger() if ledger is None else ledger
    with collection_paused():
        document = importer.read(Request(tuple(sources), typed, timeout), ledger)
    ledger.check()
    add_network(document, typed)
    if placement is not None:
        ledger.reading("where tasks are is read from a file of its own")
    origin = [f"imported by streamplace from {importer.name}", *ledger.readings]
    document["origin"] = "; ".join(origin)[:_MAX_ORIGIN]
    if name is not None:
        document["name"] = name
    if bounds:
        document["limits"] = document.get("limits", {}) | bounds
    instance = _instance(document, importer.name)
    if placement is not None:
        places = read_placement(placement, instance)
        if importer.follow is not None:
            importer.follow(document, moves_to(instance, places), typed, ledger)
            with problems_in(placement):
                ledger.check()
            instance = _instance(document, importer.name)
        instance = with_places(instance, places)
    return Imported(instance, ledger)


def _instance(document: dict[str, Any], source: str) -> Instance:
    with problems_in(f"the instance made from {source}"):
        return Instance.from_dict(document)


def _read_limits(given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return ``limits`` as an instance file has them, of names and values as texts.

    ``max_utilisation.RESOURCE`` is a share of a capacity. Whether a number does the instance says.
    """
    limits: dict[str, Any] = {}
    shares: dict[str, float] = {}
    problems: list[Problem] = []
    for name, text in given:
        path = f"--limit {name}"
        resource = name.removeprefix(SHARES)
        into, key = (shares, resource) if name.startswith(SHARES) else (limits, name)
        if into is limits and name not in NUMBERS:
            remedy = f"one of {', '.join(NUMBERS)}, {SHARES}RESOURCE"
            problems.append(Problem(path, None, "is no limit", remedy))
        elif key in into:
            problems.append(Problem(path, text, "is given twice", "keep one"))
        else:
            try:
                number = number_of(text) if into is shares else float(text)
            except ValueError:
                problems.append(Problem(path, text, "is no number"))
                continue
            into[key] = int(number) if number.is_integer() else number
    raise_any(problems)
    return limits | ({"max_utilisation": shares} if shares else {})


def read_placement(name: str, instance: Instance) -> Places:
    """Read a placement: a plan, or what an exporter wrote.

    Raises
    ------
    InvalidInput
        The file is none of these, or does not fit the instance.
    """
    text = read_text(Path(name))
    with problems_in(name):
        value = parse_json(text.encode()) if text.lstrip().startswith("{") else None
        if isinstance(value, dict) and value.get("format") == PLAN_FORMAT:
            return places_of_plan(instance, Plan.from_dict(value))
        reader = EXPORTERS.get(_kind_of(text, value)).read_back
        assert reader is not None
        return reader(text, instance)


def _kind_of(text: str, value: Any) -> str:
    """Return the format of a placement, by its JSON, or else by how its first line begins."""
    if value is not None:
        return "kafka" if isinstance(value, dict) and "partitions" in value else "storm"
    head = text.lstrip().partition("\n")[0].strip()
    if head.startswith("task,"):
        return "moves" if head.startswith("task,from,to") else "csv"
    if is_whole(head):
        return "metis"
    remedy = "a plan, or a file of export kafka, storm, metis, csv or moves"
    raise InvalidInput(Problem("$", head[:40] or None, "is no placement", remedy))


@dataclass(frozen=True)
class Exported:
    """The texts by the ending their file gets, and the ledger of their making."""

    texts: dict[str, str]
    ledger: Ledger

    def save(self, path: str | Path) -> list[Path]:
        """Write all files; those with an ending of their own stand beside the first."""
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
    format_name, options
        One of `EXPORTERS`, and its options as texts.
    plan
        For this instance; ``None`` only where the format needs none.
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
    if plan is not None and plan.parallelism is not None:
        return _rescaled(exporter, instance, plan, Ledger() if ledger is None else ledger)
    places = Places(instance.tasks.node) if plan is None else places_of_plan(instance, plan)
    ledger = Ledger() if ledger is None else ledger
    texts = exporter.write(instance, places, typed, ledger)
    ledger.check()
    return Exported(texts, ledger)


def _rescaled(exporter: Exporter, instance: Instance, plan: Plan, ledger: Ledger) -> Exported:
    """Make the files that bring a system to the parallelism of a plan; placing comes after it.

    Raises
    ------
    InvalidInput
        The format knows no parallelism, or the plan is another instance's.
    """
    if exporter.rescale is None:
        reason = f"is nothing that {exporter.name} can change"
        able = [one.name for one in EXPORTERS.all() if one.rescale is not None]
        raise InvalidInput(Problem("parallelism", None, reason, f"export {' or '.join(able)}"))
    scaled, _ = spoken_of(instance, plan)
    names, before = instance.operators.ids, instance.operators.num_tasks.tolist()
    after = scaled.operators.num_tasks.tolist()
    both = zip(names, before, after, strict=True)
    changed = {name: n for name, now, n in both if n != now}
    texts = exporter.rescale(instance, changed, ledger)
    ledger.reading("a plan of another parallelism takes a restart or a rescale")
    if plan.added_nodes:
        ledger.reading(f"start {len(plan.added_nodes)} nodes before: {', '.join(plan.added_nodes)}")
    ledger.next_step = "rescale by {0}, import the system again, and solve for places"
    ledger.check()
    return Exported(texts, ledger)
