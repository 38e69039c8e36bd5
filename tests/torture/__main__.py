"""Try all faults and write the table of ``docs/reliability.md``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.generators import generate
from tests.torture import files, kills, servers, signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.tally import Tally

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- torture -->", "<!-- end of torture -->"
HEAD = "| what was tried | times | faults | ends |\n|---|---:|---:|---|"


def main() -> int:
    """Run the parts, and return 1 where any brought up a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="for signals; default 600")
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--only", action="append", help="a part, such as servers; may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    asked = parser.parse_args()
    instance = generate("cluster", seed=1, nodes=4)
    parts: dict[str, Callable[[], Tally]] = {
        "paths": lambda: files.odd_paths(instance),
        "files": lambda: files.mutations(instance, asked.seed, asked.mutations),
        "disks": lambda: files.disks(instance),
        "servers": servers.run,
        "kills": lambda: kills.run(asked.seed),
        "signals": lambda: signals.run(asked.seed, asked.seconds),
    }
    tallies = []
    for name in asked.only or parts:
        began = time.monotonic()
        tallies.append(parts[name]())
        sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n{tallies[-1].row()}\n")
    table = "\n".join([HEAD, *(tally.row() for tally in tallies)])
    print(table)
    if asked.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")
    return int(any(tally.faults for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
