"""Baselines of the open benchmark: solvers, partitioners, a rebalancer, published heuristics, ours.

Run: ``python -m experiments.studies.bench.baselines [NAME …] [--cases TEXT …] [--seconds 60]``.
Rows are stored in ``--rows FILE`` as they come; started again, what is there is not run again.
``--table`` prints what they come to. ``STREAMPLACE_REBALANCER`` names the Python that has Meta's
`rebalancer`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.bench import textbook
from experiments.studies.bench.asking import Asked, method_asker, words
from experiments.studies.bench.cases import read
from experiments.studies.bench.judging import judged, scores
from experiments.studies.bench.table import summary
from optim.util.store import Records
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from experiments.studies.bench.asking import Asker
    from experiments.studies.bench.cases import Case
    from optim import Instance
    from optim.format.tables import Ints

KEPT = Path(__file__).with_name("baselines.jsonl")
TRAFFIC = ("imc_gain", "internode_traffic")
SOLVERS = ("highs", "cbc", "cp-sat", "scip")
PUBLISHED = {
    "top-down": ("imc_gain",), "task-level": ("imc_gain",), "cola": ("imc_gain",),
    "albic": ("imc_gain",), "flux": ("load_distance",), "scale-in-first": ("load_distance",),
    "storm-even": TRAFFIC, "storm-offline": ("internode_traffic",),
    "storm-online": ("internode_traffic",), "gma": ("used_capacity",), "even": ("used_capacity",),
}  # fmt: skip
"""Objectives of published heuristics."""
CHOSEN = (
    "collocation-q1-cpu75", "collocation-q3-cpu75", "collocation-q6-cpu90",
    "throughput-q1-profiled", "throughput-q3-tight", "throughput-q6-ample",
    "throughput-pipeline-8x100", "papers-random_graphs-s0", "papers-figure2", "papers-bargain",
    "storm-shuffle-slots1", "storm-fields-slots4", "elastic-eoa-10x20-racks0-s0-used_capacity",
    "elastic-eoa-10x20-racks2-s0-nodes_used", "balance-cluster-20-m10-s0",
    "balance-cluster-60-m20-s0", "balance-cluster-60-m50-s0", "joint-pairs-20x400-m10-s0",
    "kafka-rebalance-s1", "kafka-remove-broker-s0", "drain-flink", "drain-q2-node_lost",
    "drain-scale_in-20-m20-s1", "graphs-community-4x60", "graphs-geometric-4x60",
    "graphs-sparse_random-20x1000",
)  # fmt: skip
"""Cases of every family, on which the solvers are run, and `solve` beside them with their limit."""
_BOUNDED = 5.0


class Baseline:
    """Something that is run: for which objectives, within which limit."""

    def __init__(
        self,
        asker: Callable[[float], Asker],
        objectives: Sequence[str] | None,
        most: float = 60.0,
        chosen: Sequence[str] | None = None,
    ) -> None:
        self.asker, self.objectives, self.most, self.chosen = asker, objectives, most, chosen

    def suits(self, case: Case) -> bool:
        """Whether it is made for what the case asks for, and is run on it."""
        if self.chosen is not None and case.name not in self.chosen:
            return False
        return self.objectives is None or case.objective in self.objectives


def baselines() -> dict[str, Baseline]:
    """Return all baselines by name."""
    from optim.methods.registry import get_method

    found = {
        f"textbook {solver}": Baseline(
            partial(textbook.asker, solver), textbook.objectives(solver), chosen=CHOSEN
        )
        for solver in SOLVERS
    }
    found["METIS"] = Baseline(partial(partitioned, "metis"), TRAFFIC)
    found["mt-KaHyPar"] = Baseline(partial(partitioned, "mtkahypar"), TRAFFIC)
    found["rebalancer"] = Baseline(rebalancer, ("load_distance",), 10.0)
    for name, objectives in PUBLISHED.items():
        found[name] = Baseline(partial(method_asker, get_method(name)), objectives)
    found["streamplace, 5 s"] = Baseline(partial(method_asker, "default"), None, _BOUNDED)
    found["streamplace"] = Baseline(partial(method_asker, "default"), None, chosen=CHOSEN)
    return found


def partitioned(engine: str, limit: float) -> Asker:
    """Ask a graph partitioner for a cut by traffic, and mend what is over capacity."""

    def ask(instance: Instance, _: str) -> Asked:
        from optim import Plan
        from optim.kernels.repair import repair

        found, began = Asked(), time.perf_counter()
        try:
            node = _parts(instance, engine)
            node = repair(instance, node, began + limit).node
            found.answers.append((time.perf_counter() - began, Plan.from_indices(instance, node)))
        except Exception as error:  # a partitioner that fails, a cut that cannot be mended
            found.problem = words(error)
        found.seconds = time.perf_counter() - began
        return found

    return ask


def _parts(instance: Instance, engine: str) -> Ints:
    from heuristics.task_allocation.graph_partition import weighted_graph as of

    graph, nodes = of.weighted_graph(instance), np.arange(instance.num_nodes)
    if engine == "metis":
        return of.metis_parts(graph, nodes, 1, shuffle=False).astype(np.int32)
    fixed = np.full(instance.num_tasks, -1)
    return of.mtkahypar_parts(graph, nodes, fixed, 1, 1, "highest_quality").astype(np.int32)


def rebalancer(limit: float) -> Asker:
    """Ask Meta's `rebalancer`, balance goal `ideal`, which knows loads and the budget of moves."""
    import subprocess
    import tempfile

    from experiments.studies.timings import rebalancer_peer

    folder_of = str(Path(rebalancer_peer.__file__).parent)
    call = f"import sys; sys.path.insert(0, {folder_of!r}); import rebalancer_peer as p; p.main()"

    def ask(instance: Instance, _: str) -> Asked:
        from formulations.rebalancing.problem import balance_problem
        from optim import Plan

        found, began = Asked(), time.perf_counter()
        python = os.environ.get("STREAMPLACE_REBALANCER", sys.executable)
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "answer.json"
            try:
                problem = balance_problem(instance)
                told = {
                    "load": problem.load.tolist(), "home": problem.home.tolist(),
                    "nodes": problem.num_nodes, "budget": problem.most_moved or len(problem.load),
                    "formula": "ideal", "seconds": max(1, int(limit)), "answer": str(answer),
                }  # fmt: skip
                subprocess.run(
                    [python, "-c", call], input=json.dumps(told), text=True, capture_output=True,
                    timeout=20 * limit, check=True,
                )  # fmt: skip
                node = np.array(json.loads(answer.read_text("utf-8"))["place"], dtype=np.int32)
                seconds = time.perf_counter() - began
                found.answers.append((seconds, Plan.from_indices(instance, node)))
            except subprocess.CalledProcessError as error:
                found.problem = (error.stderr.strip().splitlines() or ["failed"])[-1]
            except Exception as error:  # what it cannot read, or does not answer in time
                found.problem = words(error)
        found.seconds = time.perf_counter() - began
        return found

    return ask


