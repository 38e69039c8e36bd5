"""The documentation site: tutorials run as its notebooks, pages read alike there and on GitHub."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import markdown
import pytest
from markdown_it import MarkdownIt

from experiments.studies.papers import all_figures
from formulations.schedule.capacity import FINAL_ONLY
from optim.methods.registry import all_methods
from optim.rules import RULE_NAMES
from streamplace.cli.main import build_parser, commands
from streamplace.cli.schema import schema
from tests.examples.test_documentation import LINK, PAGES, REPOSITORY, TUTORIALS, anchors, run, same

DOCS = REPOSITORY / "docs"
QUESTIONS = tomllib.loads((Path(__file__).parent / "questions.toml").read_text(encoding="utf-8"))
MOST_CLICKS = 3


def _hooks() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_cell(source: str, folder: Path, names: dict[str, Any]) -> str:
    """Run a cell as Jupyter does; return what it prints, of Python each expression's value."""
    if source.startswith("%%writefile "):
        name, _, content = source.removeprefix("%%writefile ").partition("\n")
        (folder / name).write_text(content + "\n", encoding="utf-8")
        return ""
    if source.startswith("!"):
        return run(source[1:], folder).stdout
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(folder):
        for statement in ast.parse(source).body:
            exec(compile(ast.Interactive([statement]), "cell", "single"), names)
    return printed.getvalue()


SWEEPS = {"study"}  # a JVM and 36 processes
RUN = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SWEEPS else [])
    for page in TUTORIALS
]


