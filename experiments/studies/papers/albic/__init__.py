"""Rebalancing key groups: ALBIC

K. G. S. Madsen, Y. Zhou, J. Cao, *Integrative dynamic reconfiguration in a parallel stream
processing engine*, 2016. Synthetic load; the real jobs are on a [page of their own](albic-real.md).

Load distance is in points of the bottleneck resource; a node has 50 on average. The collocation
factor is traffic inside nodes over all traffic. MILP is the paper's model
([`balance-milp`](../methods/rebalancing/balance-milp.md)), ALBIC is
[`albic`](../methods/rebalancing/albic.md), COLA [`cola`](../methods/rebalancing/cola.md), Flux
[`flux`](../methods/rebalancing/flux.md); ours are
[`balance-search`](../methods/rebalancing/balance-search.md) and
[`joint-search`](../methods/rebalancing/joint-search.md).

maxPL is in points of a node's capacity, as in the paper; scale-in first spreads evenly over
all rounds. Figures 8 to 11 have 30 seeds, 10 and 11 at a tenth of the paper's size; Figures 2
to 5 are one instance each, at its size; claims F2 to F4 judge every solver over 30.
"""
