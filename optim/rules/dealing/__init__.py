"""Whether the tasks of each node can be dealt to its slots, when a plan gives nodes only.

A slot keeps its capacities and its number of tasks and serves one topology; tasks without topology
join any. A topology of W workers and E tasks fills min(W, E) slots in all (Aniello et al. 2013,
section 3.2.2, constraint (2)).

The tasks of one topology on one node need some least number of slots, a vector bin packing; any
greater number up to that of the tasks serves as well, for what shares a slot may be parted. So the
least numbers decide (`least`), and spreading the workers over the nodes is a flow (`workers`).
First-fit decreasing gives an upper end of each least number, loads and counts a lower end: what the
upper ends allow is found, what the lower ends forbid is proven, and a search (`partings`) closes
the rest within a limit of work. Only tasks without topology beside others on a node break the
scheme: there all slot partitions are searched (`mixed`).

Sets over slots fit in: tasks to be together are dealt as one unit (`units`), members of a set apart
are one more column that a slot has a capacity of, and a set to be spread over more slots than nodes
is first widened by moves within nodes (`spreading`), then searched with the slot partitions of the
nodes that hold several of its units.
"""

from optim.rules.dealing.answer import Dealing, deal, slot_slack

__all__ = ["Dealing", "deal", "slot_slack"]
