"""Where an instance of the benchmark comes from: a generator, an example that is varied, a file.

``{"generator": kind, "seed": n, "parameters": {…}}``
    Made by one of `experiments.generators`.
``{"example": file, "variation": {resource: factor, …}}``
    One of the repository's `examples`, capacities multiplied; ``"links": factor`` multiplies the
    capacities of the links as well.
``{"import": format, "needs": NAME, "file": path, "options": {…}}``
    A file of others, which is not copied here: found below a folder that the user names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim import Instance

#: Beside the package in a checkout; the wheel carries the few that are needed within it.
FOLDERS = (Path(__file__).parents[2] / "examples", Path(__file__).with_name("examples"))
ADDRESSES = {
    "ctap": "the CTAP library of S. Elloumi: its tass*.dat and tassc*.dat",
    "zerotune": "the query graphs published with ZeroTune, ICDE 2024",
}


def made(source: dict[str, Any], data: Path | None = None) -> Instance:
    """Make the instance of a source.

    Parameters
    ----------
    source
        As the table has it; see the module.
    data
        The folder with the files of others; needed by their sources alone.

    Raises
    ------
    InvalidInput
        A file is not there or cannot be read, with what would help; or a source of no such form.
    """
    if "generator" in source:
        from experiments.generators import generate

        return generate(source["generator"], source["seed"], **source["parameters"])
    if "example" in source:
        return _example(source["example"], source["variation"])
    if "import" in source:
        return _imported(source, data)
    raise InvalidInput(Problem("source", sorted(source), "is no source of an instance"))


def _example(name: str, variation: dict[str, float]) -> Instance:
    from experiments.sweep.variations import scale_capacity
    from optim import Instance

    path = next((f / name for f in FOLDERS if (f / name).is_file()), None)
    if path is None:
        remedy = "take a checkout, or a wheel, of this version"
        raise InvalidInput(Problem("example", name, "is not among the examples", remedy))
    document = json.loads(path.read_text("utf-8"))
    factors = {key: by for key, by in variation.items() if key != "links"}
    document = scale_capacity(document, factors)
    for link in document.get("links", ()):
        link["capacity"] *= variation.get("links", 1)
    return Instance.from_dict(document)


def _imported(source: dict[str, Any], data: Path | None) -> Instance:
    from experiments.interchange.importing import import_instance

    path = _found(source["needs"], source["file"], data)
    options = [(key, str(value)) for key, value in source.get("options", {}).items()]
    return import_instance(source["import"], [str(path)], options).instance


def _found(needs: str, file: str, data: Path | None) -> Path:
    get = f"get {ADDRESSES[needs]}"
    if data is None:
        raise InvalidInput(
            Problem("--data", None, f"is needed: {file} is not ours", f"{get}, and name its folder")
        )
    if not data.is_dir():
        raise InvalidInput(Problem("--data", str(data), "is no folder", get))
    for path in (data / needs / file, data / file):
        if path.is_file():
            return path
    below = sorted(data.rglob(Path(file).name))
    if below:
        return below[0]
    raise InvalidInput(Problem("--data", str(data), f"holds no {file}", get))
