"""The claims of the papers: all there, judged from what is stored, and as committed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tomllib
from inspect import signature
from pathlib import Path

import pandas as pd
import pytest

from experiments.studies.papers import all_figures, claims, tables
from experiments.studies.papers.claims import VERDICTS, Claim, Finding, read_claims
from experiments.studies.papers.pages import claims_table, page_of
from experiments.studies.papers.tables import (
    PAPERS,
    about_table,
    change,
    load_table,
    store_table,
)
from experiments.sweep import Spec
from optim.errors import InvalidInput
from optim.util.store import Records
from tests.studies.papers.test_finding import run

DOCS = PAPERS.parents[2] / "docs" / "papers"

IDS = {
    "task_allocation": (
        "CIKM",
        """
        A1* A2* A3 M1 M2 M3 M4 M5 M6 C1 C2 C3 E1 E2* R1 R2 R3 F4a* F4b F4c F5a* F5b F5c L1* L2*
        L3 L4 L5 F6a* F6b F6c F6d F7a* F7b F7c F8a F8b F9a* F9b F9c F9d N2 N1
    """,
    ),
    "albic": (
        "ALBIC",
        """
        A1 W1 W2 W3 N1 N2 N3 N4 N5 N6 N7 D1* D2 D3 F2* F3 F4* F4b F4c F5a* F5b* F7a* F7b F7c F7d
        F8 F9 F9b F10a* F10b* F10c F10d F11a F12a F12b* F12c F12d* F12e F13a F13b F13c F14a F14b
        F14c S1 S2 S3 S4
    """,
    ),
    "elastic_allocator": (
        "EOA",
        """
        A1* A2* A3* M1 M2 M3 M4 M5 F4a* F4b* F4c* F4d F4e F4f F5a* F5b* F5c* F5d G1* G2 N1 N2 N3
    """,
    ),
    "storm": (
        "STORM",
        """
        A1* A2* A3* A4* A5 A6 A7 A8 D1 D2 M1 M2* M3 M4 M5* O1 O2* O3* O4* O5 O6 L1*
    """,
    ),
    "model_driven": (
        "MD",
        """
        A1 F3a F3b F3c F3d F3e F3f P0 F4 M1 M3 M4 M2 L1 L2 L3 F7a* F7b F7c F7d* F7e* F7f F7g F7h
        F7i F7j F7k F8a* F8b F8c F8d F8e F8f* F8g F8h F9a* F9b* F9c* F10a F10b F10c F10d F10e
        F10f F11a* F11b F11c F11d F11e* F11f F11g F12a F12b F13a F13b S1
    """,
    ),
}
"""Of the review of the papers, starred ones with a star; each is to be there once."""

PAGES = sorted({figure.paper for figure in all_figures()})


def expected(paper: str) -> list[tuple[str, bool]]:
    prefix, names = IDS[paper]
    return [(f"{prefix}-{name.rstrip('*')}", name.endswith("*")) for name in names.split()]


@pytest.mark.parametrize("paper", IDS)
def test_every_claim_is_there_once(paper: str) -> None:
    found = claims.claims_of(paper)
    assert [(claim.id, claim.starred) for claim in found] == expected(paper)
    assert all(claim.paper == paper and claim.words and claim.predicate for claim in found)


def test_there_are_192_claims_of_which_50_matter_most() -> None:
    every = [claim for paper in IDS for claim in expected(paper)]
    assert len(set(every)) == 192
    assert sum(starred for _, starred in every) == 50
    assert tables.claiming_papers() == sorted(IDS)


_judged: dict[str, claims.Judgement] = {}


@pytest.fixture
def judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdict, page and table of a claim come of one judgement: of the committed tables, here."""
    plain = claims.judge

    def judge(claim: Claim, root: Path) -> claims.Judgement:
        assert root == PAPERS
        if claim.id not in _judged:
            _judged[claim.id] = plain(claim, root)
        return _judged[claim.id]

    monkeypatch.setattr(claims, "judge", judge)


@pytest.mark.usefixtures("judged_once")
@pytest.mark.parametrize("paper", IDS)
def test_committed_verdicts_hold(paper: str) -> None:
    assert claims.no_longer_hold(claims.judgements([paper])) == []


