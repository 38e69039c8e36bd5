"""Jars of Maven Central, with all that they need, fetched once into a folder."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from experiments.studies.lab.runner import LabError

if TYPE_CHECKING:
    from pathlib import Path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>lab</groupId><artifactId>lab</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}</dependencies></project>
"""
_NEEDED = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version></dependency>
"""


def maven_jars(folder: Path, *wanted: str) -> Path:
    """Fetch what is named ``group:artifact:version``; return the folder of the jars.

    Raises
    ------
    LabError
        Java, Maven or Maven Central is not there.
    """
    lib = folder / "lib"
    if (lib / "complete").exists():
        return lib
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise LabError(f"{tool} is not there: {wanted[0]} needs Java 17, and Maven once")
    folder.mkdir(parents=True, exist_ok=True)
    needed = "".join(_NEEDED.format(*name.split(":")) for name in wanted)
    (folder / "pom.xml").write_text(_POM.format(needed))
    words = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"Maven Central does not give {wanted[0]} in 300 s") from None
    if done.returncode:
        raise LabError(f"Maven Central does not give {wanted[0]}: {done.stdout[-300:]}")
    (lib / "complete").touch()
    return lib
