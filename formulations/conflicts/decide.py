"""Whether some rule instances can hold together: a placement, a proof, or neither in time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack

from formulations.conflicts.bound import aggregate, forced_across, no_place_together
from formulations.conflicts.model import RuleModel, build, joined
from optim.rules import broken
from optim.rules.placement import Placement
from optim.solvers.duals import dual_bound
from optim.solvers.inprocess import solve_lp, solve_small_milp
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.rule_instances import Atoms
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.solvers.linear_model import LinearArrays

    Ids = NDArray[np.int64]


_PROVED = 1e-6
"""Of a row's mean coefficient: an excess that the duals prove and that is no rounding."""
_ACTIVE = 1e-9
_MOST_EXCESS = 1e9
"""No excess is larger; a bound that is finite lets duals prove with rounding."""
_WITNESSES = 6
_GROUP_SECONDS = 2.0
_COUNTED = ("sets", "allowed", "leaving")
"""Rules that clash by themselves where sets are in it, and are soon searched."""
_WHOLE_CELLS = 20_000
"""Tasks × nodes up to which the whole model is searched."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of some rule instances.

    Attributes
    ----------
    feasible
        ``None`` where the time was up first.
    node
        (T,) a placement that the referee finds to keep them.
    core
        Rule instances that clash already, where they do; all that was asked where a search proved
        it.
    """

    feasible: bool | None
    node: Ints | None = None
    core: Ids | None = None


@dataclass(eq=False)
class Judge:
    """Answers for subsets of the rule instances of one instance, and remembers.

    Attributes
    ----------
    atoms
        The rule instances.
    seconds
        For all answers together.
    """

    atoms: Atoms
    seconds: float
    started: float = field(default_factory=time.perf_counter)
    calls: int = 0
    _known: dict[bytes, Answer] = field(default_factory=dict)
    _witnesses: list[Ints] = field(default_factory=list)

    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.perf_counter() - self.started)

    def ask(self, kept: Ids) -> Answer:
        """Decide whether rule instances can hold together."""
        kept = np.unique(kept)
        key = kept.tobytes()
        if key not in self._known:
            self.calls += 1
            answer = self._decide(kept)
            if answer.feasible is None:
                return answer
            self._known[key] = answer
        return self._known[key]

    def _decide(self, kept: Ids) -> Answer:
        instance = self.atoms.keep(kept.tolist())
        home = instance.tasks.node
        known = [*self._witnesses, *([home] if instance.has_current else [])]
        for node in known:
            if not broken(Placement(instance, node)):
                return self._take(node)
        if self.left() <= 0:
            return Answer(None)
        normal = self.atoms.normal
        core = forced_across(self.atoms, instance, kept)
        core = no_place_together(self.atoms, instance, kept) if core is None else core
        if core is not None:
            return Answer(False, core=core)
        groups = aggregate(normal, kept)
        if groups is not None:
            core, _ = relaxed(groups, self.left())
            if core is not None:
                return Answer(False, core=core)
        counted = np.intersect1d(kept, np.concatenate([self.atoms.of(name) for name in _COUNTED]))
        if len(instance.sets.ids) and len(counted) < len(kept):
            groups_of_sets = aggregate(normal, counted)
            if groups_of_sets is not None and searched(groups_of_sets, _GROUP_SECONDS)[0]:
                return Answer(False, core=counted)
        nowhere = np.full(instance.num_tasks, -1, np.int32)
        for node in (*known[:1], nowhere):
            found = self._mended(kept, node)
            if found is not None:
                return self._take(found)
        if groups is not None:
            ruled_out, point = searched(groups, min(_GROUP_SECONDS, self.left()))
            if ruled_out:
                return Answer(False, core=kept)
            found = None if point is None else self._mended(kept, groups.place(point))
            if found is not None:
                return self._take(found)
        if instance.num_tasks * instance.num_nodes > _WHOLE_CELLS:
            return Answer(None)
        return self._by_whole_model(build(normal, kept), instance, kept)

    def _by_whole_model(self, made: RuleModel, instance: Instance, kept: Ids) -> Answer:
        core, point = relaxed(made, self.left())
        if core is not None:
            return Answer(False, core=core)
        if point is not None:
            found = self._mended(kept, made.place(point))
            if found is not None:
                return self._take(found)
        if self.left() <= 0:
            return Answer(None)
        answer = solve_small_milp(made.model, time_limit=self.left())
        if answer.termination is LinearTermination.INFEASIBLE:
            return Answer(False, core=kept)
        if answer.x is not None:
            found = made.place(answer.x)
            if not broken(Placement(instance, found)):
                return self._take(found)
        return Answer(None)

    def keeps(self, kept: Ids, node: Ints) -> bool:
        """Whether a placement keeps rule instances; one that does is remembered."""
        kept = np.unique(kept)
        if broken(Placement(self.atoms.keep(kept.tolist()), node)):
            return False
        self._known[kept.tobytes()] = self._take(node)
        return True

    def _mended(self, kept: Ids, node: Ints) -> Ints | None:
        """Repair a placement; ``None`` where it does not keep the rule instances then."""
        from optim.kernels.repair import repair

        found = repair(self.atoms.normal.keep(kept.tolist()), node).node
        if len(found) and found.min() < 0:
            return None
        return None if broken(Placement(self.atoms.keep(kept.tolist()), found)) else found

    def _take(self, node: Ints) -> Answer:
        self._witnesses.insert(0, node)
        del self._witnesses[_WITNESSES:]
        return Answer(True, node)


