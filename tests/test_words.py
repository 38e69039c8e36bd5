"""Public text is plain technical English: no word or phrase of tests/data/private_words.txt."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from experiments.studies.papers.query import FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = ("optim", "formulations", "heuristics", "streamplace", "experiments")
STUDIES = "experiments/studies/"
# a line of a numpydoc section that names parameters, and code in back quotes
NAMES = re.compile(r"^\s*\w+(?:, \w+)*$")
CODE = re.compile(r"``.*?``|`[^`]*`")


class Line(NamedTuple):
    place: str
    text: str


def private_words(repository: Path) -> dict[re.Pattern[str], str]:
    """Return what is private, and what to say instead."""
    lines = (repository / "tests/data/private_words.txt").read_text().splitlines()
    pairs = (line.split("\t") for line in lines if not line.startswith("#"))
    return {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in pairs}


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Return literals that read as text, docstrings among them, with their line.

    Of an f-string the text alone: its expressions are code.
    """
    for node in ast.walk(ast.parse(source)):
        constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if constant and " " in node.value.strip():
            for at, line in enumerate(node.value.splitlines()):
                if not NAMES.match(line):
                    yield node.lineno + at, line


def current(changelog: str) -> str:
    """Return the part of the changelog about what is unreleased and the newest version."""
    head, *versions = re.split(r"(?m)^(?=## )", changelog)
    newest = 2 if versions[0].startswith("## [Unreleased]") else 1
    return head + "".join(versions[:newest])


def texts_of(claim: dict[str, Any]) -> Iterator[str]:
    """Yield what a page says of a claim, without the expressions in it."""
    causes = claim.get("cause", [])
    texts = [causes] if isinstance(causes, str) else [cause["text"] for cause in causes]
    keys = ("words", "setup", "predicate", "text", "left_out_why", "not_checkable")
    texts += [claim.get(key, "") for key in keys]
    yield from (FIELD.sub("", text) for text in texts)


def public_lines(repository: Path) -> Iterator[Line]:
    files = [file for name in PACKAGES for file in sorted((repository / name).rglob("*.py"))]
    for file in files:
        name = file.relative_to(repository).as_posix()
        yield from (Line(f"{name}:{at}", line) for at, line in strings(file.read_text()))
    for file in sorted((repository / STUDIES).rglob("claims.toml")):
        name = file.relative_to(repository).as_posix()
        claims = tomllib.loads(file.read_text(encoding="utf-8"))
        for section in ("setups", "shown"):
            yield from (Line(name, text) for text in claims.get(section, {}).values())
        for claim in claims["claim"]:
            yield from (Line(f"{name}:{claim['id']}", text) for text in texts_of(claim))
    for file in sorted((repository / STUDIES).rglob("figures.toml")):
        name = file.relative_to(repository).as_posix()
        figures = tomllib.loads(file.read_text(encoding="utf-8"))
        texts = [*figures.get("texts", {}).values()]
        for one in figures["figure"]:
            texts += [one.get(key, "") for key in ("title", "source", "words", "size")]
            texts += [*one.get("readings", ())]
            said = one.get("measured", ())
            told = (text if isinstance(text, str) else text["text"] for text in said)
            texts += [FIELD.sub("", text) for text in told]
        yield from (Line(name, text) for text in texts)
    pages = sorted(repository.glob("docs/**/*.md"))
    pages += [repository / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for file in pages:
        name = file.relative_to(repository).as_posix()
        text = current(file.read_text()) if file.name == "CHANGELOG.md" else file.read_text()
        yield from (Line(f"{name}:{at}", line) for at, line in enumerate(text.splitlines(), 1))


def found(lines: Iterator[Line], words: dict[re.Pattern[str], str]) -> list[str]:
    any_of = re.compile("|".join(pattern.pattern for pattern in words), re.IGNORECASE)
    texts = ((line, CODE.sub("", line.text)) for line in lines if any_of.search(line.text))
    return [
        f"{line.place}: {match[0]!r} (say: {instead}): {line.text.strip()[:120]}"
        for line, text in texts
        for pattern, instead in words.items()
        if (match := pattern.search(text))
    ]


@pytest.fixture(scope="module")
def words(repository: Path) -> dict[re.Pattern[str], str]:
    return private_words(repository)


def test_no_public_text_has_a_private_word(
    repository: Path, words: dict[re.Pattern[str], str]
) -> None:
    assert found(public_lines(repository), words) == []


SAMPLES = '''
def f(told):
    """Tell what is kept.

    Parameters
    ----------
    told
        Plain.
    """
    raise ValueError(f"nothing fits {told[0]}", "a `kept` name")
'''


def test_docstrings_and_messages_are_read_and_code_is_not(
    words: dict[re.Pattern[str], str],
) -> None:
    lines = [Line(f"{at}", text) for at, text in strings(SAMPLES)]
    assert [entry.split(" (say")[0] for entry in found(iter(lines), words)] == [
        "3: 'Tell'",
        "3: 'kept'",
        "10: 'nothing fits'",
    ]


def test_of_the_changelog_the_newest_version_is_read() -> None:
    for head in ("# Changelog\n\n", "# Changelog\n\n## [Unreleased]\n\nnext\n\n"):
        text = current(f"{head}## [2]\n\nnew\n\n## [1]\n\ntold\n")
        assert "new" in text
        assert ("next" in text) == ("next" in head)
        assert "told" not in text


# nouns of the field that end so; `leaving` is a field of the format
NOUNS = {
    "annealing",
    "binding",
    "leaving",
    "mapping",
    "pricing",
    "rebalancing",
    "row_scaling",
    "scaling",
}
PRIVATE = {
    "ahead", "board", "dealing", "hand", "instead", "kept", "making", "marks", "once", "partings",
    "pour", "silence", "telling", "touch", "trouble", "turn", "whose", "why", "words",
}  # fmt: skip


def test_modules_are_named_by_nouns_of_the_field(repository: Path) -> None:
    files = (file for name in PACKAGES for file in (repository / name).rglob("*.py"))
    names = {
        file.relative_to(repository).as_posix(): file.stem
        for file in files
        if not file.relative_to(repository).as_posix().startswith(STUDIES)
    }
    gerunds = {path for path, name in names.items() if name.endswith("ing") and name not in NOUNS}
    private = {path for path, name in names.items() if PRIVATE & set(name.split("_"))}
    assert gerunds | private == set()
