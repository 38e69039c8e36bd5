"""Files as others write them: what Spark reads is what is listed, and what it cannot is named."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.spark.session import check_reachable
from experiments.traces import trace as tracing
from experiments.traces.folder import TraceFolder
from experiments.traces.job import Job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import job, rows
from tests.slowly import slowly

HEADER = "at,user,page,size\n"
LINES = (
    "2024-01-01T00:10:00Z,ann,a,1\n",
    "2024-01-01T00:20:00Z,bob,a,2.5\n",
    "2024-01-01T02:00:00Z,cat,b,8\n",
)
CSV = HEADER + "".join(LINES)


def traced(folder: Path, path: str, *, states: bool = False, **changes: Any) -> TraceFolder:
    """Trace a recording; options of it come as `clicks` options.

    What is asked here is how files are read: of the tables that follow, only the loads are made,
    and with `states` the keys and states of the operator `user` too.
    """
    own = ("header", "columns", "decimal", "quote", "escape", "delimiter", "encoding", "read",
           "multiline", "format", "time", "timezone", "null")  # fmt: skip
    changes = {f"events__clicks__{k}" if k in own else k: v for k, v in changes.items()}
    description = job(events__clicks__path=path, **changes)
    del description["edge"]
    if not states:
        del description["operator"][0]["state"]
    return run_trace(Job.from_dict(description, folder), folder / "out")


def cost(found: TraceFolder) -> tuple[int, float]:
    """Return the events, and what the operator `user` spends on them."""
    counted = found.manifest.recordings["clicks"]["counted"]
    return counted, sum(row["cost"] for row in rows(found, "loads") if row["operator"] == "user")


def keys(found: TraceFolder) -> set[str]:
    """Return the keys that have state."""
    return {row["key"] for row in rows(found, "keys")}


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- what is listed is what is read ----------------------------------------------------------------


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", ["in", *slowly("in/")])
def test_files_beside_folders_that_are_columns_are_refused(path: str, tmp_path: Path) -> None:
    """Spark reads one of the two, without a word."""
    write(tmp_path / "in" / "1.csv", HEADER + LINES[0])
    write(tmp_path / "in" / "d=1" / "2.csv", HEADER + LINES[1])
    with pytest.raises(InvalidInput, match=r"1\.csv stands beside d=1 in /.*\(move it into"):
        traced(tmp_path, path, format="csv")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("folders", "told"),
    [
        (["user=ann", "user=bob"], r"folders name the columns user .*\(read files alone"),
        (["d=1", "e=1"], r"CONFLICTING_PARTITION.*\(name column=value folders alike, .* in/\*/"),
    ],
)
def test_folders_that_are_no_columns_are_refused_with_the_way_out(
    folders: list[str], told: str, tmp_path: Path
) -> None:
    for folder in folders:
        write(tmp_path / "in" / folder / "1.csv", HEADER + LINES[0])
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "in", format="csv")
    assert cost(traced(tmp_path, "in/*/*.csv", format="csv"))[0] == 2


@pytest.mark.usefixtures("spark")
def test_a_pattern_takes_files_and_folders(tmp_path: Path) -> None:
    write(tmp_path / "in" / "1.csv", HEADER + LINES[0])
    write(tmp_path / "in" / "d=1" / "2.csv", HEADER + LINES[1])
    found = traced(tmp_path, "in/*", format="csv")
    assert cost(found) == (2, 3.5)
    assert [Path(f.path).name for f in found.manifest.files["clicks"]] == ["1.csv", "2.csv"]


@pytest.mark.usefixtures("spark")
def test_what_spark_passes_over_is_no_part_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the two come apart: here the folder is taken without a look at what is in it."""
    from experiments.traces import files as locating

    write(tmp_path / "in" / "1.csv", HEADER + LINES[0])
    write(tmp_path / "in" / "d=1" / "2.csv", HEADER + LINES[1])
    monkeypatch.setattr(locating, "_expand_match", lambda files, match, *_: [match])
    with pytest.raises(InvalidInput, match=r"means /.*/in/1\.csv too, and Spark passes over"):
        traced(tmp_path, "in", format="csv")
    assert not (tmp_path / "out" / "trace.json").exists()


