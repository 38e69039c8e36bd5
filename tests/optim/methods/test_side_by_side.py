"""The portfolio in several processes: each in a Python of its own, which has no other threads."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.generators import generate
from optim.methods.choose import Choice
from optim.methods.portfolio import _further, _lanes
from tests.command import with_a_plan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")


def lanes(*names: str, workers: int) -> list[list[tuple[str, int]]]:
    suited = [Choice(name, "", repair=False) for name in names]
    return [[(turn.choice.name, turn.seed) for turn in lane] for lane in _lanes(suited, workers)]


def test_the_first_exact_method_has_a_process_of_its_own() -> None:
    found = lanes("imc-exact", "imc-search", "top-down", "imc-milp", workers=2)
    again = [("imc-search", 4)], [("imc-search", 1)]  # from other seeds, once they are free
    assert found == [
        [("imc-exact", 0), *again[0]],
        [("imc-search", 0), ("top-down", 0), *again[1]],
    ]


def test_exact_methods_alone_run_side_by_side() -> None:
    assert lanes("imc-exact", "imc-milp", workers=2) == [[("imc-exact", 0)], [("imc-milp", 0)]]


def test_each_process_goes_on_from_seeds_of_its_own() -> None:
    suited = [Choice(name, "", repair=False) for name in ("imc-search", "top-down", "imc-milp")]
    repeated = [lane[-1] for lane in [*_lanes(suited, 3), *_further(suited, 3, [])]]
    assert {turn.choice.name for turn in repeated} == {"imc-search"}
    seeds = [turn.seed + k * turn.step for turn in repeated for k in range(4)]
    assert len({0, *seeds}) == 1 + len(seeds)


def test_exact_methods_follow_a_first_search_at_once() -> None:
    found = lanes("imc-search", "top-down", "imc-milp", workers=2)
    assert [[name for name, _ in lane] for lane in found] == [
        ["imc-search", "imc-milp", "imc-search"],
        ["top-down", "imc-search"],
    ]


def python(text: str) -> str:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


FORKED = "import os, time\nfrom optim.util.process import Forked, may_fork\nassert may_fork()\n"


def test_a_forked_process_answers() -> None:
    text = "f = Forked(lambda: os.getpid())\npid = f.answer(60)\nf.end()\nprint(pid != os.getpid())"
    assert python(FORKED + text) == "True\n"


def test_what_it_raises_is_raised_here() -> None:
    text = (
        "from optim.errors import SolverError\n"
        "def work():\n    raise SolverError('two and two is five')\n"
        "try: Forked(work).answer(60)\nexcept SolverError as error: print(error)"
    )
    assert python(FORKED + text) == "two and two is five\n"


def test_an_interrupt_ends_the_work_and_not_the_answer() -> None:
    text = (
        "def work():\n    try: time.sleep(60)\n    except KeyboardInterrupt: return 'so far'\n"
        "f = Forked(work)\ntime.sleep(0.5)\nf.interrupt()\nf.interrupt()\nprint(f.answer(30))"
    )
    assert python(FORKED + text) == "so far\n"


def test_what_is_killed_has_no_answer() -> None:
    text = "f = Forked(lambda: os.kill(os.getpid(), 9))\nprint(f.answer(60))"
    assert python(FORKED + text) == "None\n"


def test_it_ends_with_a_process_that_ended_before_it_began() -> None:
    text = (
        "import optim.util.process as process\n"
        "own = process.die_with_parent\n"
        "process.die_with_parent = lambda *parent: (time.sleep(1), own(*parent))\n"
        "f = Forked(lambda: time.sleep(600))\nprint(f._child.pid, flush=True)\nos._exit(0)"
    )
    command = [sys.executable, "-c", FORKED + text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
    assert _gone(pid)


def test_other_threads_forbid_it() -> None:
    text = (
        "import threading, time\nfrom optim.util.process import may_fork\n"
        "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\nprint(may_fork())"
    )
    assert python(text) == "False\n"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an instance whose optimum is not proved within minutes: it has no bound to meet."""
    path = tmp_path_factory.mktemp("side") / "large.json"
    generate("dense", seed=3, tasks=150, nodes=10).save(path)
    return path


