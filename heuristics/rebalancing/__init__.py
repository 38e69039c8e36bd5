"""Rebalancing heuristics and searches, one file a method."""
