"""Kernels: plain where steps are few, cached on disk, renewed when a helper changes, and told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optim.util.compiled import (
    COMPILING,
    LOADING,
    READING,
    SMALL,
    Kernel,
    by_size,
    helper,
    kernel,
    warming,
)

if TYPE_CHECKING:
    from pathlib import Path

HELPERS = """
from optim.util.compiled import helper

@helper
def step(x):
    return x + {}
"""
KERNELS = """
from helpers_of_test import step
from optim.util.compiled import kernel

@kernel
def run(x):
    return step(x) * 10
"""
CALL = """
from optim.util.progress import watching
from kernels_of_test import run
watched = []
with watching(watched.append):
    value = run(1)
assert watched == [True, False] * (len(watched) // 2)
print(value, sum(run.compiled.stats.cache_hits.values()), bool(watched))
"""


NOWHERE = """
from numba.core import caching
for locator in (caching.InTreeCacheLocator, caching.UserWideCacheLocator):
    locator.from_function = classmethod(lambda *_: None)
"""


SLOW = """
from numba.core import event
import time
class Slow(event.Listener):
    def on_start(self, event):
        time.sleep(1)
    def on_end(self, event):
        pass
event.register("numba:compile", Slow())
"""


def write_modules(folder: Path) -> None:
    (folder / "helpers_of_test.py").write_text(HELPERS.format(1))
    (folder / "kernels_of_test.py").write_text(KERNELS)


def call(
    folder: Path, repository: Path, before: str = "", program: str = CALL, **variables: str
) -> list[str]:
    path = os.pathsep.join([str(folder), str(repository)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= variables
    done = subprocess.run(
        [sys.executable, "-c", before + program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_cache_is_used_and_renewed_with_the_helpers(tmp_path: Path, repository: Path) -> None:
    helpers, kernels = tmp_path / "helpers_of_test.py", tmp_path / "kernels_of_test.py"
    helpers.write_text(HELPERS.format(1))
    kernels.write_text(KERNELS)
    assert call(tmp_path, repository) == ["20", "0", "True"]
    assert call(tmp_path, repository) == ["20", "1", "False"]
    helpers.write_text(HELPERS.format(2))
    assert call(tmp_path, repository) == ["30", "0", "True"]


@pytest.mark.slow
def test_cache_is_renewed_with_helpers_of_other_folders(tmp_path: Path, repository: Path) -> None:
    kernels, package = tmp_path / "kernels_of_test.py", tmp_path / "elsewhere"
    package.mkdir()
    helpers = package / "helpers.py"
    kernels.write_text(KERNELS.replace("helpers_of_test", "elsewhere.between"))
    (package / "__init__.py").write_text("")
    (package / "between.py").write_text("from elsewhere.helpers import step\n")
    helpers.write_text(HELPERS.format(1))
    assert call(tmp_path, repository) == ["20", "0", "True"]
    assert call(tmp_path, repository) == ["20", "1", "False"]
    helpers.write_text(HELPERS.format(2))
    assert call(tmp_path, repository) == ["30", "0", "True"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "more", "value"), [("xy", 1, "20"), ("yx", 1, "30"), ("xy", 2, "30")]
)
def test_cache_is_renewed_with_constants_and_with_the_fields_of_tuples(
    fields: str, more: int, value: str, tmp_path: Path, repository: Path
) -> None:
    """Numba itself looks at the file of the kernel alone."""
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    {}: int\n    {}: int\n"
    more_ = "MORE = {}\n"
    helpers, kernels = tmp_path / "helpers_of_test.py", tmp_path / "kernels_of_test.py"
    step = HELPERS.replace("(x)", "(p)").replace("x + {}", "p.x + MORE")
    kernels.write_text(KERNELS.replace("(x)", "(p)"))
    program = CALL.replace("run(1)", "run(__import__('helpers_of_test').Pair(1, 2))")
    helpers.write_text(pair.format(*"xy") + more_.format(1) + step)
    assert call(tmp_path, repository, program=program) == ["20", "0", "True"]
    helpers.write_text("# a comment more\n" + pair.format(*fields) + more_.format(more) + step)
    same = value == "20"
    told = call(tmp_path, repository, program=program)
    assert told == [value, str(int(same)), str(not same)]


def test_what_has_no_stamp_is_refused() -> None:
    table = [1, 2]

    @kernel
    def run() -> int:
        return table[0]

    with pytest.raises(TypeError, match="kernels name no list"):
        run()


@pytest.mark.slow
def test_torn_files_of_the_cache_are_made_again(tmp_path: Path, repository: Path) -> None:
    write_modules(tmp_path)
    assert call(tmp_path, repository) == ["20", "0", "True"]
    for ending, rest in (("nbi", 9), ("nbc", 100)):
        (file,) = (tmp_path / "__pycache__").glob(f"*.{ending}")
        file.write_bytes(file.read_bytes()[:rest])
        assert call(tmp_path, repository) == ["20", "0", "True"]
    assert call(tmp_path, repository) == ["20", "1", "False"]


@pytest.mark.slow
def test_what_lies_beside_the_module_is_read_by_those_who_write_elsewhere(
    tmp_path: Path, repository: Path
) -> None:
    write_modules(tmp_path)
    assert call(tmp_path, repository) == ["20", "0", "True"]
    other = {"NUMBA_CACHE_DIR": str(tmp_path / "other")}
    assert call(tmp_path, repository, **other) == ["20", "1", "False"]
    (tmp_path / "tmp").mkdir()
    nowhere = {"TMPDIR": str(tmp_path / "tmp")}
    assert call(tmp_path, repository, NOWHERE, **nowhere) == ["20", "1", "False"]
    assert not list((tmp_path / "tmp").iterdir())


def test_where_nothing_may_be_written_it_is_known_that_nothing_is_kept(
    tmp_path: Path, repository: Path
) -> None:
    write_modules(tmp_path)
    kept = (
        "from optim.util import progress\nheld = []\n"
        "look = lambda begins: begins and held.append(progress.is_kept())\n"
        "progress._watchers.append(look)\n"
        "import atexit\natexit.register(lambda: print(sorted(set(held)), progress.is_kept()))\n"
    )
    (tmp_path / "tmp").mkdir()
    nowhere = {"TMPDIR": str(tmp_path / "tmp")}
    told = call(tmp_path, repository, NOWHERE + kept, **nowhere)
    assert told == ["20", "0", "True", "[False]", "False"]
    assert call(tmp_path, repository, kept) == ["20", "0", "True", "[True]", "True"]
    # what was shipped needs no folder
    told = call(tmp_path, repository, NOWHERE + kept, **nowhere)
    assert told == ["20", "1", "False", "[]", "True"]


def test_constants_among_the_arguments_make_no_second_version(tmp_path: Path) -> None:
    from optim.util.machine_code import twin

    @helper
    def plus(x: int, more: int) -> int:
        return x + more

    @kernel
    def run(x: int) -> int:
        return plus(x, -1) + plus(-1, x) + plus(x, more=2) + plus(x, x)

    assert run(5) == 4 + 4 + 7 + 10
    assert len(twin(plus).signatures) == 1


@pytest.mark.slow
def test_one_process_compiles_and_the_others_wait(tmp_path: Path, repository: Path) -> None:
    write_modules(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(call, tmp_path, repository, SLOW) for _ in range(3)]
    hits = sorted(int(done.result()[1]) for done in calls)
    assert hits == [0, 1, 1]


def test_waiting_for_another_process_counts_as_compiling(tmp_path: Path, repository: Path) -> None:
    write_modules(tmp_path)
    before = (
        "import time\nfrom optim.util import progress, store\n"
        "def acquire(self, seconds=0):\n    time.sleep(0.2)\n    return True\n"
        "store.Lock.acquire = acquire\nimport kernels_of_test as k\n"
        "from optim.util import compiled\nk.run.compiled._cache._cache_file.load(('nothing', 1))\n"
        "assert progress.seconds() >= 0.2, progress.seconds()\n"
    )
    assert call(tmp_path, repository, before)[0] == "20"


def test_interrupted_compilation_lets_the_others_go_on(tmp_path: Path, repository: Path) -> None:
    write_modules(tmp_path)
    before = (
        "from kernels_of_test import run\ntwin = run.compiled\ndef stop():\n"
        "    raise KeyboardInterrupt\n"
        "inner = twin._compiler.compile\ntwin._compiler.compile = lambda *_: stop()\n"
        "try:\n    run(1)\nexcept KeyboardInterrupt:\n    pass\n"
        "assert twin._cache._cache_file._lock._handle is None\ntwin._compiler.compile = inner\n"
    )
    assert call(tmp_path, repository, before) == ["20", "0", "True"]


def test_an_interruption_waits_for_the_first_look_at_what_numba_can(
    tmp_path: Path, repository: Path
) -> None:
    write_modules(tmp_path)
    before = (
        "import signal, kernels_of_test as k\n"
        "context, done = type(k.run.compiled.targetctx), []\ninner = context.refresh\n"
        "def refresh(self):\n"
        "    signal.raise_signal(signal.SIGINT)\n    inner(self)\n    done.append(1)\n"
        "context.refresh = refresh\n"
        "try:\n    k.run(1)\nexcept KeyboardInterrupt:\n    assert done\n"
        "context.refresh = inner\n"
    )
    assert call(tmp_path, repository, before) == ["20", "0", "True"]


def test_an_interruption_waits_for_numba_to_be_whole(tmp_path: Path, repository: Path) -> None:
    """Half imported, it could be imported by nobody of this process again."""
    write_modules(tmp_path)
    before = (
        "import signal, sys, kernels_of_test as k\n"
        "class Stop:\n    def find_spec(self, name, *_):\n"
        "        if name == 'numba.core.datamodel.models':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stop())\n"
        "try:\n    k.run(1)\n    raise SystemExit('not interrupted')\n"
        "except KeyboardInterrupt:\n    sys.meta_path.pop(0)\n"
    )
    assert call(tmp_path, repository, before) == ["20", "0", "True"]


class Either(Kernel):
    """A kernel whose compiled function says so."""

    compiled: Any = property(lambda _: lambda *_: "compiled")


@pytest.fixture(autouse=True)
def nothing_run_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count steps from none on."""
    monkeypatch.setattr(Kernel, "total", 0.0)


def test_small_work_runs_as_plain_python_and_draws_what_compiled_code_draws() -> None:
    @helper
    def some(most: int) -> int:
        return np.random.randint(most)  # noqa: NPY002

    @kernel
    def run(seed: int, found: np.ndarray[Any, Any]) -> None:
        np.random.seed(seed)  # noqa: NPY002
        for i in range(len(found)):
            found[i] = some(7) + np.random.random()  # noqa: NPY002

    here, there = np.zeros(50), np.zeros(50)
    before = np.random.get_state()[2]  # noqa: NPY002
    with by_size(0):
        run(3, here)
        assert "compiled" not in vars(run)
    assert np.random.get_state()[2] == before  # noqa: NPY002
    run(3, there)
    assert "compiled" in vars(run)
    assert here.tolist() == there.tolist()


@pytest.mark.parametrize(
    ("steps", "on_disk", "loaded", "plain"),
    [
        ([COMPILING], False, True, [True]),
        ([COMPILING, 1], False, True, [True, False]),
        ([LOADING], True, False, [True]),
        ([LOADING + 1], True, False, [False]),
        ([READING, 1, LOADING], True, False, [True, True, False]),
        ([READING], True, True, [True]),
        ([READING, 1], True, True, [True, False]),
    ],
)
def test_steps_choose(
    steps: list[int],
    on_disk: bool,
    loaded: bool,
    plain: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Either(lambda other, more: "plain", lambda more: more)
    asked.on_disk = on_disk
    with monkeypatch.context() as only:
        only.setattr(sys, "modules", {"numba": sys} if loaded else {})
        with by_size(SMALL):
            found = [asked("nothing", more) == "plain" for more in steps]
    assert found == plain


def test_large_work_and_other_threads_are_compiled() -> None:
    found: list[str] = []
    asked = Either(lambda: "plain", lambda: 1)

    def in_thread() -> None:
        with by_size(0):
            found.append(asked())

    with by_size(SMALL + 1):
        found.append(asked())
        with by_size(SMALL):
            found.append(asked())
            with by_size(SMALL + 1):  # a part of what is small
                found.append(asked())
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert found == ["compiled", "plain", "plain", "compiled"]


def test_an_interruption_finds_a_plain_kernel_done() -> None:
    done: list[int] = []

    @kernel
    def run() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append(1)

    with by_size(0), pytest.raises(KeyboardInterrupt):
        run()
    assert done == [1]


def test_nothing_is_warmed_where_kernels_run_as_plain_python() -> None:
    calls: list[int] = []
    warm_up = warming(lambda: calls.append(1))
    with by_size(0):
        warm_up()
    assert not calls
    warm_up()
    warm_up()
    assert len(calls) == 1