Row = dict[str, Any]


def measured(
    names: Sequence[str], cases: Sequence[Case], limit: float, kept: Path
) -> Iterator[tuple[str, Row]]:
    """Yield name and row of each run: those that are stored, and the others as they are made."""
    known = {(name, row["case"]): row for name, row in stored(kept)}
    made = baselines()
    for case in cases:
        for name in names:
            baseline = made[name]
            if not baseline.suits(case):
                continue
            row = known.get((name, case.name))
            if row is None:
                row = _run(baseline, case, min(limit, baseline.most))
                Records(kept).add([name, row])
                told = row["problem"] if not row["feasible"] else row["value"]
                print(f"{name}: {case.name}: {told}, {row['seconds']:.1f} s", file=sys.stderr)
            yield name, row


def _run(baseline: Baseline, case: Case, seconds: float) -> Row:
    instance = case.instance()
    asked = baseline.asker(seconds)(instance, case.objective)
    run = judged(case, instance, asked, seconds)
    row = {
        name: value for name, value in run.row.items() if name not in scores(case, run.row, seconds)
    }
    row["trajectory"] = [[round(s, 3), value] for s, value in run.points]
    load = round(os.getloadavg()[0], 1)
    return row | {"seconds": round(row["seconds"], 3), "limit": seconds, "load": load}


def stored(kept: Path) -> list[tuple[str, Row]]:
    """Return the rows of a file; none where there is none."""
    return [(name, row) for name, row in Records(kept).read()]


def rescored(rows: Sequence[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """Return the rows of the cases that there are, scored by what is known of these now."""
    cases = {case.name: case for case in read()}
    return [
        (name, row | scores(cases[row["case"]], row, row["limit"]))
        for name, row in rows
        if row["case"] in cases
    ]


def table(rows: Sequence[tuple[str, Row]]) -> str:
    """Return what the rows come to, a line a family and baseline."""
    heads = (
        "family", "by", "cases", "feasible", "at certified bound", "median gap, %",
        "median gap to best, %", "primal integral", "seconds, median",
    )  # fmt: skip
    lines = []
    families = list(dict.fromkeys(row["family"] for _, row in rows))
    for family in families:
        for name in dict.fromkeys(name for name, row in rows if row["family"] == family):
            mine = [row for by, row in rows if by == name and row["family"] == family]
            part = summary(mine)[0]
            integral = part["mean_primal_integral"]
            cells = (
                family, name, part["cases"], part["feasible"],
                f"{part['at_bound']} of {part['bounded']}", _cell(part["median_gap_percent"]),
                _cell(part["median_gap_to_best_percent"]),
                "" if integral is None else f"{integral:.3f}",
                f"{np.median([row['seconds'] for row in mine]):.2g}",
            )  # fmt: skip
            lines.append(cells)
    return markdown(heads, lines, heads[2:])


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return "no plan" if np.isinf(value) else "0" if value < 1e-5 else f"{value:.3g}"


def main() -> None:
    """Run baselines and print what they come to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(baselines()))
    parser.add_argument("--cases", nargs="*", default=[""], metavar="TEXT", help="names hold it")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rows", type=Path, default=KEPT, metavar="FILE")
    parser.add_argument("--table", action="store_true", help="of the rows that there are, only")
    args = parser.parse_args()
    if strange := [name for name in args.names if name not in baselines()]:
        parser.error(f"no baseline is called {strange[0]!r}")
    if not args.table:
        cases = [
            case for case in read()
            if case.unasked and any(text in case.name for text in args.cases)
        ]  # fmt: skip
        for _ in measured(args.names or list(baselines()), cases, args.seconds, args.rows):
            pass
    print(table(rescored(stored(args.rows))), end="")


if __name__ == "__main__":
    main()
