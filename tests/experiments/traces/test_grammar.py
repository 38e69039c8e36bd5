"""The expressions: what they mean, and that nothing else is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.traces.functions import FUNCTIONS, OPERATORS, check_functions, type_of
from experiments.traces.grammar import (
    MAX_LENGTH,
    Call,
    ColumnName,
    ExpressionFault,
    Literal,
    Node,
    column_names,
    parse,
)

TYPES = {"n": "whole", "x": "number", "t": "time", "s": "text", "w.x": "number"}


def shown(node: Node) -> str:
    """Write a tree with every bracket."""
    if isinstance(node, Literal):
        return repr(node.value)
    if isinstance(node, ColumnName):
        return node.name
    return f"{node.function}({', '.join(shown(part) for part in node.arguments)})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", "a"),
        ("1 + 2 * 3", "+(1, *(2, 3))"),
        ("a - b - c", "-(-(a, b), c)"),
        ("(a - b) % 7 / 2", "/(%(-(a, b), 7), 2)"),
        ("-a * -2", "*(neg(a), neg(2))"),
        ("concat(a, '-', w.b)", "concat(a, '-', w.b)"),
        ("'it''s'", '"it\'s"'),
        ("`a b` + `w x`.`y z`", "+(a b, w x.y z)"),
        ("1.5e3", "1500.0"),
        ("hour + hour(t)", "+(hour, hour(t))"),
        ("größe", "größe"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    assert shown(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "is empty"),
        ("a b", 2, "'b' is too much"),
        ("a;drop table x", 1, "';' is not understood"),
        ("concat(a, b", 11, "where the end stands"),
        ("(a))", 3, "too much"),
        ("a +", 3, "ends too early"),
        ("a..b", 1, "'.' is not understood"),
        ('"a"', 0, "not understood"),
        ("'open", 0, "not understood"),
        ("a = 1", 2, "'=' is not understood"),
        ("1e999", 0, "too large"),
        ("99999999999999999999", 0, "too large"),
        ("(" * 100 + "a", 60, "nested too deeply"),
        ("+".join("a" * 100), 121, "joins more than"),
        ("f(" + ",".join("a" * 500) + ")", 401, "parts"),
        ("a" * (MAX_LENGTH + 1), 0, "longer than"),
    ],
)
def test_faults_say_where(text: str, at: int, message: str) -> None:
    with pytest.raises(ExpressionFault, match=message) as fault:
        parse(text)
    assert abs(fault.value.at - at) <= 3


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'exit', 1)",
        "java_method('java.lang.Runtime', 'x')",
        "expr('1')",
        "HASH(a)",
        "input_file_name()",
    ],
)
def test_nothing_else_can_be_called(text: str) -> None:
    with pytest.raises(ExpressionFault, match="no function"):
        check_functions(parse(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n + 1", "whole"),
        ("n + x", "number"),
        ("n / n", "number"),
        ("hash(t, s, n)", "whole"),
        ("concat(s, n)", "text"),
        ("date(t)", "text"),
        ("timestamp(n, n, n)", "time"),
        ("coalesce(n, x)", "number"),
        ("floor(w.x)", "whole"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert type_of(parse(text), TYPES) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m", "no column 'm'"),
        ("s + 1", "takes whole or number, and column 's' is text"),
        ("year(s)", "takes time"),
        ("concat(t)", "takes text or whole or number"),
        ("coalesce(s, n)", "mixes text and whole"),
        ("abs(n, n)", "takes 1 arguments, not 2"),
        ("timestamp(n, n)", "takes 3 to 6 arguments"),
        ("concat()", "takes at least 1"),
    ],
)
def test_types_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(ExpressionFault, match=message):
        type_of(parse(text), TYPES)


def test_columns_are_told_once() -> None:
    assert column_names(parse("a + f(b, a) * w.c - 'd'")) == ("a", "b", "w.c")


@given(st.text(max_size=60))
def test_any_text_is_a_tree_or_a_fault(text: str) -> None:
    try:
        node = parse(text)
        check_functions(node)
    except ExpressionFault as fault:
        assert 0 <= fault.at <= len(text)
    else:
        assert isinstance(node, Literal | ColumnName | Call)


def test_every_function_is_documented(repository: object) -> None:
    from pathlib import Path

    text = (Path(str(repository)) / "docs" / "traces.md").read_text(encoding="utf-8")
    assert not [name for name in FUNCTIONS if f"`{name}`" not in text]
    assert set(OPERATORS) == {"+", "-", "*", "/", "%", "neg"}
