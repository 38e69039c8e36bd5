"""The page, Markdown and CSV: self-contained, escaped, the same numbers, the same bytes."""

from __future__ import annotations

import csv
import io
import re
from base64 import b64decode
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from experiments.report.build import make_report, print_report, report_markdown, to_html
from experiments.report.findings import gather
from experiments.report.tables import WORDS, Report, Section, slug
from streamplace.present.table import (
    MOST_ROWS,
    Cell,
    Column,
    Table,
    escape,
    row,
    show,
    to_csv,
    to_markdown,
    unit,
)
from tests.experiments.report.synthetic import demo_rows, plan, proof, run

if TYPE_CHECKING:
    from collections.abc import Callable

EVIL = "<script>alert('x')</script>&amp;\"`|*_$x^2$"


class Page(HTMLParser):
    """Collects what a page holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


@pytest.fixture(scope="module")
def page(demo: Report) -> str:
    """Return the page of the demonstration."""
    return to_html(demo)


def test_the_page_needs_nothing_but_itself(page: str) -> None:
    parsed = Page(page)
    assert not parsed.open
    for tag in ("script", "link", "iframe", "object", "embed", "image", "foreignobject"):
        assert not parsed.tags[tag]
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            held = ("data:image/svg+xml;base64,",) if tag == "img" else ("#",)
            assert value.startswith(held), (tag, name, value)
        assert not re.search(r"url\((?!#)", value), (tag, name, value)
    assert not re.search(r"@import|@font-face|url\(\s*['\"]?(?!#)", page)
    assert "http://" not in page
    assert "https://" not in page


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    parsed = Page(page)
    assert [name for name, count in Counter(parsed.ids).items() if count > 1] == []
    targets = {value[1:] for _, name, value in parsed.attributes if name == "href"}
    targets |= set(re.findall(r"url\(#([^)]*)\)", page))
    assert targets <= set(parsed.ids)


def test_figures_stand_in_the_page_and_are_described(page: str, demo: Report) -> None:
    drawings = [figure.drawing for section in demo.sections for figure in section.figures]
    images = [dict(attrs) for tag, attrs in _tags(page) if tag == "img"]
    assert len(images) == len(drawings) >= 8
    for image, drawing in zip(images, drawings, strict=True):
        assert b64decode(str(image["src"]).partition(",")[2]).decode() == drawing.svg
        assert image["alt"] == drawing.description
        assert drawing.svg.startswith("<?xml") and "http" not in re.sub(
            r'xmlns(:\w+)?="[^"]*"|"http://www.w3.org[^"]*"', "", drawing.svg
        )


def _tags(text: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    found: list[tuple[str, list[tuple[str, str | None]]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append((tag, attrs))  # type: ignore[method-assign]
    parser.feed(text)
    return found


def test_every_figure_has_its_table(demo: Report) -> None:
    figures = [figure for section in demo.sections for figure in section.figures]
    assert {"collocation-profile", "collocation-by-size", "anytime-imc_gain"} <= {
        figure.key for figure in figures
    }
    assert all(figure.table.rows for figure in figures)


def test_the_opening_says_what_came_out(demo: Report) -> None:
    text = " ".join(demo.summary)
    assert "6 instances × 3 levels of load share: 18 cases, 11 method variants, 198 runs." in text
    assert "known on 16 of 18 cases (proved by certificates); 1 is infeasible; on 1 only" in text
    assert re.search(r"partition reaches 8\d\.\d\u00a0% of the optimum on average", text)
    assert re.search(
        r"top-down 9\d\.\d\u00a0% in 0\.\d\d\u00a0ms, with a plan in 16 of 17 runs", text
    )
    assert demo.summary[0].startswith(
        "3 runs failed: balance-milp on Q6 · 0.5 (time-out: killed after 45.0 s (limit 30 s and a "
    )
    assert "balance-milp on Q6 · 0.9 (crash: the child ended with signal 11 (SIGSEGV))" in text


def test_cases_tell_infeasibility_bounds_and_failures(demo: Report) -> None:
    table = _table(demo, "collocation-by-case")
    columns = [column.key for column in table.columns]
    cases = {(row[0].value, row[1].value): dict(zip(columns, row, strict=True))
             for row in table.rows}  # fmt: skip
    none = cases["Q2", "0.9"]
    assert none["proven_optimum"].note.startswith("infeasible (by balance-milp, imc-exact,")
    assert all(cell.value is None for key, cell in none.items() if key not in columns[:2])
    unproved = cases["Q3", "0.9"]
    assert unproved["proven_optimum"].value is None
    assert isinstance(unproved["bound"].value, float)
    assert unproved["imc-exact"].note == f"≤ {show(unproved['bound'].value, 'share')}"
    assert cases["Q5", "0.9"]["top-down"] == Cell(None, "no plan")
    assert cases["Q1", "0.9"]["storm-even"] == Cell(None, "breaks limits")
    assert cases["Q6", "0.9"]["balance-milp"] == Cell(None, "crash")
    assert "imc-brute" not in columns
    assert cases["Q1", "0.5"]["bound"].value is None


def test_methods_that_optimise_something_else_are_marked(demo: Report) -> None:
    marks = {row[0].value: row[0].note for row in _table(demo, "collocation-by-method").rows}
    assert marks["flux"] == marks["storm-even"] == marks["balance-milp"] == "†"
    assert marks["imc-exact"] == marks["top-down"] == marks["partition"] == ""


def test_not_applicable_is_no_failure(demo: Report) -> None:
    assert {row[0].value for row in _table(demo, "failed-runs").rows} == {"balance-milp"}
    assert {row[0].value for row in _table(demo, "not-applicable").rows} == {"imc-brute"}
    table = _table(demo, "failed-runs")
    errors = [row[5].value for row in table.rows]
    assert "the child ended with signal 11 (SIGSEGV)" in errors


def _table(report: Report, key: str) -> Table:
    return next(table for table in report.tables if table.key == key)


def test_unknown_is_blank_everywhere(demo: Report) -> None:
    table = _table(demo, "gaps-internode_traffic")  # nobody proved anything on it
    position = [column.key for column in table.columns].index("gap_to_optimum")
    assert table.rows[0][position].value is None
    assert list(csv.reader(io.StringIO(to_csv(table))))[1][position] == ""
    known = [column.label for column in table.shown.columns]
    assert "To optimum, mean" not in known  # a column of nothing is left out, not of the CSV file
    assert "To best known, mean" in known
    assert "To optimum, mean" not in to_html(_report(table)) + to_markdown(table)


def test_unknown_beside_known_is_blank() -> None:
    columns = (Column("a", "A", "name"), Column("b", "B", "gap"))
    table = Table("t", "T", columns, (row("x", None), row("y", 0.5)))
    assert to_markdown(table).splitlines()[2:] == ["| x | |", "| y | 50.00 |"]
    assert '<td class="gap num none"></td>' in to_html(_report(table))


def test_every_run_tells_who_says_its_bound(demo: Report) -> None:
    table = _table(demo, f"{WORDS['imc_gain'].slug}-every-case-and-method")
    at = {column.key: i for i, column in enumerate(table.columns)}
    told: dict[str, set[object]] = {}
    for cells in table.rows:
        gap, bound = cells[at["gap_to_certified"]].value, cells[at["certified_bound"]].value
        assert (gap is None) == (bound is None)
        told.setdefault(str(cells[at["method"]].value), set()).add(cells[at["own_bound_by"]].value)
    assert told["imc-exact"] == {"certificate", ""}  # nothing where no plan exists
    milps = [said for name, said in told.items() if name.startswith("imc-milp")]
    assert milps and all("one solver" in said and "certificate" not in said for said in milps)
    assert told["top-down"] == {""}


def test_markdown_and_csv_hold_the_same_numbers(demo: Report) -> None:
    markdown = report_markdown(demo, lambda table: f"tables/{table.key}.csv")
    for table in demo.tables:
        shown = to_markdown(table)
        assert shown in markdown
        kept = [table.columns.index(column) for column in table.shown.columns]
        assert f"(tables/{table.key}.csv)" in markdown
        stored = list(csv.reader(io.StringIO(to_csv(table))))
        assert len(stored) == len(table.rows) + 1
        for line, numbers in zip(shown.splitlines()[2:], stored[1:], strict=True):
            for place, cell in zip(kept, _split(line), strict=True):
                column, number = table.columns[place], numbers[place]
                if not column.numeric or not number:
                    assert number or not column.numeric or not cell or cell[0] not in "0123456789"
                    continue
                value = float(number)
                expected = f"{show(value, column.kind)} {unit(value, column.kind)}".strip()
                if column.kind in ("share", "gap"):
                    expected = expected.removesuffix(" %")
                assert cell.split(" (")[0] == escape(expected)


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_long_tables_are_cut_on_the_page_but_not_in_csv() -> None:
    table = Table("t", "T", (Column("a", "A", "count"),), tuple(row(i) for i in range(1200)))
    assert to_html(_report(table)).count("<tr") == MOST_ROWS + 1
    assert f"The first {MOST_ROWS} of 1200 rows" in to_html(_report(table))
    assert f"The first {MOST_ROWS} of 1200 rows" in to_markdown(table)
    assert to_csv(table).count("\n") == 1201


def _hostile_rows() -> list[dict[str, Any]]:
    here = {"num_tasks": 10, "factors": {EVIL: 10}, "sweep": EVIL}
    rows = [
        proof(
            f"{name}{EVIL}", f"exact{EVIL}", 50.0 + size, num_tasks=size, sweep=EVIL, host=EVIL,
            factors={EVIL: size}, versions='{"<script>": "</style>"}',
        )
        for size, name in ((10, "a"), (20, "b"))
    ]  # fmt: skip
    name = f"a{EVIL}"
    rows.append(plan(name, "_$\\frac", 40.0, **here))
    rows.append(plan(name, "=1+1", 40.0, objective_name=f"../{EVIL}", imc_gain=40.0, **here))
    rows.append(run(name, "[bold]crash", outcome="crash", error=f"{EVIL}\x1b[31m\x07", **here))
    return rows


@pytest.mark.slow
def test_hostile_names_are_only_names(read: Callable[..., Any]) -> None:
    sweep = read(_hostile_rows())
    report = make_report(gather(sweep.con, sweep.labels))
    text = to_html(report)
    parsed = Page(text)
    assert not parsed.tags["script"]
    assert parsed.tags["style"] == 1
    assert any(EVIL in shown for shown in parsed.texts)
    assert "\x1b" not in text
    for table in report.tables:
        assert re.fullmatch(r"[A-Za-z0-9_-]+", table.key)
        assert "\n=1+1" not in to_csv(table)
    assert "'=1+1" in "".join(to_csv(table) for table in report.tables)
    markdown = report_markdown(report, slug_of)
    assert not re.search(r"(?<!\\)<script", markdown)
    console = Console(file=io.StringIO(), width=120, color_system=None)
    print_report(report, console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert EVIL in printed
    assert "\x1b" not in printed


def test_slugs_name_files_and_nothing_else() -> None:
    assert slug("load_distance") == "load_distance"
    assert re.fullmatch(r"[A-Za-z0-9_-]+", slug("../../etc/passwd"))
    assert slug("a/b") != slug("a?b")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (None, ""), (3, "3"), ("-x", "'-x"), (1 / 3, "0.333333333333")],
)
def test_csv_values(value: Any, text: str) -> None:
    table = Table("t", "T", (Column("a", "A", "number"),), (row(value),))
    assert to_csv(table) == f"a\n{text}\n" if text else 'a\n""\n'


def _report(table: Table) -> Report:
    return Report("R", (), (Section("s", "S", "", (table,)),))


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes(read: Callable[..., Any], demo: Report) -> None:
    """Spread over other files and in another order, the rows say the same."""
    sweep = read(demo_rows()[::-1], parts=5)
    again = make_report(gather(sweep.con, sweep.labels))
    assert to_html(again) == to_html(demo)
    assert [to_csv(table) for table in again.tables] == [to_csv(table) for table in demo.tables]
    assert report_markdown(again, slug_of) == report_markdown(demo, slug_of)


def slug_of(table: Table) -> str:
    """Return a place for a table's CSV file."""
    return table.key


def test_tables_that_are_cut_have_every_row_in_their_csv_files(
    read: Callable[..., Any], demo: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many cases only the rows that are shown are made; the CSV files are written by columns."""
    sweep = read(demo_rows())
    findings = gather(sweep.con, sweep.labels)
    for module in ("experiments.report.tables", "streamplace.present.table"):
        monkeypatch.setattr(f"{module}.MOST_ROWS", 5)
    cut = make_report(findings)
    several = [table for table in cut.tables if table.num_more]
    assert {table.key.partition("-")[2] for table in several} >= {
        "by-case", "gaps-by-case", "times-by-case", "every-case-and-method"
    }  # fmt: skip
    assert all(len(table.rows) == 5 for table in several)
    assert [to_csv(table) for table in cut.tables] == [to_csv(table) for table in demo.tables]
    assert "The first 5 of 18 rows" in to_html(cut)
