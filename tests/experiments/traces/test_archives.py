"""Zips: what is inside lands where we say, and nothing grows without bound."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from experiments.traces import files as locating
from experiments.traces.files import unpack
from optim.errors import InvalidInput


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def left(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file()]


def test_members_get_names_of_ours(tmp_path: Path) -> None:
    members = {"b/x.csv": b"2", "a.csv": b"1", "__MACOSX/a.csv": b"no", ".hidden": b"no", "d/": b""}
    files = unpack(zipped(tmp_path / "z.zip", members), tmp_path / "out", ".csv")
    assert [f.name for f in files] == ["part-00000.csv", "part-00001.csv"]
    assert [f.read_bytes() for f in files] == [b"1", b"2"]


@pytest.mark.parametrize("name", ["../x.csv", "a/../../x.csv", "/etc/x.csv", "c:/x", "..\\x.csv"])
def test_paths_outside_are_refused(name: str, tmp_path: Path) -> None:
    archive = zipped(tmp_path / "z.zip", {"a.csv": b"1", name: b"2"})
    with pytest.raises(InvalidInput, match="outside the archive"):
        unpack(archive, tmp_path / "out", ".csv")
    assert left(tmp_path) == [archive]


def test_links_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "z.zip"
    with zipfile.ZipFile(archive, "w") as file:
        info = zipfile.ZipInfo("a.csv")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")
    with pytest.raises(InvalidInput, match="is a link"):
        unpack(archive, tmp_path / "out", ".csv")


def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "z.zip", {"a.csv": b"0" * (locating.SMALL + (1 << 21))})
    with pytest.raises(InvalidInput, match=r"a\.csv.* unpacks to more than 500 times"):
        unpack(archive, tmp_path / "out", ".csv")
    assert left(tmp_path / "out") == []


def test_all_members_count_together(tmp_path: Path) -> None:
    members = {f"{i}.csv": b"1234567890" for i in range(10)}
    archive = zipped(tmp_path / "z.zip", members)
    assert len(unpack(archive, tmp_path / "fits", ".csv", max_unpacked=100)) == 10
    with pytest.raises(InvalidInput, match="unpacks to too much"):
        unpack(archive, tmp_path / "out", ".csv", max_unpacked=99)
    assert left(tmp_path / "out") == []


def test_stated_sizes_are_not_believed(tmp_path: Path) -> None:
    """The directory says 1 byte; zipfile stops there or we count: never more than allowed."""
    data = zipped(tmp_path / "z.zip", {"a.csv": b"0" * 1000}).read_bytes()
    lie = data.replace((1000).to_bytes(4, "little"), (1).to_bytes(4, "little"))
    (tmp_path / "lie.zip").write_bytes(lie)
    try:
        files = unpack(tmp_path / "lie.zip", tmp_path / "out", ".csv")
    except InvalidInput:
        assert left(tmp_path / "out") == []
    else:
        assert sum(f.stat().st_size for f in files) <= 1000


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 rubbish", b"at,user\n1,2\n"])
def test_what_is_no_zip(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "z.zip").write_bytes(data)
    with pytest.raises(InvalidInput, match="no whole zip file"):
        unpack(tmp_path / "z.zip", tmp_path / "out", ".csv")


def test_damaged_content(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.csv", b"0123456789" * 100)
    data = bytearray(buffer.getvalue())
    data[300] ^= 0xFF
    (tmp_path / "z.zip").write_bytes(data)
    with pytest.raises(InvalidInput, match="no whole zip file"):
        unpack(tmp_path / "z.zip", tmp_path / "out", ".csv")
    assert left(tmp_path / "out") == []


def test_encrypted_empty_and_crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zipped(tmp_path / "e.zip", {"a.csv": b"1"})
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    with pytest.raises(InvalidInput, match="is encrypted"):
        unpack(archive, tmp_path / "out", ".csv")
    with pytest.raises(InvalidInput, match="holds no file"):
        unpack(zipped(tmp_path / "n.zip", {"d/": b""}), tmp_path / "out", ".csv")
    monkeypatch.setattr(locating, "MAX_MEMBERS", 1)
    with pytest.raises(InvalidInput, match="holds 2 members"):
        unpack(zipped(tmp_path / "c.zip", {"a": b"", "b": b""}), tmp_path / "out", ".csv")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_under_every_compression(method: int, tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", method) as packed:
        packed.writestr("a.csv", bytes(range(256)) * 400)
    content = bytearray(archive.read_bytes())
    content[60:90] = b"\xff" * 30  # inside the packed data, behind the member's header
    archive.write_bytes(bytes(content))
    with pytest.raises(InvalidInput, match=r"a\.zip"):
        unpack(archive, tmp_path / "out", ".csv")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_compression_that_is_not_known(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.csv", "a,b\n" * 100)
    content = bytearray(archive.read_bytes())
    content[8:10] = b"\x63\x00"
    at = content.rindex(b"PK\x01\x02") + 10
    content[at : at + 2] = b"\x63\x00"
    archive.write_bytes(bytes(content))
    with pytest.raises(InvalidInput, match="compression"):
        unpack(archive, tmp_path / "out", ".csv")
