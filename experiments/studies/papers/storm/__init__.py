"""Adaptive scheduling in Storm

L. Aniello, R. Baldoni and L. Querzoni, *Adaptive online scheduling in Storm*, DEBS 2013,
[doi:10.1145/2488222.2488267](https://doi.org/10.1145/2488222.2488267).

Default is Storm's own scheduler, [`storm-even`](../methods/storm/storm-even.md); offline and online
are the paper's, [`storm-offline`](../methods/storm/storm-offline.md) and
[`storm-online`](../methods/storm/storm-online.md); the optimum is
[`storm-milp`](../methods/storm/storm-milp.md), where it proves one. Our text of the paper ends in
section 3.2.3, before its experiments (latency on a real cluster), so that no figure here is one of
theirs. Traffic is the share of all tuples that go between nodes, or slots. Latency is simulated, in
STORM-A2 and STORM-L1 alone; there it follows traffic only if a network hop costs several times the
work on a tuple.
"""
