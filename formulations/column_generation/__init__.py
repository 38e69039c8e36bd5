"""Column generation over the contents of nodes: one driver of all exact placement methods.

A *pattern* says how many tasks of each class of interchangeable tasks sit on one node. The problem
then becomes: choose one pattern a node so that every class is used up and what the patterns gain, a
sum, is largest. The modules:

``problem``   the arrays, patterns, the rows that they share beside tasks and nodes
``pricing``   patterns of greatest value at given prices: by compiled search, or from a list
``master``    relax: column generation, and the bound of its prices
``integer``   the integer program over given patterns, by a table where that is small
``bound``     bounds on allocations that use a pattern: functionals, partial allocations
``search``    allocations to begin with: constructions, re-optimised pairs of nodes, kicks
``client``    what a family gives: patterns, rows, what it knows better; the incumbent and the bound
``driver``    all of it: relax, list, integer, prove; `solve` for sums, `Bottleneck` for a maximum

Clients: task allocation (the defaults), `formulations.storm.exact`, `formulations.elastic.exact`,
`formulations.throughput.exact`, `formulations.model_driven.milp`.

What stays beside the driver, and why:

- Storm's best split of a node's executors (`formulations.storm.split`): one recurrence gives those
  of all contents at once, where a master would be solved for each;
- rebalancing by counts (`formulations.rebalancing.balance.classes`): it asks for a placement within
  a window that moves no more than a budget and leaves least behind, node by node; there is no sum
  to price;
- the fewest slots (`formulations.model_driven.fewest`): items are covered by any number of slots,
  so its master has neither equations nor nodes; contents are priced and listed by ``pricing``.
"""
