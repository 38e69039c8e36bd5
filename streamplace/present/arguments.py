"""Argument types and arguments that several subcommands share; instances and plans from files or
standard input.
"""

from __future__ import annotations

import argparse
import gzip
import io
import math
import re
import sys
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from optim import Instance, Plan
from optim.errors import InvalidInput, Problem, problems_in
from optim.util.files import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN = "-"
T = TypeVar("T", Instance, Plan)


def load_instance(name: str) -> Instance:
    """Read and validate an instance from a file, or from standard input for ``-``.

    Raises `InvalidInput`: the file cannot be read, or its content cannot be taken.
    """
    return _loaded(Instance, name)


def load_plan(name: str) -> Plan:
    """Read a plan from a file, or from standard input for ``-``.

    Raises `InvalidInput`: the file cannot be read, or its content cannot be taken.
    """
    return _loaded(Plan, name)


def _loaded(kind: type[T], name: str) -> T:
    if name != STDIN:
        return kind.load(name)
    with problems_in("standard input"):
        return kind.from_json(_read_stdin())


def _read_stdin() -> bytes:
    """Read standard input whole; what is gzip by its first two bytes is unpacked."""
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not data:
        reason = "is empty, or holds one document where two are read"
        raise InvalidInput(Problem("$", None, reason, "name files"))
    # the magic number of gzip (RFC 1952)
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


_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def delay(text: str) -> float:
    """Read a finite duration that is not negative: seconds, or with its unit (ms, s, min, h)."""
    # ms before s, min before m: the longer ending first
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    return amount(text.removesuffix(unit)) * _UNITS.get(unit, 1.0)


def seconds(text: str) -> float:
    """Read a duration above 0."""
    value = delay(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0 seconds")
    return value


def positive(text: str) -> float:
    """Read a finite number above 0."""
    value = _number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0")
    return value


def growth(text: str) -> float:
    """Read a relative change that is not negative: 1.5, or 150%."""
    return amount(text[:-1]) / 100 if text.endswith("%") else amount(text)


def share(text: str) -> float:
    """Read a share of at most 1: 0.05, or 5%."""
    value = growth(text)
    if value > 1:
        remedy = "" if text.endswith("%") else f"; {text} percent is written {text}%"
        raise argparse.ArgumentTypeError(f"{text!r} is more than 100 %{remedy}")
    return value


def gap(text: str) -> float | str:
    """Read a gap: a number, or percent as they stand."""
    if not text.endswith("%"):
        return amount(text)
    amount(text[:-1])
    return text


def amount(text: str) -> float:
    """Read a finite number that is not negative."""
    value = _number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return value


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be at least 1")
    return value


def whole(text: str) -> int:
    """Read a whole number between 0 and 2³¹ − 1, the largest seed all solvers take."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} must lie between 0 and {2**31 - 1}")
    return value


def assignment(text: str) -> tuple[str, str]:
    """Read ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name, value


def output_file(text: str) -> str | None:
    """Read the name of a file; ``-`` is standard output, as is none."""
    return None if text == "-" else text


def declare(
    parser: argparse._ActionsContainer,
    name: str,
    help: str | None = None,
    type: Callable[[str], Any] | None = None,
    default: Any = ...,
    **more: Any,
) -> argparse.Action:
    """Add an argument.

    `name`: as the help shows it: ``-o, --output FILE``, ``--quiet``, or ``PLAN`` for a positional
        one. An option of which neither a value nor choices nor an action is named is a switch.
    """
    # flags end with the first word without a comma; what follows is the metavar
    flags, metavar = re.fullmatch(r"(.*?[^,])(?: (.*))?", name).groups()  # type: ignore[union-attr]
    if not name.startswith("-"):
        flags, metavar = name.lower(), more.pop("metavar", name if name.isupper() else None)
    elif not metavar and not more.keys() & {"action", "choices", "nargs"}:
        more["action"] = "store_true"
    keywords: dict[str, Any] = {"metavar": metavar or None, "type": type}
    keywords = {key: value for key, value in keywords.items() if value is not None}
    keywords |= {} if default is ... else {"default": default}
    return parser.add_argument(*flags.split(", "), help=help, **keywords, **more)


def add_instance(parser: argparse.ArgumentParser) -> None:
    """Add the positional INSTANCE."""
    declare(parser, "INSTANCE", ".json or .json.gz file, or - for standard input")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    declare(parser, "--json", "print one JSON document on stdout")


def add_output(parser: argparse.ArgumentParser, what: str, metavar: str = "FILE") -> None:
    """Add ``-o``, ``--output``: ``None`` for standard output; `what` says what is written."""
    parser.add_argument("-o", "--output", metavar=metavar, type=output_file, help=what)


SHARED: dict[str, dict[str, Any]] = {
    "--timeout": {"metavar": "S", "type": seconds, "default": 10.0,
                  "help": "seconds that an answer may take; default 10"},
    "--wait": {"metavar": "S", "type": delay,
               "help": "seconds until all runs as planned; default 60, for Kafka no limit"},
    "--throttle": {"metavar": "B", "type": count, "help": "kafka: bytes/s a broker copies"},
    "--patience": {"metavar": "S", "type": delay, "default": 60.0,
                   "help": "kafka: how long a dead broker is waited for; default 60"},
    "--command-config": {"metavar": "FILE", "help": "kafka: key=value of a secured cluster"},
}  # fmt: skip
"""Options of several commands that speak to clusters."""


def add_shared(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *names: str) -> None:
    """Add options of `SHARED`."""
    for name in names:
        parser.add_argument(name, **SHARED[name])


def add_option(parser: argparse.ArgumentParser, what: str, name: str = "--option") -> None:
    """Add ``--option K=V``; `what` says whose options they are."""
    parser.add_argument(
        name, metavar="K=V", type=assignment, action="append", default=[],
        help=f"{what}; may be given again",
    )  # fmt: skip


def one_document(as_json: bool, output: object) -> None:
    """Refuse ``--json`` where the document itself goes to standard output.

    Raises `InvalidInput`: both are asked for.
    """
    if as_json and not output:
        raise InvalidInput(
            Problem("--json", None, "needs -o: standard output takes one document", "add -o FILE")
        )


def add_ignore(parser: argparse.ArgumentParser) -> None:
    """Add ``--ignore LIMIT``."""
    declare(
        parser, "--ignore LIMIT", "drop a limit, such as max_migrations or capacity; may be given "
        "again", default=[], action="append"
    )  # fmt: skip


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not finite")
    return value
