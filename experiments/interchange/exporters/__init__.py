"""Exporters: one module a format; they register in the group ``streamplace.exporters``."""
