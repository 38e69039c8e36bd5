"""Methods of all families on the same instances

Storm's schedulers, task allocation, graph partitioning, Elastic Allocator and the exact models
place the same topologies on the same nodes, and one referee evaluates all plans alike. No
paper does this; the instances are synthetic ([`storm_cluster`](../generators.md)).

Each method has its own objective: Storm's spread over all nodes by default,
[`gma`](../methods/elastic/gma.md) and [`eoa-milp`](../methods/elastic/eoa-milp.md) minimise
capacity, then traffic, the others traffic between nodes. Only Storm's methods know slots; another
method's plan counts as one that Storm can run if its nodes have room for the workers of every
topology.
"""
