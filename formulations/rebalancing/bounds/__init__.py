"""Proven bounds that need no solver."""
