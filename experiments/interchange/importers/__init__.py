"""Importers by name; each is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.interchange.declaring import Importer

_MODULES = {
    "storm": "storm",
    "flink": "flink",
    "cruise-control": "cruise_control",
    "zerotune": "zerotune",
    "metis": "metis",
    "ctap": "ctap",
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
    from importlib import import_module

    from experiments.interchange.naming import unknown_format

    if name not in _MODULES:
        raise unknown_format(name, _MODULES)
    module = import_module(f"experiments.interchange.importers.{_MODULES[name]}")
    found: Importer = module.IMPORTER
    return found
