"""Claims as data: SQL on the stored tables, a text with values in it, and a verdict rule.

A claim of ``claims.toml`` that has ``tables`` is judged by

- ``sql``: a query (DuckDB) whose ``FROM`` names stored tables and ``[views]`` of the same file,
  which may have arguments (``"last_third(job)"`` is a macro of a table);
- ``verdict``: expressions, which together give the verdict (`verdict_of`), or ``"not shown"``;
- ``text``: our figures, ``{expression:format}``: SQL, then the number format of Python;
- ``cause``: a text, or a list of ``{when = expression, text = …}``, of which the first counts;
- ``left_out``, ``left_out_why``: how many rows the figure does not count, and why.

A claim about others of the same file has ``claims``, their ids, in place of ``tables``: its query
is on the table ``claims`` with ``id``, ``verdict``, ``figure`` and ``cause``, in that order.

All expressions are evaluated over the rows of the query, so that they are columns of its only row
or aggregates of all rows (`query`).

What is found is compared with the committed verdicts, ``verdicts.csv`` of the paper, written
by ``streamplace paper --claims --write`` and compared by ``--check``.
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from experiments.studies.papers.query import FIELD, Tables, filled, known_value
from experiments.studies.papers.tables import PAPERS, about_table, has_table, load_table
from optim.util.files import write_atomic
from streamplace.present.table import markdown

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["same", "in part", "different", "not shown"]
"""Whether the predicate holds, holds for a part that is named, does not, or was not computed."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Finding:
    """What the stored tables say of a claim."""

    verdict: Verdict  # computed from the tables, never typed
    figure: str  # our figure, or figures, as text with units; made of values of the table
    # Why it is not the same, shown by a computed figure; `None` where no cause is shown.
    cause: str | None = None
    # left_out, left_out_why: rows that the figure does not count (infeasible, unproved, base of 0,
    # no plan), and why.
    left_out: int = 0
    left_out_why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")
        if self.left_out and not self.left_out_why:
            raise ValueError(f"{self.left_out} rows are left out without a reason")


def verdict_of(*parts: object) -> Verdict:
    """Return the verdict of a predicate's parts: all hold, some do, or none.

    >>> verdict_of(True, True), verdict_of(True, False), verdict_of(False)
    ('same', 'in part', 'different')
    """
    holds = [bool(part) for part in parts]
    return "same" if all(holds) else "in part" if any(holds) else "different"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    id: str  # as `CIKM-A1`
    paper: str  # the folder in `experiments.studies.papers`
    starred: bool  # whether it is one of the ten that matter most in its paper
    where: str  # section of the paper
    words: str  # what the paper says, in our words; the half that fails, too
    setup: str  # what it is said of; capital letters are set-ups of `[setups]`
    predicate: str  # what is computed, in words
    # tables, judge: names of stored tables, and the function that is called with their frames in
    # this order. `None` where there is no judge.
    tables: tuple[str, ...] = ()
    judge: Callable[..., Finding] | None = None
    # Why this cannot be checked without the authors' cluster or data; empty where it can.
    not_checkable: str = ""


