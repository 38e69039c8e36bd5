"""`run_replay`: every policy over all periods, into a folder that can be taken up again."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.replay.periods import check_periods
from optim.errors import InvalidInput, Problem
from optim.figures.measures import distance_of_loads
from optim.format.instance import Instance
from optim.format.tables import Floats, Limits
from optim.referee import evaluate_indices
from optim.rules import budgets
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Store
from streamplace.policies.guard import Guarded
from streamplace.policies.nodes import (
    Cluster,
    CostModel,
    Deployment,
    collocated_traffic,
    measured_load,
    node_loads,
    on_cluster,
)
from streamplace.policies.parallelism import ScalingChoice
from streamplace.policies.policy import Decision, Policy, decide
from streamplace.policies.policy import State as Memory
from streamplace.policies.registry import read_policy
from streamplace.present.numbers import number, percent, plural
from streamplace.present.plots import canvas, legend, markers, styles, to_svg
from streamplace.present.table import markdown
from streamplace.present.tables import StatusLine

DEFAULT_POLICIES = ("albic", "flux", "static")


@dataclass(frozen=True)
class ReplayOptions:
    """What a replay is run with."""

    #: As `streamplace.policies.registry.read_policy` takes them.
    policies: tuple[str, ...] = DEFAULT_POLICIES
    costs: CostModel = field(default_factory=CostModel)  # Of serialisation and migration.
    scaling: ScalingChoice = field(default_factory=ScalingChoice)  # The rule of scaling decisions.
    #: Budgets over moves a period by their rule, in place of those of the periods.
    budgets: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds a plan; ``None`` for none, which alone repeats exactly.
    time_limit: float | None = None
    seed: int = 0  # Of everything random.
    #: ``gain``, ``cool_down`` and ``confirm`` of `streamplace.policies.guard.Guarded`; ``None``:
    #: every decision is carried out.
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

    `output`: folder for rows, table and picture: new, empty, or that of the same replay. Further
        policies may be added to it.
    `names`: what the periods are called in errors; their own names if not given.
    Raises `InvalidInput`: the periods do not belong together, a policy or rule cannot be used, or
        the folder is another replay's; nothing was started.
    Raises `KeyboardInterrupt`: interrupted; finished periods are stored.
    """
    options = options or ReplayOptions()
    check_periods(periods, names or [period.name for period in periods])
    setting = Setting(periods, options.costs, options.budgets)
    policies = _read_policies(setting, options)
    folder = ReplayFolder(Path(output))
    with folder.writing(_record(periods, options)):
        progress = {name: folder.load(name) for name in policies}
        total = len(policies) * len(periods)
        tell = Teller(total, sum(len(p.rows) for p in progress.values()), quiet)
        for name, policy in policies.items():
            progressed = progress[name]
            state = progressed.state or first_state(setting, policy)
            for period in range(len(progressed.rows), len(periods)):
                began = time.perf_counter()
                row, state = step(setting, policy, period, state)
                progressed.rows.append({"policy": name, **row})
                progressed.seconds.append(time.perf_counter() - began)
                progressed.state = state
                folder.save(name, progressed)
                tell(name, row)
        return _finish(folder, progress, len(periods))


def _read_policies(setting: Setting, options: ReplayOptions) -> dict[str, Policy]:
    if len(set(options.policies)) < len(options.policies):
        twice = next(p for p in options.policies if options.policies.count(p) > 1)
        raise InvalidInput(Problem("--policy", twice, "stands twice", "name it once"))
    rule, costs = options.scaling.make(), options.costs
    policies: dict[str, Policy] = {}
    for text in options.policies:
        policy = read_policy(text, options.seed, options.time_limit, scaling=rule, costs=costs)
        policies[text] = policy if options.guard is None else Guarded(policy, **options.guard)
    period = setting.periods[0]
    first = _with_serialisation(setting, 0, Cluster.of(period), Deployment.whole(period.tasks.node))
    for policy in policies.values():
        policy.check(first)
    return policies


