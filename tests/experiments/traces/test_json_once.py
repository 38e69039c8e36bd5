"""JSON that is read once comes to what it comes to when its columns are found first."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from experiments.traces import json_once, once
from experiments.traces.folder import TraceFolder
from experiments.traces.job import Job
from experiments.traces.tracing import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import job
from tests.slowly import slowly

HEAD = 6
NESTED = {"operator__1__key": "concat(page, coalesce(c.d.e, '-'))"}
AT = "2024-01-01T00:10:00Z"


@pytest.fixture
def guesses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what became of each pass that took the columns from the first lines."""
    told: list[str] = []
    gather = once.gather

    def watched(session: Any, job: Job, prepared: Any, uri: str) -> Any:
        told.append("once" if prepared.rows.guessed else "found")
        return gather(session, job, prepared, uri)

    monkeypatch.setattr(once, "gather", watched)
    monkeypatch.setattr(json_once, "HEAD", HEAD)
    return told


def description(folder: Path, **changes: Any) -> Job:
    return Job.from_dict(job(**{"events__clicks__path": "events.jsonl"} | changes), folder)


def lines(*more: str, size: str = "2", user: str = '"u%d"') -> str:
    plain = [
        f'{{"at": "{AT}", "user": {user % i if "%" in user else user}, "page": "p", '
        f'"size": {size}, "c": {{"d": {{"e": "x"}}}}}}'
        for i in range(HEAD)
    ]
    return "\n".join([*plain, *more]) + "\n"


def one(**fields: str) -> str:
    given = {"at": f'"{AT}"', "user": '"z"', "page": '"q"', "size": "1"} | fields
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in given.items()) + "}"


def contents(trace: TraceFolder) -> Any:
    names = ("loads", "rates", "keys", "states")
    return trace.manifest.recordings, {n: trace.table(n).to_pylist() for n in names}


AGREE = {
    "plain": one(),
    "blank": "\n  \n" + one(),
    "missing": '{"at": "2024-01-01T00:20:00Z"}',
    "nested": one(c='{"d": {"e": "y", "f": [1]}, "g": 2}', more='{"h": []}'),
    "null": one(c="null", user="null"),
    "number": one(user="12", size="2.50"),
    "a rest": one() + " x",
    "a list of lines": f"[{one()}, {one(user='5')}]",
}
STRAY = {
    "a fraction as key": one(user="1.50"),
    "an object as key": one(user='{"a": 1}'),
    "a flat name": one(**{"c.d.e": '"flat"'}),
    "a flat name inside": one(c='{"d.e": "flat"}'),
    "a number beyond": one(size="1e400"),
}
REFUSED = {
    "no object": one(c='"text"'),
    "cut": '{"at": "20',
    "bytes": '{"unused": "\udcfc"}',
    "overlong": '{"unused": "\udcc0\udcaf"}',
    "not of its type": one(size='"x"'),
    "negative": one(size="-1"),
}


@pytest.mark.parametrize(
    ("last", "kinds"),
    [
        (AGREE["nested"], ["once"]),
        (STRAY["a fraction as key"], ["once", "found"]),
        *slowly(*((line, ["once"]) for line in AGREE.values())),
        *slowly(*((line, ["once", "found"]) for line in STRAY.values())),
    ],
)
def test_what_is_read_once_comes_to_the_same(
    last: str,
    kinds: list[str],
    tmp_path: Path,
    spark: Any,
    guesses: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "events.jsonl").write_text(lines(last))
    described = description(tmp_path, **NESTED)
    mine = contents(run_trace(described, tmp_path / "once"))
    assert guesses == kinds
    monkeypatch.setattr(json_once, "HEAD", 0)
    assert contents(run_trace(described, tmp_path / "found")) == mine
    assert guesses == [*kinds, "found"]


@pytest.mark.parametrize("name", ["overlong", *slowly(*(n for n in REFUSED if n != "overlong"))])
def test_what_is_wrong_is_told_in_the_same_words(
    name: str, tmp_path: Path, spark: Any, guesses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = lines(REFUSED[name]).encode(errors="surrogateescape")
    (tmp_path / "events.jsonl").write_bytes(content)
    said = []
    for head in (HEAD, 0):
        monkeypatch.setattr(json_once, "HEAD", head)
        with pytest.raises(InvalidInput) as caught:
            run_trace(description(tmp_path, **NESTED), tmp_path / "out")
        said.append(str(caught.value))
    assert guesses[0] == "once"
    assert said[0] == said[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_lines(
    seed: int, tmp_path: Path, spark: Any, guesses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    values = ['"a"', '"ü"', "5", "null", "true", '""', '"1.5"', "0.10", '{"b": 1.0}', "[2]", "1e3"]
    names = ("user", "page", "c", "c.d", "x")

    def line() -> str:
        fields = {name: rng.choice(values) for name in rng.sample(names, 2)}
        return one(**({} if rng.random() < 0.7 else fields))

    (tmp_path / "events.jsonl").write_text(lines(*(line() for _ in range(5))))
    said = []
    for head in (HEAD, 0):
        monkeypatch.setattr(json_once, "HEAD", head)
        try:
            said.append(contents(run_trace(description(tmp_path), tmp_path / f"o{head}")))
        except InvalidInput as error:
            said.append(str(error))
    assert said[0] == said[1]
