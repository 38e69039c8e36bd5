"""``streamplace versions``: what is installed."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from optim.methods.registry import PACKAGES, package_version
from optim.solvers import SOLVERS, available
from optim.solvers.interface import load
from streamplace.java import JavaUnavailable, find_java
from streamplace.present.arguments import add_json
from streamplace.present.streams import print_json, write_stdout

if TYPE_CHECKING:
    import argparse


def own_version() -> str:
    """Return the installed version of streamplace."""
    from importlib.metadata import version

    return version("streamplace")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print versions of streamplace, Python, the solvers, the libraries, and the Java in use."""
    versions = gather()
    if args.json:
        print_json(versions)
    else:
        width = max(len(name) for part in versions.values() for name in part)
        lines = []
        for part, entries in versions.items():
            lines.append(part)
            lines += [
                f"  {name:<{width}}  {value or 'not there'}" for name, value in entries.items()
            ]
        write_stdout("\n".join(lines) + "\n")
    return int(ExitCode.OK)


def gather() -> dict[str, dict[str, str | None]]:
    """Return versions by part: streamplace, solvers, libraries, platform."""
    libraries: dict[str, Any] = {name: package_version(name) for name in PACKAGES}
    return {
        "streamplace": {"streamplace": libraries.pop("streamplace", own_version())},
        "solvers": {n: load(n).version() if available(n) else None for n in SOLVERS},
        "libraries": libraries,
        "platform": {
            "python": f"{platform.python_version()} ({platform.python_implementation()})",
            "system": f"{platform.system()} {platform.machine()}",
            "java": _java(),
        },
    }


def _java() -> str | None:
    try:
        java = find_java()
    except JavaUnavailable:
        return None
    return f"{java.version} (from {java.source})"