def searched(made: RuleModel, seconds: float) -> tuple[bool, Floats | None]:
    """Return whether no point with whole numbers keeps all rows, and else one that does."""
    if seconds <= 0:
        return False, None
    arrays, unit = in_shares(made.model.freeze())
    answer = solve_small_milp(arrays, time_limit=seconds)
    x = None if answer.x is None else answer.x * unit
    return answer.termination is LinearTermination.INFEASIBLE, x


def in_shares(arrays: LinearArrays) -> tuple[LinearArrays, Floats]:
    """Return a model whose fractional columns count in their upper bounds, and these units.

    Loads in bytes beside numbers of tasks are beyond a solver's tolerances: it has called a model
    infeasible that has a point. Units are powers of two, so that nothing is rounded.
    """
    large = ~arrays.integrality & (arrays.upper > 0) & np.isfinite(arrays.upper)
    unit = np.ones(arrays.num_variables)
    unit[large] = np.exp2(np.round(np.log2(arrays.upper[large])))
    matrix = csr_array(arrays.matrix.multiply(unit[None, :]))
    made = replace(
        arrays,
        cost=arrays.cost * unit,
        lower=arrays.lower / unit,
        upper=arrays.upper / unit,
        matrix=matrix,
    )
    return made, unit


def relaxed(made: RuleModel, seconds: float) -> tuple[Ids | None, Floats | None]:
    """Solve the linear relaxation with an excess for each row of a rule.

    Returns
    -------
    tuple
        Rule instances that clash, where the duals prove that all excess cannot be 0; else a point
        without excess. Both ``None`` where neither came out.
    """
    program = elastic(made)
    answer = solve_lp(**program, time_limit=max(seconds, 0.1))
    if answer.termination is not LinearTermination.OPTIMAL:
        return None, None
    assert answer.x is not None
    assert answer.row_duals is not None
    if dual_bound(**program, row_duals=answer.row_duals) <= _PROVED:
        return None, answer.x
    return _named(made, program, answer.row_duals), None


def elastic(made: RuleModel) -> dict[str, Any]:
    """Return the relaxation in which rows of rules may be exceeded, to minimise by how much.

    An excess is counted in mean coefficients of its row, which is about in tasks; so is what finds
    no place at all.
    """
    arrays = made.model.freeze()
    placing = [b for b in made.model.row_blocks if b.name in ("assign", "all")]
    placed = [np.arange(block.start, block.stop) for block in placing]
    rows = np.unique(np.concatenate([joined(made.owners)[0], *placed]))
    matrix = csr_array(arrays.matrix)
    count = np.maximum(np.diff(matrix.indptr), 1)
    mean = np.asarray(abs(matrix).sum(axis=1)).ravel() / count
    unit = np.where(mean > 0, mean, 1.0)
    parts, number = [matrix], matrix.shape[1]
    for sign, bound in ((-1.0, arrays.row_upper), (1.0, arrays.row_lower)):
        some = rows[np.isfinite(bound[rows])]
        entries = (sign * unit[some], (some, np.arange(len(some))))
        parts.append(csr_array(entries, shape=(matrix.shape[0], len(some))))
    whole = csr_array(hstack(parts, format="csr"))
    more = whole.shape[1] - number
    return {
        "cost": np.concatenate([np.zeros(number), np.ones(more)]),
        "matrix": whole,
        "row_lower": arrays.row_lower,
        "row_upper": arrays.row_upper,
        "lower": np.concatenate([arrays.lower, np.zeros(more)]),
        "upper": np.concatenate([arrays.upper, np.full(more, _MOST_EXCESS)]),
    }


