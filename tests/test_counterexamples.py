"""Instances on which a proof was false, a plan lost or a run ended in an exception: what is right.

Each lies in ``tests/data`` under a name that tells the defect. The right answers stand here in the
open and are held against the fuzzer's brute force; a method must give them, and must pass all that
the fuzzer demands of any result.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fuzz.brute import Space
from tests.fuzz.cases import Question
from tests.fuzz.product import Calls, Setting, registered
from tests.fuzz.reading import Document, Reading
from tests.slowly import product_of

DATA = Path(__file__).parent / "data"


class Right(NamedTuple):
    """How many placements keep every rule, and the best value of a figure among them."""

    placements: int
    figure: str = ""
    sense: str = "max"
    best: float | None = None


RIGHT = {
    "slots-bind": Right(6, "imc_gain", "max", 4.0),
    "three-workers-two-slots": Right(0),
    "no-worker-on-a-node-of-0": Right(1, "internode_traffic", "min", 0.0),
    "workers-not-in-the-file": Right(16, "internode_traffic", "min", 0.0),
    "one-task-a-slot": Right(6, "internode_traffic", "min", 4.0),
    "storm-columns-left-out": Right(216, "internode_traffic", "min", 0.0),
    "short-limits": Right(4, "imc_gain", "max", 3.0),
    "loads-of-1e-7": Right(2, "imc_gain", "max", 9.185284161373129e-07),
    "budget-below-1e-6": Right(0),
    "integers-beyond-the-bound": Right(1332, "used_capacity", "min", 0.75),
    "no-drain-within-the-budget": Right(0),
    "default-forgets-links": Right(4, "load_distance", "min", 3.0464875898069144),
    "default-forgets-links-with-budget": Right(1, "load_distance", "min", 8.133333333333333),
    "default-forgets-load-distance": Right(1422, "imc_gain", "max", 19.75),
    "default-refuses": Right(0),
    "default-ends-without-a-plan": Right(1, "imc_gain", "max", 0.0),
    "search-loses-the-last-plans": Right(3, "load_distance", "min", 0.8843262848153692),
    "search-loses-plans-in-the-budget": Right(6, "imc_gain", "max", 4.0),
    "search-loses-plans-that-stay": Right(36, "imc_gain", "max", 15.533333333333333),
    "search-loses-plans-with-least-loads": Right(28, "imc_gain", "max", 25.75),
    "search-loses-plans-that-carry-the-input": Right(
        2, "sustainable_rate", "max", 1.0762494634182918
    ),
    "second-level-betters-the-first": Right(123, "used_capacity", "min", 0.75),
    "bytes": Right(2, "load_distance", "min", 3.3e11),
    "small-unit": Right(243, "load_distance", "min", 1e-5),
    "largest-seed": Right(148, "imc_gain", "max", 7.75),
    "gap-of-what-is-apart": Right(7, "internode_traffic", "min", 2.751767271699612),
    "tolerance-of-scaled-rows": Right(528, "used_capacity", "min", 21 / 38),
    "levels-that-nobody-measures": Right(92, "load_distance", "min", 1.0),
    "levels-within-the-gap": Right(60, "load_distance", "min", 0.0833331915074702),
}
MODELLED = ("slots-of-four-operators", "slots-of-five-operators")

#: file, method (``None``: none named), keywords, and whether the right best value must be reached
CASES: tuple[tuple[str, str | None, dict[str, Any], bool], ...] = (
    ("storm-columns-left-out", "storm-milp", {}, True),
    *(("storm-columns-left-out", "storm-milp", {"solver": s}, True)
      for s in ("highs", "cbc", "scip", "cp-sat")),
    ("workers-not-in-the-file", "storm-milp", {}, False),
    ("no-worker-on-a-node-of-0", "storm-milp", {}, False),
    ("one-task-a-slot", "storm-milp", {}, True),
    ("slots-bind", None, {}, False),
    ("three-workers-two-slots", None, {}, False),
    ("one-task-a-slot", None, {}, False),
    ("loads-of-1e-7", "imc-milp", {"break_symmetry": False, "solver": "highs"}, True),
    ("loads-of-1e-7", None, {}, True),
    ("budget-below-1e-6", "joint-milp", {"solver": "cp-sat"}, False),
    ("budget-below-1e-6", "joint-milp", {}, False),
    ("integers-beyond-the-bound", "eoa-milp", {"solver": "cp-sat", "time_limit": 1.0}, False),
    ("integers-beyond-the-bound", "eoa-milp", {}, True),
    ("no-drain-within-the-budget", "balance-milp", {"drain": "hard"}, False),
    ("no-drain-within-the-budget", "balance-milp", {}, False),
    ("default-forgets-links", None, {}, False),
    ("default-forgets-links-with-budget", None, {}, False),
    ("default-forgets-load-distance", None, {}, False),
    ("default-refuses", None, {}, False),
    ("default-ends-without-a-plan", None, {}, False),
    ("search-loses-the-last-plans", "balance-search", {"seed": 1}, False),
    ("search-loses-the-last-plans", "joint-search", {"drain": "soft"}, False),
    ("search-loses-plans-in-the-budget", "imc-search", {"by": "tasks", "seed": 2**31 - 1}, False),
    ("search-loses-plans-that-stay", "imc-search", {"start": "packing", "seed": 1}, False),
    ("search-loses-plans-with-least-loads", "imc-search", {"by": "groups"}, False),
    ("search-loses-plans-that-carry-the-input", "throughput-search", {}, False),
    ("second-level-betters-the-first", "eoa-milp", {"solver": "highs", "gap": 1.0}, False),
    ("bytes", None, {}, True),
    ("bytes", "balance-milp", {}, True),
    ("bytes", "balance-search", {}, True),
    ("small-unit", None, {}, True),
    ("small-unit", "balance-milp", {}, True),
    ("small-unit", "balance-search", {}, True),
    ("largest-seed", "joint-milp", {"solver": "scip", "seed": 2**31 - 1}, False),
    *(("gap-of-what-is-apart", "storm-milp", {"solver": s}, True) for s in ("cbc", "highs")),
    ("levels-that-nobody-measures", "balance-search", {}, True),
    ("levels-within-the-gap", "balance-milp", {}, True),
    ("tolerance-of-scaled-rows", "eoa-milp", {"form": "products", "solver": "highs"}, True),
)  # fmt: skip


def load(name: str) -> Document:
    """Return a committed counterexample."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def test_every_file_has_its_right_answer() -> None:
    assert {p.stem for p in DATA.glob("*.json")} == {*RIGHT, *MODELLED, "capsys-rates"}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_answer_is_that_of_brute_force(name: str) -> None:
    right, space = RIGHT[name], Space(Reading(load(name)))
    assert space.complete
    assert (space.tight == space.loose).all()  # nothing hangs on the tolerance
    assert int(space.tight.sum()) == right.placements
    if right.figure:
        assert space.best(right.figure, right.sense, space.tight) == pytest.approx(right.best)