@pytest.mark.usefixtures("spark")
def test_a_file_that_comes_after_the_listing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in" / "1.csv", HEADER + LINES[0])
    add = tracing.add

    def late(*given: Any) -> Any:
        write(tmp_path / "in" / "2.csv", HEADER + LINES[1])
        return add(*given)

    monkeypatch.setattr(tracing, "add", late)
    with pytest.raises(InvalidInput, match=r"'in' got /.*/in/2\.csv while it was traced \(tr"):
        traced(tmp_path, "in", format="csv")


@pytest.mark.usefixtures("spark")
def test_folders_that_begin_with_a_mark_are_columns_as_to_spark(tmp_path: Path) -> None:
    write(tmp_path / "in" / "_col=7" / "1.csv", HEADER + LINES[0])
    write(tmp_path / "in" / "_col=8" / "2.csv", HEADER + LINES[1])
    write(tmp_path / "in" / "_SUCCESS", "")
    found = traced(tmp_path, "in", states=True, format="csv", operator__0__key="_col")
    assert cost(found) == (2, 3.5)
    assert keys(found) == {"7", "8"}
    assert len(found.manifest.files["clicks"]) == 2


@pytest.mark.usefixtures("spark")
def test_the_value_of_a_folder_is_its_text(tmp_path: Path) -> None:
    """Spark takes them all for numbers, and 01 for 1, unless another value is none."""
    for value in ("01", "1", "1e0"):
        write(tmp_path / "in" / f"d={value}" / "1.csv", HEADER + LINES[0])
    found = traced(tmp_path, "in", states=True, format="csv", operator__0__key="d")
    assert keys(found) == {"01", "1", "1e0"}


@pytest.mark.usefixtures("spark")
@pytest.mark.seeds(1)
@pytest.mark.parametrize("seed", range(6))
def test_random_folders_are_read_whole_or_refused(seed: int, tmp_path: Path) -> None:
    """Every event of every file that is not hidden counts once, and its file is in the manifest."""
    rng = np.random.default_rng(seed)
    visible = {}
    for number in range(int(rng.integers(2, 6))):
        columns = ["", "d=1", "d=2", "_e=x", "a b=1", "sub"]
        folder = str(rng.choice(columns[: 6 if seed % 2 else 5], p=None))
        name = str(rng.choice(["{}.csv", "{} x.csv", "{}.csv.gz", "_{}", ".{}.csv", "c={}.csv"]))
        lines = "".join(LINES[: int(rng.integers(0, 4))])
        text = (HEADER + lines).encode() if rng.random() < 0.9 else b""
        path = tmp_path / "in" / folder / name.format(number)
        write(path, gzip.compress(text) if name.endswith(".gz") else text)
        if not path.name.startswith((".", "_")):
            visible[str(path)] = text.count(b"Z,")
    pattern = str(rng.choice(["in", "in/*"]))
    try:
        found = traced(tmp_path, pattern, format="csv", columns={}, operator__0__cost="1")
    except InvalidInput as error:
        told = (
            "begins with|stands beside|inside a folder|without files|no event|matches no|conflict"
        )
        told += "|no header"
        assert re.search(told, str(error), re.IGNORECASE), error
        return
    assert found.manifest.recordings["clicks"]["events"] == sum(visible.values())
    assert {entry.path for entry in found.manifest.files["clicks"]} == set(visible)


# -- CSV as others write it ------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("multiline", [False, *slowly(True)])
def test_csv_without_a_header_line(multiline: bool, tmp_path: Path) -> None:
    write(tmp_path / "e.csv", "".join(LINES))
    columns = {"at": "time", "user": "text", "page": "text", "size": "number"}
    found = traced(tmp_path, "e.csv", header=False, columns=columns, time="at", multiline=multiline)
    assert cost(found) == (3, 11.5)
    names = ["at", "user", "page", "size"]
    again = traced(tmp_path, "e.csv", header=False, columns=names, operator__0__cost="number(size)")
    assert cost(again) == (3, 11.5)
    with pytest.raises(InvalidInput, match=r"MALFORMED, not as many values as columns names: /"):
        traced(tmp_path, "e.csv", header=False, columns=names[:3], operator__0__cost="1")


