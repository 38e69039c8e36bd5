"""The DOT reader: what it takes, and that it refuses the rest with a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.formats.zerotune import parse_dot
from optim.errors import InvalidInput


def test_nodes_edges_and_attributes() -> None:
    graph = parse_dot(
        """
        graph {
            "x 1" ["k"="v, [1]", n=-2.5]; "x 1" -- b ["w"="3"];
            b [t="say \\"hi\\"",
               u=1]
            b--c
        }
        """
    )
    assert graph.nodes == {
        "x 1": {"k": "v, [1]", "n": "-2.5"},
        "b": {"t": 'say "hi"', "u": "1"},
        "c": {},
    }
    assert graph.edges == [("x 1", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1"),
        ("tree { a }", "line 1: 'tree { a }' is no node or edge"),
        ("graph {\n a -- }", "line 2"),
        ("graph {\n a [b=", "line 1"),
        ("graph { subgraph x { a } }", "line 1"),
        ("graph {\n\n a:port -- b }", "line 3: ':port -- b }'"),
        ("graph { a } graph { b }", "line 1"),
        ('graph { "open }', "line 1"),
        ("graph { <b>html</b> }", "line 1"),
    ],
)
def test_refusals(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        parse_dot(text)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\\\x00"), max_size=8)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=3), max_size=5))
def test_what_is_written_is_read(nodes: dict[str, dict[str, str]]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '\\"') + '"'

    lines = [
        f"{quoted(n)} [{','.join(f'{quoted(k)}={quoted(v)}' for k, v in a.items())}];"
        for n, a in nodes.items()
    ]
    assert parse_dot("graph {\n" + "\n".join(lines) + "\n}").nodes == nodes


@given(st.text(alphabet='graph{}[]"=,;-> \\/*#ab1\n', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_dot(text)
    except InvalidInput as error:
        assert "line" in str(error)
