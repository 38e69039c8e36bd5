"""Reading what the command line names: an instance or a plan, in a file or on standard input."""

from __future__ import annotations

import gzip
import io
import sys
import zlib

from optim import Instance, Plan
from optim.errors import InvalidInput, Problem
from optim.util.files import MAX_BYTES

STDIN = "-"


def load_instance(name: str) -> Instance:
    """Read and validate an instance from a file, or from standard input for ``-``.

    Raises
    ------
    InvalidInput
        The file cannot be read, or its content cannot be taken.
    """
    if name != STDIN:
        return Instance.load(name)
    try:
        return Instance.from_json(_read_stdin())
    except InvalidInput as error:
        raise error.within("standard input") from None


def load_plan(name: str) -> Plan:
    """Read a plan from a file, or from standard input for ``-``.

    Raises
    ------
    InvalidInput
        The file cannot be read, or its content cannot be taken.
    """
    if name != STDIN:
        return Plan.load(name)
    try:
        return Plan.from_json(_read_stdin())
    except InvalidInput as error:
        raise error.within("standard input") from None


def _read_stdin() -> bytes:
    """Read standard input whole; what is gzip by its first two bytes is unpacked."""
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not data:
        reason = "is empty, or holds one document where two are read"
        raise InvalidInput(Problem("$", None, reason, "name files"))
    if data[:2] == b"\x1f\x8b" and len(data) <= MAX_BYTES:
        try:
            with gzip.open(io.BytesIO(data)) as unpacked:
                data = unpacked.read(MAX_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            reason = f"is no whole gzip file: {error}"
            raise InvalidInput(Problem(STDIN, None, reason, "pack it again")) from None
    if len(data) > MAX_BYTES:
        reason = f"holds more than {MAX_BYTES} bytes"
        raise InvalidInput(
            Problem(STDIN, None, reason, "use the group form, or split the instance")
        )
    return data
