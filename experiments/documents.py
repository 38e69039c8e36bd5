"""What the types of documents from outside share: strict fields, lists and ranges, sizes, TOML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, TypeAdapter
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from optim.errors import InvalidInput, Problem
from optim.format.document import MAX_NUMBER, Fault, check
from optim.util.files import read_bytes

T = TypeVar("T")

TABLE = ConfigDict(extra="forbid", frozen=True)
"""Of types that are tables; unknown keys are refused."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_MAX_RANGE = 1_000_000
_RANGE_KEYS = {"from", "to", "step"}


def _unknown(_: Any) -> None:
    raise Fault("is not a known key")


def _not_blank(value: str) -> str:
    if not value.strip():
        raise Fault("is empty")
    return value


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise Fault("must be a text, a number, or true or false")
    if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:
        raise Fault("must be a finite number of at most 1e15")
    return value


def is_many(value: Any) -> bool:
    """Return whether a value is a list, or a range such as ``{from = 0, to = 9}``."""
    range_ = isinstance(value, dict) and "from" in value and value.keys() <= _RANGE_KEYS
    return range_ or isinstance(value, list)


def _items(value: Any) -> Any:
    """Take a list that is not empty, or a range as the list it means."""
    if not is_many(value):
        raise Fault("must be a list", "put it into [ ]")
    if isinstance(value, dict):
        return _range(value["from"], value.get("to"), value.get("step", 1))
    if not value:
        raise Fault("is empty", "name at least one value")
    return value


def _range(first: Any, last: Any, step: Any) -> list[int]:
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in (first, last, step)):
        raise Fault("is no range", "write {from = 0, to = 9}, both whole numbers")
    if step < 1 or last < first or (last - first) // step >= _MAX_RANGE:
        raise Fault(f"must hold 1 to {_MAX_RANGE} numbers, upwards")
    return list(range(first, last + 1, step))


def _bytes(value: Any) -> int:
    """Take a number of bytes, or a text such as ``4GB`` or ``512 MiB``."""
    size: float | None = None
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match:
            base = 1024 if match[3] else 1000
            size = float(match[1]) * base ** (" KMGT".index((match[2] or " ").upper()))
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    if size is None:
        raise Fault("is no size", "write bytes, or a text such as 4GB or 512MiB")
    if size > 1 << 50:
        raise Fault("must be at most 1 PiB")
    return int(size)


Derived = Annotated[T, SkipJsonSchema(), BeforeValidator(_unknown)]
"""Of a field that is no key of the document: the program adds it."""

Text = Annotated[str, Strict(), AfterValidator(_not_blank)]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Count = Annotated[Whole, Field(ge=0)]
Amount = Annotated[float, Strict(), Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0, le=MAX_NUMBER, allow_inf_nan=False)]
Scalar = Annotated[Any, AfterValidator(_scalar)]
Size = Annotated[int, BeforeValidator(_bytes)]
Many = Annotated[tuple[T, ...], BeforeValidator(_items)]
"""A list that is not empty; of whole numbers also a range."""

OneOrMany = Annotated[
    tuple[T, ...], BeforeValidator(lambda value: _items(value) if is_many(value) else [value])
]
"""The same, or one value alone."""


def table_type(name: str, /, **fields: Any) -> Any:
    """Make the type of a table whose keys are known at run time only, none of them needed."""
    make: Any = TypedDict
    kind = make(name, fields, total=False)
    kind.__pydantic_config__ = TABLE
    return kind


def read_toml(path: Path, most: int) -> dict[str, Any]:
    """Read a TOML file of at most so many bytes.

    Raises `InvalidInput`: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(read_bytes(path, most).decode())
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise InvalidInput(Problem(str(path), None, f"is not TOML: {error}")) from None
    except RecursionError:
        raise InvalidInput(Problem(str(path), None, "is nested too deeply")) from None


def check_toml(
    adapter: TypeAdapter[T], value: Any, problems: list[Problem], at: str = ""
) -> T | None:
    """Check a part of a TOML file; as `check`, with TOML's word for an object."""
    return check(adapter, value, problems, at, table="a table")
