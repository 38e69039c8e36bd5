"""A linear model of the rules that hold, each row with the rule instances that it comes from.

    Σ_n x_tn = 1                                  every task on one node
    Σ_(moves) x_tn ≤ most                         migrations, and their cost

and the rows of nodes and slots (`formulations.conflicts.rows`), of sets and inflow
(`formulations.rule_rows`) and of links. Every feasible placement is among its points, so what it
excludes is excluded; a placement that it gives is feasible only if the referee says so. Bounds are
widened by the referee's tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.conflicts.rows import Amounts, RowWriter, RuleModel, shut_by_leaving
from formulations.rule_rows import Whereabouts, add_rule_rows
from formulations.task_allocation.model import add_links
from optim.kernels.place_rules import place_rules
from optim.kernels.room import placing_masks
from optim.rules import SLOTS
from optim.rules.capacity import proof_slack
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.atoms import Atoms

    Ids = NDArray[np.int64]

_LINK_ENTRIES = 400_000
"""Entries of the rows of links up to which these are written."""


def build(atoms: Atoms, kept: Ids) -> RuleModel:
    """Write the rows of some rule instances."""
    instance = atoms.keep(kept.tolist())
    t, n = instance.num_tasks, instance.num_nodes
    kinds, by_kind, _ = placing_masks(instance)
    allowed, enterable = by_kind[kinds], ~shut_by_leaving(instance)
    model = LinearModel("rules")
    upper = (allowed & enterable).astype(float)
    x = model.add_variables("place", (t, n), upper=upper, integer=True).indices
    made = RuleModel(instance, model)
    task, node = np.nonzero(~allowed)
    made.close(x[task, node], atoms.list_of[task])
    if not enterable.all():
        made.close(x[~enterable], atoms.of("leaving"))
    model.add_rows("assign", 1.0, 1.0, np.repeat(np.arange(t), n), x.ravel(), 1.0, num_rows=t)
    writer = _Writer(made, atoms, kept, x)
    writer.nodes()
    writer.too_large()
    writer.slots()
    writer.budgets()
    writer.sets()
    writer.links()
    return made


class _Writer(RowWriter):
    """Writes rows on a column for each task and node."""

    def __init__(self, made: RuleModel, atoms: Atoms, kept: Ids, x: Ids) -> None:
        super().__init__(made, atoms, kept)
        self.x = x
        self.loads = [(r + 1, r) for r in range(self.instance.num_resources)]
        self.topology = np.asarray(SLOTS.task_key(self.instance))

    def amounts(self, measure: int) -> Amounts:
        """Return what of a measure the columns put on each node."""
        t, n = self.x.shape
        weight = self.instance.tasks.load[:, measure - 1] if measure else np.ones(t)
        some = np.flatnonzero(weight)
        return Amounts(
            np.tile(np.arange(n), len(some)), np.repeat(self.topology[some], n),
            self.x[some].ravel(), np.repeat(weight[some], n),
        )  # fmt: skip

    def too_large(self) -> None:
        """No task where it exceeds a slot by itself."""
        for r in range(self.instance.num_resources):
            bound, load = self._slot_bound(r), self.instance.tasks.load[:, r]
            for atom, n in zip(*self.held("slot_capacity", r), strict=True):
                columns = self.x[load > bound[n], n]
                if len(columns):
                    zeros = np.zeros(len(columns), np.int64)
                    self.made.own(
                        self.model.add_rows("too large", -np.inf, 0.0, zeros, columns, 1.0, 1), atom
                    )

    def budgets(self) -> None:
        """Migrations and their cost."""
        instance, limits = self.instance, self.instance.limits
        rules = place_rules(instance)
        task, node = np.divmod(np.arange(self.x.size), instance.num_nodes)
        pays = rules.pays(task, node)
        price = instance.tasks.migration_cost
        for name, cost in (("max_migrations", np.ones(len(price))), ("max_migration_cost", price)):
            ids, _ = self.held(name)
            most = getattr(limits, name)
            if len(ids) and most is not None:
                bound = most + float(proof_slack(float(most)))
                where = np.zeros(int(pays.sum()), np.int64)
                block = self.model.add_rows(
                    name, -np.inf, bound, where, self.x.ravel()[pays], cost[task[pays]], num_rows=1
                )
                self.made.own(block, ids)

    def sets(self) -> None:
        """Sets and inflow, by the shared rows."""
        t, n = self.x.shape
        task, node = np.divmod(np.arange(self.x.size), n)
        where = Whereabouts(
            task, node, self.x.ravel(), np.ones(self.x.size), np.full(t, -1, np.int64)
        )
        before = len(self.model.row_blocks)
        add_rule_rows(self.model, place_rules(self.instance), where)
        self.own_sets(self.model.row_blocks[before:])

    def links(self) -> None:
        """Traffic that crosses each link, where that is not too much to write."""
        ids, _ = self.held("links")
        entries = len(ids) * len(self.instance.flows.directed()[2]) if len(ids) else 0
        if not 0 < entries * self.instance.num_nodes <= _LINK_ENTRIES:
            return
        before = len(self.model.row_blocks)
        add_links(self.model, self.instance, self.x, None, whole=False)
        blocks = [b for b in self.model.row_blocks[before:] if b.name.startswith("link ")]
        for block, atom in zip(blocks, ids, strict=True):
            self.made.own(block, atom)
