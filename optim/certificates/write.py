"""Write a certificate of a bound, and have it checked before anything is said of it."""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack

from optim.certificates import check
from optim.certificates.tree import Arrays, GaveUp, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from optim.certificates.check import Model
    from optim.certificates.tree import Cuts, Spec


ZERO = Fraction(0)
_GRACE, _BYTES_A_SECOND, _STEPS_A_SECOND = 10.0, 5_000_000, 200_000
_FEWER = 200
"""Most cases of a proof by counting, or over the textbook's model where patterns were listed."""
_HALVINGS, _PART, _MOVED = 20, 0.2, 40_000
"""Bounds by counting that are tried, the most of the time that one may take, and columns of the
textbook's model beyond which moves are not branched on: a case of theirs takes seconds."""
_LARGE, _ESTIMATED = 20_000, 0.5
"""Columns of the textbook's model from which duals are estimated first, as a tree may not get
beyond its root, and the part of the time that this may take. Patterns have few rows: their linear
programmes are soon exact."""
_SHARES = tuple(Fraction(1, k) for k in (10**6, 1000, 100, 20, 4, 1))
#: Above the value of the plan that sums of doubles and duals are rounded to; the same of counting.
_NEAR, _COUNTED = Fraction(1, 10**9), Fraction(1, 10**7)
_DIGITS, _BUDGET = 12, "max_migrations"
#: A plan's excess and these parts of it, and of 1, count as the same, as in the methods.
_SPARE, _TINY = Fraction(1, 10**7), Fraction(1, 10**9)
_SAME = Fraction(1, 10**6)  # How near to the value a bound closes the case.


Proof = tuple[Fraction, dict[str, Any], check.Model | None]
"""A bound, its proof, and the model that the checker built, where it is known."""


class Limits(NamedTuple):
    """Cases, `time.process_time` at which to end, seconds of grace for a root, steps of listing."""

    nodes: int
    deadline: float
    grace: float
    steps: int


class Written(NamedTuple):
    """A checked certificate, its bound, and what it took."""

    document: dict[str, Any]
    bound: Fraction
    seconds: float
    size: int


