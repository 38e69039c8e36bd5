"""Traces: recorded events → load of every key group and rates between them, period by period."""