def findings(setting: Setting, question: Question) -> list[tuple[str, str]]:
    """Return what the fuzzer finds wrong with the answer to a question."""
    return list(question.put(setting))


def _name(value: Any) -> str:
    if isinstance(value, dict):
        return "-".join(f"{k}={v}" for k, v in value.items()) or "plain"
    return "default" if value is None else str(value)


IDS = ["-".join(map(_name, case[:3])) for case in CASES]


@pytest.mark.parametrize(("name", "method", "keywords", "reached"), CASES, ids=IDS)
def test_answer(name: str, method: str | None, keywords: dict[str, Any], reached: bool) -> None:
    setting, right = Setting(load(name)), RIGHT[name]
    probe = "default" if method is None else "result"
    assert findings(setting, Question(probe, method, keywords)) == []
    answer = setting.answer(method, **keywords)
    assert answer.refused is None
    if "time_limit" in keywords:  # what it has by then is a matter of the machine
        return
    result = answer.result
    assert str(result.termination) != "error"
    if not right.placements:
        if result.mending is not None:  # the current placement breaks what it need not keep
            result = setting.answer(method, **keywords, start_broken="refuse").result
        assert str(result.termination) == "infeasible"
        assert int(result.exit_code) == 3
        return
    assert result.feasible
    if reached:
        assert str(result.termination) == "optimal"
        assert getattr(result.evaluation, right.figure) == pytest.approx(right.best)


SLOTTED = ("slots-bind", "three-workers-two-slots", "workers-not-in-the-file", "one-task-a-slot")
PLACING = tuple(name for name, m in registered().items() if m["family"] != "model-driven")


@pytest.mark.parametrize(("name", "method"), [*itertools.product(SLOTTED, PLACING)])
def test_slots_bind_whoever_decides_them(name: str, method: str) -> None:
    """Each method keeps the slots, or refuses; none calls a plan feasible that has no slot
    assignment.
    """
    assert findings(Setting(load(name)), Question("result", method)) == []


LIMITED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("storm-milp", {"form": "workers"}), ("imc-milp", {}), ("balance-milp", {"form": "full"}),
    ("eoa-milp", {"form": "products"}), ("joint-milp", {}), ("imc-exact", {}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "solver"), product_of([0.001, 0.1, 0.3, 0.5], "highs", ["scip", "cbc", "cp-sat"])
)
@pytest.mark.parametrize(("method", "options"), LIMITED, ids=_name)
def test_a_short_limit_is_no_error(
    method: str, options: dict[str, Any], solver: str, limit: float
) -> None:
    """A solver that is stopped while it starts has failed nobody; no bound of it is told."""
    document = load("short-limits")
    for task, node in zip(document["tasks"], ("n2", "n1", "n2", "n0"), strict=True):
        task["node"] = node
    keywords = {**options, "solver": solver, "time_limit": limit}
    assert findings(Setting(document), Question("result", method, keywords)) == []


@pytest.mark.parametrize("name", MODELLED)
def test_slots_milp_answers_without_a_limit(name: str) -> None:
    setting = Setting(load(name), Calls(patience=120))  # it took hours
    assert findings(setting, Question("modelled", "slots-milp")) == []