@pytest.mark.usefixtures("spark")
def test_the_options_of_sparks_reader(tmp_path: Path) -> None:
    """Format, names and options in one table say what the older entries say."""
    text = "".join(LINES).replace(",", "||").replace("ann", r"'a\'n'").replace("bob", "NA")
    text = "# no header\n" + text.replace("cat", "cät")
    write(tmp_path / "e.dat", text.encode("utf-16"))
    options = {
        "sep": "||", "quote": "'", "escape": "\\", "nullValue": "NA", "charset": "UTF-16",
        "comment": "#", "header": "false",
    }  # fmt: skip
    read = {"format": "csv", "names": ["at", "user", "page", "size"], "options": options}
    found = traced(tmp_path, "e.dat", states=True, read=read)
    assert cost(found) == (3, 3.5 + 8.0 - 2.5)
    assert keys(found) == {"a'n", "cät"}
    assert found.manifest.recordings["clicks"]["without_key"]["user"] == 1


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("packed", ["gzip", *slowly("bzip2")])
def test_compressions(packed: str, tmp_path: Path) -> None:
    import bz2

    pack, ending = {"gzip": (gzip.compress, "gz"), "bzip2": (bz2.compress, "bz2")}[packed]
    write(tmp_path / f"e.csv.{ending}", pack(CSV.encode()))
    read = {"options": {"compression": packed}}
    assert cost(traced(tmp_path, f"e.csv.{ending}", read=read)) == (3, 11.5)


@pytest.mark.usefixtures("spark")
def test_wrong_rows_are_counted_by_file(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a a.csv", CSV + "torn\n")
    write(tmp_path / "in" / "b.csv", CSV + LINES[0] + "1,2\n" * 4)
    told = (
        r"'in' cannot be read: MALFORMED, not as many values as the header: "
        r"/.*/in/b\.csv, line 6: 1,2; 5 rows are so: 4 in /.*/in/b\.csv, 1 in /.*/in/a a\.csv"
    )
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "in", format="csv")
    write(tmp_path / "in" / "a a.csv", CSV)
    write(tmp_path / "in" / "b.csv", CSV.replace(",1\n", ",one\n").replace(",8\n", ",two\n"))
    told = r"columns.size: 'one' is no number \(/.*/in/b\.csv; 2 rows are so\)"
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "in", format="csv")


