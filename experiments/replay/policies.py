"""Policies: what plans a period. Any method, `static`, `potc`, and triggers that ask a method.

Others register policies of theirs in the entry point group ``streamplace.policies``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from experiments.replay.deployment import Deployment
from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.methods.choose import check_suitable
from optim.methods.registry import get_method, method_names
from optim.methods.solve import solve
from optim.options import Option, read_options
from optim.plugins import Plugins
from optim.referee.evaluate import evaluate_indices
from optim.rules import limits_set, without_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from experiments.replay.deployment import Integers
    from optim.format.instance import Instance
    from optim.format.tables import Floats

T = TypeVar("T")

_SOLVE = (
    Option("solver", "str", None, "back end"),
    Option("time_limit", "float", None, "seconds for each plan", minimum=1e-3),
    Option("gap", "float", None, "as `streamplace solve --gap`", minimum=0.0),
    Option(
        "start_broken", "str", "mend", "as `streamplace solve --start-broken`",
        choices=("mend", "refuse"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """What a policy wants deployed.

    Attributes
    ----------
    deployment
        ``None`` when there is no plan; what runs then goes on.
    termination, feasible
        As in the result of a method; ``None`` where split key groups leave no placement to judge.
    note
        Why there is no plan, or what was ignored.
    objective, bound
        What the method's objective comes to on what it planned with, and a proven bound on it;
        ``None`` where unknown.
    """

    deployment: Deployment | None
    termination: str
    feasible: bool | None
    note: str = ""
    objective: float | None = None
    bound: float | None = None


def keeps_limits(instance: Instance, deployment: Deployment) -> bool:
    """Whether a deployment of undivided key groups keeps every limit of an instance."""
    return evaluate_indices(instance, deployment.placement).feasible


class Policy(Protocol):
    """Plans periods; as far as it does not say otherwise, it takes every instance as it runs."""

    @property
    def scales(self) -> bool:
        """Whether scaling makes sense with it."""

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the policy cannot plan, before the replay starts.

        Raises
        ------
        UnsuitableMethod, InvalidInput
            It lacks what the policy, or the method that plans, cannot do without.
        """
        return

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return what runs before the first plan, given what the recording has."""
        return deployment

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Plan on the measured loads of a period."""

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Return the deployment as it stands under other loads: routing may follow at once."""
        return deployment


@dataclass(frozen=True)
class Planner:
    """What a policy declares of itself.

    Attributes
    ----------
    name, summary
        Its name and one line.
    make
        Makes the policy from its typed options, the seed, and a limit on the seconds of a plan.
    options
        Typed, with defaults.
    passes_on
        Whether options it does not declare go on to a method that it plans with, as texts.
    """

    name: str
    summary: str
    make: Callable[[Mapping[str, Any], int, float | None], Policy]
    options: tuple[Option, ...] = ()
    passes_on: bool = False


POLICIES: Plugins[Planner] = Plugins(
    group="streamplace.policies",
    noun="policy",
    where="--policy",
    declared=f"{__name__}:Planner",
)


@dataclass(frozen=True)
class Static(Policy):
    """Never moves anything."""

    scales: bool = False

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Keep what runs."""
        return Planned(deployment, "static", keeps_limits(instance, deployment))


