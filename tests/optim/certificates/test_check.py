"""The checker: what it accepts is true, what was tampered with it refuses."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from experiments.cli.main import main
from optim.certificates import check
from optim.certificates.write import certify
from tests.fuzz.brute import Space
from tests.fuzz.generate import generate
from tests.fuzz.newer import PROBES
from tests.fuzz.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKER = Path(check.__file__)


def solved(seed: int) -> Iterator[tuple[bytes, str, float, dict[str, str], float]]:
    """Yield instance, objective, optimum over all placements, a best one, and what rounding is."""
    document = generate(seed, frozenset(PROBES), 0.0)
    space = Space(Reading(document))
    rate = space.figures.by_name["sustainable_rate"]
    for objective, sense in check.SENSES.items():
        among, values = space.loose, space.figures.by_name.get(objective)
        if values is None or not among.any() or (values is rate and not np.isfinite(rate).all()):
            continue
        if values is rate and not (space.reading.dropped or _unmeasured(space)):
            continue
        at = int(np.where(among, values if sense == "min" else -values, np.inf).argmin())
        plan = space.example(np.arange(len(among)) == at)
        noise = max(space.reading.total_traffic, float(space.reading.totals[0]), 1.0) * 1e-9
        yield json.dumps(document).encode(), objective, float(values[at]), plan, noise


def _unmeasured(space: Space) -> bool:
    """Whether what the rate measures binds nothing: the best placement then keeps all limits."""
    room = space.reading.room[:, space.reading.rate_driven]
    return not np.isfinite(room).any() and not space.reading.links


def tampered(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield (path, other value) for each number, text and list of a certificate."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from tampered(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from tampered(inner, (*path, i))
            yield path, value[:i] + value[i + 1 :]
            yield path, value[: i + 1] + value[i:]
    elif isinstance(value, int):
        yield from ((path, other) for other in {-value, value + 1, value - 1, 2 * value, 0, 10**30})
    elif isinstance(value, str):
        yield from ((path, other) for other in (value[1:], value[:-1] + "1", "max", "0"))


def accepted(text: bytes, certificate: Any) -> bool:
    document, sha256 = check.parse(text)
    try:
        check.check(document, sha256, certificate)
    except (check.Refused, check.Unreadable):
        return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_no_bound_is_beyond_the_best_of_all_placements(seed: int) -> None:
    for text, objective, best, plan, noise in solved(seed):
        try:
            bound = float(certify(text, objective, plan, nodes=100, seconds=5).bound)
        except (check.Refused, check.Unreadable):
            continue
        beyond = best - bound if check.SENSES[objective] == "max" else bound - best
        assert beyond <= noise, (seed, objective)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_was_tampered_with_is_refused_or_true(seed: int) -> None:
    tried = 0
    for text, objective, best, plan, noise in solved(seed):
        try:
            written = certify(text, objective, plan, nodes=50, seconds=5).document
        except (check.Refused, check.Unreadable):
            continue
        for path, other in tampered(written):
            changed = copy.deepcopy(written)
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = other
            tried += 1
            if changed != written and accepted(text, changed):
                bound = float(Fraction(changed["bound"]))
                assert path[0] in ("bound", "proof", "assumes"), path
                beyond = best - bound if check.SENSES[objective] == "max" else bound - best
                assert beyond <= noise, (path, other)
    assert tried > 100


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
        assert subprocess.run(command, capture_output=True, timeout=60).returncode == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ('{"bound": 1, "bound": 2, ', 2),
        ('{"bound": NaN, ', 2),
        ('{"bound": 1e999999999, ', 2),
        ('{"bound": true, ', 2),
        ('{"more": 1, ', 2),
        ('{"sense": "min", ', 1),
        ('{"objective": "price", ', 1),
        ('{"assumes": ["the moon is full"], ', 1),
        ('{"proof": null, ', 1),
        ('{"proof": {"kind": "patterns", "steps": []}, ', 1),
        ('{"proof": {"kind": "patterns", "steps": [{"branch": {"class": 0, "counts": []}}]}, ', 2),
        ('{"proof": {"kind": "threshold", "steps": [{"close": [0, 0, 0, 0, 0]}]}, ', 1),
        ('{"proof": {"kind": "patterns", "steps": [{"close": [0], "over": 0}]}, ', 2),
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
