"""Exporters by name; each is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.interchange.declaring import Exporter

_MODULES = {
    "kafka": "kafka",
    "storm": "storm",
    "metis": "metis",
    "metis-graph": "metis_graph",
    "csv": "csv_table",
    "moves": "moves",
}


def exporter_names() -> tuple[str, ...]:
    """Names of all export formats."""
    return tuple(_MODULES)


def get_exporter(name: str) -> Exporter:
    """Return an exporter.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    from importlib import import_module

    from experiments.interchange.naming import unknown_format

    if name not in _MODULES:
        raise unknown_format(name, _MODULES)
    module = import_module(f"experiments.interchange.exporters.{_MODULES[name]}")
    found: Exporter = module.EXPORTER
    return found
