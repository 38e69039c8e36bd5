"""The checker: what it accepts is true, what was tampered with it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from optim import Instance
from optim.certificates import check
from optim.certificates.write import certify
from optim.format import document
from optim.rules import RULE_NAMES
from streamplace.cli.main import main
from tests.fuzz.certificates import SMALL, examine, solved
from tests.fuzz.generate import generate
from tests.slowly import slowly

CHECKER = Path(check.__file__)


PARTS = {
    "instance": document.InstanceDocument,
    "nodes": document.NodeDocument,
    "operators": document.OperatorDocument,
    "group": document.GroupDocument,
    "tasks": document.TaskDocument,
    "streams": document.StreamDocument,
    "links": document.LinkDocument,
    "topologies": document.TopologyDocument,
    "limits": document.LimitsDocument,
}
UNREAD = {"instance": {"models"}}  # Plans of threads have no certificates.


@pytest.mark.parametrize("part", PARTS)
def test_every_field_of_the_format_is_known(part: str) -> None:
    model: Any = PARTS[part]
    fields = getattr(model, "model_fields", None)
    names = model.__annotations__ if fields is None else {f.alias or n for n, f in fields.items()}
    missing = set(names) - UNREAD.get(part, set()) - set(check.FIELDS[part].split())
    assert not missing, (
        f"files with them get no certificate: add them to FIELDS[{part!r}] of {CHECKER}"
    )


def test_every_rule_can_be_waived() -> None:
    missing = set(RULE_NAMES) - set(check.DROPPED.split())
    assert not missing, (
        f"with --ignore of them there is no certificate: add them to DROPPED of {CHECKER}"
    )


@pytest.mark.parametrize("seed", range(6))
def test_no_bound_is_beyond_the_best_of_all_placements_and_tampering_is_seen(seed: int) -> None:
    found: Counter[str] = Counter()
    assert list(examine(seed, 6, found)) == []


def test_what_exact_methods_answer_is_certified_and_a_lenient_checker_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: Counter[str] = Counter()
    assert list(solved(6, 6, found, SMALL)) == []
    assert found["certificates"] > 0
    assert found["of them refused"] > 0
    monkeypatch.setattr(check.Model, "walk", lambda *_: None)
    assert any("accepted with" in line for line in solved(6, 6, found, SMALL))


@pytest.mark.parametrize("seed", [*range(12), *slowly(*range(12, 60))])
def test_local_first_streams_of_random_instances(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = partial(generate, sure=frozenset({"local_first"}))
    monkeypatch.setattr("tests.fuzz.certificates.generate", near)
    found: Counter[str] = Counter()
    assert list(examine(seed, 3, found, SMALL)) == []


def shuffled(**parts: Any) -> dict[str, Any]:
    """Two senders, of 6 and 2, and two receivers, on two nodes of three tasks each."""
    stream = {"from": "a", "to": "b", "rate": 8, "pattern": "local_first", "sender_weights": [3, 1]}
    return {
        "format": "streamplace.instance/1", "name": "near", "resources": ["cpu"],
        "nodes": [{"id": n, "capacity": {"cpu": 3}} for n in ("n1", "n2")],
        "operators": [{"id": name, "group": {"tasks": 2, "load": {"cpu": 2}}} for name in "ab"],
        "tasks": [{"id": "a/1", "allowed": ["n2"]}, {"id": "b/0", "load": {"cpu": 2}},
                  {"id": "b/1", "allowed": ["n1"]}],
        "streams": [stream],
    } | parts  # fmt: skip


@pytest.mark.parametrize("patterns", [True, False])
@pytest.mark.parametrize(("objective", "best"), [("imc_gain", 8), ("internode_traffic", 0)])
def test_all_of_a_stream_stays_where_each_sender_has_a_receiver(
    objective: str, best: int, patterns: bool
) -> None:
    plan = {"a/0": "n1", "a/1": "n2", "b/0": "n2", "b/1": "n1"}
    text = json.dumps(shuffled()).encode()
    made = certify(text, objective, plan, nodes=20, seconds=20.0, patterns=patterns)
    assert made.bound == best
    assert "a gap of 0" in check.check(*check.parse(text), made.document, {"assignment": plan})
    less = {**plan, "b/0": "n1", "a/0": "n2"}  # none near: neither sender has a receiver
    told = check.value_of(check.Instance(check.parse(text)[0]), {"assignment": less}, objective)
    assert told == 8 - best


@pytest.mark.parametrize("patterns", [True, False])
def test_a_sender_counts_for_a_receiver_on_its_node_alone(patterns: bool) -> None:
    """Both receivers fit n1 alone, and the lighter sender is on n2."""
    tasks = [
        {"id": "a/1", "allowed": ["n2"]},
        *({"id": f"b/{i}", "allowed": ["n1"]} for i in (0, 1)),
    ]
    text = json.dumps(shuffled(tasks=tasks)).encode()
    made = certify(text, "imc_gain", None, nodes=20, seconds=20.0, patterns=patterns)
    assert made.bound == 6
    better = {**made.document, "bound": "5"}
    with pytest.raises(check.Refused):
        check.check(*check.parse(text), better)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"crossing_cost": {"cpu": {"out": 1}}}, "over links or with crossing costs"),
        ({"links": [{"id": "l", "nodes": ["n1"], "capacity": 1}]}, "over links or with crossing"),
        ({"streams": [{**shuffled()["streams"][0], "sender_weights": [1]}]}, "sender_weights"),
        ({"streams": [{**shuffled()["streams"][0], "sender_weights": [0, 0]}]}, "sender_weights"),
    ],
)
def test_local_first_streams_that_cannot_be_read(parts: dict[str, Any], why: str) -> None:
    with pytest.raises(check.Unreadable, match=why):
        check.Instance(check.parse(json.dumps(shuffled(**parts)).encode())[0])


def certificate_of(folder: Path, instance: Path) -> tuple[Path, dict[str, Any]]:
    proof = folder / "proof.json"
    plan = folder / "plan.json"
    arguments = ["solve", "-q", str(instance), "-o", str(plan), "--certificate", str(proof)]
    assert main([*arguments, "--json"]) == 0
    return proof, json.loads(proof.read_text())


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> tuple[Path, Path, dict[str, Any]]:
    instance = repository / "examples" / "capsys-q1.json"
    return instance, *certificate_of(tmp_path_factory.mktemp("proof"), instance)


def test_the_command_certifies_an_example(
    written: tuple[Path, Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    instance, proof, _ = written
    plan = proof.with_name("plan.json")
    assert main(["certify", str(instance), str(plan), str(proof)]) == 0
    assert "a gap of 0" in capsys.readouterr().out


def test_the_checker_runs_alone(written: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    instance, proof, document = written
    false = tmp_path / "false.json"
    false.write_text(json.dumps({**document, "bound": "7/5"}))
    for files, code in (
        ([instance, proof], 0),
        ([instance.with_name("capsys-q2.json"), proof], 1),
        ([instance, false], 1),
        ([instance, instance], 2),
        ([instance, tmp_path / "none.json"], 2),
    ):
        command = [sys.executable, "-I", str(CHECKER), *map(str, files)]
        assert subprocess.run(command, capture_output=True, timeout=600).returncode == code


@pytest.mark.parametrize("there", ["nothing", "a folder"])
def test_a_file_that_cannot_be_opened_is_told_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str
) -> None:
    instance, proof = tmp_path / "instance.json", tmp_path / "proof.json"
    instance.write_text("{}")
    if there == "a folder":
        proof.mkdir()
    assert main(["certify", str(instance), str(proof)]) == 2
    told = capsys.readouterr().err
    why = {"nothing": "No such file or directory", "a folder": "Is a directory"}[there]
    assert told == f"cannot be read: {proof}: {why}; check the path and your rights\n"


@pytest.mark.parametrize("files", [[], ["one"], ["one", "two", "three", "four"]])
def test_too_few_and_too_many_files_are_told_how_to_be_given(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    assert check.main(files) == 2
    told = capsys.readouterr().err
    assert told == "cannot be read: usage: check.py INSTANCE CERTIFICATE [PLAN]\n"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ('{"bound": 1, "bound": 2, ', 2),
        ('{"bound": NaN, ', 2),
        ('{"bound": 1e999999999, ', 2),
        ('{"bound": true, ', 2),
        ('{"bound": "1e5", ', 2),
        ('{"objective": [], ', 2),
        ('{"more": 1, ', 2),
        ('{"sense": "min", ', 1),
        ('{"objective": "price", ', 1),
        ('{"assumes": ["the moon is full"], ', 1),
        ('{"assumes": ["without weight"], ', 1),
        ('{"proof": null, ', 1),
        ('{"proof": {"kind": "patterns", "steps": []}, ', 1),
        ('{"proof": {"kind": "patterns", "steps": [{"branch": []}]}, ', 2),
        ('{"proof": {"kind": "dual", "steps": [{"branch": [[0, 1]], "at": 0}]}, ', 2),
        ('{"proof": {"kind": "dual", "steps": [{"branch": [[5, 0, 0]], "at": 0}]}, ', 2),
        ('{"proof": {"kind": "dual", "steps": [{"close": [0], "over": 1}]}, ', 1),
        ('{"proof": {"kind": "threshold", "steps": [{"close": [0, 0, 0, 0, 0]}]}, ', 1),
        ('{"proof": {"kind": "patterns", "steps": [{"close": [0], "over": -1}]}, ', 2),
    ],
)
def test_hostile_files_are_refused(
    written: tuple[Path, Path, dict[str, Any]], tmp_path: Path, change: str, code: int
) -> None:
    instance, _, document = written
    key = change.split('"')[1]
    rest = {k: v for k, v in document.items() if k != key}
    file = tmp_path / "hostile.json"
    file.write_text(change + json.dumps(rest)[1:])
    assert check.main([str(instance), str(file)]) == code


def test_an_instance_with_a_field_that_is_not_known_is_not_judged(
    written: tuple[Path, Path, dict[str, Any]], tmp_path: Path
) -> None:
    instance, proof, _ = written
    changed = tmp_path / "instance.json"
    changed.write_text(instance.read_text().replace('"capacity"', '"capability"', 1))
    assert check.main([str(changed), str(proof)]) == 1  # another instance
    document, _ = check.parse(changed.read_bytes())
    with pytest.raises(check.Unreadable, match="nodes has a field"):
        check.Instance(document)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"operators": [{"id": "o", "group": {"tasks": 10**30}}]}, "too many tasks"),
        ({"operators": [{"id": "o", "group": {"tasks": 2}}] + [
            {"id": f"{k}", "group": {"tasks": 999_999}} for k in range(99)]}, "too many tasks"),
        ({"operators": [{"id": o, "group": {"tasks": 3000}} for o in "ab"],
          "streams": [{"from": "a", "to": "b", "rate": 1}]}, "too many pairs"),
        ({"operators": [{"id": f"{k}"} for k in range(400)], "input_rate": 1, "streams": [
            {"from": f"{k}", "to": f"{k + 1}", "selectivity": check.F(1, 10**99)}
            for k in range(399)]}, "too many digits"),
    ],
)  # fmt: skip
def test_what_no_memory_holds_cannot_be_read(parts: dict[str, Any], why: str) -> None:
    with pytest.raises(check.Unreadable, match=why):
        check.Instance({"format": check.READS, "nodes": [{"id": "n"}], **parts})


def test_tasks_that_may_be_on_the_same_nodes_share_their_set() -> None:
    """A set of its own for each of 100,000 tasks on 1000 nodes took 6 GB."""
    document: dict[str, Any] = {
        "format": check.READS, "operators": [{"id": "o", "group": {"tasks": 20}}],
        "nodes": [{"id": n, "leaving": n == "c"} for n in "abc"],
        "tasks": [{"id": "o/3", "node": "c"}, {"id": "o/4", "allowed": ["c", "b"]}],
    }  # fmt: skip
    may = check.Instance(document).may
    assert (may[0], may[3], may[4]) == ({0, 1}, {0, 1, 2}, {1})
    assert len({id(one) for one in may}) == 3


@pytest.mark.parametrize("objective", ["nodes_used", "used_capacity"])
def test_shares_of_nodes_are_reckoned_once(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each node once more, a plan on 300 nodes took a minute to judge."""
    document: dict[str, Any] = {
        "format": check.READS, "tasks": [{"id": f"{n}"} for n in range(9)],
        "nodes": [{"id": f"{n}", "capacity": {"cpu": 1 + n}} for n in range(10)],
    }  # fmt: skip
    read, asked = check.Instance(document), list[str]()
    shares = read.shares
    monkeypatch.setattr(read, "shares", lambda of: asked.append(of) or shares(of))
    value = check.value_of(read, {"assignment": {f"{n}": f"{n}" for n in range(9)}}, objective)
    assert value == (9 if objective == "nodes_used" else check.F(45, 55))
    assert asked == [objective]