_RECORDED = ("max_migrations", "max_migration_cost")
"""Budgets that records of older versions have, given or not."""


def _record(periods: Sequence[Instance], options: ReplayOptions) -> dict[str, Any]:
    """Return everything that decides on the rows but the policies."""
    return {
        "periods": [{"name": p.name, "sha256": p.sha256} for p in periods],
        "costs": asdict(options.costs),
        "scaling": asdict(options.scaling),
        **dict.fromkeys(_RECORDED),
        **options.budgets,
        "time_limit": options.time_limit,
        "seed": options.seed,
        **({} if options.guard is None else {"guard": dict(options.guard)}),
    }


def _finish(folder: ReplayFolder, progress: dict[str, Progressed], periods: int) -> Replayed:
    """Write rows, table and picture of the policies of this call."""
    rows = tuple(row for progressed in progress.values() for row in progressed.rows)
    summaries = tuple(summarise(name, p.rows, p.seconds) for name, p in progress.items())
    write_rows(folder.path, rows)
    lines = [[s["policy"], *(text(s[key]) for _, key, text in FIGURES)] for s in summaries]
    heads = ["policy", *(heading for heading, _, _ in FIGURES)]
    write_atomic(folder.path / "summary.md", markdown(heads, lines))
    title = f"{periods} periods from {rows[0]['name']}"
    drawing = draw({name: p.rows for name, p in progress.items()}, title)
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
    present = [value for value in values if value is not None]
    return math.fsum(present) / len(present) if present else None


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
    ("load_distance_next", "load distance met"), ("collocation_factor", "collocation factor"),
    ("load_index", "load index"), ("migrations", "migrations"), ("nodes", "nodes"),
)  # fmt: skip


def draw(rows: Mapping[str, Sequence[dict[str, Any]]], title: str) -> str:
    """Return the rows of each policy drawn as SVG, the same bytes for the same rows."""
    every = [row for policy_rows in rows.values() for row in policy_rows]
    shown = [panel for panel in PANELS if any(row[panel[0]] is not None for row in every)]
    style = styles((policy, policy) for policy in rows)
    with canvas(len(shown), title, (10.0, 1.0 + 1.7 * len(shown))) as (figure, axes):
        panels = axes if len(shown) > 1 else [axes]
        for panel, (key, label) in zip(panels, shown, strict=True):
            for policy, policy_rows in rows.items():
                points = [(row["period"], row[key]) for row in policy_rows if row[key] is not None]
                line = {**style[policy].line, "markevery": markers(len(points))}
                panel.plot(*zip(*points, strict=True), **line, label=style[policy].label)
            panel.set_ylabel(label)
            panel.set_ylim(bottom=0)
            panel.spines[["top", "right"]].set_visible(False)
        panels[-1].set_xlabel("period")
        legend(figure, panels[0])
        return to_svg(figure, title)


# -- the folder of a replay ------------------------------------------------------------------------


COLUMNS: Mapping[str, str] = {
    "policy": "string", "period": "int64", "name": "string",
    "load_distance_before": "float64", "load_distance": "float64", "load_distance_next": "float64",
    "collocation_factor": "float64", "collocation_factor_next": "float64",
    "load_index": "float64", "mean_load": "float64", "total_load": "float64",
    "migrations": "int64", "migration_cost": "float64", "over_budget": "bool",
    "nodes": "int64", "leaving": "int64", "added": "int64", "marked": "int64",
    "recalled": "int64", "dropped": "int64",
    "planned": "bool", "termination": "string", "feasible": "bool", "objective": "float64",
    "bound": "float64", "note": "string",
}  # fmt: skip
"""Of rows: name and type in Parquet; docs/replay.md has their meaning."""


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write ``rows.csv`` and ``rows.parquet``, the same bytes for the same rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row.get(name)) for name in COLUMNS} for row in rows)
    write_atomic(path / "rows.csv", buffer.getvalue())
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    packed = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), packed)
    write_atomic(path / "rows.parquet", packed.getvalue())


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


