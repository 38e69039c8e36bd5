"""The checker's model as arrays: doubles to search in, whole numbers of 64 bits to be exact in.

What does not fit into 64 bits is reckoned by the checker's own sums, so that either is exact.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.certificates.check import Model

_SAFE = 2.0**62
_DENSE = 1_000_000
"""Entries up to which a matrix is dense: columns of a sparse one cost more than all the rest."""

Cuts = tuple[tuple[np.ndarray, frozenset[int], str, int], ...]
"""Of each what columns it sums up, as numbers of all columns and as a set; sense, right side."""


class Arrays:
    """Keys, gains and rows of a model, its groups standing as rows below its own.

    Attributes
    ----------
    keys
        (columns, width), or of no columns where keys differ in width.
    gain
        In doubles.
    group
        Of each column.
    most
        Of each row the largest of its numbers, or 1.
    """

    def __init__(self, model: Model) -> None:
        self.model, columns = model, model.columns
        rows, many = len(model.rows), len(columns)
        keys = [key for key, _, _ in columns]
        self.group = np.fromiter((key[0] for key in keys), np.intp, many)
        self.keys = np.zeros((0, 1), int)
        width = {len(key) for key in keys}
        if len(width) == 1:
            flat = np.fromiter(chain.from_iterable(keys), np.int64, many * min(width))
            self.keys = flat.reshape(many, -1)
        gains, held = [gain for _, gain, _ in columns], [entries for _, _, entries in columns]
        self.gain = np.array(gains, dtype=float)
        count = np.fromiter(map(len, held), np.intp, many)
        total = int(count.sum())
        i = np.fromiter((i for i, _ in chain.from_iterable(held)), np.intp, total)
        factors = [a for _, a in chain.from_iterable(held)]
        a, j = np.array(factors, dtype=float), np.repeat(np.arange(many), count)
        below = (np.ones(many), (rows + self.group, np.arange(many)))
        shape = (rows + len(model.groups), many)
        at = (np.r_[i, below[1][0]], np.r_[j, below[1][1]])
        self._sparse: Any = csc_array((np.r_[a, below[0]], at), shape=shape)
        self.most = np.ones(rows)
        if rows and many:
            apart = csc_array((np.abs(a), (i, j)), shape=(rows, many))
            self.most = np.maximum(1.0, apart.max(axis=1).toarray().ravel())
        self._exact: Any = None
        if max(self.most.max(initial=1.0), np.abs(self.gain).max(initial=0.0)) < _SAFE:
            numbers = np.array(factors, dtype=np.int64)
            self._exact = csc_array((numbers, (i, j)), shape=(rows, many))
            self.whole_gain = np.array(gains, dtype=np.int64)
        self._dense: Any = None
        self._dense_exact: Any = None
        self._kept, self._place = np.zeros(many, dtype=bool), np.zeros(many, dtype=np.intp)
        self.narrow(np.arange(many))

    def narrow(self, columns: np.ndarray) -> None:
        """Keep some columns densely as well, if they are few: most cases are of these."""
        if self._sparse.shape[0] * len(columns) <= _DENSE and not self._kept[columns].any():
            self._kept[:] = False  # what was kept before has its place no longer
            self._kept[columns], self._place[columns] = True, np.arange(len(columns))
            self._dense = self._sparse[:, columns].toarray()
            self._dense_exact = None if self._exact is None else self._exact[:, columns].toarray()

    def of(self, columns: np.ndarray) -> Any:
        """Return the matrix of some columns: dense if they are stored so."""
        kept = self._kept[columns].all()
        return self._dense[:, self._place[columns]] if kept else self._sparse[:, columns]

    def _exact_of(self, columns: np.ndarray) -> Any:
        kept = self._kept[columns].all()
        return self._dense_exact[:, self._place[columns]] if kept else self._exact[:, columns]

    def value(
        self, given: Sequence[int], over: int, columns: np.ndarray, cuts: Cuts
    ) -> tuple[int | None, Any]:
        """Return what `Model.value` does; how far columns are from it is a sequence of numbers."""
        rows = len(self.model.rows)
        of_rows, of_cuts = given[:rows], given[rows:]
        largest = sum(abs(y) * float(most) for y, most in zip(of_rows, self.most, strict=True))
        largest += sum(map(abs, of_cuts)) + over * float(np.abs(self.gain).max(initial=0.0))
        if self._exact is None or largest >= _SAFE or not len(columns):
            plain = tuple((held, sense, right) for _, held, sense, right in cuts)
            return self.model.value(list(given), over, columns.tolist(), plain)
        rests = over * self.whole_gain[columns]
        rests -= self._exact_of(columns).T @ np.array(of_rows, dtype=np.int64)
        for y, (of_all, *_) in zip(of_cuts, cuts, strict=True):
            if y:
                rests -= y * of_all[columns].astype(np.int64)
        rights = [*(right for _, right in self.model.rows), *(right for *_, right in cuts)]
        total = sum(y * right for y, right in zip(given, rights, strict=True))
        group = self.group[columns]
        top = np.full(len(self.model.groups), np.iinfo(np.int64).min)
        np.maximum.at(top, group, rests)
        there = np.zeros(len(top), dtype=bool)
        there[group] = True
        for of, size in enumerate(self.model.groups):
            if size and not there[of]:
                return None, []
            total += size and size * int(top[of])
        return total, rests - top[group]