@pytest.mark.parametrize(
    ("tasks", "steps"),
    [  # what is refused took minutes, or gigabytes, of files of half a megabyte
        ([], [{"branch": [], "at": 0}] * 20_000),
        ([{"id": "t"}], [{"branch": [[0, 0, 9]] * 10**5, "at": 0}] * 400),
    ],
)
def test_the_work_of_branches_is_limited(tasks: list[Any], steps: list[Any]) -> None:
    document: dict[str, Any] = {"format": check.READS, "nodes": [{"id": "n"}], "tasks": tasks}
    proof = {"kind": "dual", "steps": steps}
    with pytest.raises(check.Refused, match="work limit"):
        proved(document, objective="imc_gain", bound=0, proof=proof)


@pytest.mark.parametrize(
    ("traffic", "why"),
    [
        ([["a/0", "a/0", 1]], "ends where it began"),
        ([["a/0", "b/0", 1], ["a/0", "b/0", 2]], "stands twice"),
    ],
)
def test_traffic_is_between_two_tasks_and_told_once(traffic: list[Any], why: str) -> None:
    document: dict[str, Any] = {
        "format": check.READS, "nodes": [{"id": "n"}], "traffic": traffic,
        "operators": [{"id": o, "group": {"tasks": 2}} for o in "ab"],
    }  # fmt: skip
    with pytest.raises(check.Unreadable, match=why):
        check.Instance(document)


