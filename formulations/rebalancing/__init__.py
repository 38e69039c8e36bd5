"""Rebalancing of key groups (ALBIC): problem, bounds, searches and exact models."""
