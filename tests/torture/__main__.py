"""Try all faults and write the table of ``docs/reliability.md``."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.generators import generate
from tests.torture import files, kills, servers, signals
from tests.torture.tally import timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.tally import Tally

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- torture -->", "<!-- end of torture -->"
HEAD = "| what was tried | times | faults | ends |\n|---|---:|---:|---|"


_LONGEST = ("signals", "files", "kills", "paths", "servers", "disks")
_AT_ONCE = 3


def main() -> int:
    """Run the parts, and return 1 where any brought up a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--signals", type=int, default=200, help="that meet a process at work; default 200"
    )
    parser.add_argument("--seconds", type=float, default=900.0, help="for signals; default 900")
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--only", action="append", help="a part, such as servers; may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    asked = parser.parse_args()
    instance = generate("cluster", seed=1, nodes=4)
    parts: dict[str, Callable[[], Tally]] = {
        "paths": partial(files.odd_paths, instance),
        "files": partial(files.mutations, instance, asked.seed, asked.mutations),
        "disks": partial(files.disks, instance),
        "servers": servers.run,
        "kills": partial(kills.run, asked.seed),
        "signals": partial(signals.run, asked.seed, asked.signals, asked.seconds),
    }
    names = asked.only or list(parts)
    # the longest first; each in a process of its own, since parts catch what is written
    with ProcessPoolExecutor(_AT_ONCE, get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {
            name: pool.submit(timed, name, parts[name])
            for name in sorted(names, key=lambda name: _LONGEST.index(name))
        }
        tallies = [running[name].result() for name in names]
    rows = {tally.name: tally.row() for tally in tallies}
    print("\n".join([HEAD, *rows.values()]))
    if asked.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        table, _, after = rest.partition(END)
        if asked.only:  # the rows of other parts stay
            old = {line.split(" | ")[0][2:]: line for line in table.splitlines()[3:]}
            rows = old | rows
        table = "\n".join([HEAD, *rows.values()])
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
    return int(any(tally.faults for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
