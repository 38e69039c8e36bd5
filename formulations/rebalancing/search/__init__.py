"""Compiled searches for a small load distance."""