@pytest.mark.parametrize("pattern", ["full", "rescale", "merge", "one_to_one"])
def test_a_stream_of_an_operator_to_itself_cannot_be_read(pattern: str) -> None:
    """Whatever its pattern, some task would send to itself."""
    document: dict[str, Any] = {
        "format": check.READS, "nodes": [{"id": "n"}],
        "operators": [{"id": "a", "group": {"tasks": 3}}],
        "streams": [{"from": "a", "to": "a", "rate": 6, "pattern": pattern}],
    }  # fmt: skip
    with pytest.raises(check.Unreadable, match="ends where it began"):
        check.Instance(document)


def proved(document: dict[str, Any], **certificate: Any) -> str:
    """What the checker says of a certificate by counting."""
    told = {"format": check.FORMAT, "instance_sha256": "", "assumes": [], **certificate}
    return check.check(document, "", {"sense": check.SENSES[told["objective"]], **told})


def test_loads_are_derived_of_tasks_that_are_listed_one_by_one() -> None:
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "derived", "input_rate": 10,
        "nodes": [{"id": "n"}, {"id": "m"}],
        "operators": [{"id": "a", "cpu_per_tuple": 1}, {"id": "b", "cpu_per_tuple": 2}],
        "streams": [{"from": "a", "to": "b", "selectivity": 0, "tuple_bytes": 3}],
        "tasks": [{"id": t, "operator": t[0]} for t in ("b0", "a0", "a1")] + [
            {"id": "c", "load": {"cpu": 10}}],
    }  # fmt: skip
    load = Instance.from_json(json.dumps(document)).tasks.load[:, 0].tolist()
    assert load == [row[0] for row in check.Instance(document).load] == [0, 5, 5, 10]
    model = check.Model(check.Instance(document), "load_distance", check.F(5), "threshold")
    # beside b0, which costs nothing: a0 and a1 on one node, c on the other
    balanced = {(0, b, *rest) for b in (0, 1) for rest in ((2, 0), (0, 1))}
    assert {key for key, _, _ in model.columns} == balanced
    document["streams"].append({"from": "b", "to": "b", "rate": 1})
    with pytest.raises(check.Unreadable, match="ends where it began"):
        check.Instance(document)


