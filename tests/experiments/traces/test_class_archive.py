"""The JVM's class archive: made once, used where it is, and never an error where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.spark.session import JAVA_OPTIONS, class_archive, with_class_archive
from experiments.traces import class_archive as making
from optim.errors import InvalidInput, Problem
from streamplace.cli import warm
from streamplace.cli.main import commands
from streamplace.java import Java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A Java that is found, and a cache folder with a space in its name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch()
    found = Java(tmp_path, 17, "test")
    monkeypatch.setattr(making, "find_java", lambda: found)
    return found


def test_it_is_made_once_and_then_used(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    path = class_archive(java)
    assert with_class_archive({"a": "b"}, java) == {"a": "b"}
    monkeypatch.setattr(making, "_dump", lambda target: target.touch())
    assert making.make().endswith("is made")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    given = {JAVA_OPTIONS: "-Dx=y"}
    assert with_class_archive(given, java) == {
        JAVA_OPTIONS: f'"-XX:SharedArchiveFile={path}" -Dx=y'
    }
    dumping = {JAVA_OPTIONS: "-XX:ArchiveClassesAtExit=z"}
    assert with_class_archive(dumping, java) == dumping
    monkeypatch.setattr(making, "_dump", lambda _: pytest.fail("made again"))
    assert making.make().endswith("is there")


def test_a_failure_leaves_nothing_and_is_no_error(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(target: Path) -> None:
        target.touch()
        raise OSError("no room")

    monkeypatch.setattr(making, "_dump", failing)
    assert making.make() == "no class archive of the JVM: no room"
    assert not list(class_archive(java).parent.iterdir())


def test_without_java_or_a_folder_that_can_be_written(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "the cache").touch()
    assert making.make().startswith("no class archive of the JVM")

    def none() -> Java:
        raise InvalidInput(Problem("a Java runtime", None, "was not found"))

    monkeypatch.setattr(making, "find_java", none)
    assert "was not found" in making.make()
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert with_class_archive({}, java) == {}


def test_warm_makes_it_through_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    target = next(c.warm for c in commands() if c.name == "trace")
    monkeypatch.setattr(making, "make", lambda: "made")
    assert warm._prepare(target) == "made"

    def missing(_: str) -> None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr(warm, "resolve_name", missing)
    assert "streamplace[spark]" in warm._prepare(target)
