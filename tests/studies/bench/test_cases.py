"""The set of instances: what is committed is whole, is made again, and is never for the worse."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import pytest

from experiments.studies.bench import cases as sources
from experiments.studies.bench import proofs
from experiments.studies.bench.cases import Case, read, sha256
from experiments.studies.bench.proofs import (
    begun,
    certificate_of,
    closed,
    plan_of,
    prove,
    with_certificate,
    with_claim,
    with_value,
)
from experiments.studies.bench.scores import known_text, page_table
from optim import Plan, solve
from optim.certificates.check import SENSES
from optim.errors import InvalidInput
from optim.util.files import read_bytes

CASES = {case.name: case for case in read()}
CTAP = "tassc1003Aa"
QUICK = (
    "collocation-q3-cpu90", "throughput-q2-tight", "papers-figure2", "storm-fields-slots4",
    "elastic-eoa-10x20-racks2-s0-nodes_used", "balance-cluster-20-m10-s0",
    "joint-full-20x400-m20-s0", "kafka-remove-broker-s0", "kafka-rebalance-s1-m12",
    "drain-q2-node_lost", "throughput-pipeline-8x100", "graphs-dense-5x60",
)  # fmt: skip


def test_names_are_unique_and_begin_with_the_family() -> None:
    assert len(CASES) == len(read()) == 120
    for case in CASES.values():
        assert case.name.startswith(f"{case.family}-")
        assert case.unasked == (case.family not in ("large", "ctap", "zerotune"))


def test_what_is_known_of_a_case_goes_together() -> None:
    for case in CASES.values():
        assert (case.best is None) == (case.best_by is None)
        assert (case.claimed is None) == (case.claimed_by is None)
        assert (case.certified is None) == (case.certificate_sha256 is None)
        for bound in (case.claimed, case.certified):
            assert bound is None or str(Fraction(bound)) == bound
        for told in (case.stated, case.proven):
            if case.best is None or told is None:
                continue
            off = case.best - told
            beyond = off if SENSES[case.objective] == "max" else -off
            assert beyond <= 1e-6 * max(abs(case.best), 1e-9), case.name
        assert case.best is not None or not case.unasked, case.name


def test_the_table_of_the_page_shows_what_is_known() -> None:
    _, _, *rows = page_table(CASES.values()).splitlines()
    assert len(rows) == len(CASES)
    claimed = replace(CASES["papers-figure2"], name="a", best=2.0, claimed="7/3", claimed_by="m")
    assert (
        page_table([replace(claimed, certified="4")])
        .splitlines()[-1]
        .endswith("| 4, 2.333333 (m) | 50 % |")
    )


def test_what_is_known_is_laid_out_in_columns() -> None:
    case = replace(
        CASES["papers-figure2"], name="a", best=2.0, claimed="7/3", claimed_by="m", certified="4"
    )
    far = replace(case, name="abc", best=None, best_by=None, claimed=None, claimed_by=None)
    first, *lines = known_text([case, far, replace(case, certified="2")]).splitlines()
    ends = [first.index(head) + len(head) for head in ("best known", "certified bound", "gap")]
    assert [line[: ends[0]].split()[-1] for line in lines] == ["2", "imc_gain", "2"]
    assert [line[: ends[1]].split()[-1] for line in lines] == ["4", "4", "2"]
    assert [line[ends[1] :].strip() for line in lines] == ["50 %", "", "0"]
    assert "  2.333333  m  " in lines[0]


def test_certificates_are_those_of_the_table() -> None:
    for case in CASES.values():
        if case.certificate_sha256 is None:
            continue
        text = read_bytes(certificate_of(case)).decode()
        found = json.loads(text)
        assert sha256(text) == case.certificate_sha256, case.name
        assert found["instance_sha256"] == case.instance_sha256
        assert (found["objective"], str(found["bound"])) == (case.objective, case.certified)
        assert found["assumes"] == []


def _has_its_value(case: Case, data: Path | None = None) -> None:
    found, broken = case.judged(case.instance(data), Plan.load(plan_of(case)))
    assert not broken
    assert getattr(found, case.objective) == pytest.approx(case.best, rel=1e-12)


def test_every_best_value_has_its_plan() -> None:
    """But those of more than 20,000 tasks."""
    there = {path.name for path in proofs.PLANS.iterdir()}
    assert there == {plan_of(c).name for c in CASES.values() if c.tasks <= proofs.MOST_KEPT}


@pytest.mark.parametrize("name", QUICK)
def test_a_plan_has_the_best_value(name: str) -> None:
    _has_its_value(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES.values() if not c.foreign], ids=lambda c: c.name)
def test_plans_have_the_best_values(case: Case) -> None:
    if case.tasks <= proofs.MOST_KEPT:
        _has_its_value(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES.values() if c.foreign], ids=lambda c: c.name)
def test_plans_of_files_of_others_have_the_best_values(case: Case, shared_data: Path) -> None:
    _has_its_value(case, shared_data)


@pytest.mark.parametrize("name", QUICK)
def test_an_instance_is_made_to_its_hash(name: str) -> None:
    made = CASES[name].instance()
    assert (made.num_tasks, made.num_nodes) == (CASES[name].tasks, CASES[name].nodes)


@pytest.mark.slow
def test_all_instances_are_made_to_their_hashes() -> None:
    for case in CASES.values():
        if case.unasked:
            case.instance()


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES.values() if c.unasked], ids=lambda c: c.name)
def test_certificates_hold(case: Case) -> None:
    from optim.certificates import check

    if case.certificate_sha256 is not None:
        document, told = check.parse(case.instance().to_json().encode())
        file = read_bytes(certificate_of(case))
        check.check(document, told, check.parse(file)[0])


def test_files_of_others_are_read_where_they_are(shared_data: Path) -> None:
    for name in ("ctap-tassc1003Da", "zerotune-three_filters-123"):
        CASES[name].instance(shared_data)
    CASES["ctap-tassc1003Da"].instance(shared_data / "ctap")


def test_files_of_others_that_are_not_there_are_told(tmp_path: Path) -> None:
    case = CASES[f"ctap-{CTAP}"]
    assert case.foreign == "ctap" and not case.unasked
    for data, words in (
        (None, "--data"), (tmp_path / "none", "is no folder"), (tmp_path, f"holds no {CTAP}.dat")
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=words) as told:
            case.instance(data)
        assert "get the CTAP library" in str(told.value) and case.name in str(told.value)


def test_files_of_others_that_are_damaged_are_told(tmp_path: Path) -> None:
    case = CASES[f"ctap-{CTAP}"]
    file = tmp_path / "ctap" / f"{CTAP}.dat"
    file.parent.mkdir()
    file.write_text("2 1  0 0  5  1 1  9\n")  # a file of the kind, and not the one
    with pytest.raises(InvalidInput, match="as it is published"):
        case.instance(tmp_path)
    file.write_text("2 1 0 0 what\n")
    with pytest.raises(InvalidInput, match=case.name):
        case.instance(tmp_path)


def test_the_examples_are_those_of_the_repository(examples: Path) -> None:
    assert sources.EXAMPLES.read_text("utf-8") == sources.packed(examples)
    with pytest.raises(InvalidInput, match="not among the examples"):
        sources.instance_of({"example": "capsys-q7.json", "variation": {}})
    with pytest.raises(InvalidInput, match="is no source"):
        sources.instance_of({"drawn": 1})


def test_a_better_value_stays_and_a_certified_bound_comes_first() -> None:
    case = CASES["drain-flink"]
    assert SENSES[case.objective] == "min"
    one = with_value(Case(**{**case.__dict__, "best": None}), 5.0, "a")
    assert with_value(one, 6.0, "b") == with_value(one, 5.0, "b") == one
    assert with_value(one, 4.0, "b").best_by == "b"
    free = Case(**{**case.__dict__, "claimed": None, "claimed_by": None, "certified": None})
    claimed = with_claim(free, Fraction(4), "x")
    assert (claimed.claimed, claimed.claimed_by, claimed.bound) == ("4", "x", 4.0)
    assert with_claim(claimed, Fraction(3), "y") == claimed
    assert with_claim(claimed, Fraction(9, 2), "y").claimed == "9/2"
    proved = with_certificate(claimed, Fraction(1), {"bound": 1})
    assert (proved.certified, proved.bound, proved.claimed) == ("1", 1.0, "4")
    assert proved.certificate_sha256 == sha256('{"bound": 1}')
    assert with_certificate(proved, Fraction(1, 2), {}) == proved
    assert with_certificate(proved, Fraction(2), {}).certified == "2"
    highest = replace(free, objective="imc_gain", best=4.0, claimed="5", certified="6")
    assert with_value(highest, 3.0, "b") == highest != with_value(highest, 5.0, "b")
    assert with_claim(highest, Fraction(4), "z").claimed == "4"
    assert with_claim(highest, Fraction(6), "z") == highest
    assert with_certificate(highest, Fraction(5), {}).certified == "5"
    assert with_certificate(highest, Fraction(7), {}) == highest


def test_a_case_is_proved_from_nothing() -> None:
    old = CASES["papers-figure2"]
    new = Case(old.name, old.family, old.objective, old.source)
    case, certificate, plan = prove(begun(new, None), proof=5)
    assert (case.tasks, case.nodes) == (old.tasks, old.nodes)
    assert case.certified == old.certified and closed(case)
    assert certificate is not None and sha256(certificate) == case.certificate_sha256
    assert case.instance_sha256 == old.instance_sha256
    assert plan is not None and case.judged(case.instance(), plan)[0].imc_gain == case.best
    assert prove(case, proof=5)[:2] == (case, None)  # nothing better is found


def test_what_came_is_kept_when_a_run_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, seen = tmp_path / "cases.json", list[str]()
    entries = [case for name, case in CASES.items() if name.startswith("collocation-q6")]
    new = [Case(one.name, one.family, one.objective, one.source) for one in entries]
    table.write_text(json.dumps([asdict(one) for one in new]))

    plan = Plan("any", {"t": "n"})

    def found(case: Case, data: Path | None, seconds: float, proof: float) -> proofs.Proved:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(case.name)
        return proofs.Proved(with_value(case, 1.0, "a"), "proof", plan)

    monkeypatch.setattr(proofs, "TABLE", table)
    monkeypatch.setattr(proofs, "CERTIFICATES", tmp_path / "certificates")
    monkeypatch.setattr(proofs, "PLANS", tmp_path / "plans")
    monkeypatch.setattr(proofs, "prove", found)
    with pytest.raises(KeyboardInterrupt):
        proofs.main(["--new"])
    assert [c.name for c in read(table) if c.best] == seen == [e.name for e in entries[:2]]
    assert read_bytes(certificate_of(read(table)[0])) == b"proof"
    assert Plan.load(plan_of(read(table)[0])).assignment == plan.assignment
    seen.clear()
    proofs.main(["--new"])
    assert seen == [entries[2].name]


def test_for_the_rate_what_is_too_much_now_breaks_no_rule() -> None:
    case = CASES["throughput-q2-tight"]
    instance = case.instance()
    plan = solve(instance, "throughput-exact").plan
    assert plan is not None
    found, broken = case.judged(instance, plan)
    assert not found.feasible and not broken and found.sustainable_rate == case.best
    node = instance.nodes.ids[0]  # more tasks than slots: that is one at every rate
    heap = Plan(instance.name, dict.fromkeys(plan.assignment, node))
    assert case.judged(instance, heap)[1]
