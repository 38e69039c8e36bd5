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

What holds: on 20 nodes the MILP beats Flux after a second or two, by today's free solvers too; more
migrations buy balance, steeply at first; integrated scale-in is within ten points in round 3 or 5
where scaling in first takes 12; ALBIC has the lower load distance than COLA throughout, with 20
migrations a period against COLA's hundreds.

What does not: on 40 and 60 nodes no free solver beats Flux everywhere within a minute from a cold
start. There `balance-search` is never behind after a second, and in eight of all twelve settings
proven optimal to the thousandth of a point. And COLA, which knows no budget, collocates more than
ALBIC, not less. `joint-search` has what COLA collocates, or nearly, with ALBIC's budget. Between
ALBIC and the joint optimum in its place, at its load distance, lie 3 to 24 % where there are
one-to-one key groups.
"""
