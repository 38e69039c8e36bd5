"""What is promised of modules: no circles, no family in the core, no families of prefixes."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from optim.rules import RULE_NAMES, RULES, Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

PACKAGES = ("optim", "formulations", "heuristics", "streamplace", "experiments")
FAMILIES = ("albic", "balance", "eoa", "imc", "joint", "rebalancing", "storm")
LINES = 900
PARAMETERS = 12  # of a kernel: arrays that belong together are one NamedTuple
CODE = 639  # of the checker of certificates, without blank lines, comments, docstrings and `FIELDS`


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[str, Path]:
    """Module to file."""
    found = {}
    for package in PACKAGES:
        for file in (repository / package).rglob("*.py"):
            parts = file.relative_to(repository).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


@pytest.fixture(scope="module")
def trees(sources: dict[str, Path]) -> dict[str, ast.Module]:
    """Module to what it says."""
    return {module: ast.parse(file.read_text("utf-8")) for module, file in sources.items()}


def by_folder(imports: Mapping[str, set[str]], package: str) -> dict[str, set[str]]:
    """Folders of a package to the folders that they import."""
    depth = package.count(".") + 2
    graph: dict[str, set[str]] = defaultdict(set)
    for module, ends in imports.items():
        for end in ends:
            a, b = (".".join(name.split(".")[:depth]) for name in (module, end))
            if a != b and a.startswith(f"{package}.") and b.startswith(f"{package}."):
                graph[a].add(b)
    return dict(graph)


def imported(nodes: Iterable[ast.AST], sources: Mapping[str, Path]) -> set[str]:
    """Modules of ours that these statements import."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in sources:
            full = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {name if name in sources else node.module for name in full}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names} & sources.keys()
    return names


@pytest.fixture(scope="module")
def imports(sources: dict[str, Path], trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module to the modules it imports when it runs, in functions too."""
    return {
        module: imported(runtime_nodes(tree), sources) - {module} for module, tree in trees.items()
    }


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        guard = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not guard:
            yield node
            yield from runtime_nodes(node)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    names = sorted(graph.keys() | {name for ends in graph.values() for name in ends})
    index = {name: i for i, name in enumerate(names)}
    rows = [index[a] for a, ends in graph.items() for _ in ends]
    columns = [index[b] for ends in graph.values() for b in ends]
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    _, label = connected_components(matrix, directed=True, connection="strong")
    groups = defaultdict(list)
    for name, group in zip(names, label.tolist(), strict=True):
        groups[group].append(name)
    return [group for group in groups.values() if len(group) > 1]


def test_no_module_imports_itself_through_others(imports: dict[str, set[str]]) -> None:
    assert circles(imports) == []


@pytest.fixture(scope="module")
def named(sources: dict[str, Path], trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module to the modules it names, for the type checker too."""
    return {module: imported(ast.walk(tree), sources) - {module} for module, tree in trees.items()}


FOLDERS = [*PACKAGES, "formulations.rebalancing", "streamplace.clusters", "experiments.studies"]


@pytest.mark.parametrize("package", FOLDERS)
def test_no_two_folders_name_each_other(named: dict[str, set[str]], package: str) -> None:
    graph = by_folder(named, package)
    assert [(a, b) for a in graph for b in graph[a] if a < b and a in graph.get(b, ())] == []


@pytest.mark.parametrize("package", FOLDERS)
def test_no_folder_imports_its_sibling_and_is_imported_by_it(
    imports: dict[str, set[str]], package: str
) -> None:
    graph = by_folder(imports, package)
    assert circles(graph) == []


def test_the_core_is_named_after_no_family(sources: dict[str, Path]) -> None:
    core = [module for module in sources if module.startswith("optim.")]
    words = {module: set(module.replace(".", "_").split("_")) for module in core}
    assert [module for module, parts in words.items() if parts & set(FAMILIES)] == []


def test_no_folder_holds_a_family_of_prefixes(sources: dict[str, Path]) -> None:
    # rules are named after their limits, figures of papers and benchmarks after what they show
    prefixes: Counter[tuple[str, str]] = Counter()
    for module in sources:
        folder, _, name = module.rpartition(".")
        if "_" in name and name not in RULE_NAMES and not module.startswith("experiments."):
            prefixes[folder, name.partition("_")[0]] += 1
    assert [key for key, count in prefixes.items() if count > 3] == []


BY_CONTENT = {Form.BUDGET, Form.INFLOW, Form.NODE_COUNT, Form.RESTARTS, Form.SLOT_SETS}
"""Forms whose content engines read as data; rules of others are named after columns of the format
(capacity, slots, links, …), which importers, generators and rows name as well."""
NAMED_IN = {
    "optim.rules": "where they stand",
    "optim.format": "where they stand",
    "optim.certificates": "a checker that knows the file alone, and proofs by counting moves",
    "optim.methods.reduce": "writes rules as capacities: some sets over slots count tasks alone",
    "formulations.throughput.scale": "chooses how many nodes there are",
    "formulations.throughput.scale_counts": "chooses how many nodes there are",
    "formulations.conflicts": "drops and raises the entries of a file one by one",
    "streamplace.explain.explanation": "what giving up a set is called; sets over slots by plan",
    "streamplace.clusters.storm.model": "writes an instance",
    "experiments.generators": "write instances",
    "experiments.replay": "its days and its command have a budget of moves",
    "experiments.studies": "name the limits of published experiments",
}


def rules_named(tree: ast.AST) -> set[str]:
    """Rules that a module names: as a text, or as the object."""
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    objects = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return {rule for rule in RULE_NAMES if rule in texts or rule.upper() in objects}


def test_engines_know_rules_by_form_and_not_by_name(trees: dict[str, ast.Module]) -> None:
    chosen = {rule.name for rule in RULES if rule.form in BY_CONTENT}
    found = {
        module: names
        for module, tree in trees.items()
        if not any(module == room or module.startswith(f"{room}.") for room in NAMED_IN)
        if (names := rules_named(tree) & chosen)
    }
    assert found == {}


def test_a_rule_named_in_a_module_is_found() -> None:
    assert rules_named(ast.parse("x = 'max_migrations' in honours")) == {"max_migrations"}
    assert rules_named(ast.parse("MAX_INFLOW.present(instance)")) == {"max_inflow"}
    assert not rules_named(ast.parse("# max_inflow\nwords = 'no max_inflow'"))


def test_files_stay_short(sources: dict[str, Path]) -> None:
    long = {m: n for m, f in sources.items() if (n := len(f.read_text().splitlines())) > LINES}
    assert long == {}


def kernels(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield what is compiled."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = [ast.unparse(mark).split("(")[0] for mark in node.decorator_list]
            if {"kernel", "helper", "inlined"}.intersection(marks):
                yield node


def test_kernels_have_few_parameters(trees: dict[str, ast.Module]) -> None:
    found = [kernel for tree in trees.values() for kernel in kernels(tree)]
    assert len(found) > 200
    assert not [k.name for k in found if len(k.args.args) > PARAMETERS]


def test_the_checker_is_short(sources: dict[str, Path]) -> None:
    text = sources["optim.certificates.check"].read_text()
    told = (ast.FunctionDef, ast.ClassDef, ast.Module)
    texts = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, told) and ast.get_docstring(node) is not None
    ]
    texts += [n for n in ast.parse(text).body if ast.unparse(n).startswith("FIELDS = ")]
    left_out = {n for d in texts for n in range(d.lineno, (d.end_lineno or 0) + 1)}
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    code = [n for n, x in lines if x and not x.startswith("#") and n not in left_out]
    assert len(code) <= CODE
