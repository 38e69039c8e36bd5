"""Racks: as even as they allow, never fewer than now; and what cannot be is not called needless."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from optim import Instance, solve
from optim.errors import InvalidInput
from streamplace.cli.main import main
from streamplace.clusters.exchange.sources import export_plan, import_instance
from tests.streamplace.clusters.kafka.folders import Line, write_folder


def brokers_in(racks: str) -> list[dict[str, Any]]:
    """Brokers from 1 on; a dot for no rack."""
    return [{"id": i} | ({} if r == "." else {"rack": r}) for i, r in enumerate(racks, 1)]


def test_more_replicas_than_racks_are_spread_as_evenly_as_racks_allow(tmp_path: Path) -> None:
    partitions = {"t-0": Line([1, 2, 3]), "u-0": Line([4], size=300)}
    folder = write_folder(tmp_path, partitions, brokers_in("aabba"))
    words = [("mode", "remove-broker"), ("brokers", "3")]
    made = import_instance("kafka", [str(folder)], words)
    assert "more replicas than racks, at most 2 in a rack: t-0" in made.ledger.warnings
    result = solve(made.instance)
    assert result.plan is not None
    (entry,) = json.loads(export_plan("kafka", made.instance, result.plan).texts[""])["partitions"]
    assert entry["replicas"] == [1, 2, 4]


def test_a_broker_without_a_rack_is_one_of_its_own(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"t-0": Line([1, 3, 5])}, brokers_in("aab.b"))
    made = import_instance("kafka", [str(folder)], [("mode", "remove-broker"), ("brokers", "5")])
    assert any("the rack of broker 4 is not reported" in text for text in made.ledger.warnings)
    assert outcomes(made.instance, [1, 3, 5]) == {(1, 3, 4)}  # 2 shares a, and 4 shares nothing


@pytest.mark.parametrize("mode", ["dead-broker", "rebalance"])
def test_what_cannot_be_rebuilt_is_told_with_the_way_out(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [{"id": 1}, {"id": 2}, {"id": 3, "alive": False}]
    folder = write_folder(tmp_path / "k", {"t-0": Line([1, 2, 3], isr=[1, 2])}, brokers)
    words = ["import", "kafka", str(folder), "-o", str(tmp_path / "k.json")]
    assert main([*words, "--option", f"mode={mode}"]) == 2
    told = capsys.readouterr().err
    assert "no broker is left that could hold one more replica of t-0" in told
    assert "add a broker" in told
    assert "--option mode=replication-factor --option factor=2" in told
    assert "warning: under-replicated (not all replicas are in sync): t-0" in told
    lower = ["--option", "mode=replication-factor", "--option", "factor=2"]
    assert main([*words, *lower]) == 0  # the way out is one


def test_an_offline_partition_is_the_reason_why_nothing_is_rebuilt(tmp_path: Path) -> None:
    brokers = [{"id": 1}, {"id": 2, "alive": False}]
    folder = write_folder(tmp_path, {"t-0": Line([2], isr=[]), "u-0": Line([1])}, brokers)
    with pytest.raises(InvalidInput, match=r"no living replica leads t-0 \(start broker 2 again\)"):
        import_instance("kafka", [str(folder)], [("mode", "dead-broker")])


def test_warnings_are_told_where_an_export_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [{"id": 1}, {"id": 2}, {"id": 3, "alive": False}]
    partitions = {"t-0": Line([1, 3], isr=[1]), "t-1": Line([2, 1])}
    folder = write_folder(tmp_path / "k", partitions, brokers)
    document = import_instance("kafka", [str(folder)], []).instance.to_dict()
    for task in document["tasks"]:
        task.pop("allowed", None)
    del document["sets"]
    instance = Instance.from_dict(document)
    instance.save(str(tmp_path / "k.json"))
    plan = {"t-0#1": "1", "t-0#2": "3", "t-1#1": "2", "t-1#2": "2"}
    (tmp_path / "p.json").write_text(
        json.dumps({"format": "streamplace.plan/1", "instance": "k", "assignment": plan})
    )
    assert main(["export", "kafka", str(tmp_path / "k.json"), str(tmp_path / "p.json")]) == 2
    told = capsys.readouterr().err
    assert "already holds another replica of it" in told
    assert "warning: 1 partitions go on having replicas on dead brokers" in told


def outcomes(instance: Instance, now: list[int]) -> set[tuple[int, ...]]:
    """Return the brokers on which an instance of one partition lets its replicas be."""
    document = instance.to_dict()
    nodes = {n["id"]: n for n in document["nodes"]}
    stay = [i for i, n in nodes.items() if not n.get("leaving")]
    tasks = [t["id"] for t in document["tasks"]]
    may = [t.get("allowed", stay) for t in document["tasks"]]
    found = set()
    for places in itertools.product(*may):
        at = dict(zip(tasks, places, strict=True))
        if all(_keeps(each, at, nodes) for each in document.get("sets", [])):
            found.add(tuple(sorted(map(int, places))))
    return found


def _keeps(told: dict[str, Any], at: dict[str, str], nodes: dict[str, Any]) -> bool:
    over = told.get("over", "node")
    places = [at[t] if over == "node" else nodes[at[t]]["rack"] for t in told["tasks"]]
    if told["rule"] == "apart":
        return max(Counter(places).values()) <= told.get("at_most", 1)
    assert told["rule"] == "spread"
    return len(set(places)) >= told["at_least"]


class Case:
    """A random cluster with one partition, an operation, and what could be done at all."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        count = rng.randint(3, 7)
        letters = rng.choice(["a", "ab", "ab", "abc", "abc", "abcd", "ab.", "abc."])
        self.racks = "".join(rng.choice(letters) for _ in range(count))
        numbers = range(1, count + 1)
        self.replicas = rng.sample(numbers, rng.randint(1, min(4, count)))
        dead = rng.choice([0, 0, 1, 1, 2])
        self.dead = set(rng.sample(self.replicas, min(dead, len(self.replicas) - 1)))
        self.alive = [b for b in numbers if b not in self.dead]
        self.mode = rng.choice(
            ["rebalance", "remove-broker", "dead-broker", "add-broker", "replication-factor"]
        )
        self.named = rng.choice(self.alive)
        self.factor = rng.randint(1, len(self.alive))
        living = [b for b in self.replicas if b not in self.dead]
        self.options = [("mode", self.mode)]
        self.more = 0
        if self.mode in ("remove-broker", "add-broker"):
            self.options.append(("brokers", str(self.named)))
        if self.mode == "replication-factor":
            self.options.append(("factor", str(self.factor)))
            self.more = self.factor - len(self.replicas)
        gone = {self.named} if self.mode == "remove-broker" else set()
        self.takers = [b for b in self.alive if b not in gone]
        self.stays = [b for b in living if b not in gone]
        self.count = len(self.replicas) + self.more
        self.leader = living[0]
        self.living = living

    def write(self, folder: Path) -> Path:
        brokers = brokers_in(self.racks)
        for broker in brokers:
            broker["alive"] = broker["id"] not in self.dead
        line = Line(self.replicas, leader=self.leader, isr=self.living)
        return write_folder(folder, {"t-0": line}, brokers)

    def rack(self, broker: int) -> str:
        told = self.racks[broker - 1]
        return f"own {broker}" if told == "." else told

    def counted(self, brokers: Any) -> Counter[str]:
        return Counter(self.rack(b) for b in brokers)

    def possible(self) -> list[tuple[int, ...]]:
        """All that the operation could end with, whatever racks say."""
        some = itertools.combinations(self.takers, self.count)
        if self.mode == "rebalance":
            return list(some)
        if self.mode == "add-broker":
            new = len(self.replicas) - len(self.stays)
            return [b for b in some if len(set(b) - {*self.stays, self.named}) <= new]
        return [b for b in some if set(self.stays) <= set(b)]

    @property
    def kept(self) -> Counter[str]:
        """What racks may hold because it is there already."""
        return Counter() if self.mode == "rebalance" else self.counted(self.stays)

    def most(self, brokers: Any) -> int:
        """The most in a rack that holds more than it keeps."""
        found = self.counted(brokers)
        return max((n for rack, n in found.items() if n > self.kept[rack]), default=0)


