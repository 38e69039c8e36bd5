"""What others bring from PyPI, run beside ours on the same cases: ``streamplace bench --peers``.

Solvers with the textbook's models, graph partitioners, Meta's `rebalancer`, Timefold, published
heuristics, and `solve`. Value and bound are the referee's and the certificates', CPU seconds those
of this process and of all that it starts. Rows are stored as they come where a file is named; what
is there is not run again.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.studies.bench import rebalancer_process, textbook
from experiments.studies.bench.answers import Asker, guarded, method_asker
from experiments.studies.bench.cases import Case, read
from experiments.studies.bench.scores import Outcome, judged, scores, summary
from optim import Instance, Plan
from optim.errors import InvalidInput, Problem, meant
from optim.figures.catalogue import OBJECTIVES
from optim.format.tables import Ints
from optim.kernels.place_rules import placing_room
from optim.kernels.repair import repair
from optim.methods.registry import get_method
from optim.util.process import processor_seconds
from optim.util.store import Records
from streamplace.present.table import markdown

Row = dict[str, Any]

STORED = Path(__file__).with_name("peers.jsonl")  # The rows of docs/open-benchmark.md.
TIMEFOLD = "STREAMPLACE_TIMEFOLD"
REPAIR = 2.0  # Seconds that are left for a repair at least.
TRAFFIC = ("imc_gain", "internode_traffic")
SOLVERS = ("highs", "cbc", "cp-sat", "scip")
_PEERS = tomllib.loads(Path(__file__).with_name("peers.toml").read_text(encoding="utf-8"))
CHOSEN: Sequence[str] = _PEERS["cases"]
PUBLISHED: Mapping[str, Sequence[str]] = _PEERS["published"]
OURS, OURS_SHORT = "streamplace", "streamplace, 5 s"
"""`solve` as it chooses: with the same limit as its peers, and with 5 s."""


@dataclass(frozen=True)
class Peer:
    """Something that is run."""

    asker: Callable[[float], Asker]  # from the limit to what asks it
    objectives: Sequence[str] | None = None  # what it is made for; `None` is all
    most: float = 60.0  # seconds that it gets at most
    install: str = ""  # the command that brings it
    installed: Callable[[], bool] = lambda: True  # whether it is there

    def suits(self, case: Case) -> bool:
        """Whether it is made for what the case asks for."""
        return self.objectives is None or case.objective in self.objectives


def peers() -> dict[str, Peer]:
    """Return all by name."""
    by_name = {
        f"textbook {solver}": Peer(partial(textbook.asker, solver), textbook.objectives(solver))
        for solver in SOLVERS
    }
    for name, module in (("METIS", "pymetis"), ("mt-KaHyPar", "mtkahypar")):
        asker, installed = partial(partitioned, module), partial(_is_installed, module)
        by_name[name] = Peer(asker, TRAFFIC, install=f"pip install {module}", installed=installed)
    pip = "PYTHON -m pip install rebalancer, a Python 3.12 or newer named by STREAMPLACE_REBALANCER"
    here = lambda: rebalancer_process.find_peer() is not None  # noqa: E731
    by_name["rebalancer"] = Peer(rebalancer, ("load_distance",), 10.0, pip, here)
    pip = f"PYTHON -m pip install timefold, a Python 3.10 to 3.12 named by {TIMEFOLD}, and a JVM"
    by_name["Timefold"] = Peer(timefold, TRAFFIC, 60.0, pip, lambda: timefold_python() is not None)
    for name, objectives in PUBLISHED.items():
        by_name[name] = Peer(partial(method_asker, get_method(name)), objectives)
    by_name[OURS_SHORT] = Peer(partial(method_asker, "default"), None, 5.0)
    by_name[OURS] = Peer(partial(method_asker, "default"))
    return by_name


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def repaired(place: Callable[[Instance], Ints], limit: float) -> Asker:
    """Ask for a placement that knows of traffic and loads, and repair what breaks other rules."""

    def work(instance: Instance, _: str, outcome: Outcome, began: float) -> None:
        node = place(instance)
        # a peer may have used all its time: a repair gets two seconds in any case
        deadline = max(began + limit, time.perf_counter() + REPAIR)  # one may use all its time
        node = repair(instance, node, deadline).node
        outcome.answers.append((time.perf_counter() - began, Plan.from_indices(instance, node)))

    return guarded(work)


def partitioned(engine: str, limit: float) -> Asker:
    """Ask a graph partitioner for a cut by traffic."""
    return repaired(lambda instance: _parts(instance, engine), limit)


def _parts(instance: Instance, engine: str) -> Ints:
    from heuristics.task_allocation import partition as of

    graph, nodes = of.weighted_graph(instance), np.arange(instance.num_nodes)
    if engine == "pymetis":
        return of.metis_parts(graph, nodes, 1, shuffle=False).astype(np.int32)
    fixed = np.full(instance.num_tasks, -1)
    return of.mtkahypar_parts(graph, nodes, fixed, 1, 1, "highest_quality").astype(np.int32)


def rebalancer(limit: float) -> Asker:
    """Ask Meta's `rebalancer`, balance goal `ideal`, which knows loads and the budget of moves."""

    def work(instance: Instance, _: str, outcome: Outcome, began: float) -> None:
        python = rebalancer_process.find_peer()
        if python is None:
            raise RuntimeError(f"{rebalancer_process.PYTHON} names no Python with rebalancer")
        answer = rebalancer_process.run_peer(python, instance, "ideal", limit)
        plan = Plan.from_indices(instance, np.array(answer["place"], dtype=np.int32))
        outcome.answers.append((time.perf_counter() - began, plan))

    return guarded(work)


