"""Fixtures for the whole suite."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]

# A shared machine is slow at times, which says nothing about the code: no deadlines.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", **_COMMON)
settings.register_profile("ci", derandomize=True, print_blob=True, **_COMMON)
settings.register_profile("thorough", max_examples=1000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell without job control starts background jobs with Ctrl-C ignored, and children inherit that:
# tests that interrupt a command would then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
