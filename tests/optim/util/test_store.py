"""Stores: killed, full, taken twice, of another question."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from optim.errors import InvalidInput
from optim.util.files import UNFINISHED, whole_file, write_atomic
from optim.util.store import Lock, Records, Store, fingerprint, remembered

HOLDING = """
import pathlib, sys, time
from optim.util.store import Lock
path = pathlib.Path(sys.argv[1])
lock = Lock(path, folder=path.is_dir())
print(lock.acquire(), flush=True)
time.sleep(60)
"""


def holder(path: Path, code: str = HOLDING) -> subprocess.Popen[str]:
    """Start a process that holds a lock."""
    command = [sys.executable, "-c", code, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def refuse(kept: Store, question: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text), kept.writing(question):
        pass


def made(path: Path) -> Store:
    return Store(path, "replay", "replay.json", "streamplace.replay/1")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_is_released_when_its_process_is_killed(kind: str, tmp_path: Path) -> None:
    folder = kind == "folder"
    path = tmp_path if folder else tmp_path / "x.lock"
    process = holder(path)
    lock = Lock(path, folder=folder)
    assert not lock.acquire()
    assert not lock.held
    process.kill()
    process.wait()
    assert lock.acquire()
    assert lock.acquire(), "held by this process already"
    assert not Lock(path, folder=folder).acquire()
    lock.release()
    assert Lock(path, folder=folder).acquire()


def test_who_waits_takes_a_lock_when_it_is_released(tmp_path: Path) -> None:
    first, second = Lock(tmp_path, folder=True), Lock(tmp_path, folder=True)
    assert first.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.acquire, 60)
        time.sleep(0.2)
        assert not waiting.done()
        first.release()
        assert waiting.result()
    assert not first.acquire(0.1)


def test_a_forked_process_does_not_release_its_parent_s_lock(tmp_path: Path) -> None:
    lock = Lock(tmp_path, folder=True)
    assert lock.acquire()
    if not (child := os.fork()):
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert not Lock(tmp_path, folder=True).acquire()


def test_a_command_that_inherits_a_lock_holds_it_after_the_one_that_started_it(
    tmp_path: Path,
) -> None:
    lock = Lock(tmp_path, folder=True, inherited=True)
    assert lock.acquire()
    process = subprocess.Popen(["sleep", "60"], pass_fds=(lock.fileno(),))
    lock.release()
    assert not Lock(tmp_path, folder=True).acquire()
    process.kill()
    process.wait()
    assert Lock(tmp_path, folder=True).acquire()


def test_where_folders_cannot_be_locked_a_file_in_them_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS, where a lock needs a descriptor that is open for writing."""
    real = fcntl.flock

    def flock(handle: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = Lock(tmp_path, folder=True)
    assert lock.acquire()
    assert not Lock(tmp_path, folder=True).acquire()
    lock.release()
    with made(tmp_path).writing({"seed": 1}):  # the lock's file is nothing of others
        assert not Lock(tmp_path, folder=True).acquire()


def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert Lock(tmp_path, folder=True).acquire()
    assert "the file system has no locks" in caplog.text


WRITING = """
import os, pathlib, sys, time
from optim.util.files import whole_file
with whole_file(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half"); file.flush()
    print(True, flush=True)
    time.sleep(60)
"""


def test_killed_while_writing_the_old_file_stands_and_the_next_call_cleans_up(
    tmp_path: Path,
) -> None:
    kept = made(tmp_path / "out")
    with kept.writing({"seed": 1}):
        kept.write({"seed": 1})
    marker = kept.path / "replay.json"
    before = marker.read_text()
    for path in (marker, kept.path / "rows.csv"):
        process = holder(path, WRITING)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert marker.read_text() == before
    assert sum(path.name.endswith(UNFINISHED) for path in kept.path.iterdir()) == 2
    with kept.writing({"seed": 1}):
        assert [path.name for path in kept.path.iterdir()] == ["replay.json"]


def test_killed_before_the_first_marker_the_folder_is_taken(tmp_path: Path) -> None:
    kept = made(tmp_path / "out")
    with kept.writing({}):
        process = holder(kept.path / "replay.json", WRITING)
        process.kill()
        process.wait()
    with kept.writing({"seed": 1}):
        assert list(kept.path.iterdir()) == []


FULL = """
import pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from optim.errors import InvalidInput
from optim.util.files import whole_file, write_atomic
from optim.util.store import Records
path = pathlib.Path(sys.argv[1])
for attempt in (
    lambda: write_atomic(path, "x" * 100_000),
    lambda: Records(path.with_suffix(".jsonl")).add("x" * 100_000),
):
    try:
        attempt()
        print("written")
    except (InvalidInput, OSError) as error:
        print(error)
"""


def test_full_disks(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    records = Records(path.with_suffix(".jsonl"))
    records.add("first")
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert "written\n" not in done.stdout.replace("cannot be written", "")
    assert path.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.json", "x.jsonl"]
    assert records.read() == ["first"]
    records.add("second")
    assert records.read() == ["first", "second"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    kept = made(tmp_path / "out")
    with (
        kept.writing({}),
        pytest.raises(InvalidInput) as refused,
        made(kept.path).writing({}),
    ):
        pass
    (problem,) = refused.value.problems
    assert (problem.path, problem.value) == ("--output", str(kept.path))
    assert problem.reason == "is being written by another replay"
    assert problem.remedy == "wait for it, or choose another folder"
    kept.path.mkdir(exist_ok=True)
    process = holder(kept.path)
    with pytest.raises(InvalidInput, match="is being written"), kept.writing({}):
        pass
    process.kill()
    process.wait()
    with kept.writing({}):
        pass


def test_another_question_is_refused_with_what_differs(tmp_path: Path) -> None:
    kept = made(tmp_path)
    asked = {"seed": 1, "costs": {"a": 0.5}, "periods": list(range(100)), "limit": None}
    with kept.writing(asked):
        kept.write(asked)
    with kept.writing(asked):
        assert kept.read()["seed"] == 1
    other = {**asked, "seed": 2, "costs": {"a": 0.25}, "periods": [1], "limit": 3}
    with pytest.raises(InvalidInput) as refused, kept.writing(other):
        pass
    (problem,) = refused.value.problems
    assert problem.value == str(tmp_path)
    assert problem.remedy == "choose another folder"
    assert problem.reason == (
        "holds another replay: seed is 1, not 2; costs.a is 0.5, not 0.25; "
        "periods has 100 entries, not 1; and 1 more"
    )
    with pytest.raises(InvalidInput) as refused, kept.writing({"limit": 3, "name": "x" * 99}):
        pass
    assert refused.value.problems[0].reason == (
        f'holds another replay: limit is absent, not 3; name is absent, not "{"x" * 58}…'
    )
    periods = [*range(50), -1, *range(51, 100)]
    refuse(kept, {"periods": periods}, r"periods\[50\] is 50, not -1 \(choose another fold")
    with kept.writing({"seed": 1}):  # what is not asked does not matter
        pass


def test_a_marker_that_appears_while_the_lock_is_taken_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process had the lock, and ended in the meantime."""
    kept, real = made(tmp_path), Lock.acquire

    def acquire(self: Lock, seconds: float = 0.0) -> bool:
        kept.write({"seed": 2})
        return real(self, seconds)

    with monkeypatch.context() as patch:
        patch.setattr(Lock, "acquire", acquire)
        refuse(kept, {"seed": 1}, "holds another replay: seed is 2, not 1")
    assert Lock(tmp_path, folder=True).acquire(), "released"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "replay.json is damaged"),
        ("[]", "replay.json is damaged"),
        ("[" * 99999, "replay.json is damaged"),
        ("\0", "replay.json is damaged"),
        ("{}", "has the format absent, not streamplace.replay/1"),
        ('{"format": "other/1"}', 'has the format "other/1", not streamplace.replay/1'),
    ],
)
def test_markers_that_are_none(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "replay.json").write_text(content)
    with pytest.raises(InvalidInput) as refused, made(tmp_path).writing({}):
        pass
    assert told in str(refused.value)
    assert (tmp_path / "replay.json").read_text() == content


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    for path, told in ((tmp_path / "file", "is a file"), (home, "is not empty and holds no repl")):
        with pytest.raises(InvalidInput, match=told), made(path).writing({}):
            pass
    assert [entry.name for entry in home.iterdir()] == ["letter.txt"]
    with pytest.raises(InvalidInput, match=r"is no result folder of a replay \(it holds no rep"):
        made(home).read()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidInput, match="cannot be written"), made(tmp_path / "x").writing({}):
        pass


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    refuse(made(tmp_path), {}, "cannot be written: Permission denied")


def test_hidden_files_that_cannot_be_removed_stay(tmp_path: Path) -> None:
    kept = Store(tmp_path, "sweep", "sweep.json", "x/1", parts=("parts",))
    (tmp_path / "parts" / ".checkpoints").mkdir(parents=True)
    (tmp_path / "parts" / ".rows-1.parquet.abc.unfinished").touch()
    with kept.writing({}):
        assert [path.name for path in kept.path.rglob("*")] == ["parts", ".checkpoints"]


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refuse(made(tmp_path / "file" / "x"), {}, "cannot be written")


def test_an_answer_is_remembered_for_its_question(tmp_path: Path) -> None:
    path, asked = tmp_path / "parts" / "x.json", []

    def make() -> list[Any]:
        asked.append(1)
        return [len(asked), (1.5, "a")]

    assert remembered(path, {"seed": 1}, make) == [1, [1.5, "a"]]
    assert remembered(path, {"seed": 1}, make) == [1, [1.5, "a"]]
    assert remembered(path, {"seed": 2}, make)[0] == 2
    for damage in ("", "{", "[]", '{"question": 1}', "[" * 99999):
        path.write_text(damage)
        before = len(asked)
        assert remembered(path, {"seed": 2}, make)[0] == before + 1
    write_atomic(path, json.dumps({"question": json.dumps({"seed": 3}), "answer": None}))
    assert remembered(path, {"seed": 3}, make) is None


def test_fingerprints_differ_where_questions_do() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert len({fingerprint(q) for q in ({"a": 1}, {"a": 2}, {"a": "1"}, {"b": 1}, [1])}) == 5


def test_records_without_the_torn_line(tmp_path: Path) -> None:
    records = Records(tmp_path / "parts" / "rows.jsonl")
    assert records.read() == []
    for value in ([1, None], "ü\n"):
        records.add(value)
    path = tmp_path / "parts" / "rows.jsonl"
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        count = whole[:end].count(b"\n")
        assert len(records.read()) == count
        records.add("next")
        assert records.read() == [*[[1, None], "ü\n"][:count], "next"]
    path.write_text('{"a": 1}\n{\n3\n')
    with pytest.raises(InvalidInput, match=r"line 2 is no JSON \(remove the line"):
        records.read()


def test_a_block_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with whole_file(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"