@dataclass(frozen=True)
class Potc(Policy):
    """The power of two choices: splits every key group over two hashed nodes, so it is no method.

    Every key group has two candidate nodes by two hash functions; senders send each tuple to the
    less loaded one. What they believe is taken to be true, and tuples to be small, which flatters
    PoTC: the loads settle where no key group gains by sending more to its other node. Each window
    the two partial states are merged on a third node by hash, a load that cannot be balanced.

    Source: Nasir et al., "The power of both choices", ICDE 2015, as in Madsen, Zhou, Cao 2016,
    sections 2.2 and 5.2.

    Attributes
    ----------
    seed
        Of the hash functions; the same in every period.
    merge
        Load of merging, as a share of a key group's load.
    """

    seed: int = 0
    merge: float = 0.1
    scales: bool = True

    def start(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Begin on the hashed nodes."""
        return self.meets(instance, deployment)

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Hash over the nodes there are; budgets do not bind it."""
        return Planned(self.meets(instance, deployment), "routing", None)

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Follow the loads: every tuple is routed anew."""
        return deploy(instance, self.seed, self.merge)


@dataclass(frozen=True)
class ByMethod(Policy):
    """Plans with a registered method.

    Limits that the instance sets and the method does not honour are ignored: COLA knows no budget.

    Attributes
    ----------
    method
        Its name.
    solve
        ``solver``, ``time_limit`` and ``gap`` of each plan.
    options
        Of the method.
    """

    method: str
    solve: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    scales: bool = True

    def check(self, instance: Instance) -> None:
        """Refuse what the method cannot do without."""
        relaxed = without_limits(instance, self._ignored(instance))
        check_suitable(get_method(self.method), relaxed)

    def plan(self, instance: Instance, deployment: Deployment, seed: int) -> Planned:
        """Solve; a failure keeps what runs and is told in the row."""
        ignored = self._ignored(instance)
        try:
            result = solve(
                instance, self.method, seed=seed, ignore=ignored, **self.solve, **self.options
            )
        except StreamplaceError as error:
            return Planned(None, "error", False, str(error))
        if str(result.termination) == "interrupted":
            raise KeyboardInterrupt
        if result.plan is None:
            why = "; ".join(map(str, result.reasons)) or "; ".join(result.notes)
            return Planned(None, str(result.termination), False, why)
        node = result.plan.node_indices(instance)
        told = [f"ignored: {', '.join(ignored)}"] if ignored else []
        if result.mending is not None:
            told.append(str(result.mending))
        return Planned(
            Deployment.whole(node),
            str(result.termination),
            result.feasible,
            "; ".join(told),
            objective=result.objective.value if result.objective else None,
            bound=result.bound if result.bound_of == "problem" else None,
        )

    def _ignored(self, instance: Instance) -> tuple[str, ...]:
        honours = get_method(self.method).honours
        return tuple(n for n in limits_set(instance) if n not in honours and n != "capacity")


def read_policy(text: str, seed: int, time_limit: float | None = None) -> Policy:
    """Read ``name`` or ``name:option=value,…``.

    Parameters
    ----------
    text
        Name of one of `POLICIES` or of a method. Methods take ``solver``,
        ``time_limit`` and ``gap`` beside their own options.
    seed
        Of the hash functions of ``potc``.
    time_limit
        Of each plan, where the text gives none.

    Raises
    ------
    InvalidInput
        No such policy or option.
    """
    name, _, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            reason = f"{part!r} is not of the form option=value"
            raise InvalidInput(Problem("--policy", text, reason))
        given[key.strip()] = value.strip()
    methods = method_names()
    if POLICIES.is_ours(name) or (name in POLICIES.names() and name not in methods):
        planner = POLICIES.get(name)
        ours, theirs = _parted(planner.options, given)
        told = ours if planner.passes_on else given
        where = f"--policy {planner.name}:{{}}"
        options = read_options(planner.name, planner.options, told, where=where)
        return planner.make({**theirs, **options}, seed, time_limit)
    if name not in methods:
        known = ", ".join((*POLICIES.names(), *methods))
        raise InvalidInput(Problem("--policy", name, "is no policy", f"one of {known}"))
    method = get_method(name)
    ours, theirs = _parted(_SOLVE, given)
    settings = read_options(name, _SOLVE, ours, where=f"--policy {name}:{{}}")
    if settings["time_limit"] is None:
        settings["time_limit"] = time_limit
    if settings["solver"] not in (None, *method.solvers):
        remedy = ", ".join(method.solvers) or f"none: {name} uses no solver"
        raise InvalidInput(Problem("--policy", text, "names a solver it cannot use", remedy))
    return ByMethod(name, settings, method.read_options(theirs))


@dataclass(frozen=True)
class Trigger(Policy):
    """What policies share that have a method plan once something calls for it.

    Attributes
    ----------
    planner
        Makes the fresh plan.
    """

    planner: ByMethod
    scales: ClassVar[bool] = False

    def check(self, instance: Instance) -> None:
        """Refuse an instance that the method cannot plan."""
        self.planner.check(instance)

    def keep(self, instance: Instance, deployment: Deployment, note: str = "") -> Planned:
        """Go on with what runs, and what is remembered with it."""
        return Planned(deployment, "kept", keeps_limits(instance, deployment), note)

    def replan(
        self,
        instance: Instance,
        deployment: Deployment,
        seed: int,
        judge: Callable[[Deployment], tuple[bool, str]],
        memory: Mapping[str, list[float]],
    ) -> Planned:
        """Make a fresh plan, and take it if it is worth it.

        Parameters
        ----------
        deployment
            What runs, with what is remembered where it goes on.
        judge
            Says of a fresh deployment whether it is taken, and why.
        memory
            What is remembered of one that is.
        """
        fresh = self.planner.plan(instance, deployment, seed)
        if fresh.deployment is None:
            return Planned(deployment, fresh.termination, False, fresh.note)
        taken, why = judge(fresh.deployment)
        if not taken:
            return self.keep(instance, deployment, why)
        note = "; ".join(filter(None, (why, fresh.note)))
        after = replace(fresh.deployment, memory=memory)
        return Planned(after, fresh.termination, fresh.feasible, note)


def triggering(
    name: str, summary: str, policy: Callable[..., Policy], options: tuple[Option, ...]
) -> Planner:
    """Declare a `Trigger`; of its options ``method`` plans, what it has not goes to that."""

    def make(given: Mapping[str, Any], seed: int, time_limit: float | None) -> Policy:
        own, rest = _parted(options, given)
        method, told = own.pop("method"), ",".join(f"{key}={v}" for key, v in rest.items())
        planner = read_policy(f"{method}:{told}", seed, time_limit)
        if not isinstance(planner, ByMethod):
            where = f"--policy {name}:method"
            raise InvalidInput(Problem(where, method, "is no method", "take one"))
        return policy(planner, **own)

    return Planner(name, summary, make, options, passes_on=True)


def _parted(options: Iterable[Option], given: Mapping[str, T]) -> tuple[dict[str, T], dict[str, T]]:
    """Return what is given for these options, and the rest."""
    rest = dict(given)
    ours = {option.name: rest.pop(option.name) for option in options if option.name in rest}
    return ours, rest


STATIC = Planner("static", "never moves anything", lambda *_: Static())

POTC = Planner(
    "potc",
    "splits every key group over two hashed nodes (partial key grouping)",
    lambda options, seed, _: Potc(seed, **options),
    (Option("merge", "float", 0.1, "load of merging, share of a key group's load", minimum=0.0),),
)


_SWEEPS = 20
_CHUNK = 4_000_000


def candidates(instance: Instance, seed: int) -> tuple[Integers, Integers]:
    """Return (T, 2) candidate nodes and (T,) merging nodes by rendezvous hashing.

    Only staying nodes a key group may be on are candidates, or leaving ones where it may be on no
    other; one that may be on a single node has it twice. Changing the set of nodes moves only the
    key groups of the nodes that came or went.
    """
    names, tasks = instance.nodes.ids, instance.num_tasks
    salts = [_salts(names, f"{seed}/{what}") for what in ("candidate", "merge")]
    restricted = set(instance.tasks.restricted.tolist())
    two = np.empty((tasks, 2), dtype=np.int64)
    merge = np.empty(tasks, dtype=np.int64)
    step = max(1, _CHUNK // max(1, len(names)))
    for start in range(0, tasks, step):
        rows = np.arange(start, min(tasks, start + step))
        mask = np.tile(instance.open_nodes, (len(rows), 1))
        for place, task in enumerate(rows.tolist()):
            if task in restricted:
                allowed = instance.allowed_mask(task)
                mask[place] = allowed & (instance.open_nodes | ~instance.has_open_node[task])
        score = np.where(mask, _scores(rows, salts[0]), 0)
        order = np.argsort(score, axis=1, kind="stable")[:, ::-1]
        second = np.where(mask.sum(axis=1) > 1, order[:, min(1, len(names) - 1)], order[:, 0])
        two[rows] = np.column_stack([order[:, 0], second])
        merge[rows] = np.where(instance.open_nodes, _scores(rows, salts[1]), 0).argmax(axis=1)
    return two, merge


def split_loads(instance: Instance, places: Integers, background: Floats) -> Floats:
    """(T,) share of each key group at its first place when senders even out what they see.

    Key groups in turn divide their load so that their two nodes stand equally high (load by
    weight), as far as one key group can; twenty rounds of that.
    """
    load, weight = instance.tasks.load[:, 0], instance.nodes.weight.tolist()
    share = np.where(places[:, 0] == places[:, 1], 1.0, 0.5)
    height = background + np.bincount(
        places.ravel(), np.column_stack([share * load, (1 - share) * load]).ravel(), len(weight)
    )
    nodes, loads, shares = height.tolist(), load.tolist(), share.tolist()
    split = [(k, a, b) for k, (a, b) in enumerate(places.tolist()) if a != b and loads[k] > 0]
    for _ in range(_SWEEPS):
        for k, a, b in split:
            here = shares[k] * loads[k]
            rest_a, rest_b = nodes[a] - here, nodes[b] - (loads[k] - here)
            level = (rest_a + rest_b + loads[k]) / (weight[a] + weight[b])
            part = min(1.0, max(0.0, (level * weight[a] - rest_a) / loads[k]))
            shares[k] = part
            nodes[a] = rest_a + part * loads[k]
            nodes[b] = rest_b + (1.0 - part) * loads[k]
    return np.array(shares)


def merge_loads(instance: Instance, places: Integers, merge: Integers, factor: float) -> Floats:
    """(N,) load of merging: `factor` of the load of each split key group that has a state.

    A key group whose state is given as 0 has nothing to merge.
    """
    split = (places[:, 0] != places[:, 1]) & (instance.tasks.state != 0)
    amounts = factor * instance.tasks.load[split, 0]
    return np.bincount(merge[split], amounts, instance.num_nodes).astype(np.float64)


def deploy(instance: Instance, seed: int, factor: float) -> Deployment:
    """Return what PoTC makes of the loads of an instance."""
    places, merge = candidates(instance, seed)
    share = split_loads(instance, places, instance.nodes.background[:, 0].copy())
    return Deployment(places, share, merge_loads(instance, places, merge, factor))


def _salts(names: tuple[str, ...], salt: str) -> NDArray[np.uint64]:
    digests = [hashlib.sha256(f"{salt}/{name}".encode()).digest()[:8] for name in names]
    return np.array([int.from_bytes(d, "little") for d in digests], dtype=np.uint64)


def _scores(tasks: Integers, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(len(tasks), N) one well-mixed number a pair (the finaliser of splitmix64), never 0."""
    mixed = tasks.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + salts[None, :]
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
