"""Formats of files that belong to no system: CSV, plain moves, METIS."""