MARKER = "replay.json"
FORMAT = "streamplace.replay/1"
_STATES = "policies"


@dataclass
class Progressed:
    """How far a policy is: its rows, seconds of planning, and its state (``None`` at the start)."""

    rows: list[dict[str, Any]]
    seconds: list[float]
    state: State | None


class ReplayFolder:
    """A replay's folder: new, empty, or that of the same replay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = Store(path, "replay", MARKER, FORMAT, parts=(_STATES,), only_question=True)

    @contextlib.contextmanager
    def writing(self, record: Mapping[str, Any]) -> Iterator[None]:
        """Take the folder for a replay, alone, by all that decides on the rows but the policies.

        Raises `InvalidInput`: the folder holds another replay, a damaged one, or something else, or
            is being written.
        """
        with self._store.writing(record):
            self._store.write(record)
            yield

    def load(self, policy: str) -> Progressed:
        """Return how far a policy is.

        Raises `InvalidInput`: what is stored is not what `save` wrote.
        """
        path = self._state_path(policy)
        if not path.is_file():
            return Progressed([], [], None)
        try:
            content = json.loads(read_bytes(path))
            sha256 = content.pop("sha256")
        except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
            content, sha256 = None, ""
        reason = ""
        if content is None or content.get("policy") != policy:
            reason = f"is no state of the policy {policy}"
        elif sha256 != _hash(content):
            reason = f"is not as it was written for the policy {policy}"
        if reason:
            remedy = "remove it to begin this policy anew, or choose another folder"
            raise InvalidInput(Problem(str(path), None, reason, remedy))
        return Progressed(content["rows"], content["seconds"], _state(content["state"]))

    def save(self, policy: str, progressed: Progressed) -> None:
        """Store rows and state of a policy, both or neither, with their hash."""
        assert progressed.state is not None
        content = {"policy": policy, **vars(progressed), "state": _state_dict(progressed.state)}
        whole = content | {"sha256": _hash(content)}
        write_atomic(self._state_path(policy), json.dumps(whole, ensure_ascii=False))

    def _state_path(self, policy: str) -> Path:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in policy)[:60]
        mark = hashlib.sha256(policy.encode()).hexdigest()[:8]
        return self.path / _STATES / f"{name}-{mark}.json.gz"


def _state_dict(state: State) -> dict[str, Any]:
    deployment = state.deployment
    split = not deployment.is_whole
    return {
        "cluster": asdict(state.cluster),
        "places": deployment.places[:, 0].tolist(),
        "second": deployment.places[:, 1].tolist() if split else None,
        "share": deployment.share.tolist() if split else None,
        "merge": None if deployment.merge is None else deployment.merge.tolist(),
        "start_load": state.start_load,
        "remembered": state.memory,
    }


def _state(content: dict[str, Any]) -> State:
    """Return the state that `_state_dict` made a document of."""
    cluster = Cluster(*(tuple(content["cluster"][name]) for name in ("ids", "base", "leaving")))
    deployment = Deployment.whole(np.array(content["places"], dtype=np.int64))
    if content["second"] is not None:
        both = np.column_stack([deployment.node, np.array(content["second"], dtype=np.int64)])
        deployment = Deployment(both, np.array(content["share"]))
    if content["merge"] is not None:
        deployment = replace(deployment, merge=np.array(content["merge"]))
    return State(cluster, deployment, content["start_load"], content["remembered"])


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


# -- a recording, replayed period after period -----------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """What is the same for every policy of a replay."""

    periods: Sequence[Instance]  # The recording.
    costs: CostModel = field(default_factory=CostModel)  # Of serialisation and migration.
    #: Budgets over moves of each period by their rule, in place of the recording's.
    budgets: Mapping[str, Any] = field(default_factory=dict)

    def limits(self, period: Instance) -> Limits:
        """Return a period's limits with the budgets of the replay."""
        return replace(period.limits, **self.budgets)


