"""Better values are checked before they stand in the table."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from experiments.studies.bench import proofs, submit
from experiments.studies.bench.cases import Case, read
from experiments.studies.bench.proofs import certificate_of
from optim import Plan, solve
from optim.util.files import read_bytes

NAME = "papers-figure2"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of one case, of which a worse value and a worse bound are known."""
    whole = next(case for case in read() if case.name == NAME)
    assert whole.best is not None
    poor = replace(
        whole,
        best=1.0,
        claimed="100",
        claimed_by="someone",
        certified=None,
        certificate_sha256=None,
    )
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([asdict(poor)]))
    instance = whole.instance()
    plan = solve(instance, "imc-exact").plan
    assert plan is not None
    plan.save(tmp_path / "plan.json")
    heaped = Plan(instance.name, dict.fromkeys(plan.assignment, instance.nodes.ids[0]))
    heaped.save(tmp_path / "heaped.json")
    monkeypatch.setattr(submit, "TABLE", path)
    monkeypatch.setattr(proofs, "CERTIFICATES", tmp_path / "certificates")
    monkeypatch.setattr(proofs, "PLANS", tmp_path / "plans")
    return path


def _committed(name: str) -> Path:
    return Path(proofs.__file__).with_name("certificates") / f"{name}.json.gz"


def row(table: Path) -> Case:
    (case,) = read(table)
    return case


def test_what_is_better_is_printed_and_written(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = next(case for case in read() if case.name == NAME)
    plan, proof = str(table.with_name("plan.json")), str(_committed(NAME))
    before = row(table)
    assert submit.main([NAME, "--plan", plan, "--by", "me"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"] == pytest.approx(best.best) and told["best_by"] == "me"
    assert row(table) == before
    assert submit.main([NAME, "--plan", plan, "--certificate", proof, "--write"]) == 0
    after = row(table)
    assert (after.certified, after.claimed) == (best.certified, "100")
    assert after.certificate_sha256 == best.certificate_sha256
    assert certificate_of(after).parent == table.with_name("certificates")
    assert certificate_of(after).read_bytes() == Path(proof).read_bytes()
    assert Plan.load(proofs.plan_of(after)).assignment == Plan.load(plan).assignment
    assert submit.main([NAME, "--plan", plan, "--certificate", proof]) == 1
    assert "nothing is better" in capsys.readouterr().err


def test_what_does_not_hold_is_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heaped, plan = (str(table.with_name(name)) for name in ("heaped.json", "plan.json"))
    proof = json.loads(read_bytes(_committed(NAME)))
    false, other = table.with_name("false.json"), table.with_name("other.json")
    false.write_text(json.dumps({**proof, "bound": 13}))
    other.write_bytes(read_bytes(_committed("collocation-q4-cpu90")))
    for words, said in (
        (["--plan", heaped], "breaks a rule"), (["--certificate", str(false)], "does not hold"),
        (["--certificate", str(other)], "does not hold"), (["--certificate", heaped], "not hold"),
        (["--plan", str(table.with_name("none.json"))], "none.json"),
    ):  # fmt: skip
        assert submit.main([NAME, *words, "--write"]) == 1
        assert said in capsys.readouterr().err
    assert submit.main(["figure3", "--plan", plan]) == 2
    assert "is no case" in capsys.readouterr().err
    table.write_text(json.dumps([{**asdict(row(table)), "certified": "2"}]))
    assert submit.main([NAME, "--plan", plan]) == 1
    assert "cannot both be true" in capsys.readouterr().err
    assert row(table).best == 1.0
