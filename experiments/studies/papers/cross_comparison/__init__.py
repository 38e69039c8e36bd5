"""Methods of all families on the same instances

Storm's schedulers, task allocation, graph partitioning, Elastic Allocator and the exact models
place the same topologies on the same nodes: CPU, traffic and slots are given, and one referee
judges all plans by the same metrics. No paper does this; the instances are made up
([`storm_cluster`](../generators.md)).

Each method still follows its own aim: Storm's spread over all nodes unless set otherwise,
[`gma`](../methods/elastic/gma.md) and [`eoa-milp`](../methods/elastic/eoa-milp.md) use little
capacity first and little traffic second, the others care for traffic between nodes alone. Only
Storm's methods know slots. A plan of another method counts as one that Storm can run when its nodes
can be given the workers that every topology asks for.
"""
