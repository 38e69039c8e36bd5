"""``streamplace evaluate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from tests.streamplace.cli.conftest import write_plan

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


def test_every_figure_by_hand(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("evaluate", "pairs.json", "best.json", "--json")
    assert done.returncode == ExitCode.OK
    figures = json.loads(done.stdout)
    expected = {
        "feasible": True,
        "violations": [],
        "load_distance": 0.0,
        "imc_gain": 12.0,
        "total_traffic": 12.0,
        "collocation_factor": 1.0,
        "internode_traffic": 0.0,
        "max_utilisation": 0.8,
        "nodes_used": 2,
        "migrations": 2,
        "migration_cost": 2.0,
    }
    assert {key: figures[key] for key in expected} == expected
    assert figures["interslot_traffic"] is None


def test_an_objective_of_figures_is_told(streamplace: Run, plan_file: Path) -> None:
    text = "collocation_factor-0.25*migrations,load_distance"
    done = streamplace("evaluate", "pairs.json", "best.json", "--objective", text, "--json")
    told = json.loads(done.stdout)
    assert told["objective"] == {"name": text, "value": 0.5, "sense": "max"}
    assert told["objective_levels"] == [{"name": "load_distance", "value": 0.0, "sense": "min"}]
    shown = streamplace("evaluate", "pairs.json", "best.json", "--objective", text).stdout
    assert "collocation_factor-0.25*migrations" in shown


def test_an_objective_that_is_none_is_refused(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("evaluate", "pairs.json", "best.json", "--objective", "-load_distence")
    assert done.returncode == ExitCode.USAGE
    assert "'load_distence' is no figure to optimise (did you mean load_distance?)" in done.stderr


def test_the_text_has_units(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("evaluate", "pairs.json", "best.json")
    assert done.returncode == ExitCode.OK
    assert done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "traffic inside nodes 12 MB/s" in lines
    assert "load distance 0 percent" in lines
    assert "collocation 100 %" in lines
    assert lines[-1] == "referee feasible"


def test_an_infeasible_plan_is_exit_4_and_still_told(streamplace: Run, instance_file: Path) -> None:
    everything = dict.fromkeys(["a/0", "b/0", "c/0", "d/0"], "n1")
    write_plan(instance_file.with_name("p.json"), everything)
    done = streamplace("evaluate", "pairs.json", "p.json")
    assert done.returncode == ExitCode.NO_PLAN
    assert "160 %" in done.stdout
    assert "n1.cpu" in done.stdout


WHOLE = (
    "load_distance", "sustainable_rate", "saturation", "imc_gain", "internode_traffic",
    "collocation_factor", "max_utilisation", "nodes_used", "migrations", "migration_cost",
)  # fmt: skip
"""Figures that a job has which runs as a whole."""


def test_tasks_of_a_failed_node_are_placed_anew(
    streamplace: Run, repository: Path, tmp_path: Path
) -> None:
    """As `solve` places a job with 140 % of a core on each of four nodes, one of which is lost.

    The three tasks that it held go to the other three: one of 50 makes one of these 190 of 180.
    """
    file = repository / "examples" / "flink-drain.json"
    assert streamplace("solve", file, "-q", "-o", "plan.json").returncode == 0
    done = streamplace("evaluate", file, "plan.json", "--fail-node", "tm1", "--json")
    assert done.returncode == ExitCode.NO_PLAN
    plan, case = json.loads(done.stdout)
    assert plan["feasible"]
    assert (len(case["placed_anew"]), case["unplaced"]) == (3, [])
    assert sum(case["node_tasks"].values()) == 12
    assert round(case["sustainable_rate"], 3) == 0.947
    done = streamplace(
        "evaluate", file, "plan.json", "--fail-node", "tm1", "--no-replace", "--json"
    )
    assert done.returncode == ExitCode.NO_PLAN
    case = json.loads(done.stdout)[1]
    assert len(case["unplaced"]) == 3
    assert [case[name] for name in WHOLE] == [None] * len(WHOLE)


def test_where_there_is_room_a_failure_breaks_nothing(
    streamplace: Run, instance_file: Path, document: dict[str, Any]
) -> None:
    document["nodes"].append({"id": "n3", "capacity": {"cpu": 100}})
    instance_file.write_text(json.dumps(document))
    nodes = {"a/0": "n1", "b/0": "n1", "c/0": "n2", "d/0": "n2"}
    write_plan(instance_file.with_name("p.json"), nodes)
    done = streamplace("evaluate", "pairs.json", "p.json", "--fail-node", "n1")
    assert done.returncode == ExitCode.OK
    assert "2 tasks placed anew: a/0 on n3, b/0 on n3" in done.stdout
    done = streamplace("explain", "pairs.json", "p.json", "--fail-node", "n1")
    assert done.returncode == ExitCode.OK
    assert "2 tasks placed anew: a/0 on n3, b/0 on n3" in done.stdout
