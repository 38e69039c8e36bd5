"""Adaptive scheduling in Storm

L. Aniello, R. Baldoni and L. Querzoni, *Adaptive online scheduling in Storm*, DEBS 2013,
[doi:10.1145/2488222.2488267](https://doi.org/10.1145/2488222.2488267).

Default is Storm's own scheduler, [`storm-even`](../methods/storm/storm-even.md); offline and online
are the paper's, [`storm-offline`](../methods/storm/storm-offline.md) and
[`storm-online`](../methods/storm/storm-online.md); the optimum is
[`storm-milp`](../methods/storm/storm-milp.md), where it proves one. Our text of the paper ends in
section 3.2.3: its experiments, which measure the latency of events on a real cluster, are not in
it, and no figure here is one of theirs. What is shown is traffic, the share of all tuples that go
from one node, or from one slot, to another. Latency is in STORM-A2 and STORM-L1 alone, simulated,
and follows traffic there only where a network hop costs several times the work on a tuple.
"""
