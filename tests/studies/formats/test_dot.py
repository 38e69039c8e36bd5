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
        strict digraph "a graph" { // a remark
            rankdir = LR; node [shape=box]
            "x 1" ["k"="v, [1]", n=-2.5 flag];   /* more
            remarks */  # of each kind
            "x 1" -> b -> c [w="3"]
            b [t="say \\"hi\\""]
        }
        """
    )
    assert graph.nodes == {
        "x 1": {"k": "v, [1]", "n": "-2.5", "flag": "true"},
        "b": {"t": 'say "hi"'},
        "c": {},
    }
    assert graph.edges == [("x 1", "b", {"w": "3"}), ("b", "c", {"w": "3"})]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1"),
        ("tree { a }", "is not the beginning of a graph"),
        ("graph {\n a -- }", "line 2.*should be a name"),
        ("graph {\n a [b=", "should be a name"),
        ("graph { a", "should be a name|should be"),
        ("graph { subgraph x { a } }", "is a subgraph or a port"),
        ("graph { a:port -- b }", "is a subgraph or a port"),
        ("graph { a } graph { b }", "stands after the graph's end"),
        ("graph { \x00 }", "cannot be read here"),
        ('graph { "open }', "cannot be read here"),
        ("graph { <b>html</b> }", "cannot be read here"),
    ],
)
def test_refusals(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        parse_dot(text)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\\\x00"), max_size=8)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES, max_size=3), max_size=5), st.data())
def test_what_is_written_is_read(nodes: dict[str, dict[str, str]], data: st.DataObject) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '\\"') + '"'

    lines = [
        f"{quoted(n)} [{','.join(f'{quoted(k)}={quoted(v)}' for k, v in a.items())}];"
        for n, a in nodes.items()
        if n not in ("graph", "node", "edge", "subgraph", "strict")
    ]
    kept = [n for n in nodes if n not in ("graph", "node", "edge", "subgraph", "strict")]
    edges = data.draw(
        st.lists(st.tuples(st.sampled_from(kept), st.sampled_from(kept)), max_size=5)
        if kept
        else st.just([])
    )
    lines += [f"{quoted(a)} -- {quoted(b)}" for a, b in edges]
    graph = parse_dot("graph {\n" + "\n".join(lines) + "\n}")
    assert graph.nodes == {n: nodes[n] for n in kept}
    assert [(a, b) for a, b, _ in graph.edges] == edges


@given(st.text(alphabet='graph{}[]"=,;-> \\/*#ab1\n', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_dot(text)
    except InvalidInput as error:
        assert "line" in str(error)
