"""Why, case by case: what the report tells of the instances that a sweep kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from experiments.report import build as why
from experiments.report.build import make_report, report_markdown, to_html
from experiments.report.findings import gather
from experiments.sweep import store
from experiments.sweep.instances import Prepared
from experiments.sweep.row import run as run_one
from experiments.sweep.store import INSTANCES, keep_instances, kept_instances
from optim import Instance, Plan, evaluate
from optim.format.changes import altered, read_case
from tests.experiments.report.synthetic import infeasible, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def job(repository: Path) -> Instance:
    return Instance.load(repository / "examples" / "flink-drain.json")


def prepared(*instances: Instance) -> list[Prepared]:
    return [Prepared.of(instance, instance.name, {}) for instance in instances]


def test_cases_are_explained_from_what_the_folder_keeps(
    job: Instance, read: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "SECONDS", 600.0)
    monkeypatch.setattr(why, "ALL_SECONDS", 600.0)
    doubled = altered(job, read_case("scale-rate 2"))
    solved = run_one(
        job.to_json().encode(), {"method": "balance-search", "seed": 1, "time_limit": 0.5}
    )
    sweep = read(
        [
            run("drain", "balance-search", instance_sha256=job.sha256, **solved),
            infeasible("drain x 2", "balance-milp", instance_sha256=doubled.sha256),
        ]
    )
    findings = gather(sweep.con, sweep.labels)
    assert "why" not in {section.key for section in make_report(findings, sweep.folder).sections}
    keep_instances(sweep.folder, prepared(job, doubled))
    report = make_report(findings, sweep.folder)
    (section,) = (section for section in report.sections if section.key == "why")
    plan, clash = section.parts
    assert plan.title == "drain"
    moves, binding = plan.tables
    assert {move[0].value for move in moves.rows} == moved(job, sweep.folder)
    told = [[cell.value for cell in row] for row in binding.rows]
    assert ["sets", "sources apart", 1, 1] in told
    assert clash.note == "infeasible: capacity"
    assert [cell.value for cell in clash.tables[0].rows[0]] == [
        "capacity", "all nodes.cpu", "1,120 % of a core", "900 % of a core"
    ]  # fmt: skip
    assert to_html(report).count('<details class="part">') == 2
    assert "1,120 % of a core" in report_markdown(report, lambda table: table.key)


def moved(job: Instance, folder: Path) -> set[str]:
    """Name the tasks that the plan in the folder's rows moves, by the referee."""
    from experiments.sweep import read_rows_pandas

    (text,) = read_rows_pandas(folder)["result"][lambda rows: rows.str.contains("assignment")]
    plan = Plan.from_dict(json.loads(text)["plan"])
    assert evaluate(job, plan).feasible
    pairs = zip(job.tasks.ids, job.tasks.node, plan.node_indices(job), strict=True)
    return {task for task, before, after in pairs if before != after}


def test_instances_are_kept_once_and_up_to_a_size(
    job: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = altered(job, read_case("scale-rate 1.5"))
    keep_instances(tmp_path, prepared(job))
    first = (tmp_path / INSTANCES).read_bytes()
    keep_instances(tmp_path, prepared(job, job))
    assert (tmp_path / INSTANCES).read_bytes() == first
    monkeypatch.setattr(store, "MOST_BYTES", 0)
    keep_instances(tmp_path, prepared(more))
    assert set(kept_instances(tmp_path, {job.sha256, more.sha256})) == {job.sha256}
    monkeypatch.undo()
    keep_instances(tmp_path, prepared(more))
    (found,) = kept_instances(tmp_path, {more.sha256}).values()
    assert found.to_json() == more.to_json()
    (tmp_path / INSTANCES).write_bytes(b"torn")
    assert kept_instances(tmp_path, {more.sha256}) == {}
