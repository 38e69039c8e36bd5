"""``python -m tests.fuzz``: run it for a while, run a counterexample again, make one small."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Finding, examine
from tests.fuzz.changed import CHANGES
from tests.fuzz.product import Calls, InvalidInput, Setting, known_fields, registered
from tests.fuzz.promises import MODEL_DRIVEN
from tests.fuzz.reading import Document
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import STARTS, Tally

#: only to be looked at: rounding may choose among plans of the same value
OBSERVED = frozenset({"scale-tie"})
#: kinds that are known and still open, with why: marked in the report, and failures all the same
KNOWN_OPEN = {
    "slots-ignored": "slots bind only where a method decides them",
    "slots-refused": "max_tasks_per_slot is refused where a method decides no slots",
    "drained": "no evaluation.drained",
    "drain-hard": "drain=hard leaves tasks where they are",
    "gap-unit": "the gap of load distance is in the file's unit",
    "optimal-without-proof": "0.001 in the file's unit counts as optimal",
    "scale-dependent": "the unit decides",
    "verdict": "a tolerance of 1e-6 in the file's unit",
    "auto-no-plan": "the default forgets what methods declare",
    "auto-refuses": "the default forgets what methods declare",
    "no-plan": "searches under tight limits",
    "slow": "slots-milp without a limit",
    "crash-StopIteration": "balance-milp, drain=hard, infeasible",
    "error-SolverError": "solvers in raw units, and stopped while they start",
    "error-RefereeRefused": "solvers in raw units",
    "bound-wrong": "storm-milp invents workers, and leaves columns out",
    "not-optimal": "storm-milp invents workers, and leaves columns out",
    "false-infeasible": "storm-milp invents workers",
    "worse-than-start": "storm-milp invents workers",
    "worse-than-staying": "storm-milp invents workers",
    "unproven": "solvers in raw units",
}
SEEDS_A_RUN = 1_000_003


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if anything is wrong."""
    options = _parser().parse_args(arguments)
    if options.replay:
        return _replay(options.replay, options.patience)
    if options.shrink:
        return _shrink(options.shrink, options.patience)
    return _count(options) if options.per_method else _run(options)


def _count(options: argparse.Namespace) -> int:
    """Ask until each method has so many judged proofs, or the time is over."""
    options.out.mkdir(parents=True, exist_ok=True)
    tally = Tally(options.counts or options.out / "tally.json", options.seed * SEEDS_A_RUN)
    methods, calls = counted(options.methods), Calls(patience=options.patience)
    sure = frozenset(filter(None, options.sure.split(",")))
    ends, counts = time.monotonic() + options.seconds, Counter[tuple[str, str]]()
    while time.monotonic() < ends and tally.lacking(methods, options.per_method):
        for finding in tally.case(methods, options.per_method, options.starts, calls, sure):
            counts[finding.kind, finding.method] += 1
            if counts[finding.kind, finding.method] <= options.each:
                _write(options.out, finding)
        tally.save()
    print(tally.table())
    return 1 if counts else 0


def counted(named: str) -> list[str]:
    """Return the methods whose proofs are counted: those named, else all exact ones of tasks."""
    known = registered()
    if unknown := [name for name in filter(None, named.split(",")) if name not in known]:
        raise SystemExit(f"{', '.join(unknown)}: no method; one of {', '.join(known)}")
    exact = (m for m in known if known[m]["kind"] == "exact")
    return named.split(",") if named else [m for m in exact if known[m]["family"] != MODEL_DRIVEN]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=0, help="of the run: its cases follow from it")
    add(
        "--case",
        type=int,
        action="append",
        help="a case by its own seed, as a failed test names it",
    )
    add("--change", default="", choices=("", *CHANGES), help="change something in each instance")
    add("--with", dest="sure", default="", help="newer fields, with commas, in every instance")
    add("--cases", type=int, default=10**9, help="stop after that many instances")
    add("--seconds", type=float, default=600.0, help="stop after that long")
    add("--methods", default="", help="names with commas, `default` for none; all if left out")
    add("--per-method", type=int, default=0,
        help="judged proofs of each method that are wanted, against all placements")  # fmt: skip
    add("--starts", default="both", choices=STARTS, help="current placements that keep the rules")
    add("--counts", type=Path, help="of --per-method: the file to go on with (in --out)")
    add("--out", type=Path, default=Path("build/fuzz"), help="folder of the counterexamples")
    add("--each", type=int, default=4, help="counterexamples written of a kind and method")
    add("--patience", type=int, default=60, help="seconds a call may take")
    add("--replay", type=Path, help="a counterexample's file, or an instance's: ask again")
    add("--shrink", type=Path, help="a counterexample's file: write a small one beside it")
    return parser


