"""From bytes to a validated document, with every problem reported at once with its path."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

import jiter
from pydantic import ValidationError

from optim.errors import InvalidInput, Problem, meant, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

T = TypeVar("T")

_MAX_PROBLEMS = 1000
_LONG = 10_000
_SHOWN_KEY = 100
_REASONS = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be {table}",
    "dict_type": "must be {table}",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model_type": "must be {table}",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
}
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
_EMPTY = ("string_too_short", "too_short")
_REMEDIES = {
    "finite_number": "write a finite number",
    "less_than_equal": "check the unit",
    "missing": "add it",
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
        return jiter.from_json(data, catch_duplicate_keys=True, cache_mode="keys")
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


class Fault(ValueError):
    """What a validator of a document's type raises, to be reported with the path of what it
    checked.

    Parameters
    ----------
    reason, remedy
        As in `Problem`.
    problems
        Instead: several, their paths relative to what was checked.
    """

    def __init__(
        self, reason: str = "", remedy: str = "", problems: Iterable[Problem] = ()
    ) -> None:
        super().__init__(reason)
        self.reason, self.remedy, self.problems = reason, remedy, list(problems)


def check(
    adapter: TypeAdapter[T],
    value: Any,
    problems: list[Problem],
    at: str = "",
    table: str = "an object",
    context: Any = None,
) -> T | None:
    """Check a parsed value against a document type; add a problem per offending field.

    Parameters
    ----------
    adapter
        Of the type: it may raise `Fault` from validators of its own.
    problems
        Where problems are added, by path.
    at
        Path of the value in its document.
    table
        What the document's language calls an object.
    context
        Passed to validators of the type.

    Returns
    -------
    T | None
        ``None`` where there are problems.
    """
    details: list[ErrorDetails] = []
    try:
        if _is_long(value):  # a list of nothing but errors is reported before it fills the memory
            details = _first_errors(adapter, value, context, deep=False)
        if not details:
            return adapter.validate_python(value, context=context)
    except ValidationError as error:
        count = error.error_count()
        details = error.errors(include_url=False) if count <= _MAX_PROBLEMS else []
        if not details and not (details := _first_errors(adapter, value, context, deep=True)):
            problems.append(Problem(at or "$", None, f"has {count:,} problems", "mend its lists"))
    known = KnownKeys(adapter)
    for detail in details:
        problems += _problems(dict(detail), value, at, known, table)
    return None


def _is_long(document: Any) -> bool:
    parts = document.values() if isinstance(document, dict) else ()
    return any(isinstance(part, list) and len(part) > _LONG for part in parts)


def _first_errors(
    adapter: TypeAdapter[Any], value: Any, context: Any, *, deep: bool
) -> list[ErrorDetails]:
    """Return errors found in the first elements of a document's lists, where all are too many.

    Each takes some hundred times the memory of what it is about. Unless `deep`, only the lists
    right in the document are cut, and only what is wrong with their elements counts.
    """
    for most in (_MAX_PROBLEMS // 10, 1):
        try:
            adapter.validate_python(_shortened(value, most, deep), context=context)
        except ValidationError as error:
            if error.error_count() <= _MAX_PROBLEMS:
                found = error.errors(include_url=False)
                return [e for e in found if deep or any(isinstance(p, int) for p in e["loc"])]
    return []


def _shortened(value: Any, most: int, deep: bool) -> Any:
    """Return a document with no more than the first elements of its lists."""
    if isinstance(value, list):
        return [_shortened(item, most, deep) if deep else item for item in value[:most]]
    if isinstance(value, dict):
        return {
            key: _shortened(item, most, deep) if deep or isinstance(item, list) else item
            for key, item in islice(value.items(), 100 * most if deep else None)
        }
    return value


def validate(adapter: TypeAdapter[T], value: Any) -> T:
    """Check a parsed value against a document type.

    Raises
    ------
    InvalidInput
        With one problem per offending field, by path.
    """
    problems: list[Problem] = []
    found = check(adapter, value, problems)
    if problems:
        raise InvalidInput(problems)
    return cast("T", found)


class KnownKeys:
    """The keys that an object may hold at a place of a document, out of its type's JSON Schema."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return self._adapter.json_schema(by_alias=True)

    def at(self, location: Sequence[str | int]) -> list[str]:
        """Return the known keys of the object at a location."""
        nodes = [self._schema]
        for part in location:
            nodes = [inner for node in self._resolved(nodes) for inner in _inside(node, part)]
        return [key for node in self._resolved(nodes) for key in node.get("properties", ())]

    def _resolved(self, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Follow references and alternatives to the schemas they stand for."""
        found = []
        for node in nodes:
            if "$ref" in node:
                node = self._schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
            found += self._resolved(node["anyOf"]) if "anyOf" in node else [node]
        return found


def _inside(schema: dict[str, Any], part: str | int) -> list[dict[str, Any]]:
    if isinstance(part, int):
        inner = schema.get("items")
    else:
        inner = schema.get("properties", {}).get(part, schema.get("additionalProperties"))
    return [inner] if isinstance(inner, dict) else []


def path_of(location: Iterable[str | int], at: str = "") -> str:
    """Write a location as in the file: ``nodes[3].capacity.cpu``."""
    path = at
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else _below(path, part)
    return path or "$"


def _below(path: str, key: str) -> str:
    """Go one key down; a key longer than anyone would read is cut."""
    shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
    return f"{path}.{shown}" if path else shown


def _in_document(location: Sequence[str | int], document: Any) -> list[str | int]:
    """Keep the parts of a location that stand in the document, or lack there.

    The others are names of types and validators, and places in what a validator made of a value.
    """
    kept: list[str | int] = []
    for number, part in enumerate(location, 1):
        if isinstance(part, int):
            stands = isinstance(document, list) and part < len(document)
        else:
            stands = isinstance(document, dict) and part in document
        if stands:
            document = document[part]
        elif part == "[key]" or number < len(location) or not isinstance(document, dict | list):
            continue
        kept.append(part)
    return kept


def _problems(
    detail: dict[str, Any], document: Any, at: str, known: KnownKeys, table: str
) -> Iterable[Problem]:
    kind, value, limits = detail["type"], detail.get("input"), detail.get("ctx", {})
    location = _in_document(detail["loc"], document)
    path, remedy = path_of(location, at), _REMEDIES.get(kind, "")
    fault = limits.get("error")
    if isinstance(fault, Fault) and fault.problems:
        for inner in fault.problems:
            below = f"{path}{'' if inner.path.startswith('[') else '.'}{inner.path}"
            where = below.removeprefix("$.") if inner.path else path
            yield Problem(where, inner.value, inner.reason, inner.remedy)
        return
    if isinstance(fault, ValueError):
        reason, remedy = str(fault), getattr(fault, "remedy", "")
    elif kind in _UNKNOWN_KEY:
        reason, remedy, value = "is not a known key", _meant(location, known), None
    elif kind == "float_type" and isinstance(value, int) and not isinstance(value, bool):
        reason = "is too large a number"  # a whole number beyond what a float holds
    else:
        reason = _reason(kind, detail["msg"], limits, table)
        if kind.endswith(("_type", "_parsing")):
            found = _json_type(value, table)
            reason += "" if found == "a number" and kind == "int_type" else f", not {found}"
        value = None if kind == "missing" else value
    yield Problem(path, value, reason, remedy)


def _reason(kind: str, message: str, limits: dict[str, Any], table: str) -> str:
    """Say in our words what the type demands."""
    if kind in _EMPTY and limits["min_length"] == 1:
        return "is empty"
    words = _REASONS.get(kind)
    if words is None:
        return message[0].lower() + message[1:].replace("Input should be", "must be")
    told = {name: _plain(limit) for name, limit in limits.items()}
    return words.format(table=table, **told)


def _plain(limit: Any) -> str:
    """Write a limit as people do: 20000000, 1e+15, 0.5."""
    if isinstance(limit, float | int) and limit == int(limit) and abs(limit) < 1e12:
        return str(int(limit))
    return f"{limit:g}" if isinstance(limit, float | int) else str(limit)


def _meant(location: Sequence[str | int], known: KnownKeys) -> str:
    """Say which key may be meant by an unknown one, or which there are."""
    keys = known.at(location[:-1])
    return meant(str(location[-1]), keys, "known:")


def _json_type(value: Any, table: str) -> str:
    names = {bool: "true/false", str: "a text", int: "a number", float: "a number"}
    names |= {list: "a list", dict: table, type(None): "null"}
    return names.get(type(value), shorten(value))


# The documents there are, distinguished by their ``format``: one given for another is named.

_KINDS = {
    "streamplace.instance": "an instance",
    "streamplace.plan": "a plan",
    "streamplace.result": "a result",
    "streamplace.steps": "an order of moves",
}
_WANTED_REMEDIES = {
    "streamplace.instance": "the instance comes first, then the plan: INSTANCE PLAN",
    "streamplace.plan": "name the plan's file: `streamplace solve -o` writes it; a result holds "
    "it under `plan`",
    "streamplace.steps": "`streamplace steps -o` writes it",
}


def refuse_other_kind(value: Any, wanted: str) -> None:
    """Refuse a document of another kind by its name, not by every key that differs.

    Parameters
    ----------
    value
        Parsed.
    wanted
        ``streamplace.instance``, ``streamplace.plan`` or ``streamplace.steps``.

    Raises
    ------
    InvalidInput
        It is another of our documents.
    """
    told = value.get("format") if isinstance(value, dict) else None
    kind = told.partition("/")[0] if isinstance(told, str) else ""
    if kind in _KINDS and kind != wanted:
        reason = f"is {_KINDS[kind]}, and {_KINDS[wanted]} is wanted here"
        raise InvalidInput(Problem("format", told, reason, _WANTED_REMEDIES[wanted]))