def certify(
    text: bytes,
    objective: str,
    assignment: Mapping[str, str] | None,
    *,
    value: float | None = None,
    claimed: float | None = None,
    ignored: Sequence[str] = (),
    excess: float | None = None,
    nodes: int = 2000,
    seconds: float = 60.0,
    patterns: bool = True,
) -> Written:
    """Prove the best bound that can be had on an objective.

    `text`: the instance's file, unpacked.
    `objective`: one of `check.SENSES`.
    `assignment`: the best plan known; ``None`` to prove that there is none.
    `value`: of that plan, where the checker cannot determine it (rates under crossing costs).
    `claimed`: a bound that somebody claims, to be tried where the value cannot be proved.
    `ignored`: limits that do not count.
    `excess`: of a plan that leaves broken what is broken now.
    `nodes`, `seconds`: limits of the branch and bound; seconds of the processor.
    `patterns`: whether node patterns and counting are tried, and not the textbook's model alone.
    Raises `check.Refused`: there is no certificate, and why.
    """
    began = time.perf_counter()
    if len(text) > seconds * _BYTES_A_SECOND:
        raise check.Refused(
            f"a file of {len(text):,} bytes takes longer than {seconds:.2g} s to read"
        )
    document, sha256 = check.parse(text)
    assumes = [f"without {name}" for name in sorted(ignored)]
    if objective not in check.SENSES:
        raise check.Refused(f"no certificate is known for {objective}")
    mends = objective if excess is not None else ""
    instance = check.Instance(document, frozenset(ignored), mends)
    plan_value = ZERO
    if assignment is not None:
        try:
            plan_value = check.value_of(instance, {"assignment": dict(assignment)}, objective)
        except check.Refused:
            if value is None or objective != "sustainable_rate":
                raise
            plan_value = Fraction(value)
    now = time.process_time()
    deadline = now + seconds
    limits = Limits(nodes, deadline, min(_GRACE, seconds), int(seconds * _STEPS_A_SECOND))
    level: dict[str, Any] = {}
    most = ZERO
    if excess is not None and assignment is not None:
        most = rounded(Fraction(excess) * (1 + _SPARE) + _TINY, ZERO, "imc_gain")
        plan_excess = check.value_of(instance, {"assignment": dict(assignment)}, check.EXCESS)
        # half of the time for the first level, the rest for the objective
        half = limits._replace(deadline=now + seconds / 2)
        bound, proof = _least(instance, plan_excess, half, listed=patterns)
        level = {check.EXCESS: {"bound": number(bound), "most": number(most), "proof": proof}}
        assumes.insert(0, check.NOW)

    def checked_certificate(
        bound: Fraction, proof: dict[str, Any], model: check.Model | None
    ) -> dict[str, Any] | None:
        """Have what was written read back; a model that the checker has built is not built again.

        It follows from the instance and the objective, and of thresholds from the bound.
        """
        try:  # a number may be of more digits than a text may have
            certificate = {
                "format": check.FORMAT, "instance_sha256": sha256, "objective": objective,
                "sense": check.SENSES[objective], "bound": number(bound), "assumes": assumes,
                "proof": proof, **level,
            }  # fmt: skip
            again, _ = check.parse(json.dumps(certificate).encode())
            if model is None or (model.threshold and model.bound != bound):
                check.prove(instance, objective, bound, again["proof"], most)
            else:
                model.aim(bound)
                model.walk(again["proof"]["steps"])
        except (check.Refused, *check.MALFORMED):
            return None
        return certificate

    best: Written | None = None
    sign = 1 if check.SENSES[objective] == "min" else -1
    reason = f"no proof was found within {nodes} cases and {seconds:g} s"
    try:
        aims = _aims(objective, plan_value, claimed)
        for bound, proof, model in _attempts(
            instance, objective, plan_value, aims, limits, patterns, most
        ):
            if best is not None and sign * bound <= sign * best.bound:
                continue
            certificate = checked_certificate(bound, proof, model)
            if certificate is not None:
                size = len(json.dumps(certificate))
                best = Written(certificate, bound, time.perf_counter() - began, size)
            if best is not None and abs(best.bound - plan_value) <= _SAME * abs(plan_value):
                break
    except check.Refused as error:
        reason = str(error)
    if best is None:
        raise check.Refused(reason)
    return best._replace(seconds=time.perf_counter() - began)


def _least(
    instance: check.Instance, value: Fraction, limits: Limits, *, listed: bool
) -> tuple[Fraction, dict[str, Any]]:
    """Prove what no plan that is nowhere worse than now has less excess than.

    First what the plan has, then what the linear relaxation proves, then by halving the rest.
    """
    steps, end = min(check.MOST_STEPS, limits.steps), limits.deadline
    make = partial(check.Model, instance, check.EXCESS, most_steps=steps)
    kinds, models = ["threshold", "dual"] if listed else ["dual"], dict[str, check.Model]()
    share = max(1.0, _PART * (end - time.process_time()))

    def proof_of(bound: Fraction) -> dict[str, Any] | None:
        for kind in tuple(kinds):
            try:
                model = models[kind] = make(bound=bound, kind=kind)
            except (check.Refused, OverflowError, ValueError):  # as it would be of other bounds
                kinds.remove(kind)
                continue
            few = _BUDGET in instance.limits and len(model.columns) <= _MOVED
            for tree in (Moves, Tree) if few and kind == "dual" else (Tree,):
                until = min(end + limits.grace, time.process_time() + share)
                with suppress(GaveUp):
                    return {"kind": kind, "steps": tree(model, bound, limits.nodes, until).run()}
        return None

    low, high, best, bound = ZERO, value, None, value
    for turn in range(_HALVINGS):
        proof = proof_of(bound)
        if proof is None:
            high = bound
        else:
            low, best = bound, proof
        if high - low <= _SAME * value or not kinds or (turn and time.process_time() > end):
            break
        bound = rounded((low + high) / 2, ZERO, check.EXCESS)
        if not turn and "dual" in models:
            with suppress(GaveUp):
                model = models["dual"]
                least = Tree(model, value, 1, end + limits.grace).least(len(instance.budgets))
                excess = max(ZERO, min(value, Fraction(least) / model.part + instance.fixed))
                bound = rounded(excess, _NEAR * excess, check.EXCESS)
    if best is None:
        raise check.Refused("no bound of the least excess was proved in time")
    check.prove(instance, check.EXCESS, low, best)
    return low, best