def _run(options: argparse.Namespace) -> int:
    options.out.mkdir(parents=True, exist_ok=True)
    running = options.out / f"running-{os.getpid()}.json"  # what hung or died, if anything does

    def tell(document: Document, method: str | None, keywords: dict[str, Any]) -> None:
        running.write_text(json.dumps([method, repr(keywords), document]))

    calls = Calls(patience=options.patience, told=tell)
    methods = tuple(options.methods.split(",")) if options.methods else None
    sure = frozenset(options.sure.split(",")) - {""}
    counts: Counter[tuple[str, str]] = Counter()
    began, cases = time.monotonic(), 0
    for seed in options.case or itertools.count(options.seed * SEEDS_A_RUN):
        if cases == options.cases or time.monotonic() - began > options.seconds:
            break
        for finding in examine(seed, calls, methods, change=options.change, sure=sure):
            counts[finding.kind, finding.method] += 1
            if counts[finding.kind, finding.method] <= options.each:
                _write(options.out, finding)
        cases += 1
    running.unlink(missing_ok=True)
    return _report(options, calls, counts, cases, time.monotonic() - began)


def _write(folder: Path, finding: Finding) -> None:
    number = f"{finding.kind}-{finding.method}-{finding.seed}".replace("+", "-")
    path = folder / f"{number}.json"
    path.write_text(json.dumps(finding.to_dict(), indent=1, default=str) + "\n")
    first = finding.detail.splitlines()[0][:240] if finding.detail else ""
    print(f"{finding.kind} {finding.method} {finding.question.keywords}: {first}")
    print(f"  {path}", flush=True)


def _report(
    options: argparse.Namespace,
    calls: Calls,
    counts: Counter[tuple[str, str]],
    cases: int,
    seconds: float,
) -> int:
    failures = {k: n for k, n in counts.items() if k[0] not in OBSERVED}
    print(f"\n{cases} instances, {calls.made} calls ({calls.refused} refused) in {seconds:.0f} s")
    if not known_fields():
        print("the product reads none of the newer fields: they were left out")
    for (kind, method), count in sorted(counts.items()):
        mark = "to look at" if kind in OBSERVED else KNOWN_OPEN.get(kind, "")
        print(f"{count:6}  {kind:24}{method:18}{mark}".rstrip())
    slowest = sorted(calls.seconds.items(), key=lambda item: -item[1])
    summary = {
        "seed": options.seed, "cases": cases, "calls": calls.made, "refused": calls.refused,
        "seconds": round(seconds, 1), "newer_fields": sorted(known_fields()),
        "findings": {f"{kind} {method}": n for (kind, method), n in sorted(counts.items())},
        "seconds_by_method": {name: round(s, 1) for name, s in slowest},
    }  # fmt: skip
    path = options.out / f"summary-{options.seed}.json"
    path.write_text(json.dumps(summary, indent=1) + "\n")
    print(f"{sum(failures.values())} counterexamples; {path}")
    return 1 if failures else 0


def _read(path: Path) -> Finding:
    return Finding.from_dict(json.loads(path.read_text()))


def _replay(path: Path, patience: int) -> int:
    finding = _read(path)
    try:
        setting = Setting(finding.instance, Calls(patience=patience))
    except InvalidInput as error:
        print(f"the instance is refused: {error}")
        return 1
    found = list(finding.question.put(setting))
    print(f"{finding.question}")
    for kind, detail in found:
        print(f"{kind}: {detail}")
    if not found:
        print(f"{finding.kind} is not found any more")
    return 1 if any(kind not in OBSERVED for kind, _ in found) else 0


def _shrink(path: Path, patience: int) -> int:
    small = shrink(_read(path), patience)
    target = path.with_suffix(".small.json")
    target.write_text(json.dumps(small.to_dict(), indent=1, default=str) + "\n")
    print(json.dumps(small.instance))
    print(f"{small.kind}: {small.detail.splitlines()[0]}\n{target}")
    return 0
