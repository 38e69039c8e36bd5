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

    from experiments.studies.papers.claims.verdicts import Judgement

STAR = r"\*"
EXPLAINED = ("different", "not shown")
_LEGEND = "[Verdicts](index.md#verdicts); [table of all claims]({csv})."


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
    legend = _LEGEND.format(csv=csv)
    parts = ["## The claims", legend, counts([paper], found)]
    heads = ("claim", "the paper", "verdict", "why")
    listed = [one for one in found if one.finding.verdict in EXPLAINED]
    parts.append(markdown(heads, [_line(one) for one in listed], right=()).rstrip())
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
        groups = [[one for one in mine if one.finding.verdict == verdict] for verdict in VERDICTS]
        cells = [
            f"{len(group)} ({sum(one.claim.starred for one in group)})" for group in [*groups, mine]
        ]
        lines.append([name, *cells])
    return markdown(heads, lines).rstrip()


def _line(one: Judgement) -> list[str]:
    claim, finding = one.claim, one.finding
    why = finding.cause or finding.figure
    name = f"{claim.id}{STAR * claim.starred} ({claim.where})"
    return [name, claim.words, finding.verdict, why]