@pytest.mark.usefixtures("spark")
def test_the_manifest_has_the_events_of_each_file(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a ü%20.csv", CSV)
    write(tmp_path / "in" / "b.csv", HEADER + LINES[1])
    write(tmp_path / "in" / "c.csv", HEADER)
    found = traced(tmp_path, "in", format="csv")
    told = {Path(f.path).name: f.events for f in found.manifest.files["clicks"]}
    assert told == {"a ü%20.csv": 3, "b.csv": 1, "c.csv": 0}


@pytest.mark.usefixtures("spark")
def test_headers_without_a_name(tmp_path: Path) -> None:
    """As pandas writes its index."""
    lines = [f"{i},{line}" for i, line in enumerate(LINES)]
    write(tmp_path / "in" / "a.csv", "," + HEADER + "".join(lines))
    write(tmp_path / "in" / "b b.csv", "," + HEADER + lines[0])
    write(tmp_path / "in" / "c.csv", "")
    assert cost(traced(tmp_path, "in", format="csv", operator__0__key="_c0")) == (4, 12.5)
    write(tmp_path / "in" / "b b.csv", ",at,user,size,page\n" + lines[0])
    with pytest.raises(InvalidInput, match=r"different headers: ,at,user.* in /.*/in/(a|b b)\.csv"):
        traced(tmp_path, "in", format="csv")


@pytest.mark.usefixtures("spark")
def test_no_sign_is_a_quote(tmp_path: Path) -> None:
    write(tmp_path / "e.csv", CSV.replace("ann", '"ann').replace("bob", 'b"ob"'))
    found = traced(tmp_path, "e.csv", states=True, read={"options": {"quote": ""}})
    assert cost(found) == (3, 11.5)
    assert keys(found) == {'"ann', 'b"ob"', "cat"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("ending", ["csv", *slowly("jsonl")])
def test_no_column_is_read(ending: str, tmp_path: Path) -> None:
    constant = {"operator__0__key": "'k'", "operator__0__cost": 1, "operator__1__key": "'x'"}
    constant |= {"columns": {}, "time": "epoch(1)"}
    write(tmp_path / f"e.{ending}", CSV if ending == "csv" else _json_lines())
    assert cost(traced(tmp_path, f"e.{ending}", **constant)) == (3, 3.0)
    with (tmp_path / f"e.{ending}").open("a") as file:
        file.write("torn")
    with pytest.raises(InvalidInput, match=r"MALFORMED.*: torn"):
        traced(tmp_path, f"e.{ending}", **constant)


@pytest.mark.usefixtures("spark")
def test_quotes_inside_values_are_no_torn_lines(tmp_path: Path) -> None:
    text = CSV.replace("ann", '"an""n"').replace("bob", 'b"ob').replace("cat", '"c,""at"""')
    write(tmp_path / "e%20 [e].csv", text)
    found = traced(tmp_path, "e%20 [e].csv", states=True)
    assert cost(found) == (3, 11.5)
    assert keys(found) == {'an"n', 'b"ob', 'c,"at"'}
    write(tmp_path / "e%20 [e].csv", text + LINES[0].replace("ann", '"ann').replace(",1", ',1"'))
    with pytest.raises(InvalidInput, match=r"MALFORMED.* /.*/e%20 \[e\]\.csv, line 5"):
        traced(tmp_path, "e%20 [e].csv")
    # the halves of a torn line may have as many values as a whole one
    write(tmp_path / "e%20 [e].csv", text + LINES[0].replace(",1", ',"1') + 'x,"",y,1"\n')
    with pytest.raises(InvalidInput, match=r"a quote that it does not close \(/.*\.csv, line 5\)"):
        traced(tmp_path, "e%20 [e].csv", columns={}, operator__0__cost="1")


@pytest.mark.usefixtures("spark")
def test_linear_road_and_its_like(tmp_path: Path) -> None:
    """Fifteen numbers a line, the second of them seconds; folders beside are columns too."""
    road = [
        f"0,{second},{second % 7},30,0,0,0,{second % 5},100,-1,-1,-1,-1,-1,-1"
        for second in range(90)
    ]
    write(tmp_path / "road" / "x=0" / "a.dat", "\n".join(road[:50]))
    write(tmp_path / "road" / "x=1" / "b.dat", "\n".join(road[50:]) + "\n")
    names = "type time vid speed xway lane dir seg pos qid init end dow tod day".split()  # noqa: SIM905
    found = traced(
        tmp_path, "road", format="csv", header=False, time="epoch(number(time))",
        columns=dict.fromkeys(names, "whole"), operator__0__key="concat(x, vid)",
        operator__0__cost="speed", operator__1__key="seg", period__length="1 min",
    )  # fmt: skip
    assert cost(found) == (90, 2700.0)
    assert len(found.manifest.periods) == 2


@pytest.mark.usefixtures("spark")
def test_a_comma_before_the_fraction(tmp_path: Path) -> None:
    text = CSV.replace(",", ";").replace(".", ",")
    write(tmp_path / "e.csv", text)
    told = r"columns.size: '2,5' is no number \(/.*\) \(decimal = \",\" takes a comma before"
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "e.csv", delimiter=";")
    assert cost(traced(tmp_path, "e.csv", delimiter=";", decimal=",")) == (3, 11.5)
    found = traced(
        tmp_path, "e.csv", delimiter=";", decimal=",", columns={}, operator__0__cost="number(size)"
    )
    assert cost(found) == (3, 11.5)
    write(tmp_path / "e.csv", text.replace("2,5", "1.002,5"))
    with pytest.raises(InvalidInput, match=r"'1\.002,5' is no number"):
        traced(tmp_path, "e.csv", delimiter=";", decimal=",")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("multiline", [False, *slowly(True)])
def test_quotes_after_a_backslash(multiline: bool, tmp_path: Path) -> None:
    line = r'2024-01-01T00:10:00Z,"ann \"the, one\"",a,1' + "\n"
    write(tmp_path / "e.csv", HEADER + line + LINES[1])
    if not multiline:
        with pytest.raises(InvalidInput, match=r'e\.csv, line 2.*\(.*escape = "'):
            traced(tmp_path, "e.csv")
    found = traced(tmp_path, "e.csv", states=True, escape="\\", multiline=multiline)
    assert cost(found) == (2, 3.5)
    assert 'ann "the, one"' in keys(found)
    write(tmp_path / "e.csv", HEADER + line.replace(r'one\""', r"one\""))
    if not multiline:
        with pytest.raises(InvalidInput, match="a quote that it does not close"):
            traced(tmp_path, "e.csv", escape="\\")


@pytest.mark.usefixtures("spark")
def test_other_quotes_comments_and_blanks(tmp_path: Path) -> None:
    text = "# made by hand\n" + CSV.replace("ann", "'a,nn'").replace(",a,", ", a ,")
    write(tmp_path / "e.csv", text)
    options = {"comment": "#", "ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True}
    found = traced(tmp_path, "e.csv", states=True, quote="'", read=options, operator__1__state=1)
    assert cost(found) == (3, 11.5)
    assert keys(found) == {"a,nn", "bob", "cat", "a", "b"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "encoding",
    ["utf-16", *slowly("utf_16_le", "UTF-16BE", "utf-32", "utf-8-sig", "cp932", "mac_roman")],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_encodings_by_their_names_in_python(encoding: str, ending: str, tmp_path: Path) -> None:
    text = CSV.replace("\n", "\r\n") if ending == "csv" else _json_lines()
    write(tmp_path / f"e.{ending}", text.encode(encoding))
    assert cost(traced(tmp_path, f"e.{ending}", encoding=encoding)) == (3, 11.5)


@pytest.mark.usefixtures("spark")
def test_an_encoding_that_java_lacks(tmp_path: Path) -> None:
    write(tmp_path / "e.csv", CSV)
    with pytest.raises(
        InvalidInput, match=r"'hz' is not known to this Java \(convert.*iconv -f hz"
    ):
        traced(tmp_path, "e.csv", encoding="hz")


def _json_lines(**more: Any) -> str:
    keys = HEADER.strip().split(",")
    events = [dict(zip(keys, line.strip().split(","), strict=True)) for line in LINES]
    return "".join(json.dumps({**event, **more}) + "\n" for event in events)


# -- JSON ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_an_entry_of_a_list(tmp_path: Path) -> None:
    lists = {"tags": ["x", "y"], "deep": [{"id": "i", "n": [[1, 2], [3, 4.5]]}], "empty": []}
    write(tmp_path / "e.jsonl", _json_lines(**lists))
    found = traced(
        tmp_path, "e.jsonl", states=True, operator__0__key="concat(tags[1], deep[0].id)",
        operator__0__cost="number(deep[0].n[1][1])", operator__1__key="coalesce(tags[7], page)",
    )  # fmt: skip
    assert cost(found) == (3, 13.5)
    assert keys(found) == {"yi"}
    for key, told in (
        ("tags", r"columns.tags: 'array<string>' is a type.*\(name an entry, such as tags\[0\]"),
        ("page[0]", r"there is no column 'page\[0\]'"),
        ("tags[0].id", r"there is no column 'tags\[0\]\.id'"),
        ("tags[x]", r"'tags\[x\]' is not allowed in expressions"),
        ("tags[-1]", r"'tags\[-1\]' is not allowed in expressions"),
    ):
        with pytest.raises(InvalidInput, match=told):
            traced(tmp_path, "e.jsonl", operator__0__key=key)


@pytest.mark.usefixtures("spark")
def test_an_entry_of_a_list_of_parquet_and_of_a_table(tmp_path: Path) -> None:
    events = [json.loads(line) for line in _json_lines(tags=["x", "y"]).splitlines()]
    pq.write_table(pa.Table.from_pylist(events), tmp_path / "e.parquet")
    write(tmp_path / "pages.jsonl", '{"page": "a", "w": [1, 2]}\n{"page": "b", "w": [3, 4]}\n')
    join = {"info": {"path": "pages.jsonl", "on": ["page"]}}
    found = traced(
        tmp_path, "e.parquet", columns={}, events__clicks__join=join,
        operator__0__key="tags[1]", operator__0__cost="number(info.w[1])",
    )  # fmt: skip
    assert cost(found) == (3, 8.0)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("packed", [True, *slowly(False)])
@pytest.mark.parametrize(
    "damage", ['{"at": "2024-01-01T00', "no json at all", *slowly('{"at": 1', "[1")]
)
def test_a_damaged_line_of_json_is_told_with_its_number(
    damage: str, packed: bool, tmp_path: Path
) -> None:
    lines = [*_json_lines().splitlines() * 600, damage, *_json_lines().splitlines()]
    text = "\n".join(lines).encode()
    write(tmp_path / "in" / "a.jsonl", _json_lines())
    name = "b.jsonl.gz" if packed else "b.jsonl"
    write(tmp_path / "in" / name, gzip.compress(text) if packed else text)
    told = rf"clicks.path: 'in'.*no JSON: /.*/in/{name}, line 1801: .*mend or remove"
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "in", format="jsonl", columns={}, operator__0__cost="1")


@pytest.mark.usefixtures("spark")
def test_options_of_the_reader_of_json(tmp_path: Path) -> None:
    write(tmp_path / "e.jsonl", _json_lines().replace('"', "'"))
    with pytest.raises(InvalidInput, match=r"no JSON: .*line 1"):
        traced(tmp_path, "e.jsonl", read={"allowSingleQuotes": False})
    write(tmp_path / "e.jsonl", _json_lines().replace('"at"', "at"))
    assert cost(traced(tmp_path, "e.jsonl", read={"allowUnquotedFieldNames": True})) == (3, 11.5)
    whole = json.dumps([json.loads(line) for line in _json_lines().splitlines()], indent=1)
    write(tmp_path / "e.json", whole)
    assert cost(traced(tmp_path, "e.json", read={"multiLine": True})) == (3, 11.5)


@pytest.mark.usefixtures("spark")
def test_columns_that_come_late_and_lines_of_other_kinds(tmp_path: Path) -> None:
    """The first lines do not tell what the later ones hold."""
    many = _json_lines() * 400
    late = _json_lines(extra="x", more={"deep": "1.50"})
    write(tmp_path / "e.jsonl", many + late)
    found = traced(
        tmp_path,
        "e.jsonl",
        states=True,
        operator__0__key="coalesce(more.deep, '-') || coalesce(extra, '')",
    )
    assert cost(found) == (1203, 401 * 11.5)
    assert keys(found) == {"-", "1.50x"}
    told = r"MALFORMED, a line with other kinds of fields.*e\.jsonl, line 1201: .*\{\}"
    write(tmp_path / "e.jsonl", _json_lines(more={"deep": "1"}) * 400 + _json_lines(more="{}"))
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "e.jsonl", operator__0__key="more.deep")
    write(tmp_path / "e.jsonl", _json_lines() + _json_lines(user=1.50, more={"user": [1, 2.0]}))
    told_apart = {"user": {"ann", "bob", "cat", "1.5"}, "more.user[1]": {"2.0"}}
    for key, expected in told_apart.items():
        found = traced(tmp_path, "e.jsonl", states=True, operator__0__key=key)
        assert keys(found) == expected


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "line", [b'{"at": "\xfc"}', b'{"unused": "\xfc"}', *slowly(b'{"\xfc": 1}', b"\xff\xfe")]
)
def test_bytes_that_are_no_text_are_told_wherever_they_are(line: bytes, tmp_path: Path) -> None:
    write(tmp_path / "e.jsonl", _json_lines().encode() + line + b"\n")
    with pytest.raises(InvalidInput, match=r"clicks\.path: .*holds bytes that are no utf-8 \(/"):
        traced(tmp_path, "e.jsonl")


