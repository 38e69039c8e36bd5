"""Searches for the placement that carries most input."""
