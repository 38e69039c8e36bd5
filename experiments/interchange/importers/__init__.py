"""Importers: one module a format; they register in the group ``streamplace.importers``."""
