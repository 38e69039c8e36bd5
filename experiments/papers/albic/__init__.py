"""Rebalancing key groups: ALBIC

K. G. S. Madsen, Y. Zhou, J. Cao, *Integrative dynamic reconfiguration in a parallel stream
processing engine*, 2016. Synthetic load; the real jobs are on a page of their own (`albic-real`).

Load distance is in points of the bottleneck resource; a node has 50 on average. The collocation
factor is traffic inside nodes over all traffic. MILP is the paper's model
([`balance-milp`](../methods/balance-milp.md)), ALBIC is [`albic`](../methods/albic.md).
"""
