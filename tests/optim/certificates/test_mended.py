"""Certificates of plans that leave limits broken: the least excess first, then the objective."""

from __future__ import annotations

import copy
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from optim import Instance, solve
from optim.certificates import check
from optim.certificates.grade import claims, insisted
from optim.referee import Termination
from streamplace import InstanceBuilder
from tests.command import run_command
from tests.fuzz.mended import examine, solved


@pytest.mark.parametrize("seed", [3, 15, 24])
def test_what_is_certified_is_true_of_all_placements_and_tampering_is_seen(seed: int) -> None:
    found: Counter[str] = Counter()
    assert list(examine(seed, 4, found, most=2)) == []
    assert found["certificates"] > 0
    assert found["of them refused"] > 0


def test_what_exact_methods_leave_broken_is_certified() -> None:
    found: Counter[str] = Counter()
    assert list(solved(3, found, ("balance-milp",))) == []
    assert found["balance-milp: optimal, excess closed, optimum"] == 1


@pytest.mark.parametrize(
    ("name", "value"), [("WORSE", Fraction(1, 2)), ("Model.walk", lambda *_: None)]
)
def test_a_lenient_checker_is_seen(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"optim.certificates.check.{name}", value)
    assert any(line for seed in (3, 15, 24) for line in examine(seed, 4, Counter(), most=2))


def crowded() -> Instance:
    """Nodes of 100; nine tasks of 24 on one of them, of which two may move."""
    builder = InstanceBuilder("crowded")
    for node in ("n0", "n1", "n2"):
        builder = builder.node(node, capacity=100)
    for i in range(9):
        builder = builder.task(f"k{i}", load=24, node="n0")
    return builder.limits(max_migrations=2).build()


Proved = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def proved() -> Proved:
    """The instance's file, the certificate of a mended plan, and the plan."""
    instance = crowded()
    result, certificate = insisted(solve(instance, "balance-milp"), instance.to_json().encode())
    assert certificate is not None
    assert result.plan is not None
    assert result.mending is not None
    assert result.mending.certified == pytest.approx(68 / 216)
    assert result.mending.to_dict()["certified_excess"] == result.mending.certified
    assert result.certified_bound == pytest.approx(96)
    assert (result.gap, result.certified_gap) == (None, None)
    return json.loads(instance.to_json()), certificate, result.plan.to_dict()


def told_of(instance: dict[str, Any], certificate: dict[str, Any], plan: Any = None) -> str:
    """What the checker says, with the hash of the instance put right."""
    read, sha256 = check.parse(json.dumps(instance).encode())
    again = json.dumps({**certificate, "instance_sha256": sha256})
    return check.check(read, sha256, check.parse(again.encode())[0], plan)


def test_both_levels_are_told(proved: Proved) -> None:
    instance, certificate, plan = proved
    told = told_of(instance, certificate, plan)
    assert told.startswith("excess is at least 0.314814814814815; where it is at most 0.31481484")
    assert "load_distance is at least 95.99" in told
    assert "no worse than now; the plan has an excess of at least 0.314814814814815" in told


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("excess", "bound"), "1/2"),  # a plan has less
        (("excess", "bound"), "18/54"),
        (("excess", "most"), "16/54"),  # below the bound
        (("excess", "most"), 1),  # all that are no worse than now: load distances down to 96
        (("excess", "proof"), {"kind": "dual", "steps": []}),
        (("excess", "proof"), {"kind": "counting", "steps": [{"close": [1, 0, 0]}]}),
        (("excess", "proof"), None),
        (("bound",), 97),
        (("assumes",), []),
        (("assumes",), ["no worse than now", "without max_migrations"]),
        (("assumes",), ["no worse than ever"]),
    ],
)
def test_a_changed_certificate_is_refused(
    proved: Proved, path: tuple[str, ...], value: object
) -> None:
    instance, certificate, _ = proved
    made = copy.deepcopy(certificate)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    if path == ("excess", "most") and value == 1:
        made["bound"] = 96 + 1
    with pytest.raises(check.Refused):
        told_of(instance, made)


def _moved(instance: dict[str, Any]) -> None:
    instance["tasks"][0]["node"] = "n1"


def _wider(instance: dict[str, Any]) -> None:
    instance["nodes"][0]["capacity"]["cpu"] = 110


def _freer(instance: dict[str, Any]) -> None:
    instance["limits"]["max_migrations"] = 3


def _heavier(instance: dict[str, Any]) -> None:
    instance["tasks"][0]["load"]["cpu"] = 48  # a share of more load, and moved at once


def _weighed(instance: dict[str, Any]) -> None:
    instance["nodes"][0]["weight"] = 4