@pytest.mark.usefixtures("judged_once")
@pytest.mark.parametrize("paper", PAGES)
def test_pages_are_what_stored_tables_say(paper: str) -> None:
    page = (DOCS / f"{paper}.md").read_text(encoding="utf-8")
    again = f"run `python -m experiments.studies.papers.pages {paper}`"
    assert page == page_of(paper), again
    if f"{paper}-claims.csv" in page:
        table = (DOCS / f"{paper}-claims.csv").read_text(encoding="utf-8")
        assert table == claims_table(paper.replace("-", "_")), again


def test_every_stored_table_says_how_it_was_made() -> None:
    for path in sorted(PAPERS.glob("*/tables/*.csv")):
        paper, name = path.parent.parent.name, path.stem
        about = about_table(paper, name)
        assert about.command
        assert about.seeds
        assert about.rows == len(load_table(paper, name))


@pytest.mark.parametrize("path", sorted(PAPERS.glob("*/tables.toml")), ids=lambda p: p.parent.name)
def test_every_table_can_be_made_at_both_sizes(path: Path) -> None:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    told.pop("views", None)
    for name, entry in told.items():
        assert tables.has_table(path.parent.name, name)
        for one in (entry, change(entry, entry.get("reduced", {}))):
            for sweep in one.get("sweep", ()):
                Spec.from_dict(sweep, path.parent, name)
            if "run" in one:
                function = tables.function_of(path.parent.name, one["run"])
                given = one.get("given", {})
                for key in tables.keys(one.get("each", {})):
                    signature(function).bind(**key, **given)


def one_or_two(a: int, b: str) -> dict[str, str] | list[dict[str, str]]:
    """Give a row, or two."""
    return {"c": f"{a}{b}"} if a else [{"c": "x"}, {"c": "y"}]


def test_a_table_of_runs_has_their_arguments_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_paper").mkdir()
    (tmp_path / "some_paper" / "tables.toml").write_text(
        """
        [small]
        run = "runs:any"
        seeds = "0-1"
        reduced_seeds = "0"
        each = [{ a = { from = 0, to = 1 }, b = ["p", "q"] }, { a = [5], b = ["r"] }]
        reduced = { "each.*.a" = [7], "each.0.b" = ["s"] }
        columns = ["c", "a"]
        left_out = 3
        left_out_why = "none"
        """
    )
    monkeypatch.setattr(tables, "PAPERS", tmp_path)
    monkeypatch.setattr(tables, "function_of", lambda *_: one_or_two)
    (making,) = tables.tables_of("some_paper").values()
    whole = making.make(False)
    assert whole["c"].tolist() == ["x", "y", "x", "y", "1p", "1q", "5r"]
    assert whole["a"].tolist() == [0, 0, 0, 0, 1, 1, 5]
    assert list(whole.columns) == ["c", "a"]
    assert whole.attrs == {"left_out": 3, "left_out_why": "none"}
    assert making.make(True)["c"].tolist() == ["7s", "7r"]


def test_runs_that_stay_are_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def run(a: int, b: str) -> dict[str, float]:
        calls.append(a)
        return {"c": 1.5}

    monkeypatch.setattr(tables, "function_of", lambda *_: run)
    entry = {
        "run": "runs:any",
        "keep": True,
        "bare": True,
        "each": {"a": [1, 2]},
        "given": {"b": "x"},
    }
    for _ in range(2):
        assert tables.runs_of("some_paper", entry, tmp_path).to_dict("list") == {"c": [1.5, 1.5]}
    assert calls == [1, 2]
    tables.runs_of("some_paper", {**entry, "given": {"b": "y"}}, tmp_path)
    assert calls == [1, 2, 1, 2]  # what is given counts, too


