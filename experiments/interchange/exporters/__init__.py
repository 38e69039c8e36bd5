"""Exporters by name; each is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.interchange.naming import load_format

if TYPE_CHECKING:
    from experiments.interchange.declaring import Exporter

_MODULES = {
    "kafka": f"{__name__}.kafka",
    "storm": f"{__name__}.storm",
    "metis": f"{__name__}.metis",
    "metis-graph": f"{__name__}.metis_graph",
    "csv": f"{__name__}.csv_table",
    "moves": f"{__name__}.moves",
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
    found: Exporter = load_format(name, _MODULES, "EXPORTER")
    return found
