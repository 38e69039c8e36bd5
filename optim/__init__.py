"""Placing the work of distributed stream-processing jobs on nodes.

>>> from optim import Instance, solve, evaluate

Everything is loaded on first use, so that importing the package costs next to nothing; the names
stand in ``__init__.pyi``.
"""

from optim.plugins import lazy

__getattr__, __dir__ = lazy(__name__)