def timefold_python() -> str | None:
    """Return the Python that has Timefold."""
    return rebalancer_process.python_of(TIMEFOLD, "timefold.solver")


def timefold(limit: float) -> Asker:
    """Ask Timefold for most traffic inside nodes within the first capacity; mend what is over."""

    def place(instance: Instance) -> Ints:
        python = timefold_python()
        if python is None:
            raise RuntimeError(f"{TIMEFOLD} names no Python with timefold")
        load, room = instance.tasks.load[:, 0], placing_room(instance)[:, 0]
        # Timefold computes in integers: the largest room, and rate, is 10⁶; loads are rounded up
        unit = 1e6 / max(float(room[np.isfinite(room)].max(initial=0.0)), 1e-300)
        first, second, rate = instance.pairs
        rates = np.rint(rate * 1e6 / max(float(rate.max(initial=0.0)), 1e-300))
        request = {
            "load": np.ceil(load * unit).astype(int).tolist(),
            "room": np.minimum(np.nan_to_num(room * unit, posinf=1e9), 1e9).astype(int).tolist(),
            "pairs": [list(map(int, pair)) for pair in zip(first, second, rates, strict=True)],
        }
        file = Path(__file__).with_name("timefold_process.py")
        placed = rebalancer_process.answer_of(python, file, request, limit)["place"]
        if None in placed:
            raise RuntimeError("has not placed all tasks by the end of its time")
        return np.array(placed, dtype=np.int32)

    return repaired(place, limit)


def chosen_names(names: Sequence[str]) -> list[str]:
    """Return the peers that are asked for and here, ours first; say which are not here.

    Raises `InvalidInput`: there is none of a name.
    """
    available = peers()
    for name in names:
        if name not in available:
            raise InvalidInput(Problem("--peers", name, "is no peer", meant(name, available)))
    # ours with 5 s only where it is named: it is no peer
    requested = [OURS, *(names or (name for name in available if name != OURS_SHORT))]
    requested = sorted(dict.fromkeys(requested), key=lambda name: name == OURS_SHORT)
    for name in requested:
        if not available[name].installed():
            sys.stderr.write(f"left out: {name} is not installed: {available[name].install}\n")
    return [name for name in requested if available[name].installed()]


def measured(
    names: Sequence[str], cases: Sequence[Case], limit: float, file: Path | None = None,
    data: Path | None = None,
) -> Iterator[tuple[str, Row]]:  # fmt: skip
    """Yield name and row of each run: those that are stored, and the others as they are made."""
    stored_rows = {(name, row["case"]): row for name, row in stored(file)}
    available = peers()
    for case in cases:
        for name in names:
            peer = available[name]
            if not peer.suits(case):
                continue
            row = stored_rows.get((name, case.name))
            if row is None:
                row = _run(peer, case, min(limit, peer.most), data)
                if file is not None:
                    Records(file).add([name, row])
                shown = row["problem"] if not row["feasible"] else row["value"]
                line = f"{case.name}: {name}: {shown}, {row['cpu_seconds']:.1f} CPU s\n"
                sys.stderr.write(line)
            yield name, row


