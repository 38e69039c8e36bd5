"""Connectors to object stores, which pyspark does not bring: what is to be added for which."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

_HADOOP = {
    "s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "wasb": "hadoop-azure",
    "wasbs": "hadoop-azure", "oss": "hadoop-aliyun", "cosn": "hadoop-cos",
}  # fmt: skip
"""Connectors that are released together with Hadoop, by scheme."""

_OTHERS = {"gs": "com.google.cloud.bigdataoss:gcs-connector:VERSION"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MISSING = re.compile(
    r"No FileSystem for scheme|Class org\.apache\.hadoop\.fs\.\S+ not found"
    r"|Class com\.google\.cloud\.hadoop\.fs\.\S+ not found"
)


def connector_remedy(told: str, uri: str) -> str | None:
    """Return what to do where an error says that there is no connector for a URI, else None.

    Parameters
    ----------
    told
        What Spark or Hadoop said.
    uri
        What was to be read or written.
    """
    scheme = _SCHEME.match(uri)
    if scheme is None or not _MISSING.search(told):
        return None
    name = scheme[1].lower()
    package = _OTHERS.get(name)
    if name in _HADOOP:
        package = f"org.apache.hadoop:{_HADOOP[name]}:{hadoop_version()}"
    if package is None:
        return f"add the connector for {name}: by spark.jars.packages or spark.jars"
    return f"add its connector: spark.jars.packages={package}"


def hadoop_version() -> str:
    """Return the version of the Hadoop that pyspark brings: its connectors must be of the same."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    prefix = "hadoop-client-api-"
    jars = sorted((Path(found.origin).parent / "jars").glob(f"{prefix}*.jar"))
    return jars[0].stem.removeprefix(prefix) if jars else "VERSION"
