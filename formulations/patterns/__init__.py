"""Node patterns, one engine: exact placement through the contents a node may have.

A *pattern* says how many tasks of each class of interchangeable tasks sit on one node. The problem
then becomes: choose one pattern a node so that every class is used up and what the patterns gain, a
sum, is largest. The modules:

``classes``           tasks and nodes that can be exchanged for each other; ``deal`` goes back
``problem``           the arrays
``pool``              patterns, the rows that they share beside tasks and nodes, what a pricer is
``pricing``           a pricer by compiled search (``search_tree``); ``listing`` by a list
``master``            column generation, and the bound of its prices
``start``             a good allocation to begin with
``close``             from the root bound to the proof: stages of an integer program (``integer``)
``filter``            fewer patterns by functionals (``functional_bound``); ``cover`` by partial
                      allocations
``solve``             all of it, as task allocation does it

Storm has rows for its workers and a list of all patterns, elastic allocation rows of levels,
budgets and links, slots of machines a pricer of their own; throughput asks the master whether the
patterns up to some utilisation use up everything.

What stays beside the engine, and why:

- closing a level of elastic allocation (`formulations.elastic.patterns.solve`): its programs have
  products beside the patterns, the earlier levels' caps, and the solver that was asked for, so that
  neither the table of counts nor the filters of ``close`` apply;
- Storm's best split of a node's executors (`formulations.storm.patterns.split`): one recurrence
  gives those of all contents at once, where a master would be solved for each;
- rebalancing by counts (`formulations.rebalancing.balance.classes`): it asks for a placement within
  a window that moves no more than a budget and leaves least behind, node by node; there is no sum
  to price;
- the fewest slots (`formulations.model_driven.fewest`): items are covered by any number of slots,
  so its master has neither equations nor nodes; contents are priced and listed by ``pricing``.
"""
