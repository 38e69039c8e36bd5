"""The claims of a paper: a section of its page, and a CSV with predicate, figures and cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from experiments.studies.papers.claims.claim import VERDICTS, read_section
from experiments.studies.papers.claims.tables import PAPERS, has_table, load_table
from experiments.studies.papers.claims.verdicts import judgements, shown_tables
from experiments.studies.papers.texts import linked, to_csv
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.studies.papers.claims.claim import Claim
    from experiments.studies.papers.claims.verdicts import Judgement

STAR = r"\*"
LISTED = ("different", "not shown")
_LEGEND = "{shares}, starred ones in brackets. [All claims]({csv}), with figures and causes."


def claims_section(paper: str, csv: str, root: Path = PAPERS) -> str:
    """Return the section of a paper's folder as Markdown.

    Parameters
    ----------
    paper, root
        Name of the paper's folder, and the folder of these.
    csv
        The file beside the page that `claims_table` makes.
    """
    found = judgements([paper], root)
    parts = ["## The claims", _LEGEND.format(shares=_shares(found), csv=csv)]
    for verdict in LISTED:
        lines = [_line(one.claim) for one in found if one.finding.verdict == verdict]
        if lines:
            parts += [f"{verdict.capitalize()}:", "\n".join(lines)]
    for name, title in shown_tables(paper).items():
        if has_table(paper, name, root):
            table = load_table(paper, name, root)
            parts += [f"### {title}", linked(table, stored_table(paper, name))]
    return "\n\n".join(parts)


def stored_table(paper: str, name: str = "") -> str:
    """Return the link from a page to a stored table, or to the folder of them."""
    return f"../../experiments/studies/papers/{paper}/tables" + (f"/{name}.csv" if name else "")


def claims_table(paper: str, root: Path = PAPERS) -> str:
    """Return every claim of a paper's folder as CSV: words, set-up, predicate, verdict, figures."""
    import pandas as pd

    setups = read_section(PAPERS / paper / "claims.toml", "setups")
    letter = re.compile(rf"\b(?:{'|'.join(setups) or '(?!)'})\b")
    rows = [
        {
            "claim": one.claim.id,
            "section": one.claim.where,
            "starred": one.claim.starred,
            "paper": one.claim.words,
            "set-up": letter.sub(lambda name: f"{name[0]} ({setups[name[0]]})", one.claim.setup),
            "predicate": one.claim.predicate,
            "verdict": one.finding.verdict,
            "here": one.finding.figure,
            "cause": one.finding.cause,
            "left out": one.finding.left_out or None,
            "left out, why": one.finding.left_out_why,
        }
        for one in judgements([paper], root)
    ]
    return to_csv(pd.DataFrame(rows))


def counts(papers: Sequence[str], found: Sequence[Judgement]) -> str:
    """Return how many claims of each paper have which verdict, starred ones in brackets."""
    heads = ["paper", *VERDICTS, "all"]
    lines = []
    rows = [(paper, [one for one in found if one.claim.paper == paper]) for paper in papers]
    if len(rows) > 1:
        rows.append(("all", list(found)))
    for name, mine in rows:
        lines.append([name, *(_count(group) for group in [*_by_verdict(mine).values(), mine])])
    return markdown(heads, lines).rstrip()


def _by_verdict(found: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    return {
        verdict: [one for one in found if one.finding.verdict == verdict] for verdict in VERDICTS
    }


def _count(group: Sequence[Judgement]) -> str:
    return f"{len(group)} ({sum(one.claim.starred for one in group)})"


def _shares(found: Sequence[Judgement]) -> str:
    """Return how many claims of one paper have which verdict, as a sentence's beginning."""
    each = [f"{_count(group)} {name}" for name, group in _by_verdict(found).items() if group]
    return f"Of {_count(found)}: {', '.join(each)}"


def _line(claim: Claim) -> str:
    return f"- {claim.id}{STAR * claim.starred} ({claim.where}): {claim.words}"
