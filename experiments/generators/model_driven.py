"""``micro_dag``, ``application_dag`` and ``model_dag``: DAGs of measured tasks without threads.

The five tasks, their measured models and the machines are those of the model-driven scheduling
paper. Linear, diamond and star follow its text and the rates it gives; the wirings of its three
application DAGs stood in figures that are lost: those here are rebuilt from what the text says of
them (7 to 15 tasks, overall selectivity 1:2 to 1:4, 100, 200 and 300 tuples/s at the table query of
traffic, finance and grid for 100 at the input, Pi busier in finance, one blob download more and one
Pi less in the other two), and give a comparison of shape, not of numbers.

Source: Shukla and Simmhan, JPDC 2018, arXiv:1702.01785, sections 5.3 and 8.3, Figures 3, 5 and 6;
the models' points as recorded by the authors (github.com/anshuiisc/FullTopoSC-Scripts, 2016),
corrected for the base load.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.generators.kinds import Kind, instance
from optim.format.instance import Instance
from optim.plugins import Option

_MEASURED = tomllib.loads(Path(__file__).with_name("measured.toml").read_text(encoding="utf-8"))
MICRO: Mapping[str, str] = _MEASURED["micro"]
APPLICATION: Mapping[str, str] = _MEASURED["application"]

_TASK = {"B": "azure_blob", "F": "file_write", "P": "pi", "T": "azure_table", "X": "xml_parse"}
"""The paper's letters."""

_VMS = {"D1": (1, 0.098), "D2": (2, 0.196), "D3": (4, 0.392), "D4": (8, 0.784)}
"""Slots (by the formula 2^(i-1); the text's own list 1, 2, 3, 4 contradicts it) and $/h."""

_WORDS = {"B": "blob", "F": "file", "P": "pi", "T": "table", "X": "xml"}


def build_micro(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build a micro DAG; nothing in it is random."""
    origin = "micro DAG of Shukla and Simmhan, JPDC 2018, Figure 5, by its text"
    return _build(name, MICRO[p["shape"]], origin, p)


def build_application(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build an application DAG; nothing in it is random."""
    origin = (
        "application DAG after Shukla and Simmhan, JPDC 2018, Figure 6; its wiring is lost and "
        "rebuilt from the text: compare shapes, not numbers"
    )
    return _build(name, APPLICATION[p["application"]], origin, p)


def build_random(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build a random DAG of the five tasks; every task receives about the input rate.

    Each task but the first is fed by one to `fan_in` of the 20 tasks before it, with selectivities
    that sum to 1, so that rates do not grow along the DAG.
    """
    kinds = [_TASK[letter] for letter in rng.choice(list("BFPTX"), p["tasks"])]
    operators = [{"id": f"t{i}", "model": kind} for i, kind in enumerate(kinds)]
    streams = []
    for i in range(1, p["tasks"]):
        # selectivities 1 / count: each task receives about the input rate
        near = min(i, 20)
        count = min(near, int(rng.integers(1, p["fan_in"] + 1)))
        senders = sorted(i - 1 - rng.choice(near, count, replace=False))
        streams += [{"from": f"t{s}", "to": f"t{i}", "selectivity": 1.0 / count} for s in senders]
    return _instance(name, "random DAG of measured tasks", operators, streams, p)


def _build(name: str, edges: str, origin: str, p: Mapping[str, Any]) -> Instance:
    pairs = [tuple(edge.split(">")) for edge in edges.split()]
    letters = list(dict.fromkeys(letter for pair in pairs for letter in pair))
    ids = {letter: _WORDS[letter[0]] + letter[1:] for letter in letters}
    operators = [{"id": ids[t], "model": _TASK[t[0]]} for t in letters]
    streams = [{"from": ids[a], "to": ids[b], "selectivity": 1.0} for a, b in pairs]
    if p["ends"]:
        # the source feeds tasks that nothing flows into, the sink takes what flows nowhere
        fed, feeding = {b for _, b in pairs}, {a for a, _ in pairs}
        first = [ids[t] for t in letters if t not in fed]
        last = [ids[t] for t in letters if t not in feeding]
        operators = [
            {"id": "source", "role": "source", "model": "source"},
            *operators,
            {"id": "sink", "role": "sink", "model": "sink"},
        ]
        streams = [
            *({"from": "source", "to": t, "selectivity": 1.0} for t in first),
            *streams,
            *({"from": t, "to": "sink", "selectivity": 1.0} for t in last),
        ]
    return _instance(name, origin, operators, streams, p)


def _instance(
    name: str,
    origin: str,
    operators: list[dict[str, Any]],
    streams: list[dict[str, Any]],
    p: Mapping[str, Any],
) -> Instance:
    used = {o["model"] for o in operators}
    sizes = list(_VMS)[: list(_VMS).index(p["largest_vm"]) + 1]
    figures = ("threads", "rate", "cpu", "memory")
    models = {
        model: [dict(zip(figures, point, strict=True)) for point in points]
        for model, points in _MEASURED["points"].items()
        if model in used
    }
    return instance(
        name, origin, units={"cpu": "percent of a slot", "rate": "tuples/s", "price": "$/h"},
        resources=["cpu", "memory"], operators=operators, streams=streams, models=models,
        input_rate=p["rate"],
        vm_types=[{"id": vm, "slots": _VMS[vm][0], "price": _VMS[vm][1]} for vm in sizes],
    )  # fmt: skip


_RATE = Option("rate", "float", 100.0, "tuples/s at the input", minimum=1e-6, maximum=1e9)
_LARGEST = Option(
    "largest_vm", "str", "D3", "largest machine that may be acquired", choices=tuple(_VMS)
)
_ENDS = Option("ends", "bool", False, "with the source and the sink, of one thread each")
_SOURCE = "Shukla and Simmhan, JPDC 2018, section 8.3"

_SHARED = (_RATE, _LARGEST, _ENDS)

MICRO_DAG = Kind(
    name="micro_dag",
    random=False,
    summary="Five measured tasks in a row, a diamond or a star; threads are the plan's",
    source=f"{_SOURCE}, Figure 5",
    build=build_micro,
    parameters=(Option("shape", "str", "linear", "how they are wired", tuple(MICRO)), *_SHARED),
)

APPLICATION_DAG = Kind(
    name="application_dag",
    random=False,
    summary="Finance, traffic or smart grid, 7, 10 and 15 measured tasks; wirings rebuilt",
    source=f"{_SOURCE}, Figure 6",
    build=build_application,
    parameters=(Option("application", "str", "finance", "which", tuple(APPLICATION)), *_SHARED),
)

MODEL_DAG = Kind(
    name="model_dag",
    summary="A random DAG of the same five measured tasks, of any size",
    build=build_random,
    parameters=(
        Option("tasks", "int", 20, "number of tasks", minimum=1, maximum=100_000),
        Option("fan_in", "int", 3, "most streams into a task", minimum=1, maximum=20),
        _RATE,
        _LARGEST,
    ),
)
