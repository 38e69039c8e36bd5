"""The expressions of a job description: a small grammar with its own parser, no SQL.

::

    sum     = product { ("+" | "-") product }
    product = unary { ("*" | "/" | "%") unary }
    unary   = [ "-" ] unary | atom
    atom    = number | 'text' | column | function "(" [ sum { "," sum } ] ")" | "(" sum ")"
    column  = part { "[" whole "]" } { "." part { "[" whole "]" } }
    part    = name | `any name`

Functions are those of `experiments.traces.functions`; nothing else can be called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 4000
MAX_DEPTH = 60
MAX_TOKENS = 400

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>(?:[^\W\d]\w*(?:\[\d{1,9}\])*\.)*`[^`]+`(?:\[\d{1,9}\])*
        (?:\.(?:`[^`]+`|[^\W\d]\w*)(?:\[\d{1,9}\])*)*)
    | (?P<name>[^\W\d]\w*(?:\[\d{1,9}\])*(?:\.[^\W\d]\w*(?:\[\d{1,9}\])*)*)
    | (?P<mark>[-+*/%(),])
    )""",
    re.VERBOSE,
)


class ExpressionFault(ValueError):
    """An expression that cannot be taken.

    Attributes
    ----------
    reason, remedy
        As in `optim.errors.Problem`.
    at
        Where it goes wrong: index of a character.
    """

    def __init__(self, at: int, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.at, self.reason, self.remedy = at, reason, remedy

    def problem(self, where: str, text: str) -> Problem:
        """Return the fault as a problem at a place of a file."""
        reason = f"at character {self.at + 1}: {self.reason}"
        return Problem(where, text, reason, self.remedy)


@dataclass(frozen=True)
class Literal:
    """A number or a text."""

    at: int
    value: int | float | str


@dataclass(frozen=True)
class ColumnName:
    """A column, ``column.field`` or ``column[0]`` inside one, or ``table.column`` of a join."""

    at: int
    name: str


@dataclass(frozen=True)
class Call:
    """A function of the whitelist, or an operator: ``+ - * / %`` and ``neg``."""

    at: int
    function: str
    arguments: tuple[Node, ...]


Node = Literal | ColumnName | Call


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Node:
    """Read an expression.

    Examples
    --------
    >>> parse("cost * 2").function
    '*'

    Raises
    ------
    ExpressionFault
        It is not of the grammar.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionFault(0, f"is longer than {MAX_LENGTH} characters")
    return _Parser(_tokens(text)).whole()


def column_names(node: Node) -> tuple[str, ...]:
    """Return the columns an expression reads, in order, each once."""
    if isinstance(node, ColumnName):
        return (node.name,)
    if isinstance(node, Call):
        return tuple(dict.fromkeys(n for part in node.arguments for n in column_names(part)))
    return ()


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionFault(start, f"{text[start]!r} is not understood here", _GRAMMAR)
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
        if len(found) > MAX_TOKENS:
            raise ExpressionFault(at, f"has more than {MAX_TOKENS} parts")
    found.append(_Token("end", "", len(text)))
    return found


_GRAMMAR = "columns, numbers, 'texts', + - * / % ( ) and the functions of docs/traces.md"


class _Parser:
    """Recursive descent; each method takes tokens and returns what they mean."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._next, self._depth = tokens, 0, 0

    def whole(self) -> Node:
        node = self._sum()
        token = self._tokens[self._next]
        if token.kind != "end":
            raise ExpressionFault(token.at, f"{token.text!r} is too much here", _GRAMMAR)
        return node

    def _sum(self) -> Node:
        return self._chain("+-", self._product)

    def _product(self) -> Node:
        return self._chain("*/%", self._unary)

    def _chain(self, marks: str, operand: Callable[[], Node]) -> Node:
        node, count = operand(), 0
        while token := self._take(marks):
            count += 1
            if count > MAX_DEPTH:
                raise ExpressionFault(token.at, f"joins more than {MAX_DEPTH} operands")
            node = Call(token.at, token.text, (node, operand()))
        return node

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionFault(self._tokens[self._next].at, "is nested too deeply")
        if token := self._take("-"):
            node: Node = Call(token.at, "neg", (self._unary(),))
        else:
            node = self._atom()
        self._depth -= 1
        return node

    def _atom(self) -> Node:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        if token.kind == "number":
            return Literal(token.at, _number(token))
        if token.kind == "text":
            return Literal(token.at, token.text[1:-1].replace("''", "'"))
        if token.kind == "quoted":
            return ColumnName(token.at, token.text.replace("`", ""))
        if token.kind == "name":
            if self._take("("):
                return Call(token.at, token.text, self._arguments())
            return ColumnName(token.at, token.text)
        if token.text == "(":
            node = self._sum()
            self._close()
            return node
        if token.kind == "end":
            reason = "is empty" if len(self._tokens) == 1 else "ends too early"
            raise ExpressionFault(token.at, reason, _GRAMMAR)
        raise ExpressionFault(token.at, f"{token.text!r} is not understood here", _GRAMMAR)

    def _arguments(self) -> tuple[Node, ...]:
        if self._take(")"):
            return ()
        found = [self._sum()]
        while self._take(","):
            found.append(self._sum())
        self._close()
        return tuple(found)

    def _close(self) -> None:
        if not self._take(")"):
            token = self._tokens[self._next]
            found = "the end" if token.kind == "end" else repr(token.text)
            raise ExpressionFault(token.at, f"wants ')' where {found} stands")

    def _take(self, marks: str) -> _Token | None:
        token = self._tokens[self._next]
        if token.kind == "mark" and token.text in marks:
            self._next += 1
            return token
        return None


def _number(token: _Token) -> int | float:
    if token.text.isdigit():
        value = int(token.text)
        if value >= 2**63:
            raise ExpressionFault(token.at, f"{token.text[:30]} is too large a number")
        return value
    number = float(token.text)
    if number > 1e300:
        raise ExpressionFault(token.at, f"{token.text[:30]} is too large a number")
    return number
