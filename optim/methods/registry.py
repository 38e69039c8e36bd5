"""Methods: what each declares of itself, and the table of them.

`optim` never imports a method's module by name; others can register theirs in the entry point
group ``streamplace.methods``, each pointing at a `Method`.
"""

from __future__ import annotations

import platform
import time
import warnings
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optim.plugins import REFERENCE, Option, Plugins, read_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np

    from optim.format.instance import Instance
    from optim.format.plan import Plan, ThreadPlacement
    from optim.format.tables import Ints
    from optim.methods.reduce import Scale
    from optim.referee import Evaluation, Level, Termination
    from optim.rules import Form
    from optim.rules.base import Violation
    from optim.solvers.mps import PosedModel
    from optim.util.progress import Progress

__all__ = [
    "METHODS",
    "Family",
    "Kind",
    "Method",
    "Option",
    "Outcome",
    "Request",
    "all_methods",
    "get_method",
    "method_names",
]

Kind = Literal["exact", "heuristic", "search"]
Family = Literal[
    "task allocation", "rebalancing", "elastic allocator", "storm", "model-driven", "throughput"
]


NEEDS = {
    "tasks": "tasks, or operators with a group",
    "nodes": "nodes",
    "traffic": "streams or traffic",
    "current_placement": "tasks[].node (the current placement)",
    "dag": "streams without a cycle",
    "operators": "tasks[].operator",
    "topologies": "operators[].topology",
    "slots": "nodes[].slots",
    "links": "links",
    "capacity": "nodes[].capacity of the first resource",
    "bounded_rate": (
        "a load, and nodes[].capacity on every node (or max_load), of a resource that grows with "
        "the rate"
    ),
    "models": "operators[].model",
    "tuple_rates": "input_rate, and streams[].selectivity from which all tuple rates follow",
    "vm_types": "vm_types",
    "whole_slots": "limits.max_utilisation left out: models are in percent of a whole slot",
}
"""Parts of an instance that a method may need, with words for them."""

_KEPT = 4
BEFORE = "a plan found before"
"""Name of what the running method itself reported."""


def _scale() -> Scale:
    from optim.methods.reduce import Scale

    return Scale()


class Incumbent(NamedTuple):
    """A plan: who found it, (T,) nodes, and slots where they are decided."""

    name: str
    node: Ints
    slot: Ints | None = None


@dataclass(eq=False)
class Incumbents:
    """Plans that a running method reported, the last few of them.

    Methods report what they take for better than before, so the last ones are the best; which
    is, the referee says.
    """

    plans: list[Incumbent] = field(default_factory=list)  # Oldest first.
    #: The same for a method whose plans say threads; only the last one.
    threads: ThreadPlacement | None = None

    def offer(self, name: str, node: Ints, slot: Ints | None = None) -> None:
        """Take a complete placement; the arrays are copied."""
        import numpy as np  # late, so that listing methods loads no numpy

        placement = np.array(node, dtype=np.int32)
        if len(placement) and placement.min() < 0:
            return
        self.plans.append(
            Incumbent(name, placement, None if slot is None else np.array(slot, np.int32))
        )
        # some more than the last: it may be one that the referee does not take
        del self.plans[:-_KEPT]


OWN, NONE = "own", "none"
"""What an exact method may start from: what it finds itself, or only what it is given."""


