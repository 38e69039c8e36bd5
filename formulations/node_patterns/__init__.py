"""Node patterns: exact task allocation through the contents a node may have.

A *pattern* says how many tasks of each class of interchangeable tasks sit on one node.  The
allocation problem then becomes: choose one pattern a node so that every class is used up and the
collocated traffic, a sum over the chosen patterns, is largest.  The modules are the steps:
``problem`` (arrays), ``search_tree`` (compiled pricing and enumeration), ``master`` (column
generation), ``start`` (a good allocation to begin with), ``functional_bound`` (dynamic
programming), ``closing`` (from the root bound to the proof).
"""
