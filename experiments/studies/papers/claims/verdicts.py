"""Judge the claims from the stored tables, and compare with the verdicts that are committed."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.claims.claim import Claim, Finding, read_claims, read_section
from experiments.studies.papers.claims.tables import PAPERS, about_table, has_table, load_table
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COLUMNS = ("id", "starred", "verdict", "figure", "cause")


_SOURCES = PAPERS


@dataclass(frozen=True)
class Judgement:
    """A claim and what was found of it."""

    claim: Claim
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace paper --claims --json`` lists."""
        return {
            "id": self.claim.id,
            "paper": self.claim.paper,
            "starred": self.claim.starred,
            "verdict": self.finding.verdict,
            "figure": self.finding.figure,
            "cause": self.finding.cause,
        }


def claims_of(paper: str) -> tuple[Claim, ...]:
    """Return the claims of a paper's folder."""
    return read_claims(_SOURCES / paper / "claims.toml")


def shown_tables(paper: str) -> dict[str, str]:
    """Return the stored tables that the page shows whole, with their titles."""
    return read_section(_SOURCES / paper / "claims.toml", "shown")


def judge(claim: Claim, root: Path = PAPERS, fallback: Path = PAPERS) -> Judgement:
    """Return what the stored tables say of a claim; one without judge or table is not shown.

    Parameters
    ----------
    claim
        What is to be judged.
    root, fallback
        Folders of the papers' folders: a table is the first's, or where it has none the second's.
    """
    if claim.judge is None:
        why = claim.not_checkable
        return Judgement(claim, Finding("not shown", "" if why else "no table yet", why or None))
    paper = claim.paper
    # what a smaller run does not make anew is as stored
    roots = [root if has_table(paper, name, root) else fallback for name in claim.tables]
    found = zip(claim.tables, roots, strict=True)
    missing = [name for name, at in found if not has_table(paper, name, at)]
    if missing:
        return Judgement(claim, Finding("not shown", f"no table yet: {', '.join(missing)}"))
    frames = [load_table(paper, name, at) for name, at in zip(claim.tables, roots, strict=True)]
    try:
        return Judgement(claim, claim.judge(*frames))
    except (LookupError, ValueError) as error:
        smaller = [
            name
            for name, at in zip(claim.tables, roots, strict=True)
            if about_table(paper, name, at).reduced
        ]
        if not smaller:  # a fault: the tables are whole
            raise
        told = f"not all that is judged is in the smaller {', '.join(smaller)} ({error})"
        return Judgement(claim, Finding("not shown", told))


def judgements(papers: Iterable[str], root: Path = PAPERS) -> list[Judgement]:
    """Return what the stored tables say of all claims of some papers."""
    return [judge(claim, root) for paper in papers for claim in claims_of(paper)]


def write_verdicts(found: Iterable[Judgement]) -> list[Path]:
    """Write ``verdicts.csv`` of every paper that is among the claims, and return the paths."""
    by_paper: dict[str, list[Judgement]] = {}
    for one in found:
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


def no_longer_hold(found: Iterable[Judgement]) -> list[str]:
    """Return a line for each claim whose committed verdict, figure or cause is another now."""
    found = list(found)
    lines = []
    committed = {
        paper: _committed(paper) for paper in dict.fromkeys(one.claim.paper for one in found)
    }
    for one in found:
        row = _row(one)
        before = committed[one.claim.paper].pop(one.claim.id, None)
        if before is None:
            lines.append(f"{one.claim.id}: no verdict is committed, computed: {row['verdict']}")
            continue
        lines += [
            f"{one.claim.id}: {column} {before[column]!r} is committed, computed: {row[column]!r}"
            for column in COLUMNS[1:]
            if before[column] != row[column]
        ]
    for left in committed.values():
        lines += [f"{name}: a verdict is committed, but there is no such claim" for name in left]
    return lines


def _row(one: Judgement) -> dict[str, str]:
    return {name: _text(value) for name, value in one.to_dict().items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _committed(paper: str) -> dict[str, dict[str, str]]:
    path = PAPERS / paper / "verdicts.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}
