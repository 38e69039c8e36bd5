"""A line of progress, on a terminal and in a log."""

from __future__ import annotations

import io

import pytest

from experiments.replay.run import Teller
from streamplace.present.tables import StatusLine
from tests.streamplace.cli.test_progress_line import Terminal


def test_a_log_gets_a_line_every_ten_seconds() -> None:
    stream = io.StringIO()
    line = StatusLine(stream)
    for now in range(100, 125):
        if line.due(now):
            line.show(f"at {now}", now)
    line.close()
    assert stream.getvalue() == "at 100\nat 110\nat 120\n"


@pytest.mark.parametrize(("keep", "end"), [(False, "\r\x1b[2K"), (True, "\n")])
def test_a_terminal_gets_one_that_is_rewritten(keep: bool, end: str) -> None:
    stream = Terminal()
    line = StatusLine(stream)
    line.close(keep=keep)
    assert stream.getvalue() == ""
    line.show("a", 0.0)
    assert (line.due(0.1), line.due(0.3)) == (False, True)
    line.show("b" * 500, 0.3)
    line.close(keep=keep)
    assert stream.getvalue() == "\r\x1b[2Ka\r\x1b[2K" + "b" * 110 + end


def test_a_replay_tells_its_first_and_its_last_period(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 50.0)
    tell = Teller(total=1003, done=1000)
    for period, distance in enumerate((1.2345, None, 2.0)):
        row = {"period": period, "load_distance": distance, "migrations": 1, "nodes": 2}
        tell("flux", row)
    assert capsys.readouterr().err.splitlines() == [
        "1,001/1,003 periods  flux 0: load distance 1.23, 1 move, 2 nodes",
        "1,003/1,003 periods  flux 2: load distance 2, 1 move, 2 nodes",
    ]