@dataclass(frozen=True)
class Query:
    """How a claim is judged from stored tables; called with their frames in order of `tables`.

    Raises `LookupError`: the tables lack a column or rows that the query needs, or a value that
    counts is unknown.
    """

    id: str
    tables: tuple[str, ...]
    sql: str
    text: str
    verdict: str | Sequence[str]
    cause: str | Sequence[Mapping[str, str]] = ()
    left_out: str = "0"
    left_out_why: str = ""
    views: Mapping[str, str] | None = None
    others: tuple[Query, ...] = ()  # the claims that this one is about

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the stored tables: its own, or each of the other claims' once."""
        names = dict.fromkeys(name for other in self.others for name in other.tables)
        return tuple(names) if self.others else self.tables

    def __call__(self, *frames: pd.DataFrame) -> Finding:
        """Return what the tables that are needed say."""
        if self.others:
            frames = (self._claims_table(frames),)
        causes = [{"text": self.cause}] if isinstance(self.cause, str) else list(self.cause)
        parts = [] if isinstance(self.verdict, str) else list(self.verdict)
        texts = [self.text, *(cause["text"] for cause in causes)]
        # one query for all expressions of the claim: its rows are made once
        expressions = [*parts, self.left_out, *(cause.get("when", "true") for cause in causes)]
        expressions += [values[1] for text in texts for values in FIELD.finditer(text)]
        values = self._values(expressions, frames)
        # lazily: a cause after the first that holds may have unknown values
        holding = (c["text"] for c in causes if known_value(values, c.get("when", "true"), self.id))
        cause = next(holding, None)
        if isinstance(self.verdict, str):
            verdict = next(v for v in VERDICTS if v == self.verdict)
        else:
            verdict = verdict_of(*(known_value(values, part, self.id) for part in parts))
        left_out = int(known_value(values, self.left_out, self.id))
        text, cause = (t and filled(t, values, self.id) for t in (self.text, cause))
        return Finding(verdict, text or "", cause, left_out, self.left_out_why)

    def _claims_table(self, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return the table ``claims``."""
        import pandas as pd

        frame_of = dict(zip(self.needed, frames, strict=True))
        findings = {one.id: one(*(frame_of[name] for name in one.tables)) for one in self.others}
        rows = [{"id": name, **asdict(finding)} for name, finding in findings.items()]
        return pd.DataFrame(rows, columns=["id", "verdict", "figure", "cause"])

    def _values(self, expressions: list[str], frames: Sequence[pd.DataFrame]) -> dict[str, Any]:
        frame_of = dict(zip(self.tables, frames, strict=True))
        with Tables(frame_of, self.views, self.id) as tables:
            rows = tables.values(self.sql, expressions)
        if len(rows) != 1:
            raise LookupError(f"{self.id}: the query gives {len(rows)} rows for its texts, not 1")
        return rows[0]


QUERY = ("tables", "sql", "verdict", "text", "cause", "left_out", "left_out_why")
"""Keys of a claim that is judged by SQL."""


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a paper's ``claims.toml``, in its order; those without SQL not shown.

    `path`: in the folder of the paper. Raises `KeyError`: a claim is about one that is not there,
    or has no SQL.
    """
    document = _read_toml(path)
    queries: dict[str, Query] = {}
    for entry in sorted(document["claim"], key=lambda one: "claims" in one):  # others first
        if "sql" in entry:
            parts = {name: entry.pop(name) for name in QUERY if name in entry}
            parts["others"] = tuple(queries[name] for name in entry.pop("claims", ()))
            tables = ("claims",) if parts["others"] else tuple(parts["tables"])
            parts |= {"id": entry["id"], "tables": tables, "views": document.get("views")}
            queries[entry["id"]] = Query(**parts)
    claims = []
    for entry in document["claim"]:
        judge = queries.get(entry["id"])
        tables = () if judge is None else judge.needed
        attributes = {"starred": False, **entry, "tables": tables, "judge": judge}
        claims.append(Claim(paper=path.parent.name, **attributes))
    return tuple(claims)


def read_section(path: Path, name: str) -> dict[str, str]:
    """Return a table of names and texts of ``claims.toml``.

    ``setups`` says what the capital letters of set-ups mean, ``shown`` the titles of stored tables
    that the page shows whole.
    """
    return dict(_read_toml(path).get(name, {}))


def _read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


COLUMNS = ("id", "starred", "verdict", "figure", "cause")


@dataclass(frozen=True)
class Judgement:
    """A claim and what was found of it."""

    claim: Claim
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace paper --claims --json`` lists."""
        of_claim = {name: getattr(self.claim, name) for name in ("id", "paper", "starred")}
        return of_claim | {name: getattr(self.finding, name) for name in COLUMNS[2:]}


def claims_of(paper: str) -> tuple[Claim, ...]:
    """Return the claims of a paper's folder."""
    return read_claims(PAPERS / paper / "claims.toml")


def judge(claim: Claim, root: Path = PAPERS) -> Judgement:
    """Return what the stored tables say of a claim; one without judge or table is not shown.

    A table that the folder `root` of papers' folders has not is that of `PAPERS`.
    """
    if claim.judge is None:
        why = claim.not_checkable
        return Judgement(claim, Finding("not shown", "" if why else "no table yet", why or None))
    paper = claim.paper
    # what a smaller run does not make anew is as stored
    places = {name: root if has_table(paper, name, root) else PAPERS for name in claim.tables}
    missing = [name for name, at in places.items() if not has_table(paper, name, at)]
    if missing:
        return Judgement(claim, Finding("not shown", f"no table yet: {', '.join(missing)}"))
    frames = [load_table(paper, name, places[name]) for name in claim.tables]
    try:
        return Judgement(claim, claim.judge(*frames))
    except (LookupError, ValueError) as error:
        smaller = [name for name, at in places.items() if about_table(paper, name, at).reduced]
        if not smaller:  # a fault: the tables are whole
            raise
        reason = f"not all that is judged is in the smaller {', '.join(smaller)} ({error})"
        return Judgement(claim, Finding("not shown", reason))


def judgements(papers: Iterable[str], root: Path = PAPERS) -> list[Judgement]:
    """Return what the stored tables say of all claims of some papers."""
    return [judge(claim, root) for paper in papers for claim in claims_of(paper)]


def write_verdicts(judgements: Iterable[Judgement]) -> list[Path]:
    """Write ``verdicts.csv`` of every paper that is among the claims, and return the paths."""
    by_paper: dict[str, list[Judgement]] = {}
    for one in judgements:
        by_paper.setdefault(one.claim.paper, []).append(one)
    paths = []
    for paper, ones in by_paper.items():
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(_row(one) for one in ones)
        paths.append(PAPERS / paper / "verdicts.csv")
        write_atomic(paths[-1], text.getvalue())
    return paths


def no_longer_hold(judgements: Iterable[Judgement]) -> list[str]:
    """Return a line for each claim whose committed verdict, figure or cause is another now."""
    judgements = list(judgements)
    lines = []
    committed = {
        paper: _committed_verdicts(paper)
        for paper in dict.fromkeys(one.claim.paper for one in judgements)
    }
    for one in judgements:
        row = _row(one)
        # what is left in the end has a verdict and is no claim
        before = committed[one.claim.paper].pop(one.claim.id, None)
        if before is None:
            lines.append(f"{one.claim.id}: no verdict is committed, computed: {row['verdict']}")
            continue
        lines += [
            f"{one.claim.id}: {column} {before[column]!r} is committed, computed: {row[column]!r}"
            for column in COLUMNS[1:]
            if before[column] != row[column]
        ]
    for unclaimed in committed.values():
        lines += [
            f"{name}: a verdict is committed, but there is no such claim" for name in unclaimed
        ]
    return lines


def _row(one: Judgement) -> dict[str, str]:
    texts: dict[Any, str] = {True: "yes", False: "no", None: ""}
    return {name: texts.get(value, value) for name, value in one.to_dict().items()}


def _committed_verdicts(paper: str) -> dict[str, dict[str, str]]:
    path = PAPERS / paper / "verdicts.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def counts(papers: Sequence[str], judgements: Sequence[Judgement]) -> str:
    """Return how many claims of each paper have which verdict, starred ones in brackets."""
    heads = ["paper", *VERDICTS, "all"]
    lines = []
    rows = [(paper, [one for one in judgements if one.claim.paper == paper]) for paper in papers]
    if len(rows) > 1:
        # one paper needs no sum
        rows.append(("all", list(judgements)))
    for name, judged in rows:
        lines.append([name, *(count(group) for group in [*by_verdict(judged).values(), judged])])
    return markdown(heads, lines).rstrip()


def by_verdict(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Return the claims by their verdict."""
    return {
        verdict: [one for one in judgements if one.finding.verdict == verdict]
        for verdict in VERDICTS
    }


def count(group: Sequence[Judgement]) -> str:
    """Return how many there are, starred ones in brackets."""
    return f"{len(group)} ({sum(one.claim.starred for one in group)})"