@dataclass(frozen=True, eq=False)
class State:
    """Where a policy stands between two periods."""

    #: Nodes and what runs on them.
    cluster: Cluster
    deployment: Deployment
    start_load: float  # Mean load of a node right after start-up: the base of the load index.
    memory: Memory = field(default_factory=dict)  # What the policy remembers.


def first_state(setting: Setting, policy: Policy) -> State:
    """Return the state before the first period.

    The base of the load index is the recording's own placement, whatever the policy starts with.
    """
    period = setting.periods[0]
    cluster = Cluster.of(period)
    recorded = Deployment.whole(period.tasks.node)
    instance = _recorded(setting, 0, cluster, recorded)
    start_load = float(node_loads(instance, recorded, setting.costs).mean())
    return State(cluster, policy.meets(instance, recorded), start_load)


def step(
    setting: Setting, policy: Policy, number: int, state: State
) -> tuple[dict[str, Any], State]:
    """Let a policy decide on one period.

    `state`: after the period before.
    Returns the period's row, and the state after it.
    Raises `InvalidInput`: the policy changes numbers of tasks, of whose loads a recording knows
        nothing.
    """
    instance = _with_serialisation(setting, number, state.cluster, state.deployment)
    decision = decide(policy, state.memory, instance, number * policy.period)
    if decision.parallelism:
        changed = ", ".join(f"{name} to {n}" for name, n in decision.parallelism.items())
        remedy = "take a policy that keeps them"
        reason = f"sets parallelism ({changed}), and a recording has the loads of its own tasks"
        raise InvalidInput(Problem("--policy", None, reason, remedy))
    cluster, new_index = state.cluster.without(np.isin(state.cluster.ids, decision.release))
    before = state.deployment.moved_to(new_index)
    # what the plan of the last period meets in this one: nodes released now are gone
    met, _ = _next_period_quality(setting, policy, number, cluster, before)
    grown = _cluster_after(cluster, decision)
    after = _deployed(decision, instance, grown, before)
    distance_next, collocated_next = _next_period_quality(setting, policy, number + 1, grown, after)
    planned = decision.planned
    row = {
        "period": number,
        "name": setting.periods[number].name,
        "load_distance_before": met,
        **_scores(setting, number, grown, before, after, state.start_load),
        "load_distance_next": distance_next,
        "collocation_factor_next": collocated_next,
        "nodes": len(grown),
        "leaving": sum(grown.leaving),
        "added": len(decision.add),
        "marked": len(decision.mark),
        "recalled": len(decision.recall),
        "dropped": len(decision.release),
    }
    if planned is None:
        row |= {
            "planned": True, "termination": decision.kind(instance), "objective": None,
            "feasible": _keeps_limits(setting, number, grown, before, after), "bound": None,
            "note": decision.reason,
        }  # fmt: skip
    else:
        row |= {
            "planned": planned.deployment is not None, "termination": planned.termination,
            "feasible": planned.feasible, "objective": planned.objective, "bound": planned.bound,
            "note": planned.note,
        }  # fmt: skip
    return row, State(grown, after, state.start_load, decision.state)


def _cluster_after(cluster: Cluster, decision: Decision) -> Cluster:
    """Return the nodes after a decision, those that it releases being gone."""
    index = {name: n for n, name in enumerate(cluster.ids)}
    grown = cluster.marked([index[name] for name in decision.recall], leaving=False)
    grown = grown.marked([index[name] for name in decision.mark])
    for one in decision.add:
        grown = grown.grown([one.id], cluster.base[index[one.like]])
    return grown


def _deployed(
    decision: Decision, instance: Instance, cluster: Cluster, before: Deployment
) -> Deployment:
    """Return what runs after a decision, by the nodes of the replay."""
    if decision.plan is None and (decision.planned is None or decision.planned.deployment is None):
        return before
    names = (decision.instance or instance).nodes.ids
    after = decision.deployment(instance)
    # the decision may be on an instance with nodes in another order
    if names == cluster.ids:
        return after
    index = {name: n for n, name in enumerate(cluster.ids)}
    return after.moved_to(np.array([index.get(name, -1) for name in names]))


