"""A SQL script as its statements."""

from __future__ import annotations

import re
from typing import NamedTuple

from optim.errors import InvalidInput, Problem

_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|`(?:[^`]|``)*`|"(?:[^"]|"")*")"""
    r"""|(?P<comment>--[^\n]*|/\*(?!\+).*?\*/)|(?P<end>;)""",
    re.DOTALL,
)
_SET = re.compile(r"SET\s+'([^']+)'\s*=\s*'((?:[^']|'')*)'", re.IGNORECASE | re.DOTALL)
_FRAME = re.compile(
    r"(EXECUTE\s+STATEMENT\s+SET\s+BEGIN|BEGIN\s+STATEMENT\s+SET|END)\s*", re.IGNORECASE
)
_INSERT = re.compile(r"(EXECUTE\s+)?(?=INSERT\s)", re.IGNORECASE)
_SHOWN = 60


class Script(NamedTuple):
    """Settings, statements that define, and those that insert: all of these are one job."""

    settings: dict[str, str]
    definitions: list[str]
    inserts: list[str]


def read_script(text: str) -> Script:
    """Part a script, as Flink's SQL client takes it, into its statements.

    Raises
    ------
    InvalidInput
        It inserts nothing, or asks a question, whose answer would have nowhere to go.
    """
    script = Script({}, [], [])
    for statement in _statements(text):
        rest = _FRAME.sub("", statement, count=1) if _FRAME.match(statement) else statement
        setting = _SET.fullmatch(rest)
        insert = _INSERT.match(rest)
        if setting:
            script.settings[setting[1]] = setting[2].replace("''", "'")
        elif insert:
            script.inserts.append(rest[insert.end() :])
        elif re.match(r"(SELECT|WITH|VALUES)\b", rest, re.IGNORECASE):
            remedy = "insert its rows into a table"
            raise InvalidInput(Problem("--sql", rest[:_SHOWN], "answers to nobody", remedy))
        elif rest:
            script.definitions.append(rest)
    if not script.inserts:
        raise InvalidInput(Problem("--sql", None, "has no INSERT: there is no job in it"))
    return script


def _statements(text: str) -> list[str]:
    """Split at semicolons outside quotes and comments; comments that are no hints are dropped."""
    found, current, at = [], "", 0
    for token in _TOKEN.finditer(text):
        current += text[at : token.start()]
        at = token.end()
        if token["quoted"]:
            current += token["quoted"]
        elif token["end"]:
            found.append(current.strip())
            current = ""
        else:
            current += " "
    found.append((current + text[at:]).strip())
    return [statement for statement in found if statement]
