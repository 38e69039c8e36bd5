"""Importers of live systems' states and of graph files, and exporters of plans back to them."""
