"""Argument types and arguments that several subcommands share."""

from __future__ import annotations

import argparse
import math

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def delay(text: str) -> float:
    """Read a finite duration that is not negative: seconds, or with its unit (ms, s, min, h)."""
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


def add_instance(parser: argparse.ArgumentParser) -> None:
    """Add the positional INSTANCE."""
    parser.add_argument(
        "instance", metavar="INSTANCE", help=".json or .json.gz file, or - for standard input"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_option(parser: argparse.ArgumentParser, what: str, name: str = "--option") -> None:
    """Add ``--option K=V``; `what` says whose options they are."""
    parser.add_argument(
        name, metavar="K=V", type=assignment, action="append", default=[],
        help=f"{what}; may be given again",
    )  # fmt: skip


def one_document(as_json: bool, output: object) -> None:
    """Refuse ``--json`` where the document itself goes to standard output.

    Raises
    ------
    InvalidInput
        Both are asked for.
    """
    from optim.errors import InvalidInput, Problem

    if as_json and not output:
        raise InvalidInput(
            Problem("--json", None, "needs -o: standard output takes one document", "add -o FILE")
        )


def add_ignore(parser: argparse.ArgumentParser) -> None:
    """Add ``--ignore LIMIT``."""
    parser.add_argument(
        "--ignore", metavar="LIMIT", action="append", default=[],
        help="drop a limit, such as max_migrations or capacity; may be given again",
    )  # fmt: skip


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not finite")
    return value
