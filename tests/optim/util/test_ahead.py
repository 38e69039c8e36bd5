"""Which kernels are not tried as they stand, where their machine code lies on disk."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from optim.util.ahead import BEARABLE, MOMENTS, at_once


@pytest.mark.parametrize(
    ("steps", "on_disk", "left"),
    [(MOMENTS + 1, True, True), (MOMENTS, True, False), (1e9, False, False)],
)
def test_only_long_work_leaves_and_only_for_what_is_on_disk(
    steps: float, on_disk: bool, left: bool
) -> None:
    entry = SimpleNamespace(on_disk=on_disk, left=False, seconds=0.0)
    at_once(entry, steps)
    assert entry.left == left


def test_plain_functions_stay_as_they_are() -> None:
    at_once(len, 1e9)


@pytest.mark.parametrize(
    ("steps", "on_disk", "more"),
    [(BEARABLE, False, True), (BEARABLE + 1, False, False), (MOMENTS, True, False)],
)
def test_work_that_ends_before_a_compiler_would_has_more_time(
    steps: float, on_disk: bool, more: bool
) -> None:
    entry = SimpleNamespace(on_disk=on_disk, left=False, seconds=0.0)
    at_once(entry, steps)
    assert (entry.seconds < 0.0) == more
