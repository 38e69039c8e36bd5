"""Progress: a rewritten line on a terminal, sparser and sparser lines elsewhere."""

from __future__ import annotations

import io

import pytest

from optim.figures.catalogue import OBJECTIVES
from optim.util.progress import Progress
from streamplace.present.tables import ProgressLine

GAIN = OBJECTIVES["imc_gain"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_get_sparser_without_a_terminal() -> None:
    stream = io.StringIO()
    line = ProgressLine(GAIN, " MB/s", stream=stream)
    for tenth in range(36_000):
        line(Progress(tenth / 10, 10.0, 12.5, "solve"))
    line.close()
    lines = stream.getvalue().splitlines()
    assert 10 <= len(lines) <= 25
    assert lines[0] == "  2.00 s  solve  imc_gain 10 MB/s  bound 12.5  gap 20 %"


def test_a_terminal_sees_one_line_that_is_cleared() -> None:
    stream = Terminal()
    line = ProgressLine(OBJECTIVES["load_distance"], reference=50.0, stream=stream)
    line(Progress(0.0, None, None, "build"))
    line(Progress(0.05, 3.0, None, "solve"))
    line(Progress(0.5, 3.0, 1.0, "solve"))
    line.close()
    parts = stream.getvalue().split("\r\x1b[2K")
    assert len(parts) == 4
    assert parts[0] == parts[-1] == ""
    assert "gap –" in parts[1]
    assert parts[2].endswith("bound 1  gap 4 % of the mean")
    assert "\n" not in stream.getvalue()


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_a_long_run_with_a_plan_says_once_how_to_end_it(kind: type[io.StringIO]) -> None:
    stream = kind()
    line = ProgressLine(GAIN, stream=stream, hint="press the key")
    line(Progress(19.0, 1.0, 0.5, "solve"))
    line(Progress(29.0, None, 0.5, "solve"))
    assert "press" not in stream.getvalue()
    for seconds in (50.0, 100.0, 200.0):
        line(Progress(seconds, 1.0, 0.5, "solve"))
    assert stream.getvalue().count("press the key\n") == 1


@pytest.mark.parametrize(
    ("incumbent", "bound", "gap"),
    [(0.0, 0.0, "0 %"), (None, 1.0, "–"), (1.0, None, "–"), (2.0, 2.0, "0 %")],
)
def test_gap_at_its_edges(incumbent: float | None, bound: float | None, gap: str) -> None:
    stream = Terminal()
    ProgressLine(GAIN, stream=stream)(Progress(1.0, incumbent, bound, "solve"))
    assert stream.getvalue().endswith(f"gap {gap}")


def test_a_bound_that_is_rounding_is_told_as_zero() -> None:
    stream = io.StringIO()
    ProgressLine(OBJECTIVES["internode_traffic"], stream=stream)(
        Progress(5.0, 65.0, 2.8e-13, "solve")
    )
    assert "bound 0  gap 100 %" in stream.getvalue()
