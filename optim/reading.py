"""From bytes to a validated document, with every problem told at once by its path."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

import jiter
from pydantic import ValidationError

from optim.errors import InvalidInput, Problem, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import TypeAdapter

T = TypeVar("T")

_MAX_PROBLEMS = 1000
_SHOWN_KEY = 100
_REMEDIES = {
    "extra_forbidden": "remove it, or see `streamplace schema` for the known keys",
    "missing": "add it",
    "finite_number": "write a finite number",
    "less_than_equal": "check the unit",
}


def parse_json(data: bytes) -> Any:
    """Parse JSON; duplicate keys, deep nesting and non-JSON are refused with a place.

    NaN and infinities pass here on purpose: the document's types refuse them with a path.

    Raises
    ------
    InvalidInput
        The bytes are no JSON document, or an object names a key twice.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InvalidInput(Problem("$", None, "is empty", "expected a JSON document"))
    try:
        return jiter.from_json(data, catch_duplicate_keys=True, cache_mode="all")
    except ValueError as error:
        text = str(error)
    if "uplicate key" in text:
        raise InvalidInput(list(_duplicate_keys(data, text)))
    if "recursion limit" in text:
        raise InvalidInput(Problem("$", None, f"is nested too deeply: {text}"))
    raise InvalidInput(Problem("$", None, f"is not JSON: {text}"))


def _duplicate_keys(data: bytes, text: str) -> Iterable[Problem]:
    """Find the paths of all duplicate keys; only ever run on a document that has one."""

    class Pairs(list[tuple[str, Any]]):
        """An object as its pairs, so that a repeated key is still there to be found."""

    found = False
    try:
        stack: list[tuple[str, Any]] = [("", json.loads(data, object_pairs_hook=Pairs))]
    except (RecursionError, ValueError):
        stack = []
    while stack:
        path, value = stack.pop()
        if isinstance(value, Pairs):
            seen = set()
            for key, item in value:
                here = _below(path, key)
                if key in seen:
                    found = True
                    yield Problem(here, None, "stands twice in the same object", "keep one")
                seen.add(key)
                stack.append((here, item))
        elif isinstance(value, list):
            stack.extend((f"{path}[{i}]", item) for i, item in enumerate(value))
    if not found:
        yield Problem("$", None, f"repeats a key: {text}", "keep one")


def validate(adapter: TypeAdapter[T], value: Any) -> T:
    """Check a parsed value against a document type.

    Raises
    ------
    InvalidInput
        With one problem per offending field, by path.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        problems = [_problem(dict(detail)) for detail in details[:_MAX_PROBLEMS]]
    raise InvalidInput(problems)


def path_of(location: Iterable[str | int]) -> str:
    """Write a location as in the file: ``nodes[3].capacity.cpu``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path = _below(path, part)
    return path or "$"


def _below(path: str, key: str) -> str:
    """Go one key down; a key longer than anyone would read is cut."""
    shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
    return f"{path}.{shown}" if path else shown


def _problem(detail: dict[str, Any]) -> Problem:
    kind = detail["type"]
    message = (
        detail["msg"].replace("Input should be", "must be").replace("Field required", "is missing")
    )
    message = message.replace("Extra inputs are not permitted", "is not a known key")
    message = re.sub("a valid dictionary( or instance of \\w+)?", "an object", message)
    message = message.replace("a valid integer", "a whole number")
    value = None if kind in ("missing", "extra_forbidden") else detail.get("input")
    reason = message[0].lower() + message[1:]
    if kind == "float_type" and isinstance(value, int) and not isinstance(value, bool):
        reason = "is too large a number"  # a whole number beyond what a float holds
    elif kind.endswith(("_type", "_parsing")):
        found = _json_type(detail.get("input"))
        reason += "" if found == "a number" and kind == "int_type" else f", not {found}"
    return Problem(path_of(detail["loc"]), value, reason, _REMEDIES.get(kind, ""))


def _json_type(value: Any) -> str:
    names = {bool: "true/false", str: "a text", int: "a number", float: "a number"}
    names |= {list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), shorten(value))