def _attempts(
    instance: check.Instance, objective: str, value: Fraction, aims: Sequence[Fraction],
    limits: Limits, listed: bool, most: Fraction = ZERO,
) -> Iterator[Proof]:  # fmt: skip
    """Yield what is likely to close first."""
    refused = None
    if listed:  # whatever the placement: what one task can use
        rate = min(instance.thread_rates, default=None) if objective == "sustainable_rate" else None
        with suppress(check.Refused):
            check.of_threads(instance, objective, bound := value if rate is None else rate)
            yield bound, {"kind": "threads"}, None
    steps, threshold = (
        min(check.MOST_STEPS, limits.steps),
        objective in (*check.THRESHOLDS, check.EXCESS),
    )
    kinds = ["threshold" if threshold else "patterns"] if listed else []
    if listed and objective == "load_distance" and value > 0 and instance.limits.get(_BUDGET):
        kinds.insert(0, "counting")
    for kind in (*kinds, "dual"):
        make = partial(check.Model, instance, objective, kind=kind, most_steps=steps, most=most)
        try:
            if kind == "counting":
                counted = _counted(make, objective, value, limits)
                yield from ((bound, proof, None) for bound, proof in counted)
            else:
                yield from (
                    _thresholds(make, aims, limits)
                    if threshold
                    else _of_gains(make, objective, value, limits)
                )
                limits = limits._replace(nodes=min(limits.nodes, _FEWER))  # of other rows
        except check.Refused as error:  # too many patterns or columns, or a task without a place
            refused = refused or error
        except (OverflowError, ValueError):  # no double, or no text, holds a number of it
            refused = refused or check.Refused("its numbers are too far apart")
    if refused is not None:
        raise refused


def _counted(
    make: Any, objective: str, value: Fraction, limits: Limits
) -> Iterator[tuple[Fraction, dict[str, Any]]]:
    """Prove the value less a little; failing that, halve what lies between it and what holds.

    Counting does not know which tasks move, and is quick; where it fails, the textbook's rows do,
    with branches on how many tasks leave nodes, or come to them.
    """
    low, high, best_proof = ZERO, value, None
    share = _PART * (limits.deadline - time.process_time())
    instance = make.args[0]
    columns = sum(len(instance.may[t]) for t in instance.first)
    kinds: dict[str, tuple[Any, float]] = {"counting": (Tree, share)}
    if columns <= _MOVED:
        kinds["dual"] = Moves, share
    bound = rounded(value, value * _COUNTED, objective)
    for _ in range(_HALVINGS):
        proof = _refuted(make, bound, kinds, limits.deadline)
        if proof is None:
            high = bound
        else:
            low, best_proof = bound, proof
        # the first bound held, or there is no time left for a better one
        if high == value or time.process_time() > limits.deadline:
            break
        bound = rounded((low + high) / 2, ZERO, objective)
    if best_proof is not None:
        yield low, best_proof


def _refuted(
    make: Any, bound: Fraction, kinds: dict[str, tuple[Any, float]], deadline: float
) -> dict[str, Any] | None:
    """Prove a bound in the first way that does; moves that fail have half the time thereafter."""
    for kind, (tree, share) in kinds.items():
        until = min(deadline, time.process_time() + share)
        with suppress(GaveUp):
            steps = tree(make(bound=bound, kind=kind), bound, _FEWER, until).run()
            return {"kind": kind, "steps": steps}
    if "dual" in kinds:
        kinds["dual"] = kinds["dual"][0], kinds["dual"][1] / 2
    return None


