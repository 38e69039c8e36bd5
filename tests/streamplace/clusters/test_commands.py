"""``streamplace import`` and ``streamplace export`` as they are typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optim.format.instance import Instance
from optim.format.plan import Plan
from streamplace.cli.main import main
from streamplace.clusters.exchange.declarations import EXPORTERS, IMPORTERS
from tests.streamplace.clusters import systems


def test_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name}: " in text for name in IMPORTERS.names())
    assert main(["export"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name}: " in text for name in EXPORTERS.names())
    assert main(["import", "--json"]) == 0
    assert [e["name"] for e in json.loads(capsys.readouterr().out)] == list(IMPORTERS.names())
    assert main(["export", "--json"]) == 0
    assert [e["name"] for e in json.loads(capsys.readouterr().out)] == list(EXPORTERS.names())


def test_names_agree() -> None:
    assert all(IMPORTERS.get(name).name == name for name in IMPORTERS.names())
    assert all(EXPORTERS.get(name).name == name for name in EXPORTERS.names())


def test_import_solve_export_import(
    saved: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(systems.cruise_control())
    instance, plan, out = (str(tmp_path / n) for n in ("k.json", "p.json", "r.json"))
    assert main(["import", "cruise-control", folder, "-o", instance, "--name", "mine"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "7 tasks" in captured.err
    assert Instance.load(instance).name == "mine"
    assert main(["solve", instance, "--method", "balance-search", "-o", plan]) == 0
    capsys.readouterr()
    assert main(["export", "kafka", instance, plan, "-o", out, "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files[:2] == [out, str(tmp_path / "r.rollback.json")]
    after = str(tmp_path / "after.json")
    words = ["import", "cruise-control", folder, "-o", after, "--placement", out, "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tasks"] == 7
    assert told["readings"]
    assignment = json.loads(Path(plan).read_text())["assignment"]
    placed = Instance.load(after)
    nodes = dict(
        zip(placed.tasks.ids, (placed.nodes.ids[n] for n in placed.tasks.node), strict=True)
    )
    assert plan_lists(nodes) == plan_lists(assignment)  # followers are alike


def plan_lists(nodes: dict[str, str]) -> list[tuple[str, list[str]]]:
    partitions = {t.partition("#")[0] for t in nodes}
    lead = {p: nodes[f"{p}#1"] for p in partitions}
    return sorted(
        (p + lead[p], sorted(n for t, n in nodes.items() if t.startswith(f"{p}#")))
        for p in partitions
    )


def test_to_standard_output(saved: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "storm", saved(systems.storm()), "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert Instance.from_json(captured.out).num_tasks == 7


def test_what_was_ignored_is_told(
    saved: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = systems.storm()
    documents["supervisor/summary"]["news"] = 1
    target = tmp_path / "i.json"
    assert main(["import", "storm", saved(documents), "-o", str(target)]) == 0
    captured = capsys.readouterr()
    assert "ignored 1 unknown field: news ×1" in captured.err
    assert "reading: " in captured.err
    assert "imported by streamplace from storm" in Instance.load(target).origin


PLACED = {
    "format": "streamplace.storm/1",
    "topologies": {"t": {"workers": {"h:1": ["1-1"]}, "components": {"a": ["1-1"]}}},
}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["import", "strom", "x"], "did you mean storm?"),
        (["import", "storm"], "SOURCE is missing"),
        (["import", "storm", "nowhere"], "nowhere does not exist (check the path or address)"),
        (["import", "storm", "http://h:1", "x"], "'x'] are more than one address (one address, or"),
        (["import", "storm", "nimbus://h:1", "x"], "are more than one address (one address, or"),
        (["import", "storm", "nimbus://http://h:1"], "is no address of Nimbus (nimbus://HOST:PORT"),
        (["import", "kafka", "h:99999"], "'h:99999' is no address (HOST:PORT"),
        (
            [
                "import",
                "kafka",
                "examples/kafka",
                "--option",
                "mode=demote",
                "--option",
                "brokers=x",
            ],
            "'x' is no broker's number (numbers with commas: 3,4)",
        ),
        (["import", "kafka", "x", "--limit", "max_migrations=x"], "is no number (such as 10"),
        (["submit", "storm", "http://h:1", "PLACED"], "is no address of Nimbus (nimbus://HOST"),
        (["submit", "kafka", "h:1", "PLACED"], "is no reassignment (`streamplace export kafka"),
        (["submit", "kafka", "h:1", "PLAN"], "is no reassignment (`streamplace export kafka"),
        (["verify", "kafka", "h:1", "PLACED"], "is no reassignment (`streamplace export kafka"),
        (["verify", "kafka", "h:1", "nowhere"], "nowhere does not exist (check the path)"),
        (["import", "storm", "nowhere", "--json"], "--json needs -o"),
        (["import", "metis", "x", "--option", "part=3"], "is no option of metis"),
        (["import", "metis", "x", "--option", "parts=0"], "is out of range"),
        (["import", "metis", "x", "--option", "parts=2", "--option", "parts=3"], "given twice"),
        (["export", "kafak", "x"], "did you mean kafka?"),
        (["export", "kafka"], "INSTANCE is missing"),
        (["export", "kafka", "examples/hand-8-tasks.json"], "PLAN is missing"),
    ],
)
def test_usage_errors(
    words: list[str],
    told: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(repository)
    files = {"PLACED": PLACED, "PLAN": {"format": "streamplace.plan/1"}}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert main([str(tmp_path / word) if word in files else word for word in words]) == 2
    assert told in capsys.readouterr().err


def test_an_empty_folder_and_a_wrong_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["import", "flink", str(tmp_path / "empty")]) == 2
    assert (
        "holds no file that ends in .json or .json.gz (save the system" in capsys.readouterr().err
    )
    (tmp_path / "bad.json").write_text("[}")
    assert main(["import", "flink", str(tmp_path / "bad.json")]) == 2
    assert "is not JSON" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text('{"hello": 1}')
    assert main(["import", "storm", str(tmp_path / "bad.json")]) == 2
    assert "no nodes" in capsys.readouterr().err


@pytest.mark.parametrize(("system", "option"), [("storm", "topology"), ("flink", "job")])
def test_a_wrong_name_is_told_what_there_is(
    system: str, option: str, saved: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(getattr(systems, system)())
    assert main(["import", system, folder, "--option", f"{option}=nix"]) == 2
    told = capsys.readouterr().err
    assert f"holds no {option} 'nix' (there is " in told


def test_limits_of_what_is_imported(
    saved: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = saved(systems.cruise_control()), str(tmp_path / "k.json")
    command = ["import", "cruise-control", folder, "-o", out, "-q"]
    asked = ["--limit", "max_migrations=1", "--limit", "max_utilisation.disk=0.9"]
    assert main([*command, *asked]) == 0
    limits = Instance.load(out).limits
    disk = Instance.load(out).resources.index("disk")
    assert limits.max_migrations == 1
    assert limits.max_utilisation[disk] == 0.9
    capsys.readouterr()
    wrong = ["max_moves=1", "max_migrations=few", "max_load_distance=3", "max_load_distance=4"]
    assert main([*command, *(word for text in wrong for word in ("--limit", text))]) == 2
    told = capsys.readouterr().err
    assert "3 problems" in told
    assert "--limit max_moves" in told
    assert "max_migration_cost" in told
    assert main([*command, "--limit", "max_utilisation.gpu=0.9"]) == 2
    assert "gpu" in capsys.readouterr().err
    assert main([*command, "--limit", "max_migrations=nan"]) == 2
    assert main([*command, "--limit", "max_migrations=-1"]) == 2
    assert main([*command, "--limit", "max_migrations=1.5"]) == 2


def test_a_kafka_export_says_how_it_is_applied_if_there_is_anything_to(
    saved: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(systems.cruise_control())
    instance, plan, out = (str(tmp_path / n) for n in ("k.json", "p.json", "r.json"))
    words = ["import", "cruise-control", folder, "-o", instance, "-q"]
    assert main(words) == 0
    loaded = Instance.load(instance)
    for there, told in (("2", True), ("1", False)):
        nodes = {t: loaded.nodes.ids[n] for t, n in enumerate(loaded.tasks.node)}
        assignment = dict(zip(loaded.tasks.ids, nodes.values(), strict=True))
        Plan("mine", assignment | {"clicks-0#1": there}).save(plan)
        capsys.readouterr()
        assert main(["export", "kafka", instance, plan, "-o", out]) == 0
        text = capsys.readouterr().err
        assert (f"--reassignment-json-file {out} --execute" in text) is told
        assert ("no partition moves" in text) is not told
