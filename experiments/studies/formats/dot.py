"""A small reader of DOT, the language of Graphviz: nodes, edges and their attributes.

Read are plain ``graph`` and ``digraph`` documents with quoted or bare names, attribute lists,
chains of edges and comments. Refused are subgraphs, ports and HTML names, which no importer needs.
The grammar is Graphviz's public one; the parser is our own: a few token kinds and one loop.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_STATEMENTS = 2_000_000

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<quoted>"(?:[^"\\]|\\.)*")
  | (?P<edge>--|->)
  | (?P<bare>-?(?:\.\d+|\d+(?:\.\d*)?)|[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)
  | (?P<mark>[{}\[\];,=:])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass
class DotGraph:
    """Node name to attributes, in order of appearance, and edges with theirs."""

    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


def parse_dot(text: str) -> DotGraph:
    """Read a document.

    Raises
    ------
    InvalidInput
        Not DOT, or a part of the language that is not read; with the line.
    """
    return _Parser(text).graph()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan()
        self._kind, self._value, self._at = "", "", 0
        self._advance()

    def _scan(self) -> Iterator[tuple[str, str, int]]:
        text, at = self._text, 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(at, "cannot be read here")
            kind = str(found.lastgroup)
            if kind != "space":
                value = found[kind]
                yield ("name" if kind in ("quoted", "bare") else kind, _plain(kind, value), at)
            at = found.end()
        yield "end", "", len(text)

    def _error(self, at: int, reason: str) -> InvalidInput:
        line = self._text.count("\n", 0, at) + 1
        shown = self._text[at : at + 20].split("\n")[0]
        return InvalidInput(Problem(f"line {line}", shown or None, reason, "expected a DOT graph"))

    def _advance(self) -> str:
        value = self._value
        self._kind, self._value, self._at = next(self._tokens)
        return value

    def _is(self, mark: str) -> bool:
        return self._kind == "mark" and self._value == mark

    def _take(self, mark: str) -> bool:
        if self._is(mark):
            self._advance()
            return True
        return False

    def _need(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(self._at, f"should be {mark!r}")

    def _name(self) -> str:
        if self._kind != "name":
            raise self._error(self._at, "should be a name")
        return self._advance()

    def graph(self) -> DotGraph:
        graph = DotGraph()
        if self._kind == "name" and self._value.lower() == "strict":
            self._advance()
        if self._kind != "name" or self._value.lower() not in ("graph", "digraph"):
            raise self._error(self._at, "is not the beginning of a graph")
        self._advance()
        if self._kind == "name":
            self._advance()
        self._need("{")
        statements = 0
        while not self._take("}"):
            statements += 1
            if statements > MOST_STATEMENTS:
                raise self._error(self._at, f"comes after {MOST_STATEMENTS} statements, the most")
            self._statement(graph)
            self._take(";")
        if self._kind != "end":
            raise self._error(self._at, "stands after the graph's end")
        return graph

    def _statement(self, graph: DotGraph) -> None:
        start = self._at
        names = [self._name()]
        if self._take("="):
            self._name()
            return
        if self._is(":") or self._is("{") or names[0].lower() == "subgraph":
            raise self._error(start, "is a subgraph or a port, which are not read")
        while self._kind == "edge":
            self._advance()
            names.append(self._name())
        attributes = self._attributes()
        if len(names) == 1:
            if names[0] not in ("graph", "node", "edge"):
                graph.nodes.setdefault(names[0], {}).update(attributes)
            return
        for a, b in itertools.pairwise(names):
            graph.nodes.setdefault(a, {})
            graph.nodes.setdefault(b, {})
            graph.edges.append((a, b, dict(attributes)))

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._take("["):
            while not self._take("]"):
                key = self._name()
                found[key] = self._name() if self._take("=") else "true"
                if not self._take(","):
                    self._take(";")
        return found


def _plain(kind: str, value: str) -> str:
    if kind != "quoted":
        return value
    return value[1:-1].replace("\\\n", "").replace('\\"', '"')
