"""What the site needs beyond MkDocs: version, notebooks of tutorials, files that pages link to.

``README.md`` is the repository's front page and ``docs/index.md`` the site's. Every other file
outside of docs/ that a page links to (CONTRIBUTING.md, examples, tables of papers) becomes part of
the site under its path in the repository; of a folder, its README or a list of its files.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_config(config: Any) -> Any:
    """Show the version beside the name."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_name = f"{project['name']} {project['version']}"
    config.copyright = f"{config.site_name}, {project['license']}"
    return config


def address(path: Path) -> str:
    """Return where a file or folder of the repository stands in the site's tree of sources."""
    if path == REPOSITORY / "README.md":
        return "index.md"
    if path.is_dir():
        path = path / ("README.md" if (path / "README.md").exists() else "index.md")
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else REPOSITORY).as_posix()


def moved(text: str, page: Path, found: set[Path]) -> str:
    """Return a page's text with links as the site needs them; add the files they lead to."""
    here = PurePosixPath(address(page)).parent

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if re.match(r"[a-z]+:", match[2]) or not target.exists():
            return match[0]
        found.add(target)
        return f"{match[1]}{os.path.relpath(address(target), here)}{match[3]}"

    return LINK.sub(link, text)


def notebook(page: str) -> dict[str, Any]:
    """Return a page as a Jupyter notebook: commands and Python as cells, with the output shown."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, source: str, shown: str = "") -> None:
        cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.strip("\n")}
        if kind == "code":
            outputs = [{"output_type": "stream", "name": "stdout", "text": shown}] if shown else []
            cell |= {"execution_count": None, "outputs": outputs}
        if cell["source"]:
            cells.append({"id": f"cell-{len(cells)}", **cell})

    for part in re.split(r"(^```(?:console|python|toml title).*?^```$)", page, flags=re.M | re.S):
        head, _, body = part.removesuffix("```").partition("\n")
        if head == "```console":
            for command in re.split(r"^\$ ", body, flags=re.M)[1:]:
                line, _, shown = command.partition("\n")
                add("code", f"!{line}", shown)
        elif head == "```python":
            examples = doctest.DocTestParser().get_examples(body)
            shown = "".join(example.want for example in examples)
            add("code", "".join(example.source for example in examples), shown)
        elif named := re.match(r'```(?:toml|python) title="(.*)"', head):
            add("code", f"%%writefile {named[1]}\n{body}")
        else:
            add("markdown", part)
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def with_options(page: str) -> str:
    """Return the page of the command line with the help of each command at its end."""
    parts = re.split(r"(?=^## `streamplace )", page, flags=re.MULTILINE)
    for k, part in enumerate(parts[1:], start=1):
        name = part.removeprefix("## `streamplace ").partition("`")[0]
        text = printed(name, "--help-all") or printed(name, "--help")
        text = re.sub(r"\nmessages \(stderr\):\n(?:  .*\n)+", "", text)
        parts[k] = f"{part.rstrip()}\n\n```text\n{text}```\n\n"
    return "".join(parts)


def with_methods(page: str, file: str) -> str:
    """Return the page of a method with what ``streamplace methods METHOD`` prints at its end."""
    index = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    for name in re.findall(rf"\[`(\S+)`\]\({file}\)", index):
        text = re.sub(r" +$", "", printed("methods", name), flags=re.MULTILINE)
        page += f"\n```text\n$ streamplace methods {name}\n{text}```\n"
    return page


def with_figures(page: str) -> str:
    """Return the gallery with every figure of the papers, and the command that makes it."""
    from experiments.studies.papers import all_figures

    papers = dict.fromkeys(figure.paper for figure in all_figures())
    for paper in papers:
        text = (DOCS / "papers" / f"{paper}.md").read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        page += f"\n## {title}\n\n[What the paper says, and what we measure](papers/{paper}.md)\n"
        page += '\n<div class="gallery" markdown>\n'
        for figure in all_figures():
            if figure.paper == paper:
                image = f"papers/img/{figure.name.replace('/', '-')}.svg"
                page += f"\n![{figure.title}]({image})\n`streamplace paper {figure.name}`\n"
        page += "\n</div>\n"
    return page


def printed(*words: str) -> str:
    """Return what a command prints."""
    from streamplace.cli.main import main

    stream = io.StringIO()
    with (
        contextlib.suppress(SystemExit),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(stream),
    ):
        main(words)
    return stream.getvalue()


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to outside of docs/, and what that links to."""
    for page in [file for file in files if file.src_uri.startswith("tutorials/")]:
        name = page.src_uri.removesuffix(".md") + ".ipynb"
        content = json.dumps(notebook(page.content_string), indent=1)
        files.append(File.generated(config, name, content=content))
    waiting = {Path(str(file.abs_src_path)) for file in files.documentation_pages()}
    done = set(waiting)
    while waiting:
        page = waiting.pop()
        found: set[Path] = set()
        text = moved(page.read_text(encoding="utf-8"), page, found)
        if not page.is_relative_to(DOCS):
            files.append(File.generated(config, address(page), content=text))
        for path in sorted(found - done):
            done.add(path)
            if path.is_relative_to(DOCS) or address(path) == "index.md":
                continue
            if path.is_dir() and (path / "README.md").exists():
                path = path / "README.md"
            if path.is_dir():
                names = sorted(file for file in path.iterdir() if file.is_file())
                listed = "".join(f"- [{file.name}]({file.name})\n" for file in names)
                title = path.relative_to(REPOSITORY).as_posix()
                listing = f"# {title}\n\n{listed}"
                files.append(File.generated(config, address(path), content=listing))
                for file in set(names) - done:
                    done.add(file)
                    files.append(copied(config, file))
            elif path.suffix == ".md":
                waiting.add(path)
            else:
                files.append(copied(config, path))
    return files


def copied(config: Any, path: Path) -> File:
    """Return a file of the repository as one of the site."""
    return File.generated(config, address(path), abs_src_path=str(path))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mend a page's links; add commands' help, figures, the benchmark's cases, notebooks."""
    path = DOCS / page.file.src_uri
    if page.file.src_uri == "command-line.md":
        markdown = with_options(markdown)
    if page.file.src_uri == "gallery.md":
        markdown = with_figures(markdown)
    if page.file.src_uri.startswith("methods/"):
        markdown = with_methods(markdown, page.file.src_uri.removeprefix("methods/"))
    if page.file.src_uri == "open-benchmark-cases.md":
        from experiments.studies.bench.cases import read
        from experiments.studies.bench.scores import page_table

        markdown = f"{markdown}\n{page_table(read())}\n"
    if page.file.src_uri.startswith("tutorials/"):
        markdown = f"{markdown}\n[This page as a notebook]({path.stem}.ipynb)\n"
    return moved(markdown, path, set()) if path.exists() else markdown
