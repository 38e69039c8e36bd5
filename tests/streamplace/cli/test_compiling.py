"""What is told while kernels are compiled, and where they cannot be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from optim.util import progress
from streamplace.cli import solve, warm
from tests.command import run_command

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path


@pytest.fixture(params=[True, False], ids=["kept", "nowhere"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there is a folder for what is compiled."""
    monkeypatch.setattr(progress, "_homeless", [not request.param])
    return bool(request.param)


def test_a_run_says_what_helps(
    kept: bool, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    solved = solve.solve_pinned

    def compiling(*args: Any, **keywords: Any) -> Any:
        progress.begin()
        progress.end()
        return solved(*args, **keywords)

    monkeypatch.setattr(solve, "solve_pinned", compiling)
    words = ["solve", "examples/hand-8-tasks.json", "--method", "imc-milp"]
    done = run_command(words, repository, {})
    assert done.returncode == 0
    assert ("stored on disk" in done.stderr) == kept
    assert ("set NUMBA_CACHE_DIR" in " ".join(done.stderr.split())) == (not kept)


def test_warm_refuses_to_compile_for_nothing(
    kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Pool:
        def __init__(self, *_: Any) -> None:
            self.cancelled = False

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def submit(self, _: Any, name: str) -> Future[Any]:
            from concurrent.futures import Future

            future: Future[Any] = Future()
            future.set_result((True, 0.1, kept))
            return future

        def shutdown(self, *, cancel_futures: bool) -> None:
            self.cancelled = cancel_futures

    monkeypatch.setattr(warm, "ProcessPoolExecutor", Pool)
    done = run_command(["warm", "flux", "gma"], tmp_path, {})
    assert done.returncode == (0 if kept else 2)
    assert ("NUMBA_CACHE_DIR" in done.stderr) == (not kept)