@pytest.mark.usefixtures("spark")
def test_a_table_of_a_sweep_has_rows_for_every_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_paper").mkdir()
    (tmp_path / "some_paper" / "tables.toml").write_text(
        """
        [views]
        seen = "SELECT drawn AS seed, nodes_used FROM runs"
        [small]
        seeds = "0-2"
        sql = "FROM seen"
        [[small.sweep]]
        name = "one"
        matrix.method = ["storm-even"]
        [[small.sweep.instances.generate]]  # one stage: every seed makes the same instance
        kind = "storm_reference"
        stages = 1
        replication = "2"
        seeds = [0, 1, 2]
        """
    )
    monkeypatch.setattr(tables, "PAPERS", tmp_path)
    monkeypatch.setattr(tables, "MADE", tmp_path / "made")
    (making,) = tables.tables_of("some_paper").values()
    assert making.make(False)["seed"].tolist() == [0, 1, 2]
    assert not (tmp_path / "made" / "some_paper" / "tables" / "small").exists()


def make_claim(**changes: object) -> Claim:
    parts = {
        "id": "X-1",
        "paper": "some_paper",
        "starred": True,
        "where": "1",
        "words": "it grows",
        "setup": "any",
        "predicate": "last > first",
        "tables": ("growth",),
        "judge": grows,
    }
    return Claim(**{**parts, **changes})  # type: ignore[arg-type]


def grows(growth: pd.DataFrame) -> Finding:
    first, last = growth["x"].iloc[[0, -1]]
    return Finding("same" if last > first else "different", f"{first} to {last}")


def test_a_claim_is_judged_from_its_stored_table(tmp_path: Path) -> None:
    before = claims.judge(make_claim(), tmp_path).finding
    assert (before.verdict, before.figure) == ("not shown", "no table yet: growth")
    for values, verdict in (([1, 3], "same"), ([3, 1], "different")):
        frame = pd.DataFrame({"x": values})
        store_table("some_paper", "growth", frame, command="c", seeds="0-1", root=tmp_path)
        found = claims.judge(make_claim(), tmp_path)
        assert found.finding == Finding(verdict, f"{values[0]} to {values[1]}")  # type: ignore[arg-type]
    assert about_table("some_paper", "growth", tmp_path).rows == 2


def test_a_smaller_table_may_lack_what_is_judged_and_a_whole_one_not(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [1, 3]})
    for reduced in (True, False):
        made = {"command": "c", "seeds": "0-1", "root": tmp_path, "reduced": reduced}
        store_table("some_paper", "growth", frame, **made)  # type: ignore[arg-type]
        if reduced:
            found = claims.judge(make_claim(), tmp_path).finding
            assert found.verdict == "not shown"
            assert "smaller growth ('x')" in found.figure
    with pytest.raises(KeyError):
        claims.judge(make_claim(), tmp_path)


def test_what_cannot_be_checked_says_why() -> None:
    found = claims.judge(make_claim(judge=None, tables=(), not_checkable="no cluster"))
    assert found.finding == Finding("not shown", "", "no cluster")


def test_a_table_that_is_not_stored_is_told_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="streamplace paper --tables some_paper/growth"):
        load_table("some_paper", "growth", tmp_path)


def test_findings_are_whole() -> None:
    with pytest.raises(ValueError, match="verdict 'yes' is none of"):
        Finding("yes", "1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without a reason"):
        Finding("same", "1", left_out=2)


CLAIMS = """
[[claim]]
id = "X-1"
where = "1"
words = "all of it"
setup = "any"
predicate = "X-2 and X-3"
claims = ["X-2", "X-3"]
sql = "FROM claims"
verdict = ["bool_and(verdict = 'same')", "bool_or(verdict = 'same')"]
text = "{string_agg(id || ': ' || figure, '; ')}"

[[claim]]
id = "X-2"
where = "1"
words = "it grows"
setup = "any"
predicate = "last > first"
tables = ["growth"]
sql = "FROM growth"
verdict = ["max(x) > 1"]
text = "{max(x)}"

[[claim]]
id = "X-3"
where = "1"
words = "it shrinks"
setup = "any"
predicate = "last < first"
tables = ["other"]
sql = "FROM other"
verdict = ["max(x) < 1"]
text = "{max(x)}"
"""


