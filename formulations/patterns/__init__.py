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
budgets and links, slots of machines a pricer of their own.
"""