@pytest.mark.seeds(200)
@pytest.mark.parametrize("seed", range(400))
def test_racks_by_brute_force(seed: int, tmp_path: Path) -> None:
    """Whatever the instance allows keeps the rule of racks, and something can be done if it can."""
    case = Case(seed)
    possible = case.possible()
    idle = case.mode == "dead-broker" and not case.dead
    idle |= case.mode == "remove-broker" and case.named not in case.replicas
    idle |= case.mode == "replication-factor" and case.more == 0
    try:
        instance = import_instance("kafka", [str(case.write(tmp_path))], case.options).instance
    except InvalidInput as error:
        assert idle or not possible, str(error)
        if not idle and not case.options[1:]:
            assert "no broker is left" in str(error)
        return
    if case.mode == "replication-factor" and case.more < 0:
        found = outcomes(instance, case.replicas)
        assert all(
            len(case.counted(b)) >= min(case.factor, len(case.counted(case.living))) for b in found
        )
        return
    assert not idle
    found = outcomes(instance, case.replicas)
    assert bool(found) == bool(possible)
    assert found <= set(possible)
    racks = len(case.counted(case.takers))
    limit = max(-(-case.count // racks), min(map(case.most, possible)))
    now = min(len(case.counted(case.replicas)), max(len(case.counted(b)) for b in possible))
    for each in found:
        assert case.most(each) <= limit, (each, limit)
        assert len(case.counted(each)) >= now, (each, now)
    if case.mode not in ("rebalance", "add-broker"):
        fair = [b for b in possible if max(case.counted(b).values()) <= limit]
        fair = [b for b in fair if len(case.counted(b)) >= now]
        assert found == set(fair) or max(case.kept.values(), default=0) > limit
