"""The sweep files that docs/sweeps.md shows can be planned as they stand."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from experiments.sweep.plan import plan_runs
from experiments.sweep.spec import load_spec

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "sweeps.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
KAFKA = """{"format": "streamplace.instance/1", "name": "k", "resources": ["cpu", "memory"],
 "nodes": [{"id": "a", "capacity": {"cpu": 9, "memory": 9}},
           {"id": "b", "capacity": {"cpu": 9, "memory": 9}}],
 "tasks": [{"id": "t", "load": {"cpu": 1, "memory": 1}, "node": "a"}]}"""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda text: text.split("\n")[0])
def test_a_sweep_of_the_page_can_be_planned(block: str, tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "examples" / "capsys-q1.json", tmp_path)
    (tmp_path / "kafka.json").write_text(KAFKA, encoding="utf-8")
    given = tomllib.loads(block)
    head = "" if "name" in given else 'name = "page"\n'
    tail = ""
    if "instances" not in given:
        file = "kafka.json" if "memory_share" in block else "capsys-q1.json"
        head += f'instances.files = ["{file}"]\n'
    if "matrix" not in given:
        tail = '\n[matrix]\nmethod = ["top-down"]\n'
    path = tmp_path / "sweep.toml"
    path.write_text(head + block + tail, encoding="utf-8")
    assert plan_runs(load_spec(path)).runs
