"""The writer's branch and bound: duals of linear programs, rounded to whole numbers.

The model is the checker's own (`optim.certificates.check.Model`), and every step is tried with its
exact arithmetic before it is written, so that floating point decides only where to look.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, vstack

from optim.certificates.check import Proof
from optim.solvers.inprocess import solve_lp
from optim.solvers.interface import LinearTermination

if TYPE_CHECKING:
    from optim.certificates.check import Model

_DIVISORS = (1, 2, 6, 60, 1000, 10**6, 10**9)
_TOLERANCE = 1e-10
_SAME = 1e-6
_MANY = 20_000
"""Columns from which only one divisor is tried."""

Cuts = tuple[tuple[dict[str, Any], frozenset[int], str, int], ...]


class GaveUp(Exception):
    """The limit of nodes or of time is reached; `bound` is what the root proves, if anything."""


class Tree:
    """Looks for the steps of a proof that nothing is better than a bound.

    Parameters
    ----------
    model, bound
        What the checker builds of the instance, and what to prove.
    nodes, deadline
        Most cases that are looked at; `time.process_time` at which to give up.
    """

    def __init__(self, model: Model, bound: Fraction, nodes: int, deadline: float) -> None:
        self.model, self.proof = model, Proof(model, bound)
        self.steps: list[dict[str, Any]] = []
        self.left, self.deadline = nodes, deadline
        columns = model.columns
        gain = np.array([float(c.gain) for c in columns])
        self.scale = 1000.0 / max(1e-300, float(np.abs(gain).max(initial=0.0)) or 1.0)
        self.gain = gain * self.scale
        rows = [(i, j, float(a)) for j, c in enumerate(columns) for i, a in c.entries]
        i, j, a = (np.array(x) for x in zip(*rows, strict=True)) if rows else (np.zeros(0),) * 3
        shape = (len(model.rows), len(columns))
        self.matrix = csr_array((a, (i.astype(int), j.astype(int))), shape=shape)
        self.counts = np.array([c.counts for c in columns]).reshape(len(columns), len(model.tasks))
        self.node_class = np.array([c.node_class for c in columns], dtype=int)

    def run(self) -> list[dict[str, Any]]:
        """Return the steps.

        Raises
        ------
        GaveUp
            A limit is reached.
        """
        everything = np.arange(len(self.model.columns))
        stack: list[tuple[np.ndarray, Cuts]] = [(everything, ())]
        while stack:
            columns, cuts = stack.pop()
            self.left -= 1
            if self.left < 0 or time.process_time() > self.deadline:
                raise GaveUp
            columns, branch = self._case(columns, cuts)
            if branch is None:
                continue
            spec, at = branch
            held = self.proof.cut(spec, columns.tolist())
            self.steps.append({"branch": spec, "at": at})
            stack.append((columns, (*cuts, (spec, held, ">", at + 1))))
            stack.append((columns, (*cuts, (spec, held, "<", at))))
        return self.steps

    def root(self) -> tuple[dict[str, Any], Fraction]:
        """Return a step that closes the root, and the value that it proves."""
        columns = np.arange(len(self.model.columns))
        found = self._linear(columns, ())
        if found is None:
            raise GaveUp
        step, value, _ = self._rounded(found[0], columns, (), gains=True)
        return {"close": step["y"], "over": step["over"]}, value

    def _case(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, Any]:
        """Close a case, or return its columns and how to branch."""
        gains = not self.model.threshold
        found = self._linear(columns, cuts) if gains else None
        if found is None:
            y, z = self._infeasible(columns, cuts)
            step, value, _ = self._rounded(y, columns, cuts, gains=False)
            if self.proof.closed(value, gains=False):
                self.steps.append({"empty": step["y"], "over": step["over"]})
                return columns, None
            if gains:
                raise GaveUp
            return columns, self._branch(columns, z)
        y, z = found
        step, value, reduced = self._rounded(y, columns, cuts, gains=True)
        if self.proof.closed(value, gains=True):
            self.steps.append({"close": step["y"], "over": step["over"]})
            return columns, None
        keep = [
            not self.proof.closed(value + Fraction(min(0, rest), step["over"]), gains=True)
            for rest in reduced
        ]
        if sum(keep) < 0.9 * len(keep):
            self.steps.append({"drop": step["y"], "over": step["over"]})
            columns, z = columns[keep], z[keep]
        return columns, self._branch(columns, z)

    def _system(self, columns: np.ndarray, cuts: Cuts) -> tuple[Any, Any, Any, Any]:
        """Rows with scaled entries, right sides, what is an equality, and the factors."""
        matrix = self.matrix[:, columns]
        rows = [*self.model.rows, *((sense, right) for _, _, sense, right in cuts)]
        if cuts:
            extra = [np.isin(columns, list(held)).astype(float) for _, held, _, _ in cuts]
            matrix = vstack([matrix, csr_array(np.array(extra))]).tocsr()
        right = np.array([float(b) for _, b in rows])
        sign = np.array([-1.0 if sense == ">" else 1.0 for sense, _ in rows])
        size = np.maximum(1.0, np.abs(right))
        size[: len(self.model.tasks) + len(self.model.nodes)] = 1.0
        size[len(self.model.rows) :] = 1.0
        factor = sign / size
        scaled = csr_array(matrix.multiply(factor[:, None]))
        return scaled, right * factor, np.array([s == "=" for s, _ in rows]), factor

    def _linear(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray] | None:
        """Multipliers in the model's units, and the optimum; ``None`` where there is none."""
        matrix, right, equal, factor = self._system(columns, cuts)
        if not len(columns):
            return None
        solved = self._solved(-self.gain[columns], matrix, right, equal)
        if solved is None:
            return None
        y, z = solved
        return y * factor / self.scale, z

    def _infeasible(self, columns: np.ndarray, cuts: Cuts) -> tuple[np.ndarray, np.ndarray]:
        """Multipliers that show a case to be empty, as far as it is; and what comes closest."""
        matrix, right, equal, factor = self._system(columns, cuts)
        count = len(right)
        eye = eye_array(count)
        cost = np.concatenate([np.zeros(len(columns)), np.ones(count), np.ones(count)])
        whole = csr_array(hstack([matrix, eye, -eye]))
        solved = self._solved(cost, whole, right, equal)
        if solved is None:
            raise GaveUp
        return solved[0] * factor, solved[1][: len(columns)]

    def _solved(self, cost: Any, matrix: Any, right: Any, equal: Any) -> Any:
        size = len(cost)
        left = max(0.1, self.deadline - time.process_time())
        answer = solve_lp(
            np.asarray(cost, float),
            matrix,
            np.where(equal, right, -np.inf),
            right,
            np.zeros(size),
            np.full(size, np.inf),
            left,
            tolerance=_TOLERANCE,
        )
        if answer.termination is LinearTermination.INFEASIBLE:
            return None
        if answer.x is None or answer.row_duals is None:
            raise GaveUp
        y = np.where(equal, -answer.row_duals, np.maximum(0.0, -answer.row_duals))
        return y, answer.x

    def _rounded(
        self, y: np.ndarray, columns: np.ndarray, cuts: Cuts, *, gains: bool
    ) -> tuple[dict[str, Any], Fraction, list[int]]:
        """Round multipliers; those of the classes of nodes are then the least that bound."""
        tasks, nodes = len(self.model.tasks), len(self.model.nodes)
        plain, every = tuple((h, s, r) for _, h, s, r in cuts), columns.tolist()
        best: Any = None
        for over in _DIVISORS if len(every) < _MANY else (1000,):
            whole = [round(float(v) * over) for v in y]
            whole[tasks : tasks + nodes] = [0] * nodes
            self.proof.work = 0
            _, reduced = self.proof.value(whole, over, every, plain, gains=gains)
            top = self._tops(every, reduced)
            whole[tasks : tasks + nodes] = top
            reduced = [
                r - top[self.model.columns[j].node_class]
                for j, r in zip(every, reduced, strict=True)
            ]
            rows = [*(b for _, b in self.model.rows), *(b for _, _, b in plain)]
            value = Fraction(sum(a * b for a, b in zip(whole, rows, strict=True)), over)
            if best is None or value < best[1]:
                best = {"y": whole, "over": over}, value, reduced
            if self.proof.closed(value, gains=gains):
                break
        return best

    def _tops(self, columns: list[int], reduced: list[int]) -> list[int]:
        """Return the greatest reduced gain of each class of nodes."""
        top: list[int | None] = [None] * len(self.model.nodes)
        for j, rest in zip(columns, reduced, strict=True):
            k = self.model.columns[j].node_class
            if top[k] is None or rest > top[k]:  # type: ignore[operator]
                top[k] = rest
        # a class without columns: nothing can fill it, and any multiplier says so
        return [-(10**12) if t is None else t for t in top]

    def _branch(self, columns: np.ndarray, z: np.ndarray) -> tuple[dict[str, Any], int]:
        """Choose columns of a node class whose number is broken in the optimum."""
        counts, classes = self.counts[columns], self.node_class[columns]
        best: Any = None
        live = z > _SAME
        for k in np.unique(classes[live]):
            here = live & (classes == k)
            for g in range(counts.shape[1]):
                for least in np.unique(counts[here, g])[1:].tolist() or []:
                    total = float(z[here & (counts[:, g] >= least)].sum())
                    part = total - np.floor(total)
                    score = min(part, 1 - part)
                    if score > _SAME and (best is None or score > best[0] + _SAME):
                        spec = {"class": int(k), "counts": [[g, int(least), _most(self, g)]]}
                        best = score, spec, int(np.floor(total))
        if best is not None:
            return best[1], best[2]
        return self._branch_on_two(columns, z)

    def _branch_on_two(self, columns: np.ndarray, z: np.ndarray) -> tuple[dict[str, Any], int]:
        """The same for one pattern, where no single class of tasks tells columns apart."""
        part = np.minimum(z - np.floor(z), np.ceil(z) - z)
        if not len(z) or part.max() <= _SAME:
            raise GaveUp  # a placement that is better than the bound, or rounding
        j = int(columns[int(np.argmax(part))])
        column = self.model.columns[j]
        spec = {
            "class": column.node_class,
            "counts": [[g, c, c] for g, c in enumerate(column.counts)],
        }
        return spec, int(np.floor(z[int(np.argmax(part))]))


def _most(tree: Tree, g: int) -> int:
    return len(tree.model.tasks[g])
