"""The rows that linear models have in common, each written once, and the columns that they are on.

A model says by `Placing` how x_ik, "task k is on node i", is made of its columns: one column for
each task and node, or one for each move, counted from where tasks are. Numbers in parentheses are
those of ALBIC's MILP (Madsen, Zhou, Cao 2016, section 4.3.1), which call a task a key group. Rows
of sets, inflow and counts of nodes are at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.format.tables import APART, TOGETHER
from optim.kernels.place_rules import link_room, most_of, placing_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.format.traffic import LocalBlock
    from optim.kernels.place_rules import PlaceRules
    from optim.rules.budget import Budget
    from optim.solvers.linear_model import LinearModel, VariableBlock

    Numbers = NDArray[np.int64]


_ORDERED_TASKS = 64


def check_products(method: str, instance: Instance, most: int, remedy: str) -> None:
    """Refuse a model of more than `most` products, communicating pairs times nodes.

    Raises `UnsuitableMethod`: it would have more.
    """
    pairs, nodes = instance.pairs.num_pairs, instance.num_nodes
    pairs += sum(len(block.sources) for block in instance.flows.local)
    if pairs * nodes > most:
        reason = (
            f"would need {pairs * nodes:,} products ({pairs:,} communicating pairs × {nodes:,} "
            f"nodes), more than {most:,}"
        )
        raise UnsuitableMethod(Problem(method, None, reason, remedy))


class Sums(NamedTuple):
    """Σ over tasks of what each of them brings to the node it is on."""

    #: (M,) terms.
    node: Numbers
    column: Numbers
    value: Floats
    constant: Floats  # (N,) what is there where no column says anything.


@dataclass(frozen=True, eq=False)
class Placing:
    """Columns that say where tasks are."""

    #: (M,) column, its task, and the node on which it puts this.
    column: Numbers
    task: Numbers
    node: Numbers
    #: (T,) node of each task where no column says otherwise; -1 where columns say everything.
    home: Numbers
    num_nodes: int  # N.

    @classmethod
    def by_columns(cls, column: Any, task: Any, node: Any, size: tuple[int, int]) -> Placing:
        """Return the placing of a model in which columns say everything; of T tasks, N nodes."""
        nowhere = np.full(size[0], -1, dtype=np.int64)
        return cls(column, task.astype(np.int64), node.astype(np.int64), nowhere, size[1])

    @cached_property
    def from_home(self) -> bool:
        """Whether columns are of moves: a task stays where none is set."""
        return bool((self.home >= 0).any())

    @cached_property
    def where(self) -> Whereabouts:
        """Where tasks are, in these columns: with a move comes -1 at home."""
        task, node, column = self.task, self.node, self.column
        value = np.ones(len(column))
        if self.from_home:
            node = np.concatenate([node, self.home[task]])
            task, column = np.concatenate([task, task]), np.concatenate([column, column])
            value = np.concatenate([value, -value])
        return Whereabouts(task, node, column, value, self.home)

    def sums(self, each: Floats) -> Sums:
        """Return Σ_k each_k·x_ik of every node i; `each` is (T,)."""
        task, node, column, value, home = self.where
        constant = np.bincount(home[home >= 0], each[home >= 0], self.num_nodes).astype(np.float64)
        return Sums(node, column, value * each[task], constant)

    def read(self, x: Floats) -> Numbers:
        """Return the (T,) nodes that a solution vector stands for."""
        placement = self.home.copy()
        chosen = x[self.column] > 0.5
        placement[self.task[chosen]] = self.node[chosen]
        return placement


def add_assignment(model: LinearModel, placing: Placing) -> None:
    """(1) Σ_i x_ik = 1: every task is on exactly one node."""
    every = np.arange(len(placing.home))
    model.add_rows(
        "assign", 1.0, 1.0, placing.task, placing.column, 1.0, len(every), of={"task": every}
    )


def add_capacity(
    model: LinearModel,
    placing: Placing,
    usage: Floats,
    lower: Floats,
    upper: Floats,
    name: str = "capacity",
) -> None:
    """lower_ir ≤ Σ_k usage_kr·x_ik ≤ upper_ir: what nodes take of each resource, where bounded.

    `usage`, `lower`, `upper`: (T, R), (N, R), (N, R).
    """
    for r in range(usage.shape[1]):
        bound = np.flatnonzero(np.isfinite(upper[:, r]) | np.isfinite(lower[:, r]))
        if not len(bound):
            continue
        number = np.full(placing.num_nodes, -1, dtype=np.int64)
        number[bound] = np.arange(len(bound))
        node, column, value, constant = placing.sums(usage[:, r])
        in_row = (number[node] >= 0) & (value != 0.0)
        model.add_rows(
            name, (lower[:, r] - constant)[bound], (upper[:, r] - constant)[bound],
            number[node[in_row]], column[in_row], value[in_row], num_rows=len(bound),
            of={"node": bound, "resource": r},
        )  # fmt: skip


def add_load_distance(
    model: LinearModel,
    placing: Placing,
    load: Floats,
    share: Floats,
    leaving: Bools,
    columns: tuple[int, ...],
    mean: tuple[int, Floats] | None = None,
) -> None:
    """(3) load_i ≤ mean·c_i + d − d_u; (4) load_i ≥ mean·c_i − d + d_l, where a node stays.

    `load`: (T,) load that is balanced.
    `share`: (N,) mean·c_i less what is there whatever is placed.
    `leaving`: (N,) nodes that (4) does not bind.
    `columns`: of d, d_u and d_l; of d alone for the distance without the sides.
    `mean`: column of the mean and (N,) c, where the mean depends on the placement; `share` is less
        what is there alone then.
    """
    node, column, value, constant = placing.sums(load)
    room, d = share - constant, columns[0]
    for name, sign, nodes in (
        ("load_above", -1.0, np.arange(len(room))), ("load_below", 1.0, np.flatnonzero(~leaving)),
    ):  # fmt: skip
        number = np.full(len(room), -1, dtype=np.int64)
        number[nodes] = every = np.arange(len(nodes))
        in_row = number[node] >= 0
        terms: list[Any] = [(number[node[in_row]], column[in_row], value[in_row]), (every, d, sign)]
        if len(columns) > 1:
            terms.append((every, columns[1 if sign < 0 else 2], -sign))
        if mean is not None:
            terms.append((every, mean[0], -mean[1][nodes]))
        lower, upper = (-np.inf, room[nodes]) if sign < 0 else (room[nodes], np.inf)
        model.add_sum(name, lower, upper, len(nodes), *terms, of={"node": nodes})


def add_deviation(
    model: LinearModel,
    placing: Placing,
    load: Floats,
    base: Floats,
    of_one: Floats,
    ids: list[str],
    counted: NDArray[Any],
) -> NDArray[Any]:
    """d_n ≥ |u_n − ū| over some nodes, u_n = base_n + of_one_n·Σ_t load_t·x_tn and ū their mean.

    `load`: (T,).
    `base`, `of_one`: (M,) of each node that counts.
    `ids`: of these nodes.
    `counted`: (M,) their indices.
    Returns (1 + M,) columns of ū and of the distances; shares are at most 1.
    """
    m = len(counted)
    columns = model.add_variables(
        "share", m + 1, upper=1.0, of={"": ["mean", *(f"distance,{n}" for n in ids)]}
    ).indices
    mean, d = int(columns[0]), columns[1:]
    number = np.full(placing.num_nodes, -1, dtype=np.int64)
    number[counted] = np.arange(m)
    node, column, value, constant = placing.sums(load)
    on = number[node] >= 0
    row, x = number[node[on]], column[on]
    value, base = value[on] * of_one[row], base + of_one * constant[counted]
    # Σ_n u_n = M·ū, and ±(u_n − ū) ≤ d_n
    model.add_sum("mean", -base.sum(), -base.sum(), 1, (0, x, value), (0, mean, -float(m)))
    every = np.arange(m)
    for name, sign in (("above", 1.0), ("below", -1.0)):
        terms = (row, x, sign * value), (every, mean, -sign), (every, d, -1.0)
        model.add_sum(name, -np.inf, -sign * base, m, *terms, of={"node": counted})
    return np.asarray(columns)


def load_left(placing: Placing, load: Floats, leaving: Bools) -> tuple[Numbers, Floats, float]:
    """Σ_(i in B) load_i: return columns, coefficients and constant of the load on leaving nodes."""
    node, column, value, constant = placing.sums(load)
    on = leaving[node]
    return column[on], value[on], float(constant[leaving].sum())


def add_budgets(
    model: LinearModel,
    placing: Placing,
    rules: PlaceRules,
    budgets: Iterable[Budget],
    *,
    by_staying: bool = False,
) -> None:
    """(2) Σ_k mc_k·(1 − x_cur(k),k) ≤ maxMigrCost, for each budget; a copy counts as home.

    Written as Σ mc_k·x_ik over all that migrates, or as the paper does, `by_staying`.
    """
    pays = rules.pays(placing.task, placing.node)
    counted = np.flatnonzero(~pays if by_staying else pays)
    sign = -1.0 if by_staying else 1.0
    task = placing.task[counted]
    for budget in budgets:
        most = most_of(budget) - (float(budget.weight.sum()) if by_staying else 0.0)
        values = sign * budget.weight[task]
        model.add_rows(budget.name, -np.inf, most, 0, placing.column[counted], values, num_rows=1)


def add_in_use(
    model: LinearModel, placing: Placing, used: Numbers, load: Floats, room: Floats
) -> None:
    """x_ik ≤ y_i: a node that holds a task is in use; and Σ_k load_kr·x_ik ≤ room_ir·y_i.

    The second is stronger than the first in the relaxation.

    `used`: (N,) column of y of each node.
    `load`, `room`: (T, R), (N, R); infinite for any.
    """
    of = {"task": placing.task, "node": placing.node}
    add_at_most(model, "in_use", placing.column, used[placing.node], of)
    for r in range(load.shape[1]):
        node, column, value, _ = placing.sums(load[:, r])
        bound = np.flatnonzero(np.isfinite(room[:, r]))
        on = np.isin(node, bound) & (value != 0.0)
        model.add_sum(
            "capacity_in_use", -np.inf, 0.0, len(used), (node[on], column[on], value[on]),
            (bound, used[bound], -room[bound, r]),
            of={"node": np.arange(len(used)), "resource": r},
        )  # fmt: skip


def add_at_most(model: LinearModel, name: str, low: Any, high: Any, of: Mapping[str, Any]) -> None:
    """low_r ≤ high_r: one column is at most another, in each row."""
    row = np.arange(len(low))
    model.add_sum(name, -np.inf, 0.0, len(low), (row, low, 1.0), (row, high, -1.0), of=of)


def add_products(
    model: LinearModel, z: NDArray[Any], x_u: NDArray[Any], x_v: NDArray[Any], of: Mapping[str, Any]
) -> None:
    """z_uvn ≤ x_un and z_uvn ≤ x_vn: a pair is together on a node only if both are there.

    `of` says what each product is of.
    """
    add_at_most(model, "with_first", z, x_u, of)
    add_at_most(model, "with_second", z, x_v, of)


def with_crossing(
    model: LinearModel, instance: Instance, placing: Placing, z: NDArray[Any], of: Mapping[str, Any]
) -> tuple[Placing, Floats]:
    """L_nr = Σ_t (l_tr + o_r S_t + i_r E_t) x_tn − (o_r + i_r) Σ_(u,v) r_uv z_uvn.

    S and E are what a task sends and receives, o and i what a unit of traffic that crosses costs
    its sender and its receiver. Adds z_uvn ≥ x_un + x_vn − 1: where more load is welcome, a product
    must not be 0 for a pair that is together.

    `z`, `of`: (Z,) products of each pair on each node, and what they are of: pair, its tasks, node.
    Returns columns of tasks and, as if they were tasks, of pairs; the load of each, (T + P, R).
    """
    pairs, (out, into), count = instance.pairs, instance.crossing_cost, instance.num_tasks
    source, target, rate = instance.flows.directed()
    sent, received = (np.bincount(end, rate, count) for end in (source, target))
    each = instance.tasks.load + np.outer(sent, out) + np.outer(received, into)
    size = (count + pairs.num_pairs, placing.num_nodes)
    column = np.full((count, placing.num_nodes), -1, dtype=np.int64)
    column[placing.task, placing.node] = placing.column
    every, node = np.arange(len(z)), of["node"]
    named = {key: of[key] for key in ("task", "other", "node")}
    ends = [(every, column[of[end], node], -1.0) for end in ("task", "other")]
    model.add_sum("both", -1.0, np.inf, len(z), (every, z, 1.0), *ends, of=named)
    return Placing.by_columns(
        np.concatenate([placing.column, z]), np.concatenate([placing.task, count + of["pair"]]),
        np.concatenate([placing.node, node]), size,
    ), np.concatenate([each, -np.outer(pairs.rate, out + into)])  # fmt: skip


class Staying(NamedTuple):
    """What of `local_first` streams stays at its place: a node, or a slot."""

    receivers: Bools  # (G, T) tasks of each group of receivers.
    #: (H,) group and place of each column that says whether one of them is there.
    group: NDArray[Any]
    at: NDArray[Any]
    near: NDArray[Any]
    #: (Y,) sender, its column of `near`, place, column that says whether the sender is there with a
    #: receiver, and the traffic that then stays.
    task: NDArray[Any]
    of: NDArray[Any]
    node: NDArray[Any]
    stays: NDArray[Any]
    rate: Floats

    def complete(self, x: Floats, node: Ints) -> None:
        """Set the columns of a solution vector as (T,) places want them."""
        pairs = zip(self.group, self.at, strict=True)
        there = np.array([(node[self.receivers[g]] == n).any() for g, n in pairs], dtype=np.bool_)
        x[self.near] = there
        x[self.stays] = there[self.of] & (node[self.task] == self.node)


def add_staying(
    model: LinearModel,
    local: Sequence[LocalBlock],
    placing: Placing,
    *,
    whole: bool = False,
    slots: NDArray[Any] | None = None,
) -> Staying:
    """y_in ≤ x_in and y_in ≤ u_Gn ≤ Σ_(j in G) x_jn: sender i has a receiver of G on its node n.

    Where all are whole u is 0 or 1 and y their product, as more of either is never worse.

    `local`: `local_first` streams.
    `placing`: where tasks are, on nodes or at places.
    `whole`: declare the columns integer.
    `slots`: (places, 2) node and slot of each place, where these are slots.
    """
    end = "" if slots is None else "_in_slot"

    def where(at: NDArray[Any]) -> dict[str, Any]:
        return {"node": at} if slots is None else {"node": slots[at, 0], "slot": slots[at, 1]}

    where_of, home = placing.where, placing.home
    number_of: dict[bytes, int] = {}
    of_block = [number_of.setdefault(block.targets.tobytes(), len(number_of)) for block in local]
    receivers = np.zeros((len(number_of), len(home)), dtype=np.bool_)
    for g, block in zip(of_block, local, strict=True):
        receivers[g, block.targets] = True
    at_home = np.zeros((len(home), placing.num_nodes), dtype=np.bool_)
    at_home[home >= 0, home[home >= 0]] = True
    may = at_home.copy()
    may[where_of.task, where_of.node] = True
    group, at = np.nonzero(receivers @ may)
    first = receivers.argmax(axis=1)[group] if len(group) else group
    of_groups = {"task": first, **where(at)}
    near = model.add_variables(
        f"has_receiver{end}", len(group), upper=1.0, integer=whole, of=of_groups
    ).indices
    of_near = np.full((len(number_of), may.shape[1]), -1, dtype=np.int64)
    of_near[group, at] = np.arange(len(group))
    # of which block, sender and node each column is
    senders = [(g, i, block.rate) for g, block in zip(of_block, local, strict=True)
               for i in block.sources.tolist()]  # fmt: skip
    to = np.array([g for g, _, _ in senders], dtype=np.int64)
    task = np.array([i for _, i, _ in senders], dtype=np.int64)
    rate = np.array([r for _, _, r in senders], dtype=np.float64)
    which, node = np.nonzero(may[task] & (of_near[to] >= 0))
    of, sender = of_near[to[which], node], task[which]
    of_senders = {"task": sender, **where(node)}
    stays = model.add_variables(
        f"stays{end}", len(which), upper=1.0, integer=whole, of=of_senders
    ).indices
    some, entry = np.nonzero(receivers[:, where_of.task])
    model.add_sum(
        f"receiver_there{end}", -np.inf, (receivers @ at_home.astype(float))[group, at], len(group),
        (np.arange(len(group)), near, 1.0),
        (of_near[some, where_of.node[entry]], where_of.column[entry], -where_of.value[entry]),
        of=of_groups,
    )  # fmt: skip
    row, entry = _entries(where_of, placing.num_nodes, sender, node)
    model.add_sum(
        f"stays_with{end}", -np.inf, at_home[sender, node], len(stays),
        (np.arange(len(stays)), stays, 1.0),
        (row, where_of.column[entry], -where_of.value[entry]), of=of_senders,
    )  # fmt: skip
    add_at_most(model, f"stays_near{end}", stays, near[of], of_senders)
    return Staying(receivers, group, at, near, sender, of, node, stays, rate[which])


def _entries(where: Whereabouts, nodes: int, task: Any, node: Any) -> tuple[Any, Any]:
    """Return the entries of x of some tasks on some nodes: which of these, and which entry."""
    key = where.task * nodes + where.node
    order = np.argsort(key, kind="stable")
    wanted = task * nodes + node
    first, last = (np.searchsorted(key[order], wanted, side=side) for side in ("left", "right"))
    row = np.repeat(np.arange(len(wanted)), last - first)
    within = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    return row, order[np.repeat(first, last - first) + within]


class Inside(NamedTuple):
    """Pairs that may be together among some nodes: (N,) these; (P,) ends and column of each."""

    nodes: Bools
    u: Ints
    v: Ints
    column: NDArray[Any]

    def complete(self, x: Floats, node: Ints) -> None:
        """Set the products of a solution vector as a placement wants them."""
        x[self.column] = self.nodes[node[self.u]] & self.nodes[node[self.v]]


def add_inside(
    model: LinearModel,
    name: str,
    column: NDArray[Any],
    inside: Bools,
    pairs: tuple[Ints, Ints],
    of: Mapping[str, Any],
    *,
    whole: bool = False,
    exact: bool = False,
) -> Inside:
    """w_uvl ≤ Σ_(n in l) x_un and w_uvl ≤ Σ_(n in l) x_vn: both are among the nodes of l.

    `name`, `of`: of the columns; what they are of beside the pair.
    `column`: (T, N) column of each task on each node, -1 for none.
    `inside`: (N,) the nodes of l.
    `whole`: declare the products integer.
    `exact`: and w_uvl ≥ Σ_(n in l) (x_un + x_vn) − 1: not 0 where both are.
    """
    of = {**of, "task": pairs[0], "other": pairs[1]}
    w = model.add_variables(name, len(pairs[0]), upper=1.0, integer=whole, of=of).indices
    every, nodes = np.arange(len(w)), np.flatnonzero(inside)
    ends = []
    for end in pairs:
        columns = column[end][:, nodes]
        row, at = np.nonzero(columns >= 0)
        ends.append((row, columns[row, at]))
    bounds = [("first", -np.inf, 0.0, *ends[0]), ("second", -np.inf, 0.0, *ends[1])]
    if exact:
        row, columns = (np.concatenate(some) for some in zip(*ends, strict=True))
        bounds.append(("both", -1.0, np.inf, row, columns))
    for which, lower, upper, row, columns in bounds:
        terms = (every, w, 1.0), (row, columns, -1.0)
        model.add_sum(f"{name}_with_{which}", lower, upper, len(w), *terms, of=of)
    return Inside(inside, *pairs, w)


def add_stars(
    model: LinearModel,
    instance: Instance,
    column: NDArray[Any],
    products: tuple[NDArray[Any], ...],
    r: int,
) -> None:
    """Σ_v load_vr z_uvn ≤ (room_nr − load_ur) x_un: what is beside a task on a node fits there.

    Only where all its partners together would not; of these only such v as fit beside u alone, as
    the products of the others are 0. So no coefficient is of the size of a tolerance, which
    presolves take for 0 in one place and not in another. Without these rows the relaxation spreads
    every task evenly and sees no traffic at all.
    """
    u, v, at, z = (np.asarray(a, dtype=np.int64) for a in products)
    n, load, room = instance.num_nodes, instance.tasks.load[:, r], placing_room(instance)[:, r]
    alone = load[u] + load[v] <= room[at]
    u, v, at, z = u[alone], v[alone], at[alone], z[alone]
    value = np.concatenate([load[v], load[u]])
    keys, row = np.unique(np.concatenate([u * n + at, v * n + at]), return_inverse=True)
    t, node = keys // n, keys % n
    full = np.isfinite(room[node]) & (load[t] + np.bincount(row, value, len(keys)) > room[node])
    number, in_row = np.cumsum(full) - 1, full[row]
    t, node = t[full], node[full]
    if len(t):
        beside = number[row[in_row]], np.concatenate([z, z])[in_row], value[in_row]
        itself = np.arange(len(t)), column[t, node], load[t] - room[node]
        of = {"task": t, "node": node, "resource": r}
        model.add_sum("star", -np.inf, 0.0, len(t), beside, itself, of=of)


class Crossings:
    """Σ_(u→v) r_uv (Σ_(n in l) x_un − w_uvl): what leaves, or enters, the nodes of each link.

    In it are all pairs of tasks, those of full streams too. Not in it are `local_first` streams,
    which are in no pair: a method whose links are these rows refuses such streams beside a link
    that has a capacity (it does not know `Form.LOCAL_FIRST_LINKS`). Nor is the background of links.

    Columns of the pairs inside a link are added where it is first asked for.

    `column`: (T, N) column of each task on each node, -1 for none.
    `products`: pair, node and column of each product: what a link of one node needs no others for.
    `whole`: declare the pairs inside integer.
    """

    def __init__(
        self,
        model: LinearModel,
        instance: Instance,
        column: NDArray[Any],
        products: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None,
        *,
        whole: bool,
    ) -> None:
        self.model, self.instance, self.column = model, instance, column
        self.products, self.whole = products, whole
        self.inside: list[Inside] = []
        self._terms_of: dict[int, tuple[NDArray[Any], Floats]] = {}

    def of(self, link: int) -> tuple[NDArray[Any], Floats]:
        """Return the columns of what crosses a link, and their coefficients."""
        if link not in self._terms_of:
            self._terms_of[link] = self._terms(link)
        return self._terms_of[link]

    def _terms(self, i: int) -> tuple[NDArray[Any], Floats]:
        instance, links = self.instance, self.instance.links
        source, target, rate = instance.flows.directed()
        nodes = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]
        inside = np.zeros(instance.num_nodes, dtype=np.bool_)
        inside[nodes] = True
        if self.products is not None and len(nodes) == 1:
            both = _on_node(instance, source, target, self.products, int(nodes[0]))
        else:
            added = add_inside(
                self.model, "inside", self.column, inside, (source, target), {"link": i},
                whole=self.whole,
            )  # fmt: skip
            self.inside.append(added)
            both = added.column
        some = np.flatnonzero(both >= 0)
        cols, values = [], []
        # 1 and 2 count one direction only, 0 both
        for end, other in ((source, 2), (target, 1)):
            if links.direction[i] != other:
                there = np.where(inside, self.column[end], -1)
                pair, at = np.nonzero(there >= 0)
                cols += [there[pair, at], both[some]]
                values += [rate[pair], -rate[some]]
        return np.concatenate(cols), np.concatenate(values)


def add_links(crossings: Crossings) -> None:
    """Σ_(u→v) r_uv (Σ_(n in l) x_un − w_uvl) ≤ room_l: what crosses a link with a capacity."""
    instance, model = crossings.instance, crossings.model
    room, background = link_room(instance), instance.links.background
    for i in np.flatnonzero(np.isfinite(room)).tolist():
        columns, values = crossings.of(i)
        most = room[i] - background[i]
        model.add_rows("link", -np.inf, most, 0, columns, values, num_rows=1, of={"link": i})


def _on_node(
    instance: Instance, source: Ints, target: Ints, products: tuple[Any, Any, Any], node: int
) -> NDArray[np.int64]:
    """(D,) product of each directed pair on a node, -1 where its ends cannot both be there."""
    pairs, size = instance.pairs, instance.num_tasks
    pair, at, z = products
    column = np.full(len(pairs.u) + 1, -1, dtype=np.int64)
    column[pair[at == node]] = z[at == node]
    low, high = np.minimum(source, target), np.maximum(source, target)
    keys = pairs.u.astype(np.int64) * size + pairs.v
    return np.asarray(column[np.searchsorted(keys, low.astype(np.int64) * size + high)])


def add_order(model: LinearModel, classes: Iterable[NDArray[Any]], column: NDArray[Any]) -> None:
    """x_t,j+1 ≤ Σ_(s<t) x_sj: number identical places by their first task.

    Every placement becomes one that keeps this when identical places are exchanged, so no value is
    lost. The rows are written for the first tasks only; any part of them is valid.

    `classes`: places, nodes or slots, that are identical.
    `column`: (T, places) column of each task on each, -1 for none.
    """
    rows: list[NDArray[Any]] = []
    cols: list[NDArray[Any]] = []
    values: list[NDArray[Any]] = []
    count = 0
    for members in classes:
        usable = np.flatnonzero((column[:, members[:1]] >= 0).any(axis=1))[:_ORDERED_TASKS]
        for before, after in pairwise(members):
            for i, t in enumerate(usable):
                rows.append(np.full(i + 1, count))
                cols.append(np.append(column[usable[:i], before], column[t, after]))
                values.append(np.append(-np.ones(i), 1.0))
                count += 1
    if count:
        model.add_rows(
            "first_task", -np.inf, 0.0, np.concatenate(rows), np.concatenate(cols),
            np.concatenate(values), num_rows=count,
        )  # fmt: skip


# Rows of the rules that count tasks on places, for any linear model that says where tasks are.
#
# By `Whereabouts` x[t, n], "task t is on node n", is made of a model's columns:
#
#     x[t, n] = (1 if base[t] == n else 0) + Σ value·column over the entries of (t, n)
#
# so a model with one column a task and node has entries of 1 and a base of -1, and one with columns
# for moves only has the home as its base, and each move in two entries: +1 where it goes, -1 at
# home. `add_rule_rows` adds rows for sets, for the inflow of nodes and for counts of nodes, and
# returns what a start must set beside its own columns (`RuleRows.complete`). Budgets are the
# model's own: what it counts as a migration leaves out moves onto copies, `rules.pays(task, node)`.


class Whereabouts(NamedTuple):
    """Where tasks are, in columns of a linear model."""

    #: (M,) entries of x[task, node]; those of one place and column add up.
    task: Numbers
    node: Numbers
    column: Numbers
    value: Floats
    base: Numbers  # (T,) node on which a task is where no column says otherwise; -1 for none.


@dataclass
class RuleRows:
    """What was added: the columns that say which places a set uses."""

    rules: PlaceRules
    #: Set, and its block of one column a place.
    spread: list[tuple[int, VariableBlock]] = field(default_factory=list)
    #: Mask of tasks, and its block of one column a node: whether one of them is there.
    counted: list[tuple[Bools, VariableBlock]] = field(default_factory=list)
    #: Two masks, and their block: whether tasks of both are there.
    shared: list[tuple[tuple[Bools, ...], VariableBlock]] = field(default_factory=list)

    def complete(self, x: Floats, placement: Numbers) -> None:
        """Set the added columns of a solution vector as a placement wants them."""
        for i, block in self.spread:
            used = np.zeros(len(block.indices))
            used[self.rules.place[i, placement[self.rules.tasks_of(i)]]] = 1.0
            x[block.indices] = used
        for tasks, block in self.counted:
            x[block.indices] = 0.0
            x[block.indices[placement[tasks]]] = 1.0
        for (first, second), block in self.shared:
            x[block.indices] = 0.0
            x[block.indices[np.intersect1d(placement[first], placement[second])]] = 1.0


def add_rule_rows(model: LinearModel, rules: PlaceRules, where: Whereabouts) -> RuleRows:
    """Add the rows of sets, inflow and counts of nodes; none where there are no such rules.

    `model`: the rows are added to it, and one binary for each place of a set to be spread, and for
        each node and group of tasks that a count of nodes is of.
    `rules`, `where`: what binds, and how the model says where tasks are.
    """
    added = RuleRows(rules)
    if rules.bounds_inflow:
        _add_inflow(model, rules, where)
    if rules.num_sets:
        entries = _ByTask(where, len(rules.home))
        for i in range(rules.num_sets):
            kind = rules.rule[i]
            if kind == APART:
                _add_apart(model, rules, entries, i)
            elif kind == TOGETHER:
                _add_together(model, rules, entries, i)
            else:
                added.spread.append((i, _add_spread(model, rules, entries, i)))
    _add_counts(model, rules, where, added)
    return added


class _ByTask:
    """The entries of some tasks, found without looking at all."""

    def __init__(self, where: Whereabouts, num_tasks: int) -> None:
        self.where = where
        self._order = np.argsort(where.task, kind="stable")
        counts = np.bincount(where.task, minlength=num_tasks)
        self._start = np.concatenate([[0], np.cumsum(counts)])

    def of(self, tasks: Numbers) -> tuple[Numbers, Numbers]:
        """Return the entries of some tasks, and for each its task's position among these."""
        counts = self._start[tasks + 1] - self._start[tasks]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = self._order[np.repeat(self._start[tasks], counts) + within]
        return entries, np.repeat(np.arange(len(tasks)), counts)

    def counts_at(self, place: Numbers, tasks: Numbers) -> tuple[Numbers, Numbers, Floats, Floats]:
        """Return place, column and value of Σ over tasks of x at each place, and the constants."""
        entries, _ = self.of(tasks)
        base = self.where.base[tasks]
        constant = np.bincount(place[base[base >= 0]], minlength=int(place.max()) + 1)
        rows = place[self.where.node[entries]]
        return rows, self.where.column[entries], self.where.value[entries], constant.astype(float)


