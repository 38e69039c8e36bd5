"""Progress goes to standard error, at a limited rate, and not at all when not wanted."""

from __future__ import annotations

import pytest

from experiments.sweep.execution import SweepProgress, reporter


def test_lines_are_limited_but_the_last_one_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporter(True) as tell:
        monkeypatch.setattr("time.monotonic", lambda: 1000.0)
        for done in range(101):
            tell(SweepProgress(done, done // 50, 100, done / 10))
        tell(SweepProgress(100, 2, 100, 10.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["0/100 runs, 0 s", "100/100 runs, 2 failed, 10.0 s"]


def test_a_terminal_gets_a_bar_a_log_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporter(True) as tell:
        tell(SweepProgress(1, 0, 1, 1.0))
    assert capsys.readouterr().err == "1/1 runs, 1.00 s\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with reporter(True) as tell:
        tell(SweepProgress(3, 1, 6, 1.0))
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{'█' * 10:20} 3/6 runs, 1 failed, 1.00 s, about 1.00 s left\n" in told.err
    with reporter(False) as tell:
        tell(SweepProgress(1, 0, 1, 1.0))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [False, True])
def test_failed_runs_are_named_as_they_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    news = ("crash: m on [bold]q1[/bold]: killed", "timeout: " + "n" * 200)
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with reporter(True) as tell:
        tell(SweepProgress(1, 0, 9, 1.0))
        tell(SweepProgress(3, 2, 9, 1.0, news))
    lines = capsys.readouterr().err.replace("\r\x1b[2K", "\n").splitlines()
    assert "1/9 runs, 1.00 s" in lines[terminal]
    assert all(text in lines for text in news)
    with reporter(False) as tell:
        tell(SweepProgress(3, 2, 9, 1.0, news))
    assert capsys.readouterr() == ("", "")