@dataclass(frozen=True)
class Settings:
    """What `solve` is asked, beside the instance and the method.

    Attributes
    ----------
    objective
        What to optimise (`optim.figures.catalogue.OBJECTIVES`); by default what the method does.
    solver
        Back end of an exact method.
    time_limit
        Seconds for building, passing data and solving.
    gap
        Stop at this gap to the bound: relative, or percent of the mean load for load distance;
        ``"1%"`` is one percent of either.
    seed, threads
        Of everything random; of the solver of a named method. Without a method, so many run side
        by side. 1 by default. The same seed gives the same plan, unless a time limit ends the
        method first.
    warm_start
        A method's name, a plan, or a plan's file.
    starts
        ``own``: an exact method also starts from the heuristics of its family and the current
        placement, and returns nothing worse. ``none``: its solver is given `warm_start`, or nothing
        at all, to see what a start is worth.
    repair
        Let repair finish a plan that is incomplete or breaks a limit; marked in the result.
    ignore
        Limits to drop (`optim.rules.RULE_NAMES`); marked in the result.
    target_rate
        Multiple of the current input that the plan has to carry. Without `objective` it is the one
        of fewest moves, or of fewest nodes where tasks have no current node.
    prefer
        Where no method is named: one that is tried first, if it suits.
    start_broken
        What is done where the current placement breaks limits that cannot all be satisfied within
        the budgets: ``mend`` breaks none of them more than now, and what is broken as little as can
        be, before the objective (`optim.methods.violated_start`); ``refuse`` says that there is no
        plan. A rate to be carried is reached or refused.
    explain
        Seconds to find the rules that clash, where there is proved to be no plan and no quick proof
        shows why; 0 to leave it.
    progress
        Called now and then with incumbent and bound.
    write_model
        File for the linear model of the named method, ``.mps`` or ``.lp``, with named rows and
        columns; written before the solver starts.
    chosen
        Called with each method that begins, aimed at its objective, its solver, and why.
    options
        Options of the method.
    """

    objective: str | None = None
    solver: str | None = None
    time_limit: float | None = None
    gap: float | str | None = None
    seed: int = 0
    threads: int | None = None
    warm_start: str | Path | Plan | None = None
    starts: str = OWN
    repair: bool = False
    ignore: tuple[str, ...] = ()
    target_rate: float | None = None
    prefer: str | None = None
    start_broken: str = "mend"
    explain: float = 1.0
    progress: Callable[[Progress], None] | None = None
    write_model: str | Path | None = None
    chosen: Callable[[Method, str | None, str], None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take one limit for a list of one, and each once; whole numbers of numpy as such."""
        ignored = (self.ignore,) if isinstance(self.ignore, str) else self.ignore
        object.__setattr__(self, "ignore", tuple(dict.fromkeys(ignored)))
        for name in ("seed", "threads"):
            if isinstance(number := getattr(self, name), Integral):
                object.__setattr__(self, name, int(number))

    @classmethod
    def of(cls, settings: Settings | None, keywords: Mapping[str, Any]) -> Settings:
        """Return settings with keywords taken in: fields by their names, the rest as options."""
        base = cls() if settings is None else settings
        names = {each.name for each in fields(cls)} - {"options"}
        changes = {name: value for name, value in keywords.items() if name in names}
        others = {name: value for name, value in keywords.items() if name not in names}
        options = {**base.options, **others.pop("options", {}), **others}
        return replace(base, **changes, options=options)


@dataclass(frozen=True)
class Request:
    """What a method is asked to do, apart from the instance.

    Attributes
    ----------
    solver
        Back end of an exact method.
    time_limit
        Seconds for building, passing data and solving; ``None`` for no limit.
    gap
        Stop at this gap: relative; for load distance a difference in the instance's own unit.
    seed, threads
        Of everything random; of the solver.
    objective
        One of the method's `objectives`; ``None`` for its default.
    warm_start
        (T,) node indices to start from.
    options
        Typed, with defaults filled in.
    progress
        Called now and then with incumbent and bound.
    started
        `time.perf_counter` at the start of the method's clock.
    incumbents
        The plans found so far; they outlive whatever happens to the method.
    scale
        What a unit of the instance that the method sees is in the file's: for what it writes.
    starter
        Runs the heuristics of the family; see `start`.
    cold
        Whether nothing but `warm_start` may be started from: neither heuristics and searches that
        go before the solver, nor the current placement.
    model
        File that the method's linear model is to be written to.
    write
        Writes the method's model, where that was asked for, of the instance as changed.
    """

    solver: str | None = None
    time_limit: float | None = None
    gap: float | None = None
    seed: int = 0
    threads: int = 1
    objective: str | None = None
    warm_start: Ints | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    started: float = field(default_factory=time.perf_counter)
    incumbents: Incumbents = field(default_factory=Incumbents)
    scale: Scale = field(default_factory=_scale)
    starter: Callable[[], Incumbent | None] | None = None
    cold: bool = False
    model: str | Path | None = None
    write: Callable[[Callable[[Instance], Instance]], None] | None = None

    def rewritten(self, change: Callable[[Instance], Instance]) -> None:
        """Have the model written anew, of a changed instance: the one that is solved from now."""
        if self.write is not None:
            self.write(change)

    def offer(self, node: Ints, slot: Ints | None = None) -> None:
        """Hand over a plan that is better than those before.

        Parameters
        ----------
        node, slot
            (T,) indices; copied. A placement with -1 in `node` is no plan and is not taken.
        """
        self.incumbents.offer(BEFORE, node, slot)

    def start(self) -> Incumbent | None:
        """Return the best plan of the family's heuristics, run on the first call; ``None`` if none.

        They run on the method's clock, each in a part of the time that is left.
        """
        return None if self.starter is None else self.starter()

    def elapsed(self) -> float:
        """Seconds since the clock started."""
        return time.perf_counter() - self.started

    def remaining(self) -> float | None:
        """Seconds left, never below 0; ``None`` without a limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.elapsed())

    @property
    def deadline(self) -> float | None:
        """`time.perf_counter` value at which the time is up; ``None`` without a limit."""
        return None if self.time_limit is None else self.started + self.time_limit

    def solving(self, share: float = 1.0) -> dict[str, Any]:
        """Return what any back end is asked: a share of the time left, gap, seed and threads."""
        left = self.remaining()
        limit = None if left is None else share * left
        settings = {"time_limit": limit, "gap": self.gap}
        return {**settings, "seed": self.seed, "threads": self.threads}

    def apart(self) -> Request:
        """Return the request with a clock and incumbents of its own, for a run within the run."""
        return replace(self, started=time.perf_counter(), incumbents=Incumbents(), starter=None)

    def warmed(self, *warm_ups: Callable[[], object]) -> tuple[Request, float]:
        """Compile or load kernels off the clock; return the request to go on with, and seconds."""
        from optim.util.process import Repeated

        began = time.perf_counter()
        with Repeated():  # small searches, which end at Ctrl-C with what they have
            for warm_up in warm_ups:
                warm_up()
        seconds = time.perf_counter() - began
        return replace(self, started=self.started + seconds), seconds


