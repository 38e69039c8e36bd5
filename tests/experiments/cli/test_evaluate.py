"""``streamplace evaluate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from optim.exit_codes import ExitCode
from tests.experiments.cli.conftest import write_plan

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
