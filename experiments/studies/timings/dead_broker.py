"""A dead broker among many: the commands from Kafka's own output to a reassignment, timed.

    python -m experiments.studies.timings.dead_broker [BROKERS [PARTITIONS]]

Two hundred brokers on ten racks and 33,334 partitions of three replicas by default, dealt out in
turn, sizes log-normal; broker 7 is dead. Each command is a process of its own, as typed, and is run
twice: the second finds kernels and files where the first left them.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.studies.timings.table import print_table

BROKERS, PARTITIONS, RACKS, FACTOR, DEAD, SEED = 200, 33_334, 10, 3, 7, 1
LIMIT = "10"
COMMANDS = (
    ("import", "kafka", ".", "--option", "mode=dead-broker", "-o", "dead.json"),
    ("solve", "dead.json", "-o", "plan.json", "--time-limit", LIMIT),
    ("evaluate", "dead.json", "plan.json"),
    ("export", "kafka", "dead.json", "plan.json", "-o", "reassignment.json"),
)


def write_cluster(folder: Path, brokers: int, partitions: int) -> None:
    """Write what Kafka's tools would print of it."""
    rng = np.random.default_rng(SEED)
    sizes = rng.lognormal(20, 1, partitions)
    lines, held = [], dict[int, list[dict[str, object]]]()
    for p in range(partitions):
        # racks in turn: the first three of a shifted row are of three racks
        replicas = [(p + k * (1 + p // brokers % 3)) % brokers for k in range(FACTOR)]
        alive = [b for b in replicas if b != DEAD]
        told = ",".join(map(str, replicas))
        in_sync = ",".join(map(str, alive))
        lines.append(
            f"\tTopic: t{p // 16}\tPartition: {p % 16}\tLeader: {alive[0]}\t"
            f"Replicas: {told}\tIsr: {in_sync}"
        )
        for b in alive:
            entry = {"partition": f"t{p // 16}-{p % 16}", "size": int(sizes[p]), "offsetLag": 0}
            held.setdefault(b, []).append({**entry, "isFuture": False})
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    logs = [
        {"broker": b, "logDirs": [{"error": None, "logDir": "/data", "partitions": entries}]}
        for b, entries in sorted(held.items())
    ]
    (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": logs}))
    room = 2.0 * sizes.sum() * FACTOR / brokers
    (folder / "brokers.json").write_text(
        json.dumps(
            [
                {"id": b, "rack": f"r{b % RACKS}", "alive": b != DEAD, "capacity": {"disk": room}}
                for b in range(brokers)
            ]
        )
    )


def timed(folder: Path, words: tuple[str, ...]) -> tuple[float, float]:
    """Return the seconds of a command by the clock, and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [sys.executable, "-m", "streamplace.cli.main", *words, "-q"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used


def main() -> None:
    """Measure and print the table."""
    brokers, partitions = (*map(int, sys.argv[1:]), *(BROKERS, PARTITIONS)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_cluster(folder, brokers, partitions)
        rows = []
        for words in COMMANDS:
            first, again = (timed(folder, words) for _ in range(2))
            rows.append([" ".join(words[:2]), *first, *again])
        lists = json.loads((folder / "reassignment.json").read_text())["partitions"]
    print_table(
        f"A dead broker of {brokers}, {FACTOR * partitions:,} replicas, {len(lists)} to rebuild",
        ["command", "s", "s of the processor", "again: s", "s of the processor"],
        rows,
    )


if __name__ == "__main__":
    main()