@dataclass(frozen=True, eq=False)
class Start:
    """Where a solve begins: node indices, where they came from, and the referee's judgement."""

    method: str
    node: Ints
    evaluation: Evaluation
    seconds: float = 0.0


@dataclass
class Outcome:
    """What a method returns; `optim.methods.solve` has the referee check it.

    Attributes
    ----------
    termination
        Why it stopped.
    node, slot
        (T,) indices, -1 for a task left unplaced; `node` is ``None`` when there is no plan.
    objective, claimed
        Name of the objective where an option chose it; the value the method believes in.
    bound
        Proven bound on that objective.
    assumes
        What bound and proof assume beyond the file, in words that go on after "among plans that":
        they are then of a restricted problem, and the result says so.
    levels
        Further lexicographic levels.
    notes, trace, times, solver
        As in `optim.referee.Result`.
    warm_start_accepted
        Whether the solver took the start; ``None`` when unknown or there was none.
    reasons
        Quick proofs that the instance is infeasible. Methods leave it empty: the rules that clash
        are found after them.
    threads
        What a model-driven method decides instead of `node` and `slot`.
    rank
        How the method ranks plans where that is not by the objective alone: a key that is smaller
        for the better plan, ``None`` for one that it does not look for. Of a placement and the
        referee's evaluation of it.
    """

    termination: Termination
    node: np.ndarray[Any, Any] | None = None
    slot: np.ndarray[Any, Any] | None = None
    objective: str | None = None
    claimed: float | None = None
    bound: float | None = None
    assumes: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    notes: list[str] = field(default_factory=list)
    warm_start_accepted: bool | None = None
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    solver: str | None = None
    reasons: tuple[Violation, ...] = ()
    threads: ThreadPlacement | None = None
    rank: Callable[[Ints, Evaluation], tuple[float, ...] | None] | None = None


_USUAL = frozenset({"capacity", "allowed", "leaving"})


