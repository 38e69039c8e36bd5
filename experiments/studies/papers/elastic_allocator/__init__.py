"""Elastic Allocator

*Elastic Allocator: An Adaptive Task Scheduler for Streaming Query in the Cloud*, SOSE 2014,
[doi:10.1109/SOSE.2014.40](https://doi.org/10.1109/SOSE.2014.40).

GMA is [`gma`](../methods/elastic/gma.md), the optimum [`eoa-milp`](../methods/elastic/eoa-milp.md);
Even and Random are [`even`](../methods/elastic/even.md) and
[`random`](../methods/elastic/random.md). The paper prints no numbers beside its axes' ends and no
costs of its queries: what can be compared is the order of the curves.

Readings changed since the first pages: uplinks bind (16 MB/s); Even knows nothing of running
queries; one plan for both figures looks at CPU and bandwidth (`resource_deviation`); use is given
over nodes in use, over all, and as served; 30 seeds; workloads to 2,000; a recorded day.
"""
