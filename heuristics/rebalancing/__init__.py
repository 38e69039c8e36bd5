"""Compiled kernels of the published rebalancing heuristics."""