def _named(made: RuleModel, program: dict[str, Any], duals: Floats) -> Ids:
    """Return the rule instances on which a proof by duals leans.

    Of several that close a column one is enough: that which closes most.
    """
    rows, ids, _ = joined(made.owners)
    columns, shut_by, _ = joined(made.shut)
    active = np.abs(duals) > _ACTIVE
    rest = -(program["matrix"].T @ np.where(active, duals, 0.0))
    wanted = rest[columns] < -_ACTIVE
    columns, shut_by = columns[wanted], shut_by[wanted]
    if len(columns):
        often = np.bincount(shut_by)[shut_by]
        order = np.lexsort((shut_by, -often, columns))
        first = np.append(True, np.diff(columns[order]) > 0)
        shut_by = shut_by[order[first]]
    return np.unique(np.concatenate([ids[active[rows]], shut_by]))


# Rule instances that clash, reduced until each is needed: a deletion filter.

_ON_NODES = frozenset({"capacity", "max_tasks", "min_load", "max_inflow", "slots", "slot_capacity"})
_PARTS = (1, 2, 4)
_MOST = 8


def conflicts(judge: Judge) -> tuple[bool | None, list[Ids]]:
    """Find rule instances that cannot hold together.

    Returns
    -------
    tuple
        Whether all rule instances can hold together, ``None`` where that was not decided in time;
        and sets of them that cannot, no two of which share one. Each set is proved to clash, and of
        each of its members it was shown by a placement that without it the others do not.
    """
    found: list[Ids] = []
    rest = np.arange(len(judge.atoms))
    verdict: bool | None = None
    while len(found) < _MOST:
        answer = judge.ask(rest)
        if not found:
            verdict = answer.feasible
        if answer.feasible is not False or answer.core is None:
            break
        core = minimal(judge, answer.core, searched=len(answer.core) == len(rest))
        if core is None:
            break
        found.append(core)
        rest = np.setdiff1d(rest, core)
    return verdict, found


def minimal(judge: Judge, core: Ids, *, searched: bool = True) -> Ids | None:
    """Return a minimal part of rule instances that clash; ``None`` where time was up first.

    Parameters
    ----------
    searched
        Whether the proof names no part of what was asked: then halves and quarters are left out
        first.
    """
    answer = judge.ask(core)
    if answer.feasible is not False:
        return None
    assert answer.core is not None
    core = answer.core
    for parts in _PARTS if searched else _PARTS[:1]:
        core = _without_parts(judge, core, parts)
    needed: dict[int, Ints] = {}
    while True:
        waiting = [a for a in core.tolist() if a not in needed]
        if not waiting:
            return core
        atom = waiting[0]
        rest = core[core != atom]
        node = _exchanged(judge, rest, atom, needed)
        if node is None:
            answer = judge.ask(rest)
            if answer.feasible is None:
                return None
            if answer.feasible is False:
                assert answer.core is not None
                core = answer.core
                continue
            node = answer.node
        assert node is not None
        needed[atom] = node


def _without_parts(judge: Judge, core: Ids, parts: int) -> Ids:
    """Leave out whole sorts, then halves and quarters of them, where the rest clashes as well."""
    for kind in range(len(judge.atoms.kinds)):
        for part in range(parts):
            some = core[judge.atoms.kind[core] == kind]
            if len(some) < 2 * parts and parts > 1:
                break
            chunk = np.array_split(some, parts)[part]
            if not len(chunk) or len(chunk) == len(core):
                continue
            answer = judge.ask(np.setdiff1d(core, chunk))
            if answer.feasible is False and answer.core is not None:
                core = answer.core
    return core


def _exchanged(judge: Judge, rest: Ids, atom: int, needed: dict[int, Ints]) -> Ints | None:
    """Turn the placement that breaks the same rule on another node into one that breaks it here."""
    atoms = judge.atoms
    kind = atoms.kind[atom]
    if atoms.kinds[kind].rule not in _ON_NODES:
        return None
    alike = [a for a in needed if atoms.kind[a] == kind]
    if not alike:
        return None
    here, there = atoms.index[atom], atoms.index[alike[-1]]
    node = needed[alike[-1]]
    swapped = np.where(node == here, there, np.where(node == there, here, node)).astype(np.int32)
    gathered = np.where(node == there, here, node).astype(np.int32)
    return next((made for made in (swapped, gathered) if judge.keeps(rest, made)), None)