def _run(peer: Peer, case: Case, seconds: float, data: Path | None) -> Row:
    instance, used = case.instance(data), processor_seconds()
    outcome = peer.asker(seconds)(instance, case.objective)
    cpu = round(processor_seconds() - used, 3)
    run = judged(case, instance, outcome, seconds)
    scored = scores(case, run.row, seconds)
    row = {name: value for name, value in run.row.items() if name not in scored}
    row["trajectory"] = [[round(s, 3), value] for s, value in run.points]
    load = round(os.getloadavg()[0], 1)
    times = {"seconds": round(row["seconds"], 3), "cpu_seconds": cpu}
    return row | times | {"limit": seconds, "load": load}


def stored(file: Path | None) -> list[tuple[str, Row]]:
    """Return the rows of a file; none where there is none."""
    return [] if file is None else [(name, row) for name, row in Records(file).read()]


def rescored(rows: Sequence[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """Return the rows of the cases that there are, scored by what is known of these now."""
    cases = {case.name: case for case in read()}
    return [
        (name, row | scores(cases[row["case"]], row, row["limit"]))
        for name, row in rows
        if row["case"] in cases
    ]


HEADS = (
    "family", "by", "cases", "feasible", "at certified bound", "median gap, %",
    "median gap to best, %", "primal integral", "CPU s, median", "× CPU of ours",
    "better, equal, worse than ours",
)  # fmt: skip


def table(rows: Sequence[tuple[str, Row]]) -> str:
    """Return what the rows come to, a line a family and peer, and where a peer is ahead of ours."""
    # the run with the peers' limit counts where there are both
    ours = {row["case"]: row for by in (OURS_SHORT, OURS) for name, row in rows if name == by}
    lines: list[tuple[object, ...]] = []
    ahead: list[str] = []
    for family in dict.fromkeys(row["family"] for _, row in rows):
        for name in dict.fromkeys(name for name, row in rows if row["family"] == family):
            peer_rows = [row for by, row in rows if by == name and row["family"] == family]
            beside = [(row, ours[row["case"]]) for row in peer_rows if row["case"] in ours]
            part = summary(peer_rows)[0]
            integral = part["mean_primal_integral"]
            cells = (
                family, name, part["cases"], part["feasible"],
                f"{part['at_bound']} of {part['bounded']}", _cell(part["median_gap_percent"]),
                _cell(part["median_gap_to_best_percent"]),
                "" if integral is None else f"{integral:.3f}",
                _median([_cpu(row) for row in peer_rows]),
            )  # fmt: skip
            if name in (OURS, OURS_SHORT):
                lines.append((*cells, "", ""))
                continue
            leads = [lead(peer_row, our_row) for peer_row, our_row in beside]
            counts = ", ".join(str(leads.count(k)) for k in (1, 0, -1)) if beside else ""
            ratios = [
                _cpu(peer_row) / _cpu(our_row) for peer_row, our_row in beside if _cpu(our_row)
            ]
            lines.append((*cells, _median(ratios), counts))
            ahead += [
                f"- {name} is ahead on {peer_row['case']}: {peer_row['value']:.7g}, ours "
                + ("without a plan" if our_row["value"] is None else f"{our_row['value']:.7g}")
                for (peer_row, our_row), k in zip(beside, leads, strict=True)
                if k == 1
            ]
    text = markdown(HEADS, lines, HEADS[2:])
    return text + "\n" + ("\n".join(ahead) if ahead else "No peer is ahead of ours.") + "\n"


def lead(peer_row: Row, our_row: Row) -> int:
    """Return 1 where a peer's value is better than ours by more than rounding, -1 where worse."""
    one, other = peer_row["value"], our_row["value"]
    if one is None or other is None:
        return (one is not None) - (other is not None)
    figure = OBJECTIVES[peer_row["objective"]]
    if abs(one - other) <= figure.tolerance(one, other, peer_row["reference"]):
        return 0
    return 1 if figure.better(one, other) else -1


def _cpu(row: Row) -> float:
    """CPU seconds; rows of older runs have those on the clock."""
    return float(row["cpu_seconds"] if "cpu_seconds" in row else row["seconds"])


def _median(values: Sequence[float]) -> str:
    return f"{np.median(values):.2g}" if values else ""


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return "no plan" if np.isinf(value) else "0" if value < 1e-5 else f"{value:.3g}"
