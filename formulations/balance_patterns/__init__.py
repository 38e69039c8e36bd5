"""Exact rebalancing by counts: what a node may hold of each class of equal key groups."""