@pytest.mark.parametrize("pattern", ["one_to_one", "rescale", "merge"])
def test_members_of_groups_stand_in_their_order_whatever_the_file_lists(pattern: str) -> None:
    """Found by seed 2006525 of the fuzzer: the second task was taken for the first."""
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "override", "nodes": [{"id": "n"}, {"id": "m"}],
        "operators": [{"id": o, "group": {"tasks": 3, "load": {"cpu": 3}}} for o in "ab"],
        "streams": [{"from": "a", "to": "b", "rate": 6, "pattern": pattern}],
        "tasks": [{"id": "c"}, {"id": "b/2", "node": "n"}, {"id": "b/1", "load": {"cpu": 0}}],
    }  # fmt: skip
    read = check.Instance(document)
    assert [*read.task] == ["a/0", "a/1", "a/2", "b/0", "b/1", "b/2", "c"]
    names = [*read.task]
    assert [(names[u], names[v]) for u, v in read.rate] == [
        ("a/0", "b/0"), ("a/1", "b/1"), ("a/2", "b/2"),
    ]  # fmt: skip
    told = Instance.from_json(json.dumps(document))
    assert list(told.tasks.ids) == names


def test_a_resource_that_nothing_uses_proves_no_rate() -> None:
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "idle", "resources": ["cpu", "net"],
        "rate_driven": ["cpu", "net"], "tasks": [{"id": "t", "load": {"net": 1}}],
        "nodes": [{"id": "n", "capacity": {"cpu": 0, "net": 3}}],
    }  # fmt: skip

    def rate(bound: int, y: list[int]) -> str:
        proof = {"kind": "dual", "steps": [{"close": y, "over": 0}]}
        return proved(document, objective="sustainable_rate", bound=bound, proof=proof)

    assert "at most 3" in rate(3, [0, 1])
    for bound, y in ((0, [1, 0]), (2, [1, 0]), (2, [0, 1]), (3, [0, -1]), (3, [0, 1, 0])):
        with pytest.raises(check.Refused):
            rate(bound, y)