def _thresholds(make: Any, aims: Sequence[Fraction], limits: Limits) -> Iterator[Proof]:
    """Refute what is better than the value; failing that, than what is ever worse than it.

    Each has half of the time that is left, the last one all of it.
    """
    for tried, bound in enumerate(aims, 1):
        model, now = make(bound=bound), time.process_time()
        until = limits.deadline if tried == len(aims) else (now + limits.deadline) / 2
        with suppress(GaveUp):
            steps = Tree(model, bound, limits.nodes, until).run()
            yield bound, {"kind": model.kind, "steps": steps}, model
            return


def _of_gains(make: Any, objective: str, value: Fraction, limits: Limits) -> Iterator[Proof]:
    """Close the tree; failing that, its root. No multipliers at all prove something as well."""
    model = make(bound=value)
    arrays = Arrays(model)
    near = rounded(value, _NEAR * abs(value), objective)
    if model.kind == "dual" and len(model.columns) > _LARGE:
        until = time.process_time() + _ESTIMATED * (limits.deadline - time.process_time())
        for step, proved in Tree(model, near, 1, until, arrays=arrays).estimates(until):
            bound = model.offset + model.unit * proved
            yield rounded(bound, ZERO, objective), {"kind": model.kind, "steps": [step]}, model
    with suppress(GaveUp):
        tree = Tree(model, near, limits.nodes, limits.deadline, value, arrays)
        steps = tree.run()  # gains are multiples of something: it may be the value itself
        reached = value if tree.reached else near
        yield reached, {"kind": model.kind, "steps": steps}, model
        return
    late = limits.deadline + limits.grace
    for step, proved in Tree(model, near, limits.nodes, late, arrays=arrays).roots():
        bound = model.offset + model.unit * proved
        yield rounded(bound, ZERO, objective), {"kind": model.kind, "steps": [step]}, model


def _aims(objective: str, value: Fraction, claimed: float | None) -> list[Fraction]:
    """Return bounds of a threshold to try, the value first; of others none better than claimed."""
    if objective == "feasible" or not value:
        return [value]
    most = check.SENSES[objective] == "max"
    weaker = [value * (1 + share if most else 1 - share) for share in _SHARES]
    if claimed is not None and math.isfinite(claimed):
        target = rounded(Fraction(claimed), _NEAR * abs(Fraction(claimed)), objective)
        weaker = [x for x in weaker if (x > target if most else x < target)]
        if target > value if most else target < value:
            weaker = [target, *weaker]
    return [value, *(rounded(x, ZERO, objective) for x in weaker)]