def _add_counts(model: LinearModel, rules: PlaceRules, where: Whereabouts, added: RuleRows) -> None:
    """Σ_n u[n] ≤ limit where u[n] ≥ x[t, n] for the tasks t of a group."""
    # of two groups u[n] ≥ u'[n] + u''[n] − 1; with a limit of 0 these are u'[n] + u''[n] ≤ 1
    n, block_of = len(rules.most_in), {}
    every = np.arange(n)
    for c, count in enumerate(rules.counts):
        used = []
        for tasks in count.groups:
            if tasks.tobytes() not in block_of:
                block_of[tasks.tobytes()] = block = _add_used(model, where, tasks, n)
                added.counted.append((tasks, block))
            used.append(block_of[tasks.tobytes()].indices)
        if len(used) > 1 and count.limit <= 0:
            model.add_sum(f"count_{c}", -np.inf, 1.0, n, *((every, some, 1.0) for some in used))
            continue
        both = used[0]
        if len(used) > 1:
            block = model.add_variables(f"both_{c}", n, upper=1.0, integer=True)
            both = block.indices
            added.shared.append((count.groups, block))
            terms = ((every, some, 1.0) for some in used)
            model.add_sum(f"both_if_{c}", -np.inf, 1.0, n, *terms, (every, both, -1.0))
        model.add_rows(f"count_{c}", -np.inf, float(count.limit), 0, both, 1.0, num_rows=1)


