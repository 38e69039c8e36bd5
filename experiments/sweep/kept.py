"""The instances of a sweep, kept beside its rows: a report can then say why, file or no file."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from experiments.sweep.store import parquet_source, write_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from experiments.sweep.instances import Prepared
    from optim.format.instance import Instance

INSTANCES = "instances.parquet"

MOST_BYTES = 64 << 20
"""Compressed, in all; what comes after is not kept."""


def keep_instances(folder: Path, prepared: Iterable[Prepared]) -> None:
    """Write the instances of a sweep, with those that an earlier call of it kept.

    Nothing is written where all are kept already. Atomic: the new file replaces the old.
    """
    import pyarrow as pa

    path = folder / INSTANCES
    packed = _packed(path, None)
    before, size = len(packed), sum(map(len, packed.values()))
    for one in prepared:
        if one.sha256 not in packed and size + len(one.packed) <= MOST_BYTES:
            packed[one.sha256] = one.packed
            size += len(one.packed)
    if len(packed) == before:
        return
    write_table(path, pa.table({"sha256": list(packed), "packed": list(packed.values())}))


def kept_instances(folder: Path, wanted: Collection[str]) -> dict[str, Instance]:
    """Return those instances, by sha256, that the folder keeps; the others are left out."""
    from optim.format.instance import Instance

    found = _packed(folder / INSTANCES, wanted)
    return {sha256: Instance.from_json(zlib.decompress(data)) for sha256, data in found.items()}


def _packed(path: Path, wanted: Collection[str] | None) -> dict[str, bytes]:
    """Return what a file holds; nothing where it cannot be read, as it is made anew then."""
    import duckdb

    chosen = "" if wanted is None else " WHERE sha256 IN (SELECT unnest($1))"
    try:
        with duckdb.connect() as con:
            text = f"SELECT sha256, packed FROM {parquet_source([path])}{chosen}"
            return dict(con.execute(text, None if wanted is None else [sorted(wanted)]).fetchall())
    except duckdb.Error:
        return {}