@pytest.mark.parametrize("change", [_moved, _wider, _freer, _heavier, _weighed])
def test_it_is_of_no_other_instance(proved: Proved, change: Any) -> None:
    instance, certificate, _ = proved
    other = copy.deepcopy(instance)
    change(other)
    with pytest.raises(check.Refused):
        told_of(other, certificate)


def test_a_plan_of_more_excess_is_none_of_those(proved: Proved) -> None:
    instance, certificate, plan = proved
    stays = {"assignment": dict.fromkeys(plan["assignment"], "n0")}
    with pytest.raises(check.Refused, match=r"an excess of 0\.537037037037037, above excess\.most"):
        told_of(instance, certificate, stays)


@pytest.mark.parametrize(
    ("level", "why"),
    [
        (5, "excess has the fields bound, most and proof, and no others"),
        ({"bound": 0, "most": 1}, "excess has the fields bound, most and proof, and no others"),
        ({"bound": "x", "most": 1}, "excess.bound is 'x', neither a whole number nor a text p/q"),
        ({"bound": 0, "most": "1/0"}, "excess.most is '1/0', neither a whole number nor a text"),
        ({"bound": 0, "most": True}, "excess.most is 'True'; write it as"),
    ],
)
def test_bad_fields_are_told_with_a_remedy(
    proved: Proved, tmp_path: Path, level: Any, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    instance, certificate, _ = proved
    if isinstance(level, dict) and "'" in why:
        level = {**level, "proof": certificate["excess"]["proof"]}
    text = json.dumps(instance)
    sha256 = check.parse(text.encode())[1]
    made = {**certificate, "instance_sha256": sha256, "excess": level}
    files = tmp_path / "instance.json", tmp_path / "proof.json"
    for file, document in zip(files, (text, json.dumps(made)), strict=True):
        file.write_text(document)
    assert check.main([*map(str, files)]) == 2
    told = capsys.readouterr().err
    assert f"cannot be read: {files[0]} with {files[1]}: " in told
    assert why.partition(";")[0] in told
    assert "and no others" in told or "write it as 17/25" in told


def test_the_command_writes_and_checks_it(tmp_path: Path) -> None:
    (tmp_path / "crowded.json").write_text(crowded().to_json())
    words = ["solve", "-q", "crowded.json", "--method", "balance-milp", "-o", "plan.json"]
    done = run_command([*words, "--certificate", "proof.json"], tmp_path, {})
    assert done.returncode == 4
    assert "no certificate" not in done.stdout
    done = run_command(["certify", "crowded.json", "plan.json", "proof.json"], tmp_path, {})
    assert done.returncode == 0
    assert done.stdout.startswith("holds: excess is at least 0.3148")


def test_a_certificate_of_a_plan_that_keeps_every_limit_has_no_such_level() -> None:
    builder = InstanceBuilder("good").node("n0", capacity=5).node("n1", capacity=5)
    instance = builder.task("a", load=4, node="n0").task("b", load=4, node="n0").build()
    result, certificate = insisted(solve(instance, "balance-milp"), instance.to_json().encode())
    assert certificate is not None
    assert "excess" not in certificate
    assert result.bound_by == "certificate"


def certified(instance: Instance, method: str) -> tuple[float, float, float]:
    """The excess of a plan, and what a certificate proves of it and of the objective."""
    result, certificate = insisted(solve(instance, method), instance.to_json().encode())
    assert certificate is not None, result.notes
    assert result.mending is not None
    assert result.mending.certified is not None
    assert result.certified_bound is not None
    assert claims(result)
    return result.mending.excess, result.mending.certified, result.certified_bound


def test_what_the_joint_problem_bounds_is_counted_once() -> None:
    """A load distance of 9 where 2 is asked for, and one task may move."""
    builder = InstanceBuilder("far").node("a").node("b")
    for i, node in enumerate("aaaaaab"):
        builder = builder.task(f"t{i}", load=3, node=node)
    for i in range(6):
        builder = builder.traffic(f"t{i}", f"t{i + 1}", 1.0 + i)
    instance = builder.limits(max_migrations=1, max_load_distance=2).build()
    excess, proved, gain = certified(instance, "joint-milp")
    assert proved == pytest.approx(excess) == pytest.approx((4.5 - 2) / 21)
    assert gain == pytest.approx(16)  # t5 moves to t6


def test_what_threads_have_too_much_is_in_every_plan_and_of_an_operator_the_worst() -> None:
    builder = InstanceBuilder("thread").node("n0", capacity=10).node("n1", capacity=10)
    builder = builder.operator("o").task("c", load=1, node="n0")
    for task, load in (("a", 3), ("b", 2.5)):
        builder = builder.task(task, load=load, node="n0", operator="o", max_load=2)
    instance = builder.traffic("a", "b", 1.0).build()
    excess, proved, _ = certified(instance, "balance-milp")
    assert proved == pytest.approx(excess) == pytest.approx(1 / 6.5)
    read = check.Instance(check.parse(instance.to_json().encode())[0], mends="load_distance")
    assert read.fixed == check.F(2, 13)


def test_what_a_task_has_too_much_does_not_refute_plans_that_are_no_worse_than_now() -> None:
    """The current placement itself is one: max_load is exceeded in every plan, as it is now."""
    builder = InstanceBuilder("stays").node("n0", capacity=10)
    instance = builder.task("a", load=3, max_load=2, node="n0").build()
    _, sha256 = check.parse(instance.to_json().encode())
    level = {"kind": "dual", "steps": [{"close": [1, 0], "over": 0}]}
    plain = {
        "format": check.FORMAT, "instance_sha256": sha256, "objective": "feasible", "sense": "max",
        "bound": 0, "assumes": [], "proof": {"kind": "threads"},
    }  # fmt: skip
    mended = {
        **plain, "assumes": [check.NOW], "excess": {"bound": "1/3", "most": 1, "proof": level}
    }  # fmt: skip
    document = json.loads(instance.to_json())
    assert told_of(document, plain) == "feasible is at most 0 (exactly 0)"
    with pytest.raises(check.Refused, match="no task is full before"):
        told_of(document, mended)


def test_the_excess_of_a_plan_is_told_as_of_what_is_read() -> None:
    """Two tasks too many on n0 count 2/3, which the checker does not read."""
    builder = InstanceBuilder("tasks").node("n0", capacity=8, max_tasks=1).node("n1", capacity=8)
    for i in range(3):
        builder = builder.task(f"t{i}", load=4, node="n0")
    instance = builder.limits(max_migrations=0).build()
    result, certificate = insisted(solve(instance, "balance-milp"), instance.to_json().encode())
    assert certificate is not None
    assert result.plan is not None
    told = told_of(json.loads(instance.to_json()), certificate, result.plan.to_dict())
    assert "the plan has an excess of at least 0.333333333333333;" in told


def test_a_bound_of_plans_of_least_excess_does_not_carry_one_of_all_that_are_no_worse() -> None:
    """Where both tasks stay, as they may, 4 units are inside; the least excess parts them."""
    builder = InstanceBuilder("parted").node("n0", capacity=5).node("n1", capacity=5)
    builder = builder.task("a", load=4, node="n0").task("b", load=4, node="n0")
    builder = builder.task("c", load=3, node="n0", allowed=["n0"]).traffic("a", "b", 4.0)
    for i in range(9):  # so many that not all placements are judged one by one
        builder = builder.task(f"d{i}", load=0, node="n0")
    instance = builder.build()
    result, certificate = insisted(solve(instance, "imc-exact"), instance.to_json().encode())
    assert certificate is not None
    assert (result.bound, result.certified_bound) == (4, 0)
    assert result.bound_by != "certificate"


def test_a_rate_measures_capacities_and_excesses_are_of_the_others() -> None:
    builder = InstanceBuilder("rate", resources=["cpu", "memory"])
    for node in ("n0", "n1"):
        builder = builder.node(node, capacity={"cpu": 10, "memory": 10})
    for i in range(6):
        builder = builder.task(f"t{i}", load={"cpu": 4, "memory": 3 + i}, node="n0")
    excess, proved, rate = certified(builder.build(), "throughput-milp")
    assert proved == pytest.approx(excess) == pytest.approx(13 / 33)
    assert rate == pytest.approx(10 / 16, rel=1e-6)  # n1 has room for two
    read, _ = check.parse(builder.build().to_json().encode())
    level = check.Model(
        check.Instance(read, mends="sustainable_rate"), "excess", check.F(1), "dual"
    )
    assert [[i for i, *_ in limits] for limits in level.limits] == [[1], [1]]  # memory alone


def test_crossing_costs_weaken_the_level_and_no_more() -> None:
    cost = {"memory": {"out": 1, "in": 1}}
    builder = InstanceBuilder("dear", resources=["cpu", "memory"], crossing_cost=cost)
    for node in ("n0", "n1"):
        builder = builder.node(node, capacity={"cpu": 10, "memory": 6})
    for i in range(6):
        builder = builder.task(f"t{i}", load={"cpu": 1, "memory": 3}, node="n0")
    for i in range(6):
        builder = builder.traffic(f"t{i}", f"t{(i + 1) % 6}", 1.0)
    excess, proved, _ = certified(builder.build(), "throughput-milp")
    assert 6 / 18 - 1e-6 <= proved < excess  # n1 has room for two, with what crosses for one


def test_rules_that_the_checker_does_not_read_weaken_the_level() -> None:
    builder = InstanceBuilder("apart").node("n0", capacity=8, max_tasks=1).node("n1", capacity=8)
    for i in range(3):
        builder = builder.task(f"t{i}", load=4, node="n0")
    builder = builder.traffic("t0", "t1", 1.0)
    instance = builder.limits(max_migrations=0).build()
    excess, proved, _ = certified(instance, "imc-milp")
    assert excess == pytest.approx(4 / 12 + 2 / 3)
    assert proved == pytest.approx(4 / 12)


def test_what_crossing_costs_now_is_allowed() -> None:
    """Three tasks of 3 on n0 carry 4 of crossing as well: all four there are no worse than now."""
    document = {
        "format": check.READS, "nodes": [{"id": n, "capacity": {"cpu": 10}} for n in ("n0", "n1")],
        "tasks": [{"id": t, "load": {"cpu": 3}, "node": f"n{t in 'd':d}"} for t in "abcd"],
        "traffic": [["a", "d", 2], ["d", "b", 2]], "crossing_cost": {"cpu": {"out": 1, "in": 1}},
    }  # fmt: skip
    model = check.Model(check.Instance(document, mends="imc_gain"), "imc_gain", check.F(4), "dual")
    assert model.instance.now[0][0] == 9 + 2 * 4
    assert model.limits[0][0][2:4] == (10, 10)  # at no excess at all
    level = check.Model(model.instance, "imc_gain", check.F(4), "dual", most=check.F(1))
    assert level.limits[0][0][2:4] == (17, 10)


def test_what_is_no_whole_number_is_not_dropped() -> None:
    """Whatever moves, n0 has 1 too much and n1 has 2: all of 3 on n0 is no solution, a part is."""
    loads, homes = {"a": 6, "c": 6, "d": 3}, {"a": ["n0"], "c": ["n1"], "d": ["n0", "n2"]}
    rooms = {"n0": 5, "n1": 4, "n2": 9}
    document = {
        "format": check.READS,
        "nodes": [{"id": n, "capacity": {"cpu": room}} for n, room in rooms.items()],
        "tasks": [{"id": t, "load": {"cpu": load}, "node": homes[t][0], "allowed": homes[t]}
                  for t, load in loads.items()],
    }  # fmt: skip
    read = check.Instance(document, mends="nodes_used")
    drop, close = {"drop": [1, 0, 1, 0], "over": 0}, {"close": [0, 1, 0, 0], "over": 0}
    least = {"close": [1, 1, 1, 0], "over": 0}
    check.Model(read, "excess", check.F(3, 15), "dual").walk([least])
    for steps in ([drop, close], [drop, least], [least]):
        with pytest.raises(check.Refused, match="multipliers leave"):
            check.Model(read, "excess", check.F(4, 15), "dual").walk(steps)


def test_slots_may_be_exceeded_so_that_numbers_of_workers_say_nothing() -> None:
    document = {
        "format": check.READS, "nodes": [{"id": "n0", "slots": 1, "capacity": {"cpu": 1}}],
        "topologies": [{"id": "t", "workers": 2}], "operators": [{"id": "o", "topology": "t"}],
        "tasks": [{"id": t, "operator": "o", "load": {"cpu": 1}, "node": "n0"} for t in "ab"],
    }  # fmt: skip
    assert check.Instance(document).fills == [("t", 2)]
    assert check.Instance(document, mends="nodes_used").fills == []


def test_no_plan_that_is_nowhere_worse_is_not_what_a_certificate_of_every_limit_proves() -> None:
    """``a`` has more than n0 has and stays; ``b`` may be there alone: both together are worse."""
    builder = InstanceBuilder("crowded").node("n0", capacity=10).node("n1", capacity=3)
    builder = builder.task("a", load=12, node="n0").task("b", load=5, allowed=["n0"])
    instance = builder.limits(max_migrations=0).build()
    result = solve(instance, "balance-milp")
    assert result.termination is Termination.INFEASIBLE
    told, document = insisted(result, instance.to_json().encode())
    assert document is not None
    assert document["objective"] == "feasible"
    assert told.bound_by != "certificate"
    assert "no plan keeps every limit" in told.notes[-1]


def test_what_is_said_of_every_plan_is_not_said_of_those_of_least_excess() -> None:
    """Traffic stays inside where both tasks do; without excess they are apart."""
    builder = InstanceBuilder("two").node("n0", capacity=2).node("n1", capacity=2)
    builder = builder.task("a", load=2, node="n0").task("b", load=2, node="n0")
    instance = builder.task("c", load=1, node="n0").traffic("a", "b", 8).build()
    result = solve(instance, "imc-exact")
    assert result.mending is not None
    assert not any("for every plan" in note for note in result.notes)