def test_multipliers_of_the_textbook_s_rows_prove_a_bound() -> None:
    """Two tasks that talk, of 6 and 5, on nodes of 10: they cannot meet."""
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "apart", "traffic": [["a", "b", 7]],
        "tasks": [{"id": "a", "load": {"cpu": 6}}, {"id": "b", "load": {"cpu": 5}}],
        "nodes": [{"id": n, "capacity": {"cpu": 10}} for n in "nm"],
    }  # fmt: skip
    model = check.Model(check.Instance(document), "imc_gain", check.ZERO, "dual")
    # capacity of each node; a pair's meeting on n, then m, is at most either task's being there
    assert [right for _, right in model.rows] == [10, 10, 0, 0, 0, 0]
    assert [gain for _, gain, _ in model.columns] == [0, 7, 7, 0, 0, 0, 0]

    def gain(bound: int, steps: list[Any]) -> str:
        return proved(
            document, objective="imc_gain", bound=bound, proof={"kind": "dual", "steps": steps}
        )

    nothing: dict[str, Any] = {"close": [0] * 6}
    apart = {"close": [1, 0, 6, 5, 0, 0, -1], "over": 0}
    met = [[1, 1, 1], [3, 0, 0]]
    assert "at most 7" in gain(7, [nothing])
    also = {"close": [0, 1, 0, 0, 6, 5, 0, -11], "over": 0}
    low = {"close": [0, 0, 0, 0, 0, 0, 7, 7]}
    steps = [{"branch": met, "at": 0}, {"branch": [[1, 1, 1], [3, 1, 1]], "at": 0}, low]
    steps += [also, {**apart, "close": [1, 0, 6, 5, 0, 0, -11]}]
    assert "at most 0" in gain(0, steps)
    negative: dict[str, Any] = {"close": [-1, -1, 0, 0, 0, 0], "over": 0}  # would be below 0
    for wrong in ([nothing], [negative], [*steps[:-1], apart], steps[:-1], steps[1:]):
        with pytest.raises(check.Refused):
            gain(0, wrong)


