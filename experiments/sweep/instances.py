"""The instances of a sweep: read from files, made by generators, varied by factors of the matrix.

All of this happens on the driver, so that a wrong file stops the sweep before it starts, and
workers are passed finished documents and need no file of ours.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.sweep.spec import Generate, Spec, Variation, apply_all, as_text
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance

MAX_INSTANCES = 100_000

_SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True)
class Prepared:
    """An instance as runs need it."""

    name: str  # Unique in the sweep; of a varied one with what was varied.
    base: str  # Name of the instance that it was varied from, its own otherwise.
    sha256: str
    base_sha256: str  # Of the one that it was varied from, its own otherwise.
    content: str  # `content_hash`: equal instances have the same, whatever they are called.
    num_tasks: int
    num_nodes: int
    packed: bytes = field(repr=False)  # Its canonical JSON, compressed.
    #: How it was generated; empty for files.
    factors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, instance: Instance, name: str, factors: Mapping[str, str]) -> Prepared:
        """Pack an instance."""
        packed = zlib.compress(instance.to_json().encode(), 1)
        sha = instance.sha256
        sizes = (instance.num_tasks, instance.num_nodes)
        return cls(name, name, sha, sha, content_hash(instance), *sizes, packed, factors)

    def text(self) -> bytes:
        """Return the canonical JSON."""
        return zlib.decompress(self.packed)


_NAMING = frozenset({"format", "name", "origin", "labels", "units"})
"""Entries that say what an instance or a part of it is called, and nothing of the problem."""


def content_hash(instance: Instance) -> str:
    """Return the sha256 of what an instance asks, without its names: equal ones are one case."""
    from pydantic_core import to_json

    return hashlib.sha256(to_json(_without_names(instance.to_dict()))).hexdigest()


def _without_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only names: of the document, and the labels of its nodes and tasks."""

    def bare(entry: Any) -> Any:
        return {k: v for k, v in entry.items() if k != "labels"} if type(entry) is dict else entry

    return {
        key: [bare(entry) for entry in value] if isinstance(value, list) else value
        for key, value in document.items()
        if key not in _NAMING
    }


def find_files(problems: list[Problem], spec: Spec) -> list[Path]:
    """Return the files that the globs match, each once, sorted within a glob."""
    by_path: dict[Path, Path] = {}
    for i, pattern in enumerate(spec.files):
        path = f"instances.files[{i}]"
        matched = [
            spec.base / name
            for name in sorted(glob.glob(pattern, root_dir=spec.base, recursive=True))  # noqa: PTH207 (takes absolute patterns too)
            if name.endswith(_SUFFIXES) and not (spec.base / name).is_dir()
        ]
        if not matched:
            remedy = f"paths are relative to {spec.base.resolve()}"
            problems.append(Problem(path, pattern, "matches no .json or .json.gz file", remedy))
        for file in matched:
            by_path.setdefault(file.resolve(), file)
    if len(by_path) > MAX_INSTANCES:
        problems.append(
            Problem("instances.files", None, f"matches more than {MAX_INSTANCES} files")
        )
    return list(by_path.values())


def count_generated(generators: Sequence[Generate]) -> int:
    """Return how many instances the generators make."""
    return sum(
        len(entry.seeds) * math.prod(map(len, entry.parameters.values())) for entry in generators
    )


def load_instances(spec: Spec, files: Sequence[Path], notes: list[str]) -> list[Prepared]:
    """Read and make all instances; what was left out is added to `notes`.

    Raises `InvalidInput`: with every problem of every file and generator entry.
    """
    from optim.format.instance import Instance

    problems: list[Problem] = []
    loaded: list[tuple[Instance, str, dict[str, str]]] = []
    for file in files:
        try:
            stem = file.name.removesuffix(".gz").removesuffix(".json")
            loaded.append((Instance.load(file), stem, {}))
        except InvalidInput as error:
            problems += [_located(problem, str(file)) for problem in error.problems]
    for i, entry in enumerate(spec.generators):
        try:
            loaded += _generated(entry, notes)
        except InvalidInput as error:
            problems += [
                _located(problem, f"instances.generate[{i}]") for problem in error.problems
            ]
    if problems:
        raise InvalidInput(problems, spec.source)
    return _with_unique_names(loaded)


def _located(problem: Problem, where: str) -> Problem:
    path = f"{where}: {problem.path}" if problem.path != where else where
    return Problem(path, problem.value, problem.reason, problem.remedy)


def _generated(entry: Generate, notes: list[str]) -> Iterator[tuple[Instance, str, dict[str, str]]]:
    """Make the instances of an entry; seeds that make one again are left out, with a note."""
    from experiments.generators import generate

    for values in itertools.product(*entry.parameters.values()):
        parameters = dict(zip(entry.parameters, values, strict=True))
        first_seeds: dict[str, int] = {}
        for seed in entry.seeds:
            instance = generate(entry.kind, seed=seed, **parameters)
            if first_seeds.setdefault(content_hash(instance), seed) != seed:
                continue
            description = {"kind": entry.kind, **parameters, "seed": seed}
            factors = {f"instance.{key}": as_text(value) for key, value in description.items()}
            hint = ", ".join(f"{k}={as_text(v)}" for k, v in description.items())
            yield instance, hint, factors
        again = len(set(entry.seeds)) - len(first_seeds)
        if again:
            what = ", ".join([entry.kind, *(f"{k}={as_text(v)}" for k, v in parameters.items())])
            notes.append(
                f"{what}: {again} of {again + len(first_seeds)} seeds make an instance again"
            )


def _with_unique_names(loaded: Sequence[tuple[Instance, str, dict[str, str]]]) -> list[Prepared]:
    """Give each its own name, where two have one with where it is from; equal ones are one."""
    unique = {instance.sha256: (instance, hint, factors) for instance, hint, factors in loaded}
    names = [instance.name for instance, _, _ in unique.values()]
    prepared = []
    used: set[str] = set()
    for instance, hint, factors in unique.values():
        name = instance.name or hint
        if not instance.name or names.count(instance.name) > 1:
            name = f"{name} ({hint})" if instance.name else hint
        if name in used:
            name = f"{name} {instance.sha256[:8]}"
        used.add(name)
        prepared.append(Prepared.of(instance, name, factors))
    return prepared


def vary(base: Prepared, variations: Sequence[tuple[Variation, Any]]) -> Prepared:
    """Return an instance after variations; its name states them.

    Raises `InvalidInput`: it cannot be varied so.
    """
    if not variations:
        return base
    from optim.format.document import parse_json
    from optim.format.instance import Instance

    varied = Instance.from_dict(apply_all(parse_json(base.text()), variations))
    description = ", ".join(f"{variation.name}={as_text(value)}" for variation, value in variations)
    prepared = Prepared.of(varied, f"{base.name} [{description}]", base.factors)
    return dataclasses.replace(prepared, base=base.name, base_sha256=base.sha256)
