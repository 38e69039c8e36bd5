"""A smaller instance that fails the same way."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.cases import Finding
from tests.fuzz.product import Calls, InvalidInput, Setting
from tests.fuzz.reading import Document

_TABLES = ("nodes", "operators", "tasks", "streams", "traffic", "links", "sets", "topologies")
_PARTS = (
    "limits", "units", "labels", "rate_driven", "crossing_cost", "models", "vm_types", "input_rate",
)  # fmt: skip


def fails(finding: Finding, document: Document, patience: int) -> bool:
    """Whether the question of a finding, about another instance, finds the same kind."""
    try:
        setting = Setting(document, Calls(patience=patience))
        return any(kind == finding.kind for kind, _ in finding.question.put(setting))
    except (InvalidInput, LookupError, TypeError, ValueError):
        return False  # cut too deep: what is left is no instance


def shrink(finding: Finding, patience: int = 60) -> Finding:
    """Return the smallest counterexample found by taking parts away, one at a time."""
    document = finding.instance
    if not fails(finding, document, patience):
        return finding
    going = True
    while going:
        going = False
        for less in smaller(document):
            if fails(finding, less, patience):
                document, going = less, True
                break
    setting = Setting(document, Calls(patience=patience))
    detail = next(d for kind, d in finding.question.put(setting) if kind == finding.kind)
    return replace(finding, instance=document, detail=detail)


def smaller(document: Document) -> Iterator[Document]:
    """Yield documents with a little less in them, the largest cuts first."""
    for key in (*_TABLES, *_PARTS):
        if document.get(key):
            yield {k: v for k, v in document.items() if k != key}
    for key in _TABLES:
        items = document.get(key, [])
        for i in range(len(items)):
            yield {**document, key: items[:i] + items[i + 1 :]}
    for key in ("limits",):
        for name in document.get(key, {}):
            yield {**document, key: {k: v for k, v in document[key].items() if k != name}}
    yield from _thinner_groups(document)
    yield from _fewer_fields(document)
    yield from _rounder(document)


def _thinner_groups(document: Document) -> Iterator[Document]:
    for i, operator in enumerate(document.get("operators", [])):
        if operator.get("group", {}).get("tasks", 0) > 1:
            new = copy.deepcopy(document)
            new["operators"][i]["group"]["tasks"] -= 1
            yield new


def _fewer_fields(document: Document) -> Iterator[Document]:
    for key in _TABLES:
        for i, item in enumerate(document.get(key, [])):
            if not isinstance(item, dict):
                continue
            for name, value in item.items():
                if name in ("id", "from", "to"):
                    continue
                new = copy.deepcopy(document)
                del new[key][i][name]
                yield new
                for inner in value if isinstance(value, dict) else ():
                    new = copy.deepcopy(document)
                    del new[key][i][name][inner]
                    yield new


def _rounder(document: Document) -> Iterator[Document]:
    """Figures with fewer digits."""
    for path, value in _floats(document, ()):
        for rounded in (float(round(value)), float(f"{value:.2g}")):
            if rounded != value:
                new = copy.deepcopy(document)
                place: Any = new
                for step in path[:-1]:
                    place = place[step]
                place[path[-1]] = rounded
                yield new


def _floats(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], float]]:
    if isinstance(value, float):
        yield path, value
    items = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else items:
        yield from _floats(inner, (*path, key))
