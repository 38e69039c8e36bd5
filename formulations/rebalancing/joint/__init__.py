"""Collocated traffic under a cap on the load distance: `joint-milp` and its search."""
