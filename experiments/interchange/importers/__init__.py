"""Importers by name; each is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.interchange.naming import load_format

if TYPE_CHECKING:
    from experiments.interchange.declaring import Importer

_MODULES = {
    "storm": f"{__name__}.storm",
    "flink": f"{__name__}.flink",
    "cruise-control": f"{__name__}.cruise_control",
    "zerotune": f"{__name__}.zerotune",
    "metis": f"{__name__}.metis",
    "ctap": f"{__name__}.ctap",
}


def importer_names() -> tuple[str, ...]:
    """Names of all import formats."""
    return tuple(_MODULES)


def get_importer(name: str) -> Importer:
    """Return an importer.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    found: Importer = load_format(name, _MODULES, "IMPORTER")
    return found