def test_counting_says_how_many_moves_a_balance_takes() -> None:
    """Four tasks of 1 on each of two nodes, two nodes empty: even loads take four moves."""
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "even", "limits": {"max_migrations": 3},
        "tasks": [{"id": f"{n}{i}", "load": {"cpu": 1}, "node": n} for n in "ab" for i in range(4)],
        "nodes": [{"id": n} for n in "abcd"],
    }  # fmt: skip
    model = check.Model(check.Instance(document), "load_distance", check.F(2), "counting")
    assert model.rows == [("<", 3), ("=", 0), ("=", 0)]
    of_a = {key[1:] for key, _, _ in model.columns if key[0] == 0}
    # between 1 and 3 tasks are left: from a net loss of 1 to one of 3
    assert of_a == {(o, m) for o in range(4) for m in range(4) if 1 <= o - m <= 3}

    def distance(bound: int, *steps: dict[str, Any]) -> str:
        proof = {"kind": "counting", "steps": list(steps)}
        return proved(document, objective="load_distance", bound=bound, proof=proof)

    moves: dict[str, Any] = {"close": [1, 0, 0]}
    assert "at least 1" in distance(1, moves)
    lost: dict[str, Any] = {"branch": [[0, 0, 0], [1, 2, 3]], "at": 0}
    assert "at least 1" in distance(
        1, lost, {"close": [1, 0, 0, 2]}, {"close": [1, 0, 0, 0], "over": 0}
    )
    # what is dropped has to be whole, and neither end of a gain is
    for bound, wrong in ((2, moves), (1, {"close": [0, 0, 0]}), (1, {"drop": [0, 0, 0]})):
        with pytest.raises(check.Refused, match="multipliers leave"):
            distance(bound, wrong)
    with pytest.raises(LookupError):  # both ends of a gain, which are not whole apart, are one key
        distance(1, {"branch": [[3, 0, 0]], "at": 0}, moves, moves)
    with pytest.raises(check.Refused, match="too many steps"):  # of listing what is ruled out
        check.Model(check.Instance(document), "load_distance", check.F(2), "counting", 39)
    document["tasks"][0]["copies"] = ["c"]
    with pytest.raises(check.Refused, match="counting needs"):
        distance(1, moves)


def test_a_second_solver_is_asked(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instance = str(repository / "examples" / "capsys-q5.json")
    assert main(["solve", "-q", instance, "--cross-check", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bound_by"] in ("two solvers", "certificate")  # of a solve that took a second
    assert any(note.startswith("cross-check: ") and "agrees" in note for note in told["notes"])
    first = (told["solver"] or "").partition(" ")[0]
    assert not any(note.endswith(f"with {first} agrees") for note in told["notes"])
