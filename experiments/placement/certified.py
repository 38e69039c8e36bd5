"""Claimed against certified bounds, over the instances that the benchmarks are about.

Run: ``python -m experiments.placement.certified [SET …] [--graphs N] [--seeds N]``. Prints a table
a set: what the method claims, what the certificate proves, the gap that is left, the processor's
seconds of solving, of writing the certificate and of checking it, and its size. Without a set, all.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.benchmarks.rebalancing_cases import CASES
from experiments.benchmarks.table import print_table, processor_seconds
from experiments.benchmarks.throughput import EXAMPLES, LEVELS, capsys_case
from experiments.generators import generate
from experiments.sweep.variations import scale_capacity
from optim import Instance, solve
from optim.certificates import check
from optim.certificates.grade import certified
from optim.figures.catalogue import OBJECTIVES

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


def row_of(case: str, instance: Instance, objective: str | None, **given: Any) -> Row:
    """Solve an instance, certify its bound, and have the checker read both again."""
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
        case, value, result.bound, bound, _per_value(result, gap), document["proof"]["kind"],
        solving, writing, checking, len(packed),
    )  # fmt: skip


def _per_value(result: Result, gap: float | None) -> float | None:
    """Gaps of the load distance are points of the mean load: of the value itself here."""
    if gap is None or result.objective is None or not result.objective.value:
        return gap
    percent = OBJECTIVES[result.objective.name].percent
    return gap / abs(result.objective.value) if percent else gap


def demo() -> Iterator[Row]:
    """The six profiled queries at three shares of the CPU: collocation."""
    for query in range(1, 7):
        read = json.loads((EXAMPLES / f"capsys-q{query}.json").read_text("utf-8"))
        for share in SHARES:
            made = Instance.from_dict(scale_capacity(read, {"cpu": MADE_AT / share}))
            yield row_of(f"Q{query}, {share:.0%} of the CPU", made, "imc_gain", method="imc-exact")


def rate() -> Iterator[Row]:
    """The six queries at three levels of CPU and links: the sustainable rate."""
    for query in range(1, 7):
        for level in LEVELS:
            made = capsys_case(query, level)
            yield row_of(f"Q{query}, {level}", made, "sustainable_rate", method="throughput-exact")


def graphs(count: int) -> Iterator[Row]:
    """The random graphs of CIKM 2014, section 7.3."""
    for seed in range(count):
        made = generate("random_graphs", seed=seed)
        yield row_of(f"graph {seed}", made, "imc_gain", method="imc-exact")


def clusters(seeds: int) -> Iterator[Row]:
    """Balance under a budget of moves."""
    for case in CASES:
        if case.nodes > 60:
            continue
        given = case.given()
        if given is not None:
            yield row_of(
                case.name, given, "load_distance", method="balance-milp", time_limit=case.limit
            )
        for seed in range(seeds):
            name = f"{case.name}, seed {seed}"
            made = case.made(seed)
            yield row_of(name, made, "load_distance", method="balance-milp", time_limit=case.limit)


def eoa(seeds: int) -> Iterator[Row]:
    """Ten nodes and twenty operators."""
    for racks in (0, 2):
        for objective in ("used_capacity", "cpu_deviation", "mean_absolute_deviation"):
            for seed in range(seeds):
                made = generate("eoa_random", seed=seed, racks=racks)
                name = f"{objective}, {racks} racks, seed {seed}"
                yield row_of(name, made, objective, method="eoa-milp", time_limit=60)


def storm() -> Iterator[Row]:
    """Twenty executors on four nodes."""
    for grouping in ("shuffle", "alternate", "fields"):
        for slots in (1, 4):
            made = generate(
                "storm_reference", seed=1, stages=4, replication="4", grouping=grouping, slots=slots
            )
            yield row_of(f"{grouping}, {slots} slots a node", made, None, method="storm-milp")


def show(title: str, rows: list[Row], *, all_of_them: bool) -> None:
    """Print a set's table, or where it is long what it comes to and what is not closed."""
    closed = sum(row.closed for row in rows)
    over = [row.writing / row.solving for row in rows if row.solving]
    summary = (
        f"{closed} of {len(rows)} closed; writing takes {statistics.median(over):.2g} of the solve "
        f"(median), checking at most {max(row.checking for row in rows):.2g} s"
    )
    shown = rows if all_of_them else [row for row in rows if not row.closed][:20]
    print_table(title, COLUMNS, shown)
    print(summary + "\n", flush=True)


def main() -> None:
    """Measure and print the tables that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sets: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
        "demo": lambda _: demo(), "rate": lambda _: rate(), "graphs": lambda a: graphs(a.graphs),
        "clusters": lambda a: clusters(a.seeds), "eoa": lambda a: eoa(a.seeds),
        "storm": lambda _: storm(),
    }  # fmt: skip
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(sets))
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    for name in args.sets or sets:
        show(name, list(sets[name](args)), all_of_them=name != "graphs")


if __name__ == "__main__":
    main()