@dataclass(frozen=True)
class Method:
    """A way to make a plan, and what it declares.

    Attributes
    ----------
    name, family, kind
        Its name on the command line; its family; exact, heuristic or search.
    objective
        What it optimises: a name in `optim.figures.catalogue.OBJECTIVES`.
    run
        The function that does it.
    summary, source
        One line of what it does; paper and section.
    needs
        Parts of an instance it cannot do without (`NEEDS`).
    forms, honours
        Forms of rules that its engine knows (`optim.rules.Form`), and the rules it keeps
        (`optim.rules.RULE_NAMES`): all of these forms. A method whose engine knows single rules
        only names those and no forms.
    options, solvers, default_solver
        Its options; back ends it runs on.
    promises_feasibility
        Whether every plan it returns keeps the rules it honours.
    takes_warm_start
        Whether it can start from a plan.
    starts
        Heuristics of its family whose best plan it never falls below.
    cold
        Whether its solver can begin with nothing, as ``starts="none"`` of `optim.solve` asks.
    decides
        What its plans say: the node of each task, or the threads and machines of each operator.
    objectives
        All that it can be asked to optimise, `objective` first; only that if left out.
    pose
        Returns its linear model of an instance, to be written; ``None`` where it has no such.
    combines
        Whether it takes weighted sums and lists of levels of its objectives, too.
    why_not
        Figure to why the method does not optimise it, shown in brackets after the figure.
    unable
        The deprecated name of `why_not`.
    """

    name: str
    family: Family
    kind: Kind
    objective: str
    run: Callable[[Instance, Request], Outcome]
    summary: str
    source: str = ""
    needs: tuple[str, ...] = ("tasks", "nodes")
    forms: frozenset[Form] = frozenset()
    honours: frozenset[str] = _USUAL
    options: tuple[Option, ...] = ()
    solvers: tuple[str, ...] = ()
    default_solver: str | None = None
    promises_feasibility: bool = True
    takes_warm_start: bool = False
    starts: tuple[str, ...] = ()
    cold: bool = False
    decides: Literal["nodes", "threads"] = "nodes"
    objectives: tuple[str, ...] = ()
    pose: Callable[[Instance, Request], PosedModel] | None = None
    combines: bool = False
    why_not: Mapping[str, str] = field(default_factory=dict, hash=False)
    unable: InitVar[Mapping[str, str] | None] = None

    def __post_init__(self, unable: Mapping[str, str] | None) -> None:
        """Put what it optimises by default first; no method can break what no placement changes."""
        from optim.rules import Form, rules_of
        from optim.rules.base import OF_SLOT_ASSIGNMENT

        if unable is not None:
            warning = "Method(unable=) is Method(why_not=) after streamplace 0.3.0"
            warnings.warn(warning, DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "why_not", unable)
        named = frozenset() if self.forms and self.honours == _USUAL else self.honours
        # max_load holds in all plans or in none; the others are added around a heuristic's run
        forms = self.forms | {Form.TASK} | ({Form.NODE_COUNT} if self.confined else set())
        forms |= OF_SLOT_ASSIGNMENT if self.reassigned else set()
        honours = rules_of(forms).union(named)
        object.__setattr__(self, "honours", honours)
        others = tuple(name for name in self.objectives if name != self.objective)
        object.__setattr__(self, "objectives", (self.objective, *others))

    @property
    def confined(self) -> bool:
        """Whether counts of nodes reach it as lists of allowed nodes, chosen beforehand.

        A heuristic claims nothing of other plans.
        """
        from optim.rules import Form

        lists = Form.MASK in self.forms and Form.NODE_COUNT not in self.forms
        return lists and self.kind == "heuristic"

    @property
    def reassigned(self) -> bool:
        """Whether its slots are assigned anew where they break what that may keep."""
        from optim.rules import Form

        deals = Form.SLOTS in self.forms and self.decides == "nodes"
        return deals and self.kind == "heuristic" and Form.SLOT_SETS not in self.forms

    def aimed_at(self, objective: str) -> Method:
        """Return the method with another of its objectives for its default, if it has that."""
        return replace(self, objective=objective) if self.optimises(objective) else self

    def optimises(self, objective: str) -> bool:
        """Whether it can be asked to optimise this, or where it combines, all of its figures."""
        if objective in self.objectives or not self.combines or not objective:
            return objective in self.objectives
        from optim.figures.catalogue import find_objective

        return all(figure.name in self.objectives for figure in find_objective(objective).singles)

    @property
    def sense(self) -> str:
        """``max`` or ``min``."""
        from optim.figures.catalogue import find_objective

        return str(find_objective(self.objective).sense)

    def read_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return typed options with defaults; all problems are reported together.

        Raises
        ------
        InvalidInput
            An option is unknown or has a wrong value.
        """
        return read_options(self.name, self.options, values)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace methods --json`` lists."""
        return {
            "name": self.name,
            "family": self.family,
            "kind": self.kind,
            "objective": {"name": self.objective, "sense": self.sense},
            "objectives": list(self.objectives),
            "combines": self.combines,
            "summary": self.summary,
            "source": self.source,
            "needs": list(self.needs),
            "honours": sorted(self.honours),
            "options": [option.to_dict() for option in self.options],
            "solvers": list(self.solvers),
            "default_solver": self.default_solver,
            "promises_feasibility": self.promises_feasibility,
            "takes_warm_start": self.takes_warm_start,
            "cold": self.cold,
            "writes_model": self.pose is not None,
        }


