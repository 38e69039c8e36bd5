"""Odd paths, damaged documents, disks that are full or not to be written, in this process."""

from __future__ import annotations

import contextlib
import io
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from streamplace.cli.main import main
from tests.torture.tally import TRACEBACK, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optim.format.instance import Instance

ODD = (
    "a b", "ü ö ä", "#a", "a%20b%", "a+b", "a?b", "a&b", "a*b", "a[1]", "a{b,c}", "it's", 'a"b',
    "-rf", "a;b", "a:b", "a\\b", "$HOME", "~", "a`b", "tab\tx", "line\nx", "日本", "x" * 200,
    "ü" * 100, ".dot", "_u", "a=b", "@", "!", "|", "<>", "e\u0301", " lead", "trail ", "a,b", "(a)",
)  # fmt: skip
_CODES = (0, 2, 3, 4)


def call(arguments: Sequence[str]) -> tuple[int, str]:
    """Run the command line here, and return its exit code and what it said.

    Whatever it raises besides is a traceback to a user.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception as error:
            return 1, f"internal error: {type(error).__name__}: {error}"
    return code, said.getvalue()


def odd_paths(instance: Instance) -> Tally:
    """Give six commands input and output in folders of odd names."""
    tally = Tally("a folder of an odd name (36 kinds) under input and output, six commands")
    with tempfile.TemporaryDirectory(prefix="torture-") as base:
        for name in ODD:
            folder = Path(base) / name
            folder.mkdir()
            made, plan, moves, drawn = (folder / f"{part}{name[:20]}.json" for part in "ipmg")
            instance.save(made)
            for command, written in (
                (["solve", made, "--method", "flux", "-o", plan], plan),
                (["check", made, plan], None),
                (["evaluate", made, plan], None),
                (["diff", made, plan], None),
                (["export", "moves", made, plan, "-o", moves], moves),
                (["generate", "random_graphs", "--seed", "1", "-o", drawn], drawn),
            ):
                tally.tried += 1
                code, said = call([str(word) for word in command])
                if code != 0 or TRACEBACK.search(said):
                    tally.fault(f"{command[0]} in {name!r}: {code}: {said[-200:]!r}")
                elif written is not None and not written.is_file():
                    tally.fault(f"{command[0]} in {name!r}: ends with 0 and wrote nothing")
    return tally


def mutations(instance: Instance, seed: int, count: int) -> Tally:
    """Damage an instance at random, and have it checked."""
    tally = Tally("a damaged instance file, checked")
    rng, text = random.Random(seed), instance.to_json().encode()
    with tempfile.TemporaryDirectory(prefix="torture-") as base:
        path = Path(base) / "x.json"
        for _ in range(count):
            tally.tried += 1
            path.write_bytes(_damaged(text, rng))
            began = time.monotonic()
            code, said = call(["check", str(path)])
            if code not in _CODES or TRACEBACK.search(said):
                kept = Path(tempfile.gettempdir()) / f"torture-{seed}-{tally.tried}.json"
                kept.write_bytes(path.read_bytes())
                tally.fault(f"{code}: {said[-300:]!r}, kept as {kept}")
            elif time.monotonic() - began > 30:
                tally.fault(f"took {time.monotonic() - began:.0f} s")
            else:
                tally.tell("refused" if code else "still good")
    return tally


_WORDS = (
    b"null", b"[]", b"{}", b"-1", b"1e999", b"NaN", b'""', b"true", b"99999999999999999999", b"0",
    b"-0.0", b'"\\ud800"', b"[[[[[[", b'"node"', b"1e-320", b"\xff\xfe", b"\x00", b",", b"}", b'"',
)  # fmt: skip


def _damaged(text: bytes, rng: random.Random) -> bytes:
    """Return a document with one to four places cut, doubled, or written over."""
    for _ in range(rng.randint(1, 4)):
        a, length = rng.randrange(len(text)), rng.choice((1, 2, 8, 60))
        b = min(len(text), a + length)
        match rng.randrange(6):
            case 0:
                text = text[:a] + text[b:]
            case 1:
                text = text[:b] + text[a:]
            case 2:
                text = text[:a] + rng.choice(_WORDS) + text[b:]
            case 3:
                text = text[:a] + bytes([rng.randrange(256)]) + text[a + 1 :]
            case 4:
                text = _exchanged(text, rng)
            case _:
                text = text[: rng.randrange(1, len(text) + 1)] if rng.random() < 0.2 else text
        text = text or b" "
    return text


def _exchanged(text: bytes, rng: random.Random) -> bytes:
    """Put something else in the place of a whole value, which keeps the document JSON."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    places = list(_places(document))
    if not places:
        return text
    holder, key = rng.choice(places)
    with contextlib.suppress(ValueError):
        holder[key] = rng.choice(
            [None, [], {}, -1, 10**30, "", "x", True, 1e300, [0] * 50, {"a": 1}]
        )
    return json.dumps(document).encode()


def _places(value: object) -> Iterator[tuple[dict | list, object]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip  # noqa: E501
    for key, inner in entries:
        yield value, key
        yield from _places(inner)


def disks(instance: Instance) -> Tally:
    """Write to a disk of 16 KiB that is full, and to one that may not be written."""
    tally = Tally("a full disk and a read-only one under the output, three commands")
    with tempfile.TemporaryDirectory(prefix="torture-") as base:
        made = Path(base) / "x.json"
        instance.save(made)
        call(["solve", str(made), "--method", "flux", "-o", str(Path(base) / "p.json")])
        for kind in ("size=16k", "size=16k,ro"):
            place = Path(base) / kind
            place.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", kind, "tmpfs", str(place)]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                tally.tell("not tried: no right to mount")
                continue
            try:
                _write_there(tally, Path(base), place, kind)
            finally:
                subprocess.run(["umount", str(place)], check=True)
    return tally


def _write_there(tally: Tally, base: Path, place: Path, kind: str) -> None:
    if "ro" not in kind:
        (place / "p.json").write_text("older")
        with contextlib.suppress(OSError), (place / "fill").open("wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
    made, plan = str(base / "x.json"), str(base / "p.json")
    for command in (
        ["solve", made, "--method", "flux", "-o"],
        ["export", "moves", made, plan, "-o"],
        ["generate", "random_graphs", "--seed", "1", "-o"],
    ):
        tally.tried += 1
        code, said = call([*command, str(place / "p.json")])
        if code == 0 or TRACEBACK.search(said):
            tally.fault(f"{command[0]} on {kind}: {code}: {said[-200:]!r}")
        elif [p.name for p in place.iterdir() if p.name not in ("fill", "p.json")]:
            tally.fault(f"{command[0]} on {kind}: a part stays behind")
        elif "ro" not in kind and (place / "p.json").read_text() != "older":
            tally.fault(f"{command[0]} on {kind}: the older file is gone")
        else:
            tally.tell("refused, older file whole")
