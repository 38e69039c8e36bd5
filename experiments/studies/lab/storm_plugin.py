"""Builds the scheduler's jar from its source, the same bytes each time.

    python -m experiments.studies.lab.storm_plugin [--check]

It needs a JDK and Maven; ``--check`` compares with the jar in the package and writes nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import streamplace.clusters.storm
from experiments.studies.lab.runner import maven_jars

FOLDER = Path(streamplace.clusters.storm.__file__).parent / "plugin"
JAR = FOLDER / "streamplace-storm.jar"
STORM = "2.8.3"
OLDER = "2.1.1"  # The last release whose schedulers are prepared without a registry of metrics.
JDK = "17"  # The JDK that the jar in the package is built with; others may write other bytes.

MANIFEST = f"Manifest-Version: 1.0\r\nBuild-Jdk-Spec: {JDK}\r\n\r\n"
_BEGIN = (1980, 1, 1, 0, 0, 0)


def fetch(folder: Path, version: str = STORM) -> Path:
    """Fetch Storm and all that it needs into ``folder/lib``; return that."""
    return maven_jars(folder, f"org.apache.storm:storm-server:{version}")


def jdk() -> str | None:
    """Return the version of the compiler, ``17`` or so; ``None`` where there is none."""
    if shutil.which("javac") is None:
        return None
    process = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", process.stdout + process.stderr)
    return version[1] if version else None


def build(lib: Path, target: Path, source: Path = FOLDER / "PlanScheduler.java") -> None:
    """Compile a source, the scheduler's by default, for Java 11 and pack it."""
    with tempfile.TemporaryDirectory() as classes:
        compiler = ["javac", "--release", "11", "-nowarn", "-g:none", "-cp", f"{lib}/*"]
        subprocess.run([*compiler, "-d", classes, source], check=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as jar:
            jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _BEGIN), MANIFEST)
            for path in sorted(Path(classes).rglob("*.class")):
                name = path.relative_to(classes).as_posix()
                jar.writestr(zipfile.ZipInfo(name, _BEGIN), path.read_bytes())


def main() -> int:
    """Build, or compare."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "built.jar"
        build(fetch(Path(folder)), built)
        if "--check" not in sys.argv[1:]:
            shutil.copyfile(built, JAR)
        same = built.read_bytes() == JAR.read_bytes()
        print(f"{JAR.name}: {'as built' if same else 'differs'}, {built.stat().st_size:,} bytes")
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