# -- Parquet ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("zone", ["UTC", *slowly(None)])
def test_moments_in_nanoseconds(zone: str | None, tmp_path: Path) -> None:
    moments = np.array(
        [
            "2024-01-01T00:10:00.123456789",
            "1969-12-31T23:59:59.999999999",
            "2024-01-01T00:59:59.999999999",
        ],
        dtype="datetime64[ns]",
    )
    table = pa.table({
        "at": pa.array(moments, pa.timestamp("ns", zone)), "n": pa.array([1, 2, 3], pa.int64()),
        "user": ["a", "b", "c"], "page": ["p"] * 3, "size": [1.0, 2.0, 4.0],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "e e.parquet", version="2.6")
    found = traced(
        tmp_path, "e e.parquet", time="at", columns={}, timezone="Europe/Paris",
        period__start="2023-12-31T23:00:00Z", operator__1__cost="n",
    )  # fmt: skip
    counts = found.manifest.recordings["clicks"]
    assert (counts["counted"], counts["outside"]) == (2, 1)
    first = {"UTC": "2024-01-01T00:00:00Z", None: "2023-12-31T23:00:00Z"}[zone]
    assert next(p.start for p in found.manifest.periods if p.start >= first) == first
    assert {row["period"] for row in rows(found, "loads")} == {1 if zone else 0}
    whole = traced(
        tmp_path, "e e.parquet", time="epoch_ms(at / 1000000)", columns={"at": "whole"},
        period__length="365 d",
    )  # fmt: skip
    assert whole.manifest.recordings["clicks"]["counted"] == 3


@pytest.mark.usefixtures("spark")
def test_files_that_differ_are_named(tmp_path: Path) -> None:
    events = [json.loads(line) for line in _json_lines().splitlines()]
    plain = pa.Table.from_pylist([{**e, "size": float(e["size"])} for e in events])
    (tmp_path / "in").mkdir()
    pq.write_table(plain, tmp_path / "in" / "a.parquet")
    pq.write_table(pa.Table.from_pylist(events), tmp_path / "in" / "b.parquet")
    with pytest.raises(InvalidInput, match=r"size is string in /.*b\.parquet, double in /.*a\.p"):
        traced(tmp_path, "in", format="parquet")
    pq.write_table(plain.drop_columns(["size"]), tmp_path / "in" / "b.parquet")
    with pytest.raises(InvalidInput, match=r"/.*b\.parquet has no column size.*mergeSchema"):
        traced(tmp_path, "in", format="parquet")
    found = traced(tmp_path, "in", format="parquet", read={"mergeSchema": True})
    assert found.manifest.recordings["clicks"]["without_cost"] == {"user": 3, "page": 0}
    write(tmp_path / "csv" / "a.csv", CSV)
    write(tmp_path / "csv" / "b b.csv", CSV.replace("size", "weight"))
    with pytest.raises(InvalidInput, match=r"different headers.*page, weight in /.*/csv/b b\.csv"):
        traced(tmp_path, "csv", format="csv")


# -- damaged, empty, gone --------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("ending", ["csv", *slowly("jsonl")])
def test_a_gz_that_ends_too_early_is_named(ending: str, tmp_path: Path) -> None:
    text = HEADER + LINES[0] * 9_000 if ending == "csv" else _json_lines() * 3_000
    packed = gzip.compress(text.encode())
    write(tmp_path / "in" / f"a.{ending}", CSV if ending == "csv" else _json_lines())
    write(tmp_path / "in" / f"b.{ending}.gz", packed[: len(packed) // 2])
    with pytest.raises(InvalidInput, match=rf"cannot be read.*/in/b\.{ending}\.gz"):
        traced(tmp_path, "in", format=ending)


@pytest.mark.usefixtures("spark")
def test_empty_files(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.csv", CSV)
    write(tmp_path / "in" / "b.csv", "")
    found = traced(tmp_path, "in", format="csv")
    assert cost(found) == (3, 11.5)
    assert len(found.manifest.files["clicks"]) == 2
    write(tmp_path / "none.csv", "")
    with pytest.raises(InvalidInput, match="has no header line"):
        traced(tmp_path, "none.csv")
    with pytest.raises(InvalidInput, match=r"events.*hold no event|has no line"):
        traced(tmp_path, "none.csv", header=False, columns=["at", "user", "page", "size"],
               operator__0__cost="1")  # fmt: skip
    write(tmp_path / "none.jsonl", "")
    with pytest.raises(InvalidInput, match=r"there is no column|hold no event"):
        traced(tmp_path, "none.jsonl", columns={}, operator__0__cost="1")


@pytest.mark.usefixtures("spark")
def test_a_mark_of_utf_8_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    write(tmp_path / "e.csv", b"\xef\xbb\xbf" + CSV.encode())
    assert cost(traced(tmp_path, "e.csv")) == (3, 11.5)
    write(tmp_path / "e.jsonl", b"\xef\xbb\xbf" + _json_lines().encode())
    assert cost(traced(tmp_path, "e.jsonl")) == (3, 11.5)


@pytest.mark.usefixtures("spark")
def test_a_column_that_is_not_there_names_the_option_that_may_be_missing(tmp_path: Path) -> None:
    lines = CSV.splitlines(keepends=True)
    for name, content, remedy in (
        ("other.csv", CSV.replace(",", ";"), r'options = \{sep = ";"\}'),
        ("tabs.csv", CSV.replace(",", "\t"), r'options = \{sep = "\\t"\}'),
        (
            "bare.csv",
            "".join(lines[1:]),
            r"without a header, options = \{header = false\} and names",
        ),
        ("packed.csv", gzip.compress(CSV.encode()), r"is packed: give it a name that ends in \.gz"),
    ):
        write(tmp_path / name, content)
        with pytest.raises(InvalidInput, match=rf"no column.*{remedy}"):
            traced(tmp_path, name)


# -- what is refused in the description ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"header": False, "columns": {}},
            r"clicks.header: False says that no line.*\(name all in their order",
        ),
        ({"header": "no"}, r"clicks.header.*must be true or false"),
        ({"columns": []}, r"clicks.columns.*a list of names"),
        ({"columns": ["a", "a"]}, r"clicks.columns.*names a twice"),
        ({"columns": [1]}, r"clicks.columns.*a list of names"),
        ({"decimal": ";"}, r"clicks.decimal.*','"),
        ({"quote": "''"}, r"clicks.quote.*one character"),
        ({"escape": ""}, r"clicks.escape.*one character"),
        ({"delimiter": ";", "quote": ";"}, r"clicks.delimiter: ';' is the quote or escape"),
        ({"read": {"sep": 5}}, r"clicks.read.sep: 5 must be a text"),
        ({"read": {"options": {"sep": ""}}}, r"read.options.sep: '' must be one character or more"),
        ({"read": {"options": {"encoding": "klingon"}}}, r"options.encoding: 'klingon' is no enc"),
        ({"read": {"options": {"header": "maybe"}}}, r"options.header: 'maybe' must be true or"),
        ({"read": {"options": []}}, r"read.options: \[\] must be a table"),
        ({"read": {"format": "xls"}}, r"read.format: 'xls' is no format"),
        ({"read": {"format": "csv"}, "format": "jsonl"}, r"read.format: 'csv' is 'jsonl' beside p"),
        ({"read": {"sep": "|"}, "delimiter": ";"}, r"read.sep: '\|' is ';' beside path, and anot"),
        ({"read": {"names": ["at"]}}, r"read.names: \['at'\] lack size, which columns declares"),
        ({"read": {"names": ["at", "size"], "options": {"header": True}}}, r"beside names, which"),
        ({"read": {"names": "at,size"}}, r"read.names: 'at,size' must be a list of names"),
        ({"read": {"options": {"inferSchema": True}}}, r"no option.*\(columns declares types\)"),
        ({"read": {"options": {"compression": "gzip"}}}, r"compression: 'gzip' is not what the en"),
        ({"read": {"options": {"compression": "rar"}}}, r"compression: 'rar' is no compression"),
        ({"read": {"path": "/etc"}}, r"clicks.read.path: '/etc' is no option.*\(options: comment"),
        (
            {"read": {"mode": "DROPMALFORMED"}},
            r"read.mode.*is no option.*\(wrong rows are always re",
        ),
        ({"read": {"comment": 1.5}}, r"clicks.read.comment"),
        ({"read": []}, r"clicks.read"),
        ({"format": "jsonl", "decimal": ","}, r"clicks.decimal: ',' is of use for CSV only"),
        ({"format": "parquet", "read": {"sep": ";"}}, r"clicks.read.sep.*options: mergeSchema"),
    ],
)
def test_options_that_cannot_be(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=told):
        traced(tmp_path, "e.csv", **changes)


# -- the master ------------------------------------------------------------------------------------


def test_a_master_that_does_not_answer_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # nobody listens
        began = time.monotonic()
        for master, told in (
            (f"spark://127.0.0.1:{port}", rf"cannot be reached \(127.0.0.1:{port}: .*refused"),
            (f"spark://127.0.0.1:{port},localhost:{port}", rf"{port}: .*; localhost:{port}: "),
            ("spark://no.such.host.invalid:7077", r"no.such.host.invalid:7077: .*\(start it, or"),
            (f"k8s://https://127.0.0.1:{port}", rf"127.0.0.1:{port}"),
            ("spark://127.0.0.1", r"'127.0.0.1' is no address \(write spark://HOST:PORT"),
            ("spark://127.0.0.1:port", "is no address"),
        ):
            with pytest.raises(InvalidInput, match=rf"--master: '{master}'.*{told}"):
                check_reachable(master)
        assert time.monotonic() - began < 30
        taken.listen()
        check_reachable(f"spark://localhost:1,127.0.0.1:{port}")
    for master in ("local[2]", "yarn"):
        check_reachable(master)
