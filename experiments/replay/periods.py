"""The periods of a replay: instances with the same key groups on the same nodes, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.instance import Instance
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SUFFIXES = (".json", ".json.gz")
_SHOWN = 5


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the instance files of files and folders; a folder's by name, numbers in order.

    Raises
    ------
    InvalidInput
        A path does not exist, or a folder holds no instance.
    """
    found: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            inside = [p for p in path.iterdir() if p.name.endswith(_SUFFIXES) and p.is_file()]
            if not inside:
                raise InvalidInput(Problem(str(path), None, "holds no .json or .json.gz file"))
            found += sorted(inside, key=_natural)
        elif path.exists():
            found.append(path)
        else:
            raise InvalidInput(Problem(str(path), None, "no such file or folder"))
    return found


def load_periods(paths: Iterable[str | Path]) -> list[Instance]:
    """Read and check the periods.

    Raises
    ------
    InvalidInput
        A file cannot be taken, or the periods do not belong together.
    """
    files = find_files(paths)
    periods = [Instance.load(file) for file in files]
    check_periods(periods, [str(file) for file in files])
    return periods


def load_trace(
    path: str | Path, placement: str | None = None, *, seed: int = 0, most: int | None = None
) -> list[Instance]:
    """Return the periods of a trace, empty ones too.

    Parameters
    ----------
    path
        Folder that ``streamplace trace`` made.
    placement
        Where key groups are at first, as `experiments.traces.instances.place` takes it; as the job
        description says if not given. Nothing moves later: policies decide that.
    seed
        Of a placement by a method.
    most
        Only the first so many periods.

    Raises
    ------
    InvalidInput
        The trace cannot be read, says nothing of nodes, or the placement cannot be made.
    """
    from experiments.traces.folder import TraceFolder
    from experiments.traces.instances import InstanceMaker, instances

    trace = TraceFolder.open(path)
    count = trace.manifest.num_over
    count = count if most is None else min(most, count)
    maker = InstanceMaker(trace, 0, count - 1)
    chosen = placement or maker.cluster.placement
    return list(instances(maker, range(count), chosen, seed=seed))


def check_periods(periods: Sequence[Instance], names: Sequence[str]) -> None:
    """Refuse periods that do not belong together.

    All need the key groups, nodes and resources of the first, in the same order; the first needs
    the placement the replay starts from. Later placements are not read: the policy decides them.

    Raises
    ------
    InvalidInput
        With every problem.
    """
    if not periods:
        remedy = "name files or folders, or --day"
        raise InvalidInput(Problem("INSTANCE", None, "no periods were given", remedy))
    first = periods[0]
    problems = []
    if not first.has_current:
        reason = "is missing: a replay starts from the placement of its first period"
        remedy = "give each task its node there, for example from a plan of `streamplace solve`"
        problems.append(Problem(f"{names[0]}: tasks[].node", None, reason, remedy))
    for period, name in zip(periods[1:], names[1:], strict=True):
        for what, mine, theirs in (
            ("tasks", period.tasks.ids, first.tasks.ids),
            ("nodes", period.nodes.ids, first.nodes.ids),
            ("resources", period.resources, first.resources),
        ):
            if mine != theirs:
                problems.append(_unlike(name, what, mine, theirs, names[0]))
    raise_any(problems[:20])


def _unlike(
    name: str, what: str, mine: Sequence[str], theirs: Sequence[str], first: str
) -> Problem:
    missing = [item for item in theirs if item not in set(mine)]
    extra = [item for item in mine if item not in set(theirs)]
    told = []
    if missing:
        told.append(f"lacks {listed(missing, _SHOWN)}")
    if extra:
        told.append(f"has {listed(extra, _SHOWN)} besides")
    reason = " and ".join(told) or "stand in another order"
    return Problem(f"{name}: {what}", None, f"{reason}, unlike {first}", "make them the same")


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
