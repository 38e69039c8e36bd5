"""Put the figures that were made of a paper into one page of the documentation.

Run: ``python -m experiments.papers.collecting PAPER [FROM] [TO]``; FROM is the folder that
``streamplace paper -o`` wrote (``build/papers``), TO the folder of the pages (``docs/papers``).
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

from experiments.papers import find_figures
from experiments.papers.running import folder_of
from optim.errors import InvalidInput, Problem
from optim.util.files import read_bytes, write_atomic


def collect(paper: str, source: Path, target: Path) -> Path:
    """Write the page of a paper, with its drawings in ``img`` beside it.

    Parameters
    ----------
    paper
        As in the names of its figures.
    source, target
        Folders of the figures and of the pages.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    InvalidInput
        There is no such paper, or one of its figures was not made.
    """
    figures = find_figures(paper)
    package = importlib.import_module(f"experiments.papers.{paper.replace('-', '_')}")
    parts = ["# " + inspect.cleandoc(package.__doc__ or paper)]
    images = target / "img"
    images.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        made = [folder_of(figure, source, reduced) for reduced in (False, True)]
        folder = next((f for f in made if (f / "page.md").is_file()), None)
        if folder is None:
            remedy = f"run `streamplace paper {figure.name} -o {source}`"
            raise InvalidInput(Problem(figure.name, str(source), "was not made", remedy))
        image = f"{figure.name.replace('/', '-')}.svg"
        write_atomic(images / image, read_bytes(folder / "plot.svg"))
        text = read_bytes(folder / "page.md").decode()
        text = text.replace("](plot.svg)", f"](img/{image})")
        # a page of its own there is a section here, and its sections are bold words
        text = re.sub(r"^## (.*)$", r"**\1**", text, flags=re.MULTILINE)
        parts.append(re.sub(r"^# ", "## ", text).rstrip())
    path = target / f"{paper}.md"
    write_atomic(path, "\n\n".join(parts) + "\n")
    return path


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