@pytest.mark.parametrize("page", RUN)
def test_a_tutorial_runs_as_a_notebook(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    text = page.read_text(encoding="utf-8")
    if "streamplace sweep" in text:
        request.getfixturevalue("spark")  # runs in this process borrow it
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    names: dict[str, Any] = {}
    cells = [c for c in _hooks().notebook(text)["cells"] if c["cell_type"] == "code"]
    assert sum(cell["source"].startswith("!") for cell in cells) == text.count("\n$ ")
    for cell in cells:
        printed = run_cell(cell["source"], tmp_path, names)
        shown = "".join(output["text"] for output in cell["outputs"])
        if shown:
            same(cell["source"], shown, printed)


def parts(html: str) -> Counter[str]:
    """Count what a page is made of."""
    return Counter(re.findall(r"<(li|ul|ol|table|td|pre|h\d|em|strong|code|a|img)\b", html))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_page_reads_alike_on_the_site_and_on_github(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^<.*>$", "", text, flags=re.MULTILINE)
    there = MarkdownIt("commonmark").enable("table").render(text)
    here = markdown.markdown(text, extensions=["tables", "pymdownx.superfences", "attr_list"])
    assert parts(here) == parts(there)


def clicks() -> dict[tuple[Path, str], int]:
    """Return the links from the site's first page that lead to each page and heading, at least."""
    found: dict[tuple[Path, str], int] = {(DOCS / "index.md", ""): 0}
    seen: set[Path] = set()
    waiting = [(0, DOCS / "index.md")]
    while waiting:
        count, page = waiting.pop(0)
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            found.setdefault((file, anchor), count + 1)
            waiting.append((count + 1, file))
    return found


@pytest.mark.parametrize("question", QUESTIONS["question"], ids=lambda q: q["asked"])
def test_a_question_is_answered_within_three_clicks(question: dict[str, str]) -> None:
    name, _, anchor = question["at"].partition("#")
    page = REPOSITORY / name
    assert clicks()[page, anchor] <= MOST_CLICKS
    text = page.read_text(encoding="utf-8")
    if anchor:
        assert anchor in anchors(page)
        heading = next(
            line for line in text.splitlines()
            if line.startswith("#") and anchors(line) == [anchor]
        )  # fmt: skip
        text = text.split(f"\n{heading}\n")[1]
        text = re.split(rf"^#{{1,{heading.split()[0].count('#')}}} ", text, flags=re.MULTILINE)[0]
    assert re.search(question["says"], text, re.DOTALL)


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"- (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    odd = listed ^ (pages | {"CONTRIBUTING.md", "CHANGELOG.md"})
    assert not odd, "pages in docs, and lines of nav in mkdocs.yml, without each other"


def test_the_gallery_has_every_figure_and_its_command() -> None:
    text = _hooks().with_figures((DOCS / "gallery.md").read_text(encoding="utf-8"))
    shown = dict(re.findall(r"^!\[.*\]\((\S+)\)\n(.+)$", text, re.MULTILINE))
    assert set(shown) == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("img/*.svg")}
    known = {figure.name for figure in all_figures()}
    for name, line in shown.items():
        if name.startswith("papers/"):
            figure = re.fullmatch(r"`streamplace paper (\S+)/(\S+)`", line)
            assert figure is not None
            assert name == f"papers/img/{figure[1]}-{figure[2]}.svg"
            assert f"{figure[1]}/{figure[2]}" in known


def test_the_page_of_methods_is_true() -> None:
    text = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    methods = {method.name: method for method in all_methods()}
    found: set[str] = set()
    for part in text.split("\n### ")[1:]:
        listed = re.findall(r"^- \[`(\S+)`\]\(\S+\) \(`(\w+)`(.*)\): (.+)$", part, re.MULTILINE)
        for name, objective, more, summary in listed:
            method = methods[name]
            assert (objective, summary) == (method.objective, method.summary), name
            assert part.startswith(f"{method.family.capitalize()}\n")
            assert bool(more) == (len(method.objectives) > 1)
        found |= {name for name, *_ in listed}
    missing = set(methods) - found
    assert not missing, "write a line for each under its family in docs/methods/index.md"
    rows = re.findall(r"^- `(\S+)`: (.+); (.+)$", text, re.MULTILINE)
    exact = {name for name, method in methods.items() if method.kind == "exact" and method.solvers}
    assert {name for name, *_ in rows} == exact, "exact methods in docs/methods/index.md"
    for name, objectives, solvers in rows:
        method = methods[name]
        assert re.findall(r"`(\w+)`", objectives) == list(method.objectives), name
        assert set(solvers.split(", ")) == set(method.solvers)
        assert solvers.split(", ")[0] == method.default_solver


def test_the_page_of_commands_lists_all_limits() -> None:
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    listed = re.search(r"^- `--ignore`: (.*?)^- ", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    missing = set(RULE_NAMES) - set(re.findall(r"`(\w+)`", listed[1]))
    assert not missing, "name them under `--ignore` in docs/command-line.md"


def test_the_page_of_the_format_has_every_field() -> None:
    text = (DOCS / "format.md").read_text(encoding="utf-8")
    words, keys = set(re.findall(r"\w+", text)), set[str]()
    parts = [schema("instance"), *schema("instance")["$defs"].values()]
    for part in parts:
        keys |= set(part.get("properties", {}))
    missing = keys - words
    assert not missing, "describe them in docs/format.md"


def test_the_page_of_steps_names_every_rule_of_the_plan_only() -> None:
    text = (DOCS / "steps.md").read_text(encoding="utf-8")
    missing = set(FINAL_ONLY) - set(re.findall(r"`(\w+)`", text))
    assert not missing, "name them in docs/steps.md"


@pytest.mark.parametrize("name", [command.name for command in commands()])
def test_a_command_and_its_flags_are_described(name: str) -> None:
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    assert f"\n## `streamplace {name}`\n" in page
    section = _hooks().with_options(page).split(f"\n## `streamplace {name}`\n")[1]
    section = section.split("\n## ")[0]
    sub = build_parser(name)._subparsers._group_actions[0].choices[name]  # type: ignore
    talk = {"--quiet", "--verbose", "--debug", "--help-all"}
    for action in sub._actions:
        for flag in set(action.option_strings) - talk:
            assert action.help, f"{flag} has no help"
            shown = re.search(rf"^ .*(?<![\w-]){flag}\b", section, re.MULTILINE)
            assert shown or flag in {"-q", "-v"}, flag
            if name == "solve" and flag.startswith("--") and flag not in {"--json", "--help"}:
                assert re.search(rf"`{flag}\b", page), flag


def test_the_page_of_a_method_ends_with_what_the_command_says_of_it() -> None:
    hooks = _hooks()
    text = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    pages = dict(re.findall(r"^- \[`(\S+)`\]\((\S+)\)", text, re.MULTILINE))
    for file in sorted(set(pages.values())):
        shown = hooks.with_methods("", file)
        for method in all_methods():
            if pages.get(method.name) == file:
                assert f"$ streamplace methods {method.name}\n{method.name}: " in shown
                for option in method.options:
                    assert re.search(rf"^{option.name} ", shown, re.MULTILINE), option.name