def _keeps_limits(
    setting: Setting, number: int, cluster: Cluster, before: Deployment, after: Deployment
) -> bool | None:
    if not after.is_whole:
        return None
    instance = _with_serialisation(setting, number, cluster, before)
    return evaluate_indices(instance, after.placement).feasible


def _recorded(setting: Setting, number: int, cluster: Cluster, deployment: Deployment) -> Instance:
    """Return a period on the cluster with its loads as recorded, without serialisation."""
    period = setting.periods[number]
    limits = setting.limits(period)
    return on_cluster(period, cluster, period.tasks.load, deployment.node, limits)


def _with_serialisation(
    setting: Setting, number: int, cluster: Cluster, deployment: Deployment
) -> Instance:
    """Return a period as its statistics show it: each key group with its serialisation."""
    instance = _recorded(setting, number, cluster, deployment)
    if deployment.is_whole:
        load = measured_load(instance, deployment, setting.costs)
        instance = on_cluster(
            setting.periods[number], cluster, load, deployment.node, instance.limits
        )
    return instance


def _next_period_quality(
    setting: Setting, policy: Policy, number: int, cluster: Cluster, deployment: Deployment
) -> tuple[float | None, float | None]:
    """Return load distance and collocation of what runs in a period it was not planned on."""
    if number >= len(setting.periods):
        return None, None
    instance = _recorded(setting, number, cluster, deployment)
    met = policy.meets(instance, deployment)
    loads = node_loads(instance, met, setting.costs)
    return distance_of_loads(instance, loads), _collocation(instance, met)


def _collocation(instance: Instance, deployment: Deployment) -> float | None:
    total = instance.total_traffic
    return collocated_traffic(instance, deployment) / total if total > 0 else None


def _scores(
    setting: Setting,
    number: int,
    cluster: Cluster,
    before: Deployment,
    after: Deployment,
    start_load: float,
) -> dict[str, Any]:
    """Score a deployment on the period it was planned on."""
    instance = _recorded(setting, number, cluster, before)
    # a split key group that only swaps its two nodes has not moved
    moved = np.sort(before.places, axis=1) != np.sort(after.places, axis=1)
    moving = np.flatnonzero(moved.any(axis=1))
    loads = node_loads(instance, after, setting.costs)
    loads += _moving_load(instance, setting.costs, before, after, moving)
    spent = [(float(b.weight[moving].sum()), b.limit) for b in budgets(instance)]
    return {
        "load_distance": distance_of_loads(instance, loads),
        "collocation_factor": _collocation(instance, after),
        "load_index": float(loads.mean()) / start_load if start_load > 0 else None,
        "mean_load": float(loads.mean()),
        "total_load": float(loads.sum()),
        "migrations": len(moving),
        "migration_cost": float(instance.tasks.migration_cost[moving].sum()),
        # spent on moves against each limit, beyond rounding
        "over_budget": any(amount > most * (1 + 1e-9) for amount, most in spent),
    }


def _moving_load(
    instance: Instance, costs: CostModel, before: Deployment, after: Deployment, moving: Any
) -> Floats:
    """(N,) load of the moves on the nodes they leave and reach."""
    counted = np.zeros(instance.num_nodes)
    if costs.migration == 0 or not len(moving):
        return counted
    amount = costs.migration * instance.tasks.migration_cost[moving]
    old, new = before.places[moving], after.places[moving]
    for places, other_places in ((old, new), (new, old)):
        # (moves, 2) places that the other deployment does not have
        changed = (places[:, :, None] != other_places[:, None, :]).all(axis=2)
        changed[:, 1] &= places[:, 1] != places[:, 0]  # a whole key group has its node twice
        for place in (0, 1):
            counted += np.bincount(places[:, place], amount * changed[:, place], instance.num_nodes)
    return counted
