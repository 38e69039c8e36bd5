"""What Spark would pass over without a word is refused or read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from experiments.traces.files import find
from experiments.traces.job import Files, Job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import EVENTS, by_operator, job, trace, write_csv


def found(folder: Path, path: str) -> list[str]:
    files = Files(where="events.clicks", path=path, format="csv")
    located = find(files, folder).paths(folder / "scratch")
    return [text.removeprefix(f"file://{folder}/") for text in located.paths]


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("k\n1\n")


def test_marks_beside_data_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "d/a.csv", "d/_SUCCESS", "d/.a.csv.crc", "d/_temporary/0", "d/.DS_Store")
    assert found(tmp_path, "d/*") == ["d/a.csv"]
    assert found(tmp_path, "d") == ["d"]


@pytest.mark.parametrize("name", ["_b.csv", ".b.csv", "_b.csv.gz", ".b.zip", "_b.jsonl"])
@pytest.mark.parametrize("path", ["d", "d/*"])
def test_hidden_data_is_refused(name: str, path: str, tmp_path: Path) -> None:
    touch(tmp_path, "d/a.csv", f"d/{name}")
    with pytest.raises(InvalidInput, match=r"events.clicks.path: .*begins with \. or _"):
        found(tmp_path, path)


@pytest.mark.parametrize("name", ["_b.csv", "_b", ".b"])
def test_a_hidden_file_that_is_named_is_refused(name: str, tmp_path: Path) -> None:
    touch(tmp_path, name)
    with pytest.raises(InvalidInput, match=r"begins with \. or _"):
        found(tmp_path, name)


def test_folders_inside_folders_are_refused_but_those_of_a_column(tmp_path: Path) -> None:
    touch(
        tmp_path, "d/a.csv", "d/more/b.csv", "p/day=1/a.csv", "p/day=2/hour=3/b.csv", "p/_x/c.csv"
    )
    with pytest.raises(InvalidInput, match=r"inside a folder that is read.* such as d/\*/\*\)"):
        found(tmp_path, "d")
    assert found(tmp_path, "d/more") == ["d/more"]
    assert found(tmp_path, "p") == ["p"]
    touch(tmp_path, "p/day=1/deep/a.csv")
    with pytest.raises(InvalidInput, match=r"inside a folder that is read.* such as p/\*/\*/\*\)"):
        found(tmp_path, "p")
    touch(tmp_path, "q/day=1/a.csv", "q/day=1/hour=3/b.csv")
    with pytest.raises(InvalidInput, match=r"beside hour=3 in .*: q/\*/\*\)"):
        found(tmp_path, "q")
    assert found(tmp_path, "q/*/*") == ["q/day=1/a.csv", "q/day=1/hour=3"]  # as the remedy says


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("d/{a,b,a}.csv", "a b"),
        ("d/{a,{b,c}1}.csv", "a b1 c1"),
        ("{d,e}/[^a].csv", "b c"),
        ("d/[!a]?.csv", "b1 c1"),
    ],
)
def test_patterns_are_those_of_spark(pattern: str, names: str, tmp_path: Path) -> None:
    touch(tmp_path, *(f"d/{name}.csv" for name in ("a", "b", "c", "b1", "c1")))
    assert found(tmp_path, pattern) == [f"d/{name}.csv" for name in names.split()]


def test_a_folder_without_files(tmp_path: Path) -> None:
    touch(tmp_path, "d/_SUCCESS")
    with pytest.raises(InvalidInput, match="is a folder without files"):
        found(tmp_path, "d")


def test_colons_are_told(tmp_path: Path) -> None:
    touch(tmp_path, "a:b.csv", "x:y/c.csv")
    for path in ("a:b.csv", "*.csv"):
        with pytest.raises(InvalidInput, match="has a colon in its name"):
            found(tmp_path, path)
    assert found(tmp_path, "x:y/c.csv") == ["x:y/c.csv"]
    touch(tmp_path, "d/a:b.csv")
    with pytest.raises(InvalidInput, match="has a colon in its name"):
        found(tmp_path, "d")


@pytest.mark.slow
def test_zips_in_folders_are_unpacked(tmp_path: Path, spark: object) -> None:
    plain = by_operator(trace(tmp_path))
    folder = tmp_path / "d"
    folder.mkdir()
    write_csv(folder / "a.csv", EVENTS[:2])
    write_csv(tmp_path / "rest.csv", EVENTS[2:])
    with zipfile.ZipFile(folder / "b.zip", "w") as archive:
        archive.write(tmp_path / "rest.csv", "rest.csv")
    document = job(events__clicks__path="d", events__clicks__format="csv")
    assert by_operator(run_trace(Job.from_dict(document, tmp_path), tmp_path / "again")) == plain
    touch(tmp_path, "d/day=1/a.csv")
    with pytest.raises(InvalidInput, match="holds zips beside folders"):
        found(tmp_path, "d")
