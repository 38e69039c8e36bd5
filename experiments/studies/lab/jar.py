"""The laboratory's job as a jar, compiled by the small compiler that lies in Flink's own jars."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from streamplace.clusters.flink.submit import flink_jars

if TYPE_CHECKING:
    from streamplace.clusters.flink.submit import FlinkClient

SOURCE = Path(__file__).with_name("Orders.java")
MAIN = SOURCE.stem
_RELEASE = 8
"""Java the compiler writes; a newer runtime takes it."""


def build_jar(client: FlinkClient, folder: Path) -> Path:
    """Compile the job into a folder, and return its jar."""
    classes = folder / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    file = client.jvm.java.io.File
    compiler = client.jvm.org.codehaus.janino.Compiler()
    compiler.setDestinationDirectory(file(str(classes)), False)
    compiler.setClassPath(client.array(file, [file(jar) for jar in flink_jars()]))
    compiler.setSourceVersion(_RELEASE)
    compiler.setTargetVersion(_RELEASE)
    compiler.compile(client.array(file, [file(str(SOURCE))]))
    jar = folder / f"{MAIN.lower()}.jar"
    with zipfile.ZipFile(jar, "w") as made:
        for path in sorted(classes.glob("*.class")):
            made.write(path, path.name)
    return jar