def _fault(method: Method) -> str | None:
    """Say what somebody else's method declares that there is not."""
    from optim.figures.catalogue import OBJECTIVES
    from optim.rules import RULE_NAMES

    if method.name == "portfolio":
        return "has the name of all methods together"
    for objective in method.objectives:
        if objective not in OBJECTIVES:
            return f"has the unknown objective {objective}"
    for what, names, allowed in (
        ("needs", method.needs, tuple(NEEDS)),
        ("honours", sorted(method.honours), RULE_NAMES),
    ):
        unknown = [name for name in names if name not in allowed]
        if unknown:
            return f"{what} what there is not: {', '.join(unknown)}"
    return None


@cache
def load_model(name: str) -> Callable[..., Any] | None:
    """Return a model of all rules by its name in ``streamplace.models``: they lie above `optim`."""
    for point in entry_points(group="streamplace.models", name=name):
        model: Callable[..., Any] = point.load()
        return model
    return None


METHODS: Plugins[Method] = Plugins(
    group="streamplace.methods",
    noun="method",
    where="--method",
    declared="optim.methods.registry:Method",
    listing="see `streamplace methods`",
    fault=_fault,
)


def method_names() -> tuple[str, ...]:
    """Names of all registered methods, sorted."""
    return METHODS.names()


def get_method(name: str) -> Method:
    """Load one method.

    Raises
    ------
    InvalidInput
        There is none of that name, or another package's entry is no method.
    """
    return METHODS.get(name)


def name_of(method: str | Method) -> str:
    """Return a method's name; what is an object, a file or ``module:NAME`` is known by it then.

    Raises `InvalidInput`: it is no method, or cannot be loaded, or a package registers another one
        of its name.
    """
    if not isinstance(method, str):
        return METHODS.add(method).name
    return METHODS.get(method).name if REFERENCE.fullmatch(method) else method


def all_methods() -> list[Method]:
    """Load every registered method, sorted by name; what cannot be taken is warned of."""
    return METHODS.all()


_SOLVER_PACKAGES = {"cbc": "pulp", "highs": "highsbox", "scip": "ortools", "cp-sat": "ortools"}
PACKAGES = (
    "streamplace",
    "numpy",
    "scipy",
    "numba",
    "pulp",
    "ortools",
    "highsbox",
    "pymetis",
    "mtkahypar",
    "pyspark",
    "pydantic",
)
"""What ``streamplace versions`` lists."""


@cache
def package_version(name: str) -> str | None:
    """Return an installed distribution's version, ``None`` when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def versions_of(method: Method, solver: str | None) -> dict[str, str]:
    """Return the versions that decide what a method returns."""
    names = ["streamplace", "numpy"]
    if solver in _SOLVER_PACKAGES:
        names.append(_SOLVER_PACKAGES[solver])
    if method.kind == "search" or method.name == "partition":
        names += ["numba", "pymetis"]
    versions = {name: package_version(name) for name in names}
    return {"python": platform.python_version(), **{n: v for n, v in versions.items() if v}}
