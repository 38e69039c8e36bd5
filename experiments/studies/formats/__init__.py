"""Formats of other people's data that only the studies read."""
