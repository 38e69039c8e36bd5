"""Elastic Allocator

*Elastic Allocator: An Adaptive Task Scheduler for Streaming Query in the Cloud*, SOSE 2014,
[doi:10.1109/SOSE.2014.40](https://doi.org/10.1109/SOSE.2014.40).

GMA is [`gma`](../methods/elastic/gma.md), the optimum [`eoa-milp`](../methods/elastic/eoa-milp.md);
Even and Random are [`even`](../methods/elastic/even.md) and
[`random`](../methods/elastic/random.md). The paper gives no numbers but its axes' ends and no
costs of its queries: only the order of the curves can be compared.

Uplinks bind (16 MB/s); Even ignores running queries; one plan for both figures looks at CPU and
bandwidth (`resource_deviation`); use is over nodes in use, over all, and as served.
"""