def _add_used(
    model: LinearModel, where: Whereabouts, tasks: Bools, num_nodes: int
) -> VariableBlock:
    """x[t, n] ≤ u[n]: a node is used where any of the tasks is."""
    used = model.add_variables(
        f"used_by_{len(model.row_blocks)}", num_nodes, upper=1.0, integer=True,
        of={"node": np.arange(num_nodes)},
    )  # fmt: skip
    chosen, relevant = np.flatnonzero(tasks), tasks[where.task]
    number = np.full(len(tasks), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    cells = len(chosen) * num_nodes
    constant = np.zeros(cells)
    based = chosen[where.base[chosen] >= 0]
    constant[number[based] * num_nodes + where.base[based]] = 1.0
    rows = number[where.task[relevant]] * num_nodes + where.node[relevant]
    some = np.unique(np.concatenate([rows, np.flatnonzero(constant)]))
    place = np.full(cells, -1, np.int64)
    place[some] = np.arange(len(some))
    model.add_sum(
        "used_if_there", -np.inf, -constant[some], len(some),
        (place[rows], where.column[relevant], where.value[relevant]),
        (np.arange(len(some)), used.indices[some % num_nodes], -1.0),
        of={"task": chosen[some // num_nodes], "node": some % num_nodes},
    )  # fmt: skip
    return used


def _add_inflow(model: LinearModel, rules: PlaceRules, where: Whereabouts) -> None:
    """Σ x[t, n] ≤ most_in[n] over the tasks that migrate where they come to n."""
    bound = np.flatnonzero(rules.most_in < len(rules.home))
    number = np.full(len(rules.most_in), -1, np.int64)
    number[bound] = np.arange(len(bound))
    based = np.flatnonzero(where.base >= 0)
    paying = based[rules.pays(based, where.base[based])]
    constant = np.bincount(where.base[paying], minlength=len(rules.most_in))
    in_row = rules.pays(where.task, where.node) & (number[where.node] >= 0)
    model.add_rows(
        "inflow", -np.inf, (rules.most_in - constant)[bound].astype(float),
        number[where.node[in_row]], where.column[in_row], where.value[in_row], num_rows=len(bound),
        of={"node": bound},
    )  # fmt: skip


def _places(rules: PlaceRules, i: int, width: int) -> dict[str, Numbers]:
    """Say of which nodes, or by number of which racks, the places of a set are."""
    every = np.arange(width)
    return {"node" if np.array_equal(rules.place[i], every) else "rack": every}


def _add_apart(model: LinearModel, rules: PlaceRules, entries: _ByTask, i: int) -> None:
    """At most `limit` members on each place."""
    rows, columns, values, constant = entries.counts_at(rules.place[i], rules.tasks_of(i))
    room = float(rules.limit[i]) - constant
    of = _places(rules, i, len(room))
    model.add_rows(f"apart_{i}", -np.inf, room, rows, columns, values, num_rows=len(room), of=of)


def _add_together(model: LinearModel, rules: PlaceRules, entries: _ByTask, i: int) -> None:
    """Every member is on the place of the next one."""
    tasks, place = rules.tasks_of(i), rules.place[i]
    links, width = len(tasks) - 1, int(place.max()) + 1
    if links < 1:
        return
    entry, at = entries.of(tasks)
    where, base = entries.where, entries.where.base[tasks]
    spot, based = place[where.node[entry]], np.flatnonzero(base >= 0)
    right, terms = np.zeros((links, width)), []
    for sign, shift, inside in ((1.0, 0, at < links), (-1.0, 1, at > 0)):
        row = (at[inside] - shift) * width + spot[inside]
        terms.append((row, where.column[entry[inside]], sign * where.value[entry[inside]]))
        some = based[(based >= shift) & (based < links + shift)]
        np.add.at(right, (some - shift, place[base[some]]), -sign)
    model.add_sum(
        f"together_{i}", right.ravel(), right.ravel(), links * width, *terms,
        of={
            "task": np.repeat(tasks[:-1], width),
            **{kind: np.tile(at, links) for kind, at in _places(rules, i, width).items()},
        },
    )  # fmt: skip


def _add_spread(model: LinearModel, rules: PlaceRules, entries: _ByTask, i: int) -> VariableBlock:
    """At least `limit` places are used; a place is used only where a member is."""
    rows, columns, values, constant = entries.counts_at(rules.place[i], rules.tasks_of(i))
    width = len(constant)
    of = _places(rules, i, width)
    used = model.add_variables(f"used_{i}", width, upper=1.0, integer=True, of=of)
    model.add_sum(
        f"used_if_there_{i}", -np.inf, constant, width, (np.arange(width), used.indices, 1.0),
        (rows, columns, -values), of=of,
    )  # fmt: skip
    least = float(rules.limit[i])
    model.add_rows(f"spread_{i}", least, np.inf, 0, used.indices, 1.0, num_rows=1)
    return used
