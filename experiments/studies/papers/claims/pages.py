"""The claims of a paper as a section of its page: words, predicate, verdict, figure, cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.claims.claim import VERDICTS, read_setups
from experiments.studies.papers.claims.judging import judgements, shown_tables
from experiments.studies.papers.claims.tables import PAPERS, about_table, has_table, load_table
from experiments.studies.papers.texts import to_markdown
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from experiments.studies.papers.claims.judging import Judgement

STAR = r"\*"
_LEGEND = (
    "Each line is a claim, what is computed to judge it, and what came out; verdicts and figures "
    "are computed from the stored tables (`streamplace paper --claims`). A star marks the claims "
    "that matter most. *Same*: the predicate holds; *in part*: a part of it, which is told; "
    "*different*: it does not hold; *not shown*: not computed, and why."
)


def claims_section(paper: str, root: Path = PAPERS) -> str:
    """Return the section of a paper's folder as Markdown."""
    found = judgements([paper], root)
    setups = read_setups(PAPERS / paper / "claims.toml")
    parts = ["## The claims", _LEGEND, counts([paper], found)]
    if setups:
        parts.append("\n".join(f"- **{name}**: {text}." for name, text in setups.items()))
    heads = ("claim", "the paper", "of", "predicate", "verdict", "here")
    parts.append(markdown(heads, [_line(one) for one in found], right=()).rstrip())
    for name, title in shown_tables(paper).items():
        if has_table(paper, name, root):
            parts += [f"### {title}", to_markdown(load_table(paper, name, root)).rstrip()]
    used = sorted({name for one in found if _is_shown(one) for name in one.claim.tables})
    if used:
        parts += ["### The tables behind them", _tables(paper, used, root)]
    return "\n\n".join(parts)


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
    here = [finding.figure or "–"]
    if finding.cause:
        here.append(f"*Cause:* {finding.cause}" if finding.figure else finding.cause)
    if finding.left_out:
        here.append(f"*Left out:* {finding.left_out} ({finding.left_out_why})")
    return [
        f"{claim.id}{STAR * claim.starred} ({claim.where})",
        claim.words,
        claim.setup,
        claim.predicate,
        finding.verdict,
        "; ".join(here) if finding.figure else here[-1],
    ]


def _is_shown(one: Judgement) -> bool:
    return one.finding.verdict != "not shown" and one.claim.judge is not None


def _tables(paper: str, names: Sequence[str], root: Path) -> str:
    heads = ("table", "rows", "seeds", "command", "made")
    lines = []
    for name in names:
        about = about_table(paper, name, root if has_table(paper, name, root) else PAPERS)
        left = f"; {about.left_out} left out: {about.left_out_why}" if about.left_out else ""
        took = "" if about.seconds is None else f", in {about.seconds:.0f} s"
        made = f"{about.date}, {about.machine}{took}"
        lines.append((name, f"{about.rows}{left}", about.seeds, f"`{about.command}`", made))
    return markdown(heads, lines, right=("rows",)).rstrip()
