"""Compiled searches and the plain-array problems they work on."""
