"""Solver back ends behind one interface: ``solve_linear(model, "highs", …)``.

The solvers' child processes import this package too, so that names are loaded on first use.
"""

from optim import lazy

__getattr__, __dir__ = lazy(__name__)
