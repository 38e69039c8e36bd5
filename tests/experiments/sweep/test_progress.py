"""Progress goes to standard error, at a limited rate, and not at all when not wanted."""

from __future__ import annotations

import pytest

from experiments.sweep.progress import SweepProgress, bar, lines, make_reporter


def test_lines_are_limited_but_the_last_one_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with lines() as tell:
        monkeypatch.setattr("time.monotonic", lambda: 1000.0)
        for done in range(101):
            tell(SweepProgress(done, done // 50, 100, done / 10))
        tell(SweepProgress(100, 2, 100, 10.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["0/100 runs, 0 s", "100/100 runs, 2 failed, 10.0 s"]


def test_the_bar_draws_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with bar() as tell:
        tell(SweepProgress(3, 1, 7, 1.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert "3/7" in err
    assert "1 failed" in err


def test_a_terminal_gets_a_bar_a_log_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_reporter(True) as tell:
        tell(SweepProgress(1, 0, 1, 1.0))
    assert capsys.readouterr().err == "1/1 runs, 1.00 s\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with make_reporter(True) as tell:
        tell(SweepProgress(1, 0, 1, 1.0))
    assert "━" in capsys.readouterr().err
    with make_reporter(False) as tell:
        tell(SweepProgress(1, 0, 1, 1.0))
    assert capsys.readouterr() == ("", "")


def test_failed_runs_are_named_as_they_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    news = ("crash: m on [bold]q1[/bold]: killed", "timeout: " + "n" * 200)
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    with lines() as tell:
        tell(SweepProgress(1, 0, 9, 1.0))
        tell(SweepProgress(3, 2, 9, 1.0, news))
    assert capsys.readouterr().err.splitlines() == ["1/9 runs, 1.00 s", *news]
    with bar() as tell:
        tell(SweepProgress(3, 2, 9, 1.0, news))
    err = capsys.readouterr().err
    assert all(text in err for text in news)
    with make_reporter(False) as tell:
        tell(SweepProgress(3, 2, 9, 1.0, news))
    assert capsys.readouterr() == ("", "")