def rounded(value: Fraction, more: Fraction, objective: str) -> Fraction:
    """Return a short decimal no better than a bound and `more` weaker than it."""
    worse = value + more if check.SENSES.get(objective) == "max" else value - more
    if not worse:
        return worse
    digits = _DIGITS - len(str(int(abs(worse)))) if abs(worse) >= 1 else _DIGITS
    unit = Fraction(1, 10 ** max(0, digits))
    steps = worse / unit
    whole = -(-steps.numerator // steps.denominator)
    if check.SENSES.get(objective, "min") == "min":
        whole = steps.numerator // steps.denominator
    return whole * unit


def number(value: Fraction) -> int | str:
    """Write an exact number: an integer, or a text p/q."""
    return int(value) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


# The writer's branch and bound where moves are limited: more of them are needed than there are.
#
# Over the textbook's model. That no solution keeps all rows says little of where to branch; how
# many moves it takes to keep the others does. Branches are on how many tasks leave a node, or come
# to it, while these numbers are broken; each is chosen by what both of its sides cost.


_MOVES_SAME, _TRIED, _ADDED = 1e-6, 8, 400
"""What counts as whole; branches whose sides are solved; columns that join a programme at once."""
_DEAR = 1e4
"""Moves that a row's lack of its largest entry costs: a case that is empty costs too much."""
_DIVISORS = (10**9, 10**12, 10**15)
_DROPS = 0.9
"""Share of a case's columns up to which the others are worth a step that drops them."""


class Answer(NamedTuple):
    """The fewest moves of a case, multipliers of its rows in the model's units, and the optimum."""

    moves: float
    y: np.ndarray
    z: np.ndarray


class Side(NamedTuple):
    """One side of a branch: its cuts and what the programme answers, if it was solved."""

    cuts: Cuts
    answer: Answer


class Moves(Tree):
    """Looks for the steps of a proof that what is better than a bound takes too many moves.

    `model`, `bound`: the textbook's model of a threshold, whose first row is a budget, and what to
        prove.
    `nodes`, `deadline`: most cases that are looked at; `time.process_time` at which to give up.
    """

    def __init__(self, model: Model, bound: Fraction, nodes: int, deadline: float) -> None:
        super().__init__(model, bound, nodes, deadline)
        self.budget = float(model.rows[0][1])
        entries = (dict(of_column) for _, _, of_column in model.columns)
        self.price = np.array([float(of_column.get(0, 0)) for of_column in entries])
        self.work = 0
        #: columns that the programmes have so far: those that stay; others join as they pay
        self.chosen = self.price == 0
        self.sets = list(self._sets_to_try())

    def _sets_to_try(self) -> Iterator[tuple[Spec, np.ndarray]]:
        """Tasks that leave a node, or come to one: what identifies them, and which columns they
        are.
        """
        _, _, home, node, moved = self.keys.T
        for place, of in ((2, home), (3, node)):
            for n in np.unique(of[moved == 1]).tolist():
                yield [[1, 0, 0], [place, n, n], [4, 1, 1]], (of == n) & (moved == 1)

    def run(self) -> list[dict[str, Any]]:
        """Return the steps.

        Raises `GaveUp`: a limit is reached, or a solution has whole numbers and keeps all rows.
        """
        everything = np.arange(len(self.model.columns))
        stack = [(everything, Side((), self._fewest(everything, ())))]
        while stack:
            columns, (cuts, answer) = stack.pop()
            self.left -= 1
            # more than the checker counts for closing a case, or dropping columns and branching
            self.work += 2 * (len(columns) + 10) * (len(cuts) + 9)
            if self.left < 0 or self.work > check.MOST_WORK:
                raise GaveUp
            remaining = self._dropped(columns, cuts, answer)
            if remaining is None:
                continue
            if len(remaining) < len(columns):
                columns, answer = remaining, self._fewest(remaining, cuts)
            if answer.moves > self.budget + _MOVES_SAME:
                stack.append((columns, Side(cuts, answer)))  # the next round closes it
                continue
            spec, at, sides = self._best(columns, cuts, answer)
            self.steps.append({"branch": spec, "at": at})
            stack += [(columns, side) for side in reversed(sides)]
        return self.steps

    def _dropped(self, columns: np.ndarray, cuts: Cuts, answer: Answer) -> np.ndarray | None:
        """Close a case: ``None``; or return the columns that a solution may still use."""
        duals = [*answer.y[: len(self.model.rows)], *answer.y[len(self.every) :]]
        for divisor in _DIVISORS:
            whole = [round(float(v) * divisor) for v in duals]
            value, rests = self.arrays.value(whole, 0, columns, cuts)
            if self.model.closed(value, 0):
                self.steps.append({"close": whole, "over": 0})
                return None
            if answer.moves <= self.budget + _MOVES_SAME:
                break
        if value is None or answer.moves > self.budget + _MOVES_SAME:
            raise GaveUp  # the multipliers are too coarse
        keep = np.array([not self.model.closed(value + int(rest), 0) for rest in rests])
        keep |= self.parts[columns]
        if keep.mean() > _DROPS:
            return columns
        self.steps.append({"drop": whole, "over": 0})
        return np.asarray(columns[keep])

    def _best(
        self, columns: np.ndarray, cuts: Cuts, answer: Answer
    ) -> tuple[Spec, int, list[Side]]:
        """Choose the branch whose sides cost most, by the product of what they add."""
        best: tuple[float, Spec, int, list[Side]] | None = None
        for spec, members, total in self._candidates(columns, answer.z):
            at, counted = (
                int(np.floor(total + _MOVES_SAME)),
                frozenset(columns[members[columns]].tolist()),
            )
            ends = (
                (members.astype(float), counted, "<", at),
                (members.astype(float), counted, ">", at + 1),
            )
            sides = [Side((*cuts, end), self._fewest(columns, (*cuts, end))) for end in ends]
            most = self.budget + 1
            # product rule of strong branching: both sides are to gain
            score = float(
                np.prod([max(1e-4, min(most, side.answer.moves) - answer.moves) for side in sides])
            )
            if best is None or score > best[0]:
                best = score, spec, at, sides
            if max(side.answer.moves for side in sides) > self.budget + _MOVES_SAME:
                break
        if best is None:
            raise GaveUp
        return best[1:]

    def _candidates(
        self, columns: np.ndarray, z: np.ndarray
    ) -> list[tuple[Spec, np.ndarray, float]]:
        """Sets whose number is broken: of nodes, else of a class of tasks, else columns."""
        candidates = [(spec, members, float(z @ members[columns])) for spec, members in self.sets]
        candidates = [each for each in candidates if _broken(each[2]) > _MOVES_SAME]
        if not candidates:
            candidates = list(self._of_tasks(columns, z))
        by_part = sorted(candidates, key=lambda each: -_broken(each[2]))
        by_size = sorted(candidates, key=lambda each: -each[2])[: _TRIED // 2]
        return [*by_size, *(c for c in by_part if all(c is not b for b in by_size))][:_TRIED]

    def _of_tasks(
        self, columns: np.ndarray, z: np.ndarray
    ) -> Iterator[tuple[Spec, np.ndarray, float]]:
        broken = columns[np.minimum(z - np.floor(z), np.ceil(z) - z) > _MOVES_SAME]
        broken = broken[~self.parts[broken]]
        whole = np.zeros(len(self.price))
        whole[columns] = z
        for g in np.unique(self.keys[broken, 0]).tolist():
            moved_away = (self.keys[:, 0] == g) & (self.keys[:, 4] == 1)
            total = float(whole @ moved_away)
            if _broken(total) > _MOVES_SAME:
                yield [[0, g, g], [1, 0, 0], [4, 1, 1]], moved_away, total
        for j in broken.tolist():
            key = self.keys[j].tolist()
            members = (self.keys == key).all(axis=1)
            yield [[i, v, v] for i, v in enumerate(key)], members, float(whole[j])

    def _fewest(self, columns: np.ndarray, cuts: Cuts) -> Answer:
        """The fewest moves that a case takes; what its rows lack costs `_DEAR`."""
        matrix, right, equal, factor = self._system(columns, cuts)
        right[0] = np.inf  # the budget's row is what counts
        cost, rows, by_column = self.price[columns], len(right), csc_array(matrix)
        eye = eye_array(rows, format="csc")
        while True:
            some = np.flatnonzero(self.chosen[columns])
            whole = csr_array(hstack([by_column[:, some], eye, -eye]))
            dear = np.full(2 * rows, _DEAR)
            solved = self._solved_whole(np.r_[cost[some], dear], whole, right, equal)
            if solved is None:
                raise GaveUp
            y, z = solved
            reduced = cost + matrix.T @ y
            reduced[some] = 0.0
            pays = np.flatnonzero(reduced < -_MOVES_SAME)
            if not len(pays):
                break
            self.chosen[columns[pays[np.argsort(reduced[pays], kind="stable")[:_ADDED]]]] = True
        every = np.zeros(len(columns))
        every[some] = z[: len(some)]
        moves = float(cost @ every + _DEAR * z[len(some) :].sum())
        y[0] = 1.0 / factor[0]
        return Answer(moves, y * factor, every)


def _broken(total: float) -> float:
    """How far a number is from a whole one."""
    return float(abs(total - np.round(total)))