def test_a_claim_about_others_is_judged_from_their_tables(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(CLAIMS)
    whole, *_ = read_claims(path)
    assert (whole.id, whole.tables) == ("X-1", ("growth", "other"))
    assert whole.judge is not None
    growth, other = pd.DataFrame({"x": [1, 3]}), pd.DataFrame({"x": [5]})
    assert whole.judge(growth, other) == Finding("in part", "X-2: 3; X-3: 5")
    path.write_text(CLAIMS.replace('["X-2", "X-3"]', '["X-2", "X-9"]'))
    with pytest.raises(KeyError, match="X-9"):
        read_claims(path)


def test_the_command_lists_claims_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--claims", "task-allocation", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in listed] == [name for name, _ in expected("task_allocation")]
    assert {entry["paper"] for entry in listed} == {"task_allocation"}
    keys = {"id", "paper", "starred", "verdict", "figure", "cause"}
    assert all(set(entry) == keys and entry["verdict"] in VERDICTS for entry in listed)


@pytest.mark.slow  # the verdicts of each paper are judged above
def test_without_a_paper_all_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--claims", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 192


def test_the_command_ends_1_where_a_committed_verdict_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--claims", "storm", "--check") == 0
    assert "10 of 10 starred claims are the same or have a cause" in capsys.readouterr().out
    shutil.copytree(PAPERS / "storm", tmp_path / "storm")
    path = tmp_path / "storm" / "verdicts.csv"
    lines = path.read_text().splitlines(keepends=True)
    first = lines[1].split(",")
    first[2] = "same" if first[2] != "same" else "different"
    path.write_text("".join([lines[0], ",".join(first), *lines[2:-1]]))
    monkeypatch.setattr(claims, "PAPERS", tmp_path)
    assert run("--claims", "storm", "--check") == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("STORM-A1: verdict ")
    assert told[-1].startswith("STORM-L1: no verdict is committed")


@pytest.mark.parametrize(
    ("paper", "table", "column", "value", "names"),
    [
        ("task_allocation", "examples", "links_1", 99, {"CIKM-E1", "CIKM-E2", "CIKM-L2"}),
        ("task_allocation", "uneven_pair", "gain", 2.0, {"CIKM-F4b", "CIKM-F4c", "CIKM-L2"}),
        ("storm", "rules", "executors_uneven", 2.0, {"STORM-D1"}),
    ],
)
def test_a_claim_that_is_broken_on_purpose_is_found(
    paper: str,
    table: str,
    column: str,
    value: float,
    names: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    frame = load_table(paper, table)
    frame[column] = value
    store_table(paper, table, frame, command="broken", seeds="none", root=tmp_path)
    assert run("--claims", paper, "--check", "--from", str(tmp_path)) == 1
    told = {line.split(":")[0] for line in capsys.readouterr().err.splitlines()}
    assert told
    assert told <= names


def test_an_interrupted_run_of_many_tables_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streamplace.cli.main import main

    made: list[str] = []

    def make(one: tables.Making, reduced: bool, root: Path) -> Path:
        name = one.name
        if name == "c" and made.count("b") == 1 and "stop" not in made:
            made.append("stop")
            raise KeyboardInterrupt
        made.append(name)
        return root / name

    monkeypatch.setattr(
        tables, "makings", lambda _: [tables.Making("p", name, {}, {}) for name in "abc"]
    )
    monkeypatch.setattr(tables, "make_table", make)
    command = ["paper", "--tables", "all", "-o", str(tmp_path)]
    with contextlib.suppress(KeyboardInterrupt):
        main(command)
    assert Records(tmp_path / "tables-made.jsonl").read() == ["p/a", "p/b"]
    assert main(command) == 0
    assert made == ["a", "b", "stop", "c"]
    assert "p/a: skipped" in capsys.readouterr().err
    assert not (tmp_path / "tables-made.jsonl").exists()  # the next run makes all of them again


@pytest.mark.parametrize("flag", ["--check", "--write"])
def test_tables_are_not_made_where_claims_are_to_be_judged(flag: str) -> None:
    with pytest.raises(InvalidInput, match=f"{flag} judges claims and makes no tables"):
        run("--tables", "storm", flag)


def test_a_machine_that_cannot_say_which_cores_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    frame = pd.DataFrame({"x": [1]})
    store_table("some_paper", "small", frame, command="c", seeds="0", root=tmp_path)
    assert about_table("some_paper", "small", tmp_path).machine.endswith(" cores")


def test_a_folder_of_tables_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is no folder"):
        run("--claims", "storm", "--from", str(tmp_path / "tpyo"))
