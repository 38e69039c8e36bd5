"""Claimed against certified bounds, over the instances that the benchmarks are about.

Run: ``python -m experiments.studies.bench.certified [SET …] [--graphs N] [--seeds N]``. Prints a
table a set: what the method claims, what the certificate proves, the gap that is left, the
processor's seconds of solving, of writing the certificate and of checking it, and its size. Without
a set, all.

Each row is printed on stderr as it comes and stored in ``--rows``; started again, what is there is
not measured again. ``--only TEXT`` takes the cases that have it in their name.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.generators import generate
from experiments.studies.timings.joint import MILP_GAP, MILP_SECONDS, SIZES, instance_of
from experiments.studies.timings.rebalancing_cases import CASES
from experiments.studies.timings.table import print_table, processor_seconds
from experiments.studies.timings.throughput import EXAMPLES, LEVELS, capsys_case
from experiments.sweep.variations import scale_capacity
from optim import Instance, solve
from optim.certificates import check
from optim.certificates.grade import certified
from optim.figures.catalogue import OBJECTIVES
from optim.util.store import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.referee.result import Result

COLUMNS = (
    "case", "value", "claimed bound", "certified bound", "certified gap", "kind", "solve (s)",
    "write (s)", "check (s)", "bytes",
)  # fmt: skip
MADE_AT = 0.75
SHARES = (0.5, 0.75, 0.9)
SECONDS, CASES_MOST = 60.0, 20_000


class Row(NamedTuple):
    """One instance, and how well its bound is known."""

    case: str
    value: float | None
    claimed: float | None
    certified: float | None
    gap: float | None
    kind: str
    solving: float
    writing: float
    checking: float
    size: int

    @property
    def closed(self) -> bool:
        """Whether the certificate proves the value to be the best, to the gap of an optimum."""
        return self.kind != "" and self.gap is not None and self.gap <= 1e-6


class Asked(NamedTuple):
    """A case: its name, its instance, the objective, and what `solve` is given besides."""

    case: str
    instance: Instance
    objective: str | None
    given: dict[str, Any]


def row_of(asked: Asked) -> Row:
    """Solve an instance, certify its bound, and have the checker read both again."""
    case, instance, objective, given = asked
    began = processor_seconds()
    result = solve(instance, objective=objective, **given)
    solving = processor_seconds() - began
    text = instance.to_json().encode()
    began = processor_seconds()
    told, document = certified(result, text, nodes=CASES_MOST, seconds=SECONDS)
    writing = processor_seconds() - began
    value = None if result.objective is None else result.objective.value
    if document is None:
        return Row(case, value, result.bound, None, None, "", solving, writing, 0.0, 0)
    packed = json.dumps(document).encode()
    began = processor_seconds()
    read, sha256 = check.parse(text)
    check.check(read, sha256, check.parse(packed)[0])
    checking = processor_seconds() - began
    gap, bound = told.certified_gap, told.certified_bound
    return Row(
        case, value, result.bound, bound, _per_value(told, gap), document["proof"]["kind"],
        solving, writing, checking, len(packed),
    )  # fmt: skip


def _per_value(result: Result, gap: float | None) -> float | None:
    """Gaps of the load distance are points of the mean load: of the value itself here."""
    if gap is None or result.objective is None or not result.objective.value:
        return gap
    value, bound = result.objective.value, result.certified_bound
    percent = OBJECTIVES[result.objective.name].percent
    return abs(value - bound) / abs(value) if percent and bound is not None else gap


def demo() -> Iterator[Asked]:
    """The six profiled queries at three shares of the CPU: collocation."""
    for query in range(1, 7):
        read = json.loads((EXAMPLES / f"capsys-q{query}.json").read_text("utf-8"))
        for share in SHARES:
            made = Instance.from_dict(scale_capacity(read, {"cpu": MADE_AT / share}))
            name = f"Q{query}, {share:.0%} of the CPU"
            yield Asked(name, made, "imc_gain", {"method": "imc-exact"})


def rate() -> Iterator[Asked]:
    """The six queries at three levels of CPU and links: the sustainable rate."""
    for query in range(1, 7):
        for level in LEVELS:
            made = capsys_case(query, level)
            given = {"method": "throughput-exact"}
            yield Asked(f"Q{query}, {level}", made, "sustainable_rate", given)


def graphs(count: int) -> Iterator[Asked]:
    """The random graphs of CIKM 2014, section 7.3."""
    for seed in range(count):
        made = generate("random_graphs", seed=seed)
        yield Asked(f"graph {seed}", made, "imc_gain", {"method": "imc-exact"})


def clusters(seeds: int) -> Iterator[Asked]:
    """Balance under a budget of moves."""
    for case in CASES:
        if case.nodes > 60:
            continue
        handed, limits = case.given(), {"method": "balance-milp", "time_limit": case.limit}
        if handed is not None:
            yield Asked(case.name, handed, "load_distance", limits)
        for seed in range(seeds):
            yield Asked(f"{case.name}, seed {seed}", case.made(seed), "load_distance", limits)


def joint(seeds: int) -> Iterator[Asked]:
    """Collocation under a load distance of 1 point and a budget of moves."""
    for nodes, key_groups, budget in SIZES:
        gap = MILP_GAP if nodes > 20 else None
        for seed in range(1, 1 + seeds):
            made = instance_of(nodes, key_groups, budget, seed)
            given = {"method": "joint-milp", "time_limit": MILP_SECONDS, "gap": gap}
            name = f"joint_{nodes}x{key_groups}_v40_m{budget}, seed {seed}"
            yield Asked(name, made, "imc_gain", given)


def eoa(seeds: int) -> Iterator[Asked]:
    """Ten nodes and twenty operators."""
    for racks in (0, 2):
        for objective in ("used_capacity", "cpu_deviation", "mean_absolute_deviation"):
            for seed in range(seeds):
                made = generate("eoa_random", seed=seed, racks=racks)
                name = f"{objective}, {racks} racks, seed {seed}"
                yield Asked(name, made, objective, {"method": "eoa-milp", "time_limit": 60})


def storm() -> Iterator[Asked]:
    """Twenty executors on four nodes."""
    for grouping in ("shuffle", "alternate", "fields"):
        for slots in (1, 4):
            made = generate(
                "storm_reference", seed=1, stages=4, replication="4", grouping=grouping, slots=slots
            )
            name = f"{grouping}, {slots} slots a node"
            yield Asked(name, made, None, {"method": "storm-milp"})


def measured(name: str, cases: Iterator[Asked], kept: Path, only: str) -> Iterator[Row]:
    """Yield the rows of a set: those that are stored, and the others as they are measured."""
    records = Records(kept)
    known = {values[0]: Row(*values) for of, *values in records.read() if of == name}
    for asked in cases:
        if only not in asked.case:
            continue
        row = known.get(asked.case)
        if row is None:
            row = row_of(asked)
            records.add([name, *row])
            told = "closed" if row.closed else f"gap {row.gap}"
            print(f"{name}: {row.case}: {told}, {row.writing:.2f} s", file=sys.stderr)
        yield row


def show(title: str, rows: list[Row], *, all_of_them: bool) -> None:
    """Print a set's table, or where it is long what it comes to and what is not closed."""
    closed = sum(row.closed for row in rows)
    over = [row.writing / row.solving for row in rows if row.solving]
    ratio = f"{statistics.median(over):.2g}" if over else "an unknown part"
    summary = (
        f"{closed} of {len(rows)} closed; writing takes {ratio} of the solve (median), checking "
        f"at most {max((row.checking for row in rows), default=0.0):.2g} s"
    )
    shown = rows if all_of_them else [row for row in rows if not row.closed][:20]
    print_table(title, COLUMNS, shown)
    print(summary + "\n", flush=True)


def main() -> None:
    """Measure and print the tables that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sets: dict[str, Callable[[argparse.Namespace], Iterator[Asked]]] = {
        "demo": lambda _: demo(), "rate": lambda _: rate(), "graphs": lambda a: graphs(a.graphs),
        "clusters": lambda a: clusters(a.seeds), "eoa": lambda a: eoa(a.seeds),
        "storm": lambda _: storm(), "joint": lambda a: joint(a.seeds),
    }  # fmt: skip
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(sets))
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=Path, default=Path("build/certified.jsonl"), metavar="FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with it in their name")
    args = parser.parse_args()
    for name in args.sets or sets:
        rows = measured(name, sets[name](args), args.rows, args.only)
        show(name, list(rows), all_of_them=name != "graphs")


if __name__ == "__main__":
    main()
