"""Bad input of every kind: refused with path, value and reason, all at once."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from optim import Instance, InvalidInput
from optim.errors import ExitCode
from optim.util.files import file_name, read_bytes, write_atomic
from tests.optim.make import document

HEAD = '"format":"streamplace.instance/1","name":"x"'


def problems_of(value: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        if isinstance(value, str | bytes):
            Instance.from_json(value)
        else:
            Instance.from_dict(value)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("nope", "is not JSON"),
        ("[1, 2", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("[]", "must be an object, not a list"),
        ("3", "must be an object, not a number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("{@,@}", "name stands twice"),
        ('{@,"nodes":[{"id":"n","id":"m"}]}', "nodes[0].id stands twice"),
        ('{@,"nodes":[{"id":"n","capacity":{"cpu":NaN}}]}', "nodes[0].capacity.cpu: nan"),
        ('{@,"nodes":[{"id":"n","capacity":{"cpu":1e400}}]}', "nodes[0].capacity.cpu: inf"),
        ('{@,"nodes":[{"id":"n","capacity":{"cpu":-Infinity}}]}', "capacity.cpu: -inf"),
        ('{@,"nodes":[{"id":"n","capacity":{"cpu":-2}}]}', "capacity.cpu: -2"),
        ('{@,"nodes":[{"id":"n","capacity":{"cpu":"1.5"}}]}', "number, not a text"),
        ('{@,"nodes":[{"id":"n","capacity":{"cpu":true}}]}', "number, not true/false"),
        ('{@,"nodes":[{"id":"n","weight":0}]}', "nodes[0].weight: 0"),
        (
            '{@,"nodes":[{"id":"n","capacity":{"cpu":5e-324}}]}',
            "nodes[0].capacity.cpu: 5e-324 is too small for a floating-point number of full "
            "precision (write 0, or choose another unit)",
        ),
        ('{@,"nodes":[{"id":"n","weight":2.2e-308}]}', "nodes[0].weight: 2.2e-308 is too small"),
        ('{@,"nodes":[{"id":"n","slots":1.5}]}', "nodes[0].slots: 1.5"),
        ('{@,"nodes":[{"id":"n","slots":1.5}]}', "must be a whole number"),
        ('{@,"input_rate":1%s}' % ("0" * 400), "is too large a number"),
        ('{@,"colour":1}', "colour is not a known key"),
        ('{@,"%s":1}' % ("k" * 5000), "k" * 100 + "… is not a known key"),
        ('{@,"~":1,"~":2}'.replace("~", "k" * 500), "k" * 100 + "… stands twice"),
        ('{@,"streams":[{"source":"a","target":"b"}]}', "streams[0].source is not a known key"),
        ('{@,"tasks":[{"load":{}}]}', "tasks[0].id is missing"),
        ('{@,"tasks":[{"id":""}]}', "tasks[0].id"),
        (
            '{@,"operators":[{"id":"o","group":{"tasks":1000000000000}}]}',
            "operators[0].group.tasks: 1000000000000",
        ),
        ('{@,"operators":[{"id":"o","group":{"tasks":0}}]}', "operators[0].group.tasks: 0"),
        ('{"format":"streamplace.instance/2","name":"x"}', "format: 'streamplace.instance/2'"),
        ('{@,"traffic":[["a","b"]]}', "traffic[0]"),
        (
            '{@,"streams":[{"from":"a","to":"b","pattern":"shuffle"}]}',
            "streams[0].pattern: 'shuffle'",
        ),
    ],
)
def test_malformed(text: str | bytes, words: str) -> None:
    if isinstance(text, str):
        text = text.replace("@", HEAD)
    assert words in problems_of(text)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"nodes": [{"id": "n1"}, {"id": "n1"}]}, "nodes[1].id: 'n1' is also the id of nodes[0]"),
        (
            {"nodes": [{"id": "n", "capacity": {"gpu": 1}}]},
            "nodes[0].capacity.gpu is not in resources",
        ),
        ({"resources": ["cpu", "cpu"]}, "resources[1]: 'cpu' stands twice"),
        ({"resources": ["links"]}, "is reserved"),
        ({"operators": [{"id": "a"}, {"id": "a"}], "streams": []}, "operators[1].id: 'a'"),
        (
            {"operators": [{"id": "a", "topology": "t"}], "streams": []},
            "operators[0].topology: 't'",
        ),
        ({"operators": [{"id": "a", "model": "m"}], "streams": []}, "operators[0].model: 'm'"),
        ({"tasks": [{"id": "t"}, {"id": "t"}]}, "tasks[1].id: 't' is also the id of tasks[0]"),
        ({"tasks": [{"id": "b/0"}, {"id": "b/0"}]}, "tasks[1].id: 'b/0'"),
        ({"tasks": [{"id": "t", "node": "n9"}]}, "tasks[0].node: 'n9' is not the id of a node"),
        ({"tasks": [{"id": "t", "allowed": ["n1", "n9"]}]}, "tasks[0].allowed[1]: 'n9'"),
        ({"tasks": [{"id": "t", "allowed": []}]}, "tasks[0].allowed"),
        ({"tasks": [{"id": "t", "operator": "z"}]}, "tasks[0].operator: 'z'"),
        ({"tasks": [{"id": "b/7", "operator": "b"}]}, "none of its members"),
        ({"tasks": [{"id": "b/0", "operator": "a"}]}, "makes it a member of the group of b"),
        ({"tasks": [{"id": "t", "slot": 0}]}, "tasks[0].slot: 0 needs a node"),
        ({"tasks": [{"id": "t", "load": {"gpu": 1}}]}, "tasks[0].load.gpu is not in resources"),
        ({"traffic": [["a/0", "x", 1]]}, "traffic[0][1]: 'x' is not the id of a task"),
        ({"traffic": [["a/0", "a/0", 1]]}, "traffic[0]: 'a/0' sends to itself"),
        ({"traffic": [["a/0", "b/0", 1], ["a/0", "b/0", 2]]}, "repeats the pair of traffic[0]"),
        ({"streams": [{"from": "a", "to": "z", "rate": 1}]}, "streams[0].to: 'z'"),
        ({"streams": [{"from": "a", "to": "a", "rate": 1}]}, "from an operator to itself"),
        (
            {"streams": [{"from": "a", "to": "b"}]},
            "streams[0].rate is missing and cannot be derived",
        ),
        (
            {"streams": [{"from": "a", "to": "b", "rate": 1}, {"from": "a", "to": "b", "rate": 1}]},
            "repeats the stream of streams[0]",
        ),
        (
            {
                "operators": [
                    {"id": "a", "group": {"tasks": 2}},
                    {"id": "b", "group": {"tasks": 3}},
                ],
                "streams": [{"from": "a", "to": "b", "rate": 1, "pattern": "one_to_one"}],
            },
            "needs as many senders as receivers; there are 2 and 3",
        ),
        ({"links": [{"id": "l", "nodes": ["n9"], "capacity": 1}]}, "links[0].nodes[0]: 'n9'"),
        ({"limits": {"max_utilisation": {"gpu": 1}}}, "limits.max_utilisation.gpu"),
        (
            {
                "input_rate": 1,
                "streams": [
                    {"from": "a", "to": "b", "rate": 1, "selectivity": 1},
                    {"from": "b", "to": "a", "rate": 1, "selectivity": 1},
                ],
            },
            "is a cycle",
        ),
        (
            {
                "models": {
                    "m": [
                        {"threads": 1, "rate": 1, "cpu": 1, "memory": 1},
                        {"threads": 1, "rate": 2, "cpu": 1, "memory": 1},
                    ]
                }
            },
            "models.m: 1 threads stand twice",
        ),
    ],
)
def test_contradictions(parts: dict[str, Any], words: str) -> None:
    assert words in problems_of(document(**parts))


def test_all_problems_are_told_at_once() -> None:
    text = problems_of(
        document(
            nodes=[{"id": "n1", "capacity": {"gpu": 1}}, {"id": "n1"}],
            tasks=[{"id": "t", "node": "n9"}],
            streams=[{"from": "q", "to": "b", "rate": 1}],
        )
    )
    assert text.startswith("4 problems")
    for path in ("nodes[0].capacity.gpu", "nodes[1].id", "tasks[0].node", "streams[0].from"):
        assert path in text


def test_derived_and_given_must_agree() -> None:
    parts = {
        "input_rate": 100,
        "operators": [
            {"id": "a", "group": {"tasks": 2}},
            {"id": "b", "cpu_per_tuple": 0.1, "group": {"tasks": 2, "load": {"cpu": 21}}},
        ],
        "streams": [{"from": "a", "to": "b", "selectivity": 2, "tuple_bytes": 10, "rate": 1999}],
    }
    text = problems_of(document(**parts))
    assert "operators[1].group.load.cpu: 21" in text
    assert "= 20" in text
    assert "streams[0].rate: 1999" in text
    assert "= 2000" in text


def test_derived_numbers_have_the_same_upper_end_as_given_ones() -> None:
    parts = {
        "input_rate": 1e9,
        "operators": [
            {"id": "a", "cpu_per_tuple": 1e9, "group": {"tasks": 2}},
            {"id": "b", "group": {"tasks": 2}},
            {"id": "c", "cpu_per_tuple": 1, "group": {"tasks": 2}},
            {"id": "d", "group": {"tasks": 2}},
        ],
        "streams": [
            {"from": "a", "to": "b", "selectivity": 1, "tuple_bytes": 1e7},
            {"from": "a", "to": "c", "selectivity": 1e15},
            {"from": "c", "to": "d", "selectivity": 1e15, "tuple_bytes": 1},
        ],
    }
    text = problems_of(document(**parts))
    assert text.startswith("3 problems")
    assert "operators[0].cpu_per_tuple: 1000000000.0 gives 1e+18, which is beyond 1e+15" in text
    assert "streams[0].tuple_bytes: 10000000.0 gives 1e+16, which is beyond 1e+15" in text
    assert "input_rate: 1000000000.0 gives c 1e+24 tuples/s, which is beyond 1e+15" in text


class TestFiles:
    def test_directory(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="is a directory"):
            Instance.load(tmp_path)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="does not exist"):
            Instance.load(tmp_path / "x.json")

    def test_larger_than_read(self, tmp_path: Path) -> None:
        path = tmp_path / "huge.json"
        with path.open("wb") as file:
            file.truncate(2 << 30)  # sparse: takes no space
        with pytest.raises(InvalidInput, match="too large"):
            Instance.load(path)

    def test_bomb(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.json.gz"
        path.write_bytes(gzip.compress(b" " * 5_000_000))
        with pytest.raises(InvalidInput, match="unpacked"):
            read_bytes(path, max_bytes=1_000_000)

    def test_torn_gzip(self, tmp_path: Path) -> None:
        path = tmp_path / "torn.json.gz"
        path.write_bytes(gzip.compress(os.urandom(1000))[:-20])
        with pytest.raises(InvalidInput, match="no whole gzip"):
            Instance.load(path)

    def test_problem_names_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text("{}")
        with pytest.raises(InvalidInput, match=r"x\.json: 2 problems"):
            Instance.load(path)

    @pytest.mark.parametrize("name", ["a\0b", "a" * 5000])
    def test_impossible_name(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InvalidInput, match=r"cannot be read|does not exist"):
            read_bytes(tmp_path / name)
        with pytest.raises(InvalidInput, match="cannot be written"):
            write_atomic(tmp_path / name, "new")

    def test_a_link_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        file, link = tmp_path / "there" / "file.json", tmp_path / "link.json"
        for _ in range(2):  # to a file that is not there yet, and to one that is
            link.unlink(missing_ok=True)
            link.symlink_to(file)
            write_atomic(link, "new")
            assert link.is_symlink()
            assert file.read_text() == "new"

    def test_a_pipe_or_device_is_written_to_and_not_replaced(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            write_atomic(pipe, "new")
            assert pipe.is_fifo()
            assert os.read(reader, 10) == b"new"
        finally:
            os.close(reader)

    def test_failed_write_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        write_atomic(path, "old")
        with pytest.raises(UnicodeEncodeError):
            write_atomic(path, "\ud800")
        with pytest.raises(InvalidInput, match="cannot be written"):
            write_atomic(tmp_path / "none" / "x.json", "new")
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["x.json"]

    def test_links_in_a_circle_end(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.symlink_to(path)
        write_atomic(path, "new")
        assert path.read_text() == "new"

    def test_standard_output_that_leads_to_a_file_is_written_into(self, tmp_path: Path) -> None:
        code = "from optim.util.files import write_atomic; print('first', flush=True)\n"
        code += "write_atomic('/dev/stdout', 'new'); print(' last')"
        with (tmp_path / "out").open("w") as out:
            subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
        assert (tmp_path / "out").read_text() == "first\nnew last\n"


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InvalidInput, match="is a pipe or a device"):
            read_bytes(path)


def test_names_from_documents_stay_in_their_folder() -> None:
    assert file_name("../../x", ".json") == "_._.._x.json"
    assert file_name("a\n/\0b", ".json") == "a___b.json"
    assert len(file_name("ü" * 300 + "-p7", ".json").encode()) <= 200
    assert file_name("ü" * 300 + "-p7", ".json").endswith("ü-p7.json")


def test_millions_of_errors_are_told_by_the_first_and_take_little_memory() -> None:
    code = """
from pathlib import Path
from optim import Instance, InvalidInput
text = b'{"format": "streamplace.instance/1", "tasks": [' + b'%s,' * 100000 + b"0]}"
try:
    Instance.from_json(text)
except InvalidInput as error:
    print(len(error.problems))
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) >> 10)
"""  # not ru_maxrss: a child inherits its parent's
    for element in ("0", '{"id":"a"}'):  # wrong from the first on; only the last is
        done = subprocess.run(
            [sys.executable, "-c", code.replace("%s", element)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        problems, megabytes = map(int, done.stdout.split())
        assert 0 < problems <= 1000
        assert megabytes < 400
