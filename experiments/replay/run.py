"""`run_replay`: every policy over all periods, into a folder that can be taken up again."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.replay.deployment import CostModel
from experiments.replay.framework import Setting, check_policy, first_state, step
from experiments.replay.periods import check_periods
from experiments.replay.policies import read_policy
from experiments.replay.scaling import ScalingChoice
from experiments.replay.store import Progressed, ReplayFolder, write_rows
from experiments.replay.summary import PolicySummary, summarise, summary_table
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.present.drawing import canvas, legend, markers, styles, to_svg
from streamplace.present.numbers import number, plural
from streamplace.present.status_line import StatusLine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from experiments.replay.policies import Policy
    from optim.format.instance import Instance
    from streamplace.present.drawing import Style

DEFAULT_POLICIES = ("albic", "flux", "static")


@dataclass(frozen=True)
class ReplayOptions:
    """What a replay is run with.

    Attributes
    ----------
    policies
        As `experiments.replay.policies.read_policy` takes them.
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
    """

    policies: tuple[str, ...] = DEFAULT_POLICIES
    costs: CostModel = field(default_factory=CostModel)
    scaling: ScalingChoice = field(default_factory=ScalingChoice)
    max_migrations: int | None = None
    max_migration_cost: float | None = None
    time_limit: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Replayed:
    """What a replay came to: its folder, a summary and the rows of each policy."""

    path: Path
    summaries: tuple[PolicySummary, ...]
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
    rule = options.scaling.make()
    setting = Setting(
        periods,
        options.costs,
        rule,
        options.seed,
        options.max_migrations,
        options.max_migration_cost,
    )
    policies = _read_policies(setting, options)
    folder = ReplayFolder(Path(output))
    with folder.writing(_record(periods, options)):
        known = {name: folder.load(name) for name in policies}
        total = len(policies) * len(periods)
        tell = Teller(total, sum(len(p.rows) for p in known.values()), quiet)
        for name, policy in policies.items():
            _run_policy(setting, name, policy, folder, known[name], tell)
        return _finish(folder, known, len(periods))


def _read_policies(setting: Setting, options: ReplayOptions) -> dict[str, Policy]:
    if len(set(options.policies)) < len(options.policies):
        twice = next(p for p in options.policies if options.policies.count(p) > 1)
        raise InvalidInput(Problem("--policy", twice, "stands twice", "name it once"))
    policies = {
        text: read_policy(text, options.seed, options.time_limit) for text in options.policies
    }
    for policy in policies.values():
        check_policy(setting, policy)
    return policies


def _record(periods: Sequence[Instance], options: ReplayOptions) -> dict[str, Any]:
    """Return everything that decides on the rows but the policies."""
    return {
        "periods": [{"name": p.name, "sha256": p.sha256} for p in periods],
        "costs": asdict(options.costs),
        "scaling": {
            "name": options.scaling.name,
            "parameters": dict(options.scaling.parameters),
        },
        "max_migrations": options.max_migrations,
        "max_migration_cost": options.max_migration_cost,
        "time_limit": options.time_limit,
        "seed": options.seed,
    }


def _run_policy(
    setting: Setting,
    name: str,
    policy: Policy,
    folder: ReplayFolder,
    progressed: Progressed,
    tell: Callable[[str, dict[str, Any]], None],
) -> None:
    """Do the periods of a policy that are not stored yet."""
    state = progressed.state or first_state(setting, policy)
    for period in range(len(progressed.rows), len(setting.periods)):
        began = time.perf_counter()
        row, state = step(setting, policy, period, state)
        progressed.rows.append({"policy": name, **row})
        progressed.seconds.append(time.perf_counter() - began)
        progressed.state = state
        folder.save(name, progressed)
        tell(name, row)


def _finish(folder: ReplayFolder, known: dict[str, Progressed], periods: int) -> Replayed:
    """Write rows, table and picture of the policies of this call."""
    rows = tuple(row for progressed in known.values() for row in progressed.rows)
    summaries = tuple(summarise(name, p.rows, p.seconds) for name, p in known.items())
    write_rows(folder.path, rows)
    write_atomic(folder.path / "summary.md", summary_table(summaries))
    title = f"{periods} periods from {rows[0]['name']}"
    drawing = draw({name: p.rows for name, p in known.items()}, title)
    write_atomic(folder.path / "replay.svg", drawing)
    return Replayed(folder.path, summaries, rows)


class Teller:
    """Tells of finished periods.

    Parameters
    ----------
    total
        Policies × periods.
    done
        Of these, stored before.
    quiet
        Say nothing.
    """

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
    """Return the drawing as SVG, the same bytes for the same rows.

    Parameters
    ----------
    rows
        Of each policy, in order.
    title
        Above the panels.
    """
    shown = [panel for panel in PANELS if any(r[panel[0]] is not None for r in _all(rows))]
    style = styles((policy, policy) for policy in rows)
    with canvas(len(shown), title, (10.0, 1.0 + 1.7 * len(shown))) as (figure, axes):
        panels = axes if len(shown) > 1 else [axes]
        for panel, (key, label) in zip(panels, shown, strict=True):
            _panel(panel, rows, style, key, label)
        panels[-1].set_xlabel("period")
        legend(figure, panels[0])
        return to_svg(figure, title)


def _panel(
    axes: Axes,
    rows: Mapping[str, Sequence[dict[str, Any]]],
    style: Mapping[str, Style],
    key: str,
    label: str,
) -> None:
    for policy, mine in rows.items():
        known = [(row["period"], row[key]) for row in mine if row[key] is not None]
        axes.plot(
            [x for x, _ in known],
            [y for _, y in known],
            **style[policy].line,
            markevery=markers(len(known)),
            label=style[policy].label,
        )
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)


def _all(rows: Mapping[str, Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for mine in rows.values() for row in mine]
