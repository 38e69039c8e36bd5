"""What a solve certifies unasked: where it costs little, and nothing else."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optim import Instance, solve
from optim.certificates import grade, write
from optim.certificates.grade import affordable, insisted

if TYPE_CHECKING:
    from optim.referee import Result


def test_only_long_solves_are_certified_unasked(repository: Path) -> None:
    instance = Instance.load(repository / "examples" / "capsys-rate-q6.json")
    result = solve(instance, "throughput-exact")
    short = replace(result, times={"solve": 0.04})
    assert affordable(short, lambda: b"") is short
    # a busy machine made it long by the clock, not the work
    waited = replace(result, times={"solve": 100.0})
    assert affordable(waited, lambda: b"", busy=0.04) is waited
    told = affordable(replace(result, times={"solve": 100.0}), lambda: instance.to_json().encode())
    assert told.bound_by == "certificate"
    assert told.certified_gap == pytest.approx(0.0, abs=1e-9)
    # a file that takes longer to read than a fifth of the solve is left alone
    big = replace(result, times={"solve": 1.0})
    assert affordable(big, lambda: b" " * 10_000_000) is big
    assert affordable(big, lambda: pytest.fail("the text is made"), making=3.0) is big


def test_a_certificate_that_proves_less_than_is_claimed_is_left_out(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance.load(repository / "examples" / "capsys-rate-q6.json")
    solved = replace(solve(instance, "throughput-exact"), times={"solve": 100.0})
    assert solved.bound is not None
    for weaker, gap, shown in ((1.0, 0.0, True), (1.2, 0.2 / 1.2, False), (1.2, 0.5, True)):
        claimed = replace(solved, gap=gap)
        told = replace(
            claimed,
            certified_bound=solved.bound * weaker,
            certified_gap=1 - 1 / weaker,
            bound_by="certificate" if weaker == 1.0 else "one solver",
        )
        if weaker > 1.0 and not shown:
            claimed, told = (replace(x, gap=0.0) for x in (claimed, told))
        monkeypatch.setattr(grade, "certified", lambda *_, told=told, **__: (told, {}))
        assert grade.affordable(claimed, lambda: b"") is (told if shown else claimed)


def test_what_is_not_loaded_has_its_price(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the writer is loaded, as in a sweep, shorter solves are certified than without it."""
    instance = Instance.load(repository / "examples" / "capsys-rate-q6.json")
    solved = solve(instance, "throughput-exact")
    tried: list[float] = []

    def trying(result: Result, *_: object, seconds: float, **__: object) -> object:
        tried.append(seconds)
        return result, None

    monkeypatch.setattr(grade, "certified", trying)
    for loaded, spent in (((), 2.2), (("scipy.optimize",), 0.2), (("write",), 0.06)):
        for name in ("scipy.optimize", "optim.certificates.write"):
            here = name.rpartition(".")[2] in loaded or name in loaded
            if here:
                monkeypatch.setitem(sys.modules, name, grade)
            else:
                monkeypatch.delitem(sys.modules, name, raising=False)
        for share in (0.5, 1.0):
            grade.affordable(replace(solved, times={"solve": share * spent}), lambda: b"")
        assert len(tried) == 1
        tried.clear()


@pytest.mark.parametrize(
    ("error", "why"),
    [(KeyboardInterrupt, "it was interrupted"), (MemoryError, "there is not the memory for one")],
)
def test_what_was_solved_is_not_lost_with_its_certificate(
    error: type[BaseException], why: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance.load(repository / "examples" / "capsys-rate-q6.json")
    result = replace(solve(instance, "throughput-exact"), times={"solve": 100.0})

    def failing(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(write, "certify", failing)
    told, document = insisted(result, b"{}")
    assert (told.plan, document) == (result.plan, None)
    assert told.notes[-1] == f"no certificate: {why}"
    assert affordable(result, lambda: b"{}") is result


@pytest.mark.parametrize("method", ["balance-milp", "throughput-exact"])
def test_numbers_too_far_apart_for_doubles_lose_no_plan(method: str) -> None:
    loads = {"x": 1e-300, "y": 1e15, "z": 5e-300}
    document = {
        "format": "streamplace.instance/1", "name": "apart",
        "nodes": [{"id": n, "capacity": {"cpu": 1e15}} for n in "ab"],
        "tasks": [{"id": t, "load": {"cpu": load}, "node": "a"} for t, load in loads.items()],
    }  # fmt: skip
    instance = Instance.from_dict(document)
    result = solve(instance, method)
    told, _ = insisted(result, instance.to_json().encode())
    assert told.plan is result.plan
    assert "certificate" in told.notes[-1]