def solve(path: Path, *more: str, seconds: float = 4.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "streamplace", "solve", str(path), "--json"]
    command += ["--time-limit", f"{seconds:g}", "--threads", "2", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(word) for word in text.split()]


def forked(process: subprocess.Popen[str]) -> list[int]:
    """Wait for the forked processes: those that run the same program as the first."""
    for _ in range(600):
        name = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        found = [c for c in children_of(process.pid) if _cmdline(c) == name]
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("nothing was forked")


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _gone(pid: int) -> bool:
    """Whether a process has ended within some seconds."""
    for _ in range(100):
        if not _cmdline(pid):
            return True
        time.sleep(0.1)
    return False


def answer(process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
    text, said = process.communicate(timeout=300)
    assert process.returncode == code, said
    found: dict[str, Any] = json.loads(text)
    return found


def test_methods_run_side_by_side(large: Path) -> None:
    process = solve(large)
    other = forked(process)
    result = answer(process)
    assert result["evaluation"]["feasible"]
    assert any(note.startswith("tried in 2 processes: ") for note in result["notes"])
    assert all(_gone(pid) for pid in other)


def test_a_process_that_is_free_goes_on_while_an_exact_method_runs(large: Path) -> None:
    result = answer(solve(large))
    said = next(note for note in result["notes"] if note.startswith("tried in 2 processes: "))
    spent = sum(float(seconds) for seconds in re.findall(r"([\d.]+) s ", said))
    assert spent >= 1.5 * (result["times"]["total"] - result["times"].get("compile", 0.0) - 2 * 0.3)


def test_a_search_by_name_runs_from_several_seeds(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    generate("dense", seed=3, tasks=12, nodes=3).save(path)
    asked = "--method", "plan-search", "--option", "effort=0.02"
    found = [answer(solve(path, *asked, *more, seconds=300.0)) for more in ((), ())]
    alone = answer(solve(path, *asked, "--threads", "1", seconds=300.0))
    assert found[0]["plan"]["sha256"] == found[1]["plan"]["sha256"]
    assert found[0]["notes"][-2].startswith("tried in 2 processes: plan-search ")
    assert found[0]["objective"]["value"] >= alone["objective"]["value"]
    assert found[0]["termination"] == "iteration_limit"


def test_a_search_by_name_ends_at_ctrl_c_with_all_its_processes(large: Path) -> None:
    process = solve(large, "--method", "imc-search", seconds=60.0)
    other = forked(process)
    with_a_plan(process)
    process.send_signal(signal.SIGINT)
    assert answer(process, 130)["evaluation"]["feasible"]
    assert all(_gone(pid) for pid in other)


def test_a_wrong_option_is_refused_once() -> None:
    path = Path(__file__).parents[3] / "examples/hand-8-tasks.json"
    process = solve(path, "--method", "imc-search", "--option", "by=rack")
    _, said = process.communicate(timeout=300)
    assert (process.returncode, said.count("--option by")) == (2, 1)


def test_what_is_proven_at_once_is_the_same_alone(tmp_path: Path) -> None:
    small = Path(__file__).parents[3] / "examples/hand-8-tasks.json"
    plans = [answer(solve(small, "--threads", threads))["plan"] for threads in ("1", "2")]
    assert plans[0] == plans[1]


def test_an_interrupt_returns_the_best_plan_of_all(large: Path) -> None:
    process = solve(large, seconds=60.0)
    other = forked(process)
    with_a_plan(process)
    process.send_signal(signal.SIGINT)
    result = answer(process, 130)
    assert result["termination"] == "interrupted"
    assert result["evaluation"]["feasible"]
    assert all(_gone(pid) for pid in other)


def test_a_killed_process_takes_nothing_with_it(large: Path) -> None:
    process = solve(large)
    os.kill(forked(process)[0], signal.SIGKILL)
    assert answer(process)["evaluation"]["feasible"]


def test_nothing_survives_the_command(large: Path) -> None:
    process = solve(large, seconds=60.0)
    other = forked(process)
    process.kill()
    process.wait()
    assert all(_gone(pid) for pid in other)
