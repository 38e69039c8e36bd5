"""A name that is unknown gets the near one that is meant; shares may be written in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optim.plugins import Option
from streamplace import Instance
from tests.command import run_command

if TYPE_CHECKING:
    from pathlib import Path

CASE = "examples/capsys-q1.json"
NEAR = {
    "slove": "solve",
    f"solve {CASE} --method balance-mlp": "balance-milp",
    f"solve {CASE} --objective load_distanc": "load_distance",
    f"solve {CASE} --objective 0.5*imc_gian-load_distance": "imc_gain",
    f"solve {CASE} --method imc-milp --solver higs": "highs",
    f"solve {CASE} --ignore max_migratons": "max_migrations",
    f"solve {CASE} --start-broken mendd": "mend",
    f"solve {CASE} --curve movs": "moves",
    f"solve {CASE} --method top-down --option priority=imcc": "imc",
    f"solve {CASE} --method top-down --option prioriti=imc": "priority",
    f"solve {CASE} --method balance-search --warm-start flix": "flux",
    f"solve {CASE} --scale-load Transfrom=2": "Transform",
    f"solve {CASE} --gpa 1%": "--gap",
    "methods balnce-milp": "balance-milp",
    "schema instnce": "instance",
    "import stom x": "storm",
    f"export kafk {CASE} x": "kafka",
    "generate clster -o x": "cluster",
    "verify kafak x": "kafka",
}


@pytest.mark.parametrize("command", NEAR)
def test_an_unknown_name_gets_the_near_one(command: str, repository: Path) -> None:
    words = command.split()
    done = run_command(words, repository, {})
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert NEAR[command] in done.stderr.partition("did you mean")[2]


def test_without_a_near_name_all_are_listed(repository: Path) -> None:
    done = run_command(["solve", CASE, "--start-broken", "xyz"], repository, {})
    assert done.returncode == 2
    assert "one of mend, refuse" in done.stderr


def test_an_option_that_is_a_share_takes_percent() -> None:
    share = Option("upper", "float", 0.8, "utilisation", minimum=0.0, maximum=1.0)
    assert share.read("65%") == 0.65


def test_loads_are_scaled_by_percent(repository: Path) -> None:
    from optim.format.changes import altered, read_case

    instance = Instance.load(repository / CASE)
    made, same = (altered(instance, read_case(f"scale-rate {x}")) for x in ("150%", "1.5"))
    assert made.to_dict()["tasks"] == same.to_dict()["tasks"]
    with pytest.raises(ValueError, match="no number"):
        read_case("budget 50%")
