"""Fixtures for the whole suite."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings

from optim import plugins
from tests.small_spark import SMALL

Plug = Callable[..., None]

REPOSITORY = Path(__file__).resolve().parents[1]

# A shared machine is slow at times, which says nothing about the code: no deadlines.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", **_COMMON)
settings.register_profile("ci", derandomize=True, print_blob=True, **_COMMON)
settings.register_profile("thorough", max_examples=1000, **_COMMON)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(_PROFILE)
_LEAST_EXAMPLES = 5
_SEEDS = 2

# A shell without job control starts background jobs with Ctrl-C ignored, and children inherit that:
# tests that interrupt a command would then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Look for no garbage while 15,000 tests are collected, which all stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let no later search for garbage walk through what was collected."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Draw less where time is short: the first seeds of each family, a part of the examples.

    ``make test-all`` draws all. A family whose first seeds say too little is marked ``seeds(n)``;
    of one with further parameters, about twice as many members are drawn, and two seeds at least.

    Modules that use Spark come first, and so all to one process: a session each costs seconds.
    """
    using = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in using)
    if _PROFILE != "ci":
        return
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        _draw_few_examples(item)
        if "slow" not in item.keywords and "seed" in _params(item):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        seeds = list(dict.fromkeys(_params(item)["seed"] for item in family))
        others = max(1, len(family) // len(seeds))
        told = family[0].get_closest_marker("seeds")
        few = told.args[0] if told else max(2, min(_SEEDS, 2 * _SEEDS // others))
        for item in family:
            if _params(item)["seed"] not in seeds[:few]:
                item.add_marker(pytest.mark.slow)


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _draw_few_examples(item: pytest.Item) -> None:
    made = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    if made is not None and "slow" not in item.keywords:
        few = max(min(made.max_examples, _LEAST_EXAMPLES), made.max_examples // 15)
        item.obj._hypothesis_internal_use_settings = settings(made, max_examples=few)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def examples(repository: Path) -> Path:
    """Return the folder of the committed example instances."""
    return repository / "examples"


@pytest.fixture(scope="session")
def shared_data(repository: Path) -> Path:
    """Return the folder of third-party inputs, which lie beside the repository; skip without it.

    ``STREAMPLACE_SHARED`` names the folder that holds ``data``.
    """
    shared = Path(os.environ.get("STREAMPLACE_SHARED", repository.parent / "shared"))
    data = shared / "data"
    if not data.is_dir():
        pytest.skip("third-party inputs are not here; STREAMPLACE_SHARED names their folder")
    return data


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a quick session for all tests of a process, or borrow the one that runs."""
    from experiments.spark.session import spark_session

    with spark_session("local[2]", config=SMALL) as session:
        yield session


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Install a package ``other`` whose module registers things by name in a group.

    Of what streamplace registers in that group, only the names to `keep` are left.
    """

    def install(
        group: str, things: Mapping[str, Any], *, keep: tuple[str, ...], value: str = ""
    ) -> None:
        own = [plugins.entries(group)[name].point for name in keep]
        module = ModuleType("other_module")
        vars(module).update(things)
        monkeypatch.setitem(sys.modules, "other_module", module)
        dist = cast("Distribution", type("Dist", (), {"name": "other"})())
        theirs = [EntryPoint(name, value or f"other_module:{name}", group) for name in things]
        for entry in theirs:
            vars(entry).update(dist=dist)
        monkeypatch.setattr(plugins, "entry_points", lambda **_: [*own, *theirs])
        plugins.entries.cache_clear()

    yield install
    monkeypatch.undo()
    plugins.entries.cache_clear()
