"""`run_replay`: every policy over all periods, into a folder that can be taken up again."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.replay.framework import Setting, check_policy, first_state, step
from experiments.replay.periods import check_periods
from experiments.replay.store import Progressed, ReplayFolder, write_rows
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.policies.deployment import CostModel
from streamplace.policies.guard import Guarded
from streamplace.policies.registry import read_policy
from streamplace.policies.scaling import ScalingChoice
from streamplace.present.numbers import number, percent, plural
from streamplace.present.plots import canvas, legend, markers, styles, to_svg
from streamplace.present.status_line import StatusLine
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from optim.format.instance import Instance
    from streamplace.policies.policy import Policy

DEFAULT_POLICIES = ("albic", "flux", "static")


@dataclass(frozen=True)
class ReplayOptions:
    """What a replay is run with.

    Attributes
    ----------
    policies
        As `streamplace.policies.registry.read_policy` takes them.
    costs
        Of serialisation and migration.
    scaling
        The rule of scaling decisions.
    max_migrations, max_migration_cost
        Budgets a period; ``None`` keeps those of the periods.
    time_limit
        Seconds a plan; ``None`` for none, which alone repeats exactly.
    seed
        Of everything random.
    guard
        ``gain``, ``cool_down`` and ``confirm`` of `streamplace.policies.guard.Guarded`; ``None``:
        every decision is carried out.
    """

    policies: tuple[str, ...] = DEFAULT_POLICIES
    costs: CostModel = field(default_factory=CostModel)
    scaling: ScalingChoice = field(default_factory=ScalingChoice)
    max_migrations: int | None = None
    max_migration_cost: float | None = None
    time_limit: float | None = None
    seed: int = 0
    guard: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Replayed:
    """What a replay came to: its folder, a summary and the rows of each policy."""

    path: Path
    summaries: tuple[dict[str, Any], ...]
    rows: tuple[dict[str, Any], ...]


def run_replay(
    periods: Sequence[Instance],
    output: str | Path,
    options: ReplayOptions | None = None,
    *,
    quiet: bool = True,
    names: Sequence[str] | None = None,
) -> Replayed:
    """Replay every policy over the periods; interrupted, the same call goes on.

    Parameters
    ----------
    periods
        In order.
    output
        Folder for rows, table and picture: new, empty, or that of the same replay. Further policies
        may be added to it.
    options
        What to run and how.
    quiet
        Show no progress.
    names
        What the periods are called in errors; their own names if not given.

    Raises
    ------
    InvalidInput
        The periods do not belong together, a policy or rule cannot be used, or the folder is
        another replay's; nothing was started.
    KeyboardInterrupt
        Interrupted; finished periods are stored.
    """
    options = options or ReplayOptions()
    check_periods(periods, names or [period.name for period in periods])
    setting = Setting(periods, options.costs, options.max_migrations, options.max_migration_cost)
    policies = _read_policies(setting, options)
    folder = ReplayFolder(Path(output))
    with folder.writing(_record(periods, options)):
        known = {name: folder.load(name) for name in policies}
        total = len(policies) * len(periods)
        tell = Teller(total, sum(len(p.rows) for p in known.values()), quiet)
        for name, policy in policies.items():
            progressed = known[name]
            state = progressed.state or first_state(setting, policy)
            for period in range(len(progressed.rows), len(periods)):
                began = time.perf_counter()
                row, state = step(setting, policy, period, state)
                progressed.rows.append({"policy": name, **row})
                progressed.seconds.append(time.perf_counter() - began)
                progressed.state = state
                folder.save(name, progressed)
                tell(name, row)
        return _finish(folder, known, len(periods))


def _read_policies(setting: Setting, options: ReplayOptions) -> dict[str, Policy]:
    if len(set(options.policies)) < len(options.policies):
        twice = next(p for p in options.policies if options.policies.count(p) > 1)
        raise InvalidInput(Problem("--policy", twice, "stands twice", "name it once"))
    rule, costs = options.scaling.make(), options.costs
    policies: dict[str, Policy] = {}
    for text in options.policies:
        policy = read_policy(text, options.seed, options.time_limit, scaling=rule, costs=costs)
        policies[text] = policy if options.guard is None else Guarded(policy, **options.guard)
    for policy in policies.values():
        check_policy(setting, policy)
    return policies


def _record(periods: Sequence[Instance], options: ReplayOptions) -> dict[str, Any]:
    """Return everything that decides on the rows but the policies."""
    return {
        "periods": [{"name": p.name, "sha256": p.sha256} for p in periods],
        "costs": asdict(options.costs),
        "scaling": asdict(options.scaling),
        "max_migrations": options.max_migrations,
        "max_migration_cost": options.max_migration_cost,
        "time_limit": options.time_limit,
        "seed": options.seed,
        **({} if options.guard is None else {"guard": dict(options.guard)}),
    }


def _finish(folder: ReplayFolder, known: dict[str, Progressed], periods: int) -> Replayed:
    """Write rows, table and picture of the policies of this call."""
    rows = tuple(row for progressed in known.values() for row in progressed.rows)
    summaries = tuple(summarise(name, p.rows, p.seconds) for name, p in known.items())
    write_rows(folder.path, rows)
    lines = [[s["policy"], *(text(s[key]) for _, key, text in FIGURES)] for s in summaries]
    heads = ["policy", *(heading for heading, _, _ in FIGURES)]
    write_atomic(folder.path / "summary.md", markdown(heads, lines))
    title = f"{periods} periods from {rows[0]['name']}"
    drawing = draw({name: p.rows for name, p in known.items()}, title)
    write_atomic(folder.path / "replay.svg", drawing)
    return Replayed(folder.path, summaries, rows)


FIGURES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("load distance now", "load_distance", number),
    ("next", "load_distance_next", number),
    ("worst next", "worst_next", number),
    ("collocated", "collocation_factor", percent),
    ("at the end", "last_collocation_factor", percent),
    ("load index", "load_index", lambda value: number(value, 3)),
    ("at the end", "last_load_index", lambda value: number(value, 3)),
    ("migrations", "migrations", "{:,}".format),
    ("cost", "migration_cost", number),
    ("periods over budget", "over_budget", str),
    ("node periods", "node_periods", "{:,}".format),
    ("periods without a plan", "without_plan", str),
)
"""Of the table of policies: heading, key of `summarise`, and how the figure is written."""


def summarise(
    policy: str, rows: Sequence[dict[str, Any]], seconds: Iterable[float]
) -> dict[str, Any]:
    """Sum up the rows of one policy, of which there is at least one: what it comes down to."""
    last = rows[-1]
    following = [row["load_distance_next"] for row in rows]
    return {
        "policy": policy,
        "periods": len(rows),
        "without_plan": sum(not row["planned"] for row in rows),
        "load_distance": _mean(row["load_distance"] for row in rows),
        "load_distance_next": _mean(following),
        "worst_next": max((far for far in following if far is not None), default=None),
        "collocation_factor": _mean(row["collocation_factor"] for row in rows),
        "last_collocation_factor": last["collocation_factor"],
        "load_index": _mean(row["load_index"] for row in rows),
        "last_load_index": last["load_index"],
        "migrations": sum(row["migrations"] for row in rows),
        "migration_cost": math.fsum(row["migration_cost"] for row in rows),
        "over_budget": sum(row["over_budget"] for row in rows),
        "node_periods": sum(row["nodes"] for row in rows),
        "last_nodes": last["nodes"],
        "seconds": math.fsum(seconds),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


class Teller:
    """Reports finished periods: so many of all policies, of which some were stored before."""

    def __init__(self, total: int, done: int, quiet: bool = False) -> None:
        self._total, self._done, self._quiet = total, done, quiet
        self._line = StatusLine()

    def __call__(self, policy: str, row: dict[str, Any]) -> None:
        """Take in a finished period."""
        self._done += 1
        now = time.monotonic()
        last = self._done == self._total
        if self._quiet or not (last or self._line.due(now)):
            return
        self._line.show(
            f"{self._done:,}/{self._total:,} periods  {policy} {row['period']}: load distance "
            f"{number(row['load_distance'], 3)}, {plural(row['migrations'], 'move')}, "
            f"{plural(row['nodes'], 'node')}",
            now,
        )
        if last:
            self._line.close(keep=True)


PANELS = (
    ("load_distance_next", "load distance met"),
    ("collocation_factor", "collocation factor"),
    ("load_index", "load index"),
    ("migrations", "migrations"),
    ("nodes", "nodes"),
)


def draw(rows: Mapping[str, Sequence[dict[str, Any]]], title: str) -> str:
    """Return the rows of each policy drawn as SVG, the same bytes for the same rows."""
    every = [row for mine in rows.values() for row in mine]
    shown = [panel for panel in PANELS if any(row[panel[0]] is not None for row in every)]
    style = styles((policy, policy) for policy in rows)
    with canvas(len(shown), title, (10.0, 1.0 + 1.7 * len(shown))) as (figure, axes):
        panels = axes if len(shown) > 1 else [axes]
        for panel, (key, label) in zip(panels, shown, strict=True):
            for policy, mine in rows.items():
                known = [(row["period"], row[key]) for row in mine if row[key] is not None]
                line = {**style[policy].line, "markevery": markers(len(known))}
                panel.plot(*zip(*known, strict=True), **line, label=style[policy].label)
            panel.set_ylabel(label)
            panel.set_ylim(bottom=0)
            panel.spines[["top", "right"]].set_visible(False)
        panels[-1].set_xlabel("period")
        legend(figure, panels[0])
        return to_svg(figure, title)
