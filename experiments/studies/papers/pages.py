"""Put the claims and figures of a paper into one page of the documentation.

Run: ``python -m experiments.studies.papers.pages PAPER [FROM] [TO]``; FROM is the folder that
``streamplace paper -o`` wrote (``build/papers``), TO the folder of the pages (``docs/papers``).
Tables of figures that were made there replace those that are stored; the page is made of what is
stored alone.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.studies.papers import find_figures
from experiments.studies.papers.claims import (
    Claim,
    Judgement,
    by_verdict,
    count,
    judgements,
    read_section,
)
from experiments.studies.papers.figure import Figure, draw, folder_of, linked, page
from experiments.studies.papers.tables import (
    PAPERS,
    about_table,
    has_table,
    load_table,
    store_table,
    to_csv,
)
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic

_STORED = "[How to read this page](index.md#verdicts); [stored tables]({tables})."
# authors, venue and year, which the head of the page has
_CITATION = re.compile(r"^(?!Our).*?\b(?:19|20)\d\d, ")
STAR = r"\*"
LISTED = ("different", "not shown")
_LEGEND = "{shares}, starred ones in brackets. [All claims]({csv}), with figures and causes."
_REDUCED = re.compile(r"[;.] +[Rr]educed:.*?\.(?= |$)")


def collect(paper: str, source: Path, target: Path, root: Path = PAPERS) -> Path:
    """Store what was made of a paper's figures, and write its page with drawings in ``img``.

    `paper`: as in the names of its figures. `source`, `target`: folders of the figures and of the
    pages. `root`: folder of the papers' folders, where tables are stored. Returns the page. Raises
    `InvalidInput`: there is no such paper, or one of its figures was never made.
    """
    for figure in find_figures(paper):
        folders = [(folder_of(figure, source, reduced), reduced) for reduced in (False, True)]
        # the full run before the reduced one
        run = next(((f, reduced) for f, reduced in folders if (f / "page.md").is_file()), None)
        if run is not None:
            _store(figure, *run, root)
        elif not has_table(*_stored_as(figure), root):
            remedy = f"run `streamplace paper {figure.name} -o {source}`"
            raise InvalidInput(Problem(figure.name, str(source), "was not made", remedy))
        image = target / "img" / _image(figure)
        image.parent.mkdir(parents=True, exist_ok=True)
        if not figure.keeps_sentences:
            stored = _stored_as(figure)
            reduced = "--reduced" in about_table(*stored, root).command
            draw(figure, load_table(*stored, root), image, reduced=reduced)
        elif run is not None:  # the table alone has not what was drawn
            shutil.copyfile(run[0] / "plot.svg", image)
    path = target / f"{paper}.md"
    write_atomic(path, page_of(paper, root))
    if _has_claims(paper):
        write_atomic(target / f"{paper}-claims.csv", claims_table(_folder(paper), root))
    return path


def page_of(paper: str, root: Path = PAPERS) -> str:
    """Return the page of a paper, made of claims and stored tables alone.

    `paper`, `root`: as for `collect`.
    """
    parts = ["# " + (PAPERS / _folder(paper) / "head.md").read_text(encoding="utf-8").rstrip()]
    if _has_claims(paper):
        parts.append(claims_section(_folder(paper), f"{paper}-claims.csv", root))
    figures = find_figures(paper)
    shared = _shared_readings(figures)
    if shared:
        parts.append("\n\n".join(["## Readings that several figures share", *shared]))
    parts += [_figure_section(figure, root) for figure in _without_repetition(figures)]
    parts.insert(1, _STORED.format(tables=stored_table(_folder(paper))))
    return "\n\n".join(parts) + "\n"


def _shared_readings(figures: Sequence[Figure]) -> list[str]:
    """Return the readings of more than one figure, under the names of their figures."""
    # a reading that several figures have stands once, above them
    users: dict[str, list[str]] = {}
    for figure in figures:
        for reading in figure.readings:
            users.setdefault(reading, []).append(f"`{figure.name.partition('/')[2]}`")
    groups: dict[tuple[str, ...], list[str]] = {}
    for reading, names in users.items():
        if len(names) > 1:
            groups.setdefault(tuple(names), []).append(f"- {reading}")
    return [f"{', '.join(names)}:\n\n" + "\n".join(lines) for names, lines in groups.items()]


def _without_repetition(figures: Sequence[Figure]) -> Iterator[Figure]:
    """Yield the figures of a page without what an earlier part of it has."""
    users = Counter(reading for figure in figures for reading in figure.readings)
    first: dict[str, str] = {}
    for figure in figures:
        words = first.setdefault(figure.words, figure.name)
        source = _CITATION.sub("", figure.source)
        size = _REDUCED.sub(".", figure.size).removeprefix("Full: ")
        yield replace(
            figure,
            source=source[:1].upper() + source[1:],
            size=size[:1].upper() + size[1:],
            words=figure.words if words == figure.name else "",
            readings=tuple(reading for reading in figure.readings if users[reading] == 1),
        )


def _has_claims(paper: str) -> bool:
    return (PAPERS / _folder(paper) / "claims.toml").is_file()


def _store(figure: Figure, folder: Path, reduced: bool, root: Path) -> None:
    import pandas as pd

    command = f"streamplace paper {figure.name}" + (" --reduced" if reduced else "")
    table = pd.read_csv(folder / "table.csv")
    paper, name = _stored_as(figure)
    seeds = figure.size or "one instance"
    sentences = json.loads((folder / "measured.json").read_text()) if figure.keeps_sentences else ()
    store_table(
        paper, name, table, command=command, seeds=seeds, reduced=reduced, said=sentences, root=root
    )


def _figure_section(figure: Figure, root: Path) -> str:
    paper, name = _stored_as(figure)
    table, about = load_table(paper, name, root), about_table(paper, name, root)
    sentences = about.said if figure.keeps_sentences else tuple(figure.measured(table))
    text = page(figure, table, sentences, about.reduced, link=stored_table(paper, name))
    text = text.replace("](plot.svg)", f"](img/{_image(figure)})")
    # a page of its own there is a section here, and its sections are bold words
    text = re.sub(r"^## (.*)$", r"**\1**", text, flags=re.MULTILINE)
    return re.sub(r"^# ", "## ", text).rstrip()


def _stored_as(figure: Figure) -> tuple[str, str]:
    return _folder(figure.paper), figure.name.partition("/")[2]


def _folder(paper: str) -> str:
    return paper.replace("-", "_")


def _image(figure: Figure) -> str:
    return f"{figure.name.replace('/', '-')}.svg"


def claims_section(paper: str, csv: str, root: Path = PAPERS) -> str:
    """Return the section of a paper's folder as Markdown.

    `paper`, `root`: name of the paper's folder, and the folder of these. `csv`: the file beside the
    page that `claims_table` makes.
    """
    judged = judgements([paper], root)
    parts = ["## The claims", _LEGEND.format(shares=_shares(judged), csv=csv)]
    for verdict in LISTED:
        lines = [_line(one.claim) for one in judged if one.finding.verdict == verdict]
        if lines:
            parts += [f"{verdict.capitalize()}:", "\n".join(lines)]
    for name, title in read_section(PAPERS / paper / "claims.toml", "shown").items():
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


def _shares(judged: Sequence[Judgement]) -> str:
    """Return how many claims of one paper have which verdict, as a sentence's beginning."""
    each = [f"{count(group)} {name}" for name, group in by_verdict(judged).items() if group]
    return f"Of {count(judged)}: {', '.join(each)}"


def _line(claim: Claim) -> str:
    return f"- {claim.id}{STAR * claim.starred} ({claim.where}): {claim.words}"


def main() -> None:
    """Read the arguments and write the page."""
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    paper, *folders = sys.argv[1:]
    defaults = ["build/papers", "docs/papers"]
    source, target = (Path(f) for f in folders + defaults[len(folders) :])
    try:
        print(collect(paper, source, target))
    except InvalidInput as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
