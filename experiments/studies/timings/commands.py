"""Whole commands, as typed: CPU seconds of their processes, solvers and start-up included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.generators import generate
from experiments.studies.timings.registry import Rows, cases, spend
from optim import Instance, Plan
from optim.errors import InvalidInput, UnsuitableMethod
from optim.methods.choose import check_suitable
from optim.methods.registry import get_method, method_names

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
INSTANCE = EXAMPLES / "capsys-q1.json"
PACKAGES = ("streamplace", "optim", "formulations", "heuristics", "experiments")
CLI = ("-m", "streamplace")

LIMITED = ("imc-milp", "joint-milp", "scale-in-first", "throughput-milp")
"""Methods that go on for minutes until a proof: these have a limit of 1 s."""

SOLVED = tuple((name, method) for name, method in cases("solved"))
OPTIONS = {"joint-search": ("--option", "steps=100000")}


def processes_of(folder: Path) -> dict[str, Sequence[str]]:
    """Write the instances into a folder, and return commands by name."""
    files = {name: EXAMPLES / f"{name}.json" for name, _ in SOLVED}
    for kind in (name for name, path in files.items() if not path.exists()):
        files[kind] = folder / f"{kind}.json"
        generate(kind, seed=1).save(files[kind])
    joint = Instance.load(files["joint"])
    plan = folder / "plan.json"
    Plan.from_indices(joint, np.arange(joint.num_tasks) % joint.num_nodes).save(plan)
    solves: dict[str, Sequence[str]] = {
        f"{method} {name}": (
            *CLI, "solve", str(files[name]), "--method", method, "-q", "--seed", "1",
            *OPTIONS.get(method, ()),
        )
        for name, method in SOLVED
    }  # fmt: skip
    q1 = str(INSTANCE)
    return {
        **solves,
        "portfolio capsys-q1": (*CLI, "solve", q1, "-q", "--time-limit", "3"),
        "explain": (*CLI, "explain", q1, "-q", "--scale-rate", "3", "--time-limit", "20"),
        "evaluate": (*CLI, "evaluate", str(files["joint"]), str(plan)),
        "check": (*CLI, "check", q1),
        "import kafka": (
            *CLI, "import", "kafka", str(EXAMPLES / "kafka"), "-o", str(folder / "k.json"), "-q",
        ),
        "--help": (*CLI, "--help"),
    }  # fmt: skip


def run(words: Sequence[str], folder: Path = ROOT, root: Path = ROOT, **variables: str) -> int:
    """Run Python in a folder, by code and Python of a checkout; return its exit code."""
    # a command finds its caches as a user's does
    left_out = ("PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    venv_python = root / ".venv" / "bin" / "python"
    return subprocess.run(
        [venv_python if venv_python.exists() else sys.executable, *words], cwd=folder,
        env={**environment, "PYTHONPATH": str(root), **variables}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    ).returncode  # fmt: skip


def processes(repeats: int = 3, only: str = "") -> Rows:
    """Time commands; with ``--against CHECKOUT`` beside those of another checkout."""
    with tempfile.TemporaryDirectory() as folder:
        for name, words in processes_of(Path(folder)).items():
            if only in name:
                runs = [spend(run, words) for _ in range(repeats)]
                yield name, f"{min(one.cpu for one in runs):.2f}", runs[-1].value


def suitable() -> list[str]:
    """Return the methods that take the instance as it is."""
    instance, names = Instance.load(INSTANCE), []
    for name in method_names():
        try:
            check_suitable(get_method(name), instance, repair=False)
        except (InvalidInput, UnsuitableMethod):
            continue
        names.append(name)
    return names


def seconds_of(method: str, root: Path, bytecode: Path) -> float:
    """Return the CPU seconds of one run, its solvers' included."""
    limit = ["--time-limit", "1"] if method in LIMITED else []
    words = (*CLI, "solve", str(INSTANCE), "--method", method, "--quiet", *limit)
    return spend(run, words, root, root, PYTHONPYCACHEPREFIX=str(bytecode)).cpu


def start_up(methods: str = "", repeats: int = 2) -> Rows:
    """Time a first `solve` of each method; Python's own cache is put in a folder of this timing,
    since some machines forbid Python to write any.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in methods.split(",") if methods else suitable():
            seconds_of(name, ROOT, Path(folder))  # fills caches
            seconds = [seconds_of(name, ROOT, Path(folder)) for _ in range(repeats)]
            yield name, f"{min(seconds):.2f}", f"{max(seconds):.2f}"


def start_up_cold(methods: str = "") -> Rows:
    """Time a first run; the libraries have their bytecode, as pip leaves it."""
    ignored = shutil.ignore_patterns("__pycache__")
    with tempfile.TemporaryDirectory() as bytecode:
        # the libraries' bytecode is made before anything is timed
        seconds_of("even", ROOT, Path(bytecode))
        for name in methods.split(",") if methods else suitable():
            with tempfile.TemporaryDirectory() as folder:
                for package in PACKAGES:
                    shutil.copytree(ROOT / package, Path(folder) / package, ignore=ignored)
                yield name, f"{seconds_of(name, Path(folder), Path(bytecode)):.1f}"


RACKS, FACTOR, DEAD, SEED = 10, 3, 7, 1
DEAD_BROKER = (
    ("import", "kafka", ".", "--option", "mode=dead-broker", "-o", "dead.json"),
    ("solve", "dead.json", "-o", "plan.json", "--time-limit", "10"),
    ("evaluate", "dead.json", "plan.json"),
    ("export", "kafka", "dead.json", "plan.json", "-o", "reassignment.json"),
)


def write_cluster(folder: Path, brokers: int, partitions: int) -> None:
    """Write what Kafka's tools print of a cluster whose broker `DEAD` is gone."""
    rng = np.random.default_rng(SEED)
    sizes = rng.lognormal(20, 1, partitions)
    lines, entries_of = [], dict[int, list[dict[str, object]]]()
    for p in range(partitions):
        # racks in turn: the first three of a shifted row are of three racks
        replicas = [(p + k * (1 + p // brokers % 3)) % brokers for k in range(FACTOR)]
        alive = [b for b in replicas if b != DEAD]
        listed, in_sync = (",".join(map(str, some)) for some in (replicas, alive))
        lines.append(
            f"\tTopic: t{p // 16}\tPartition: {p % 16}\tLeader: {alive[0]}\t"
            f"Replicas: {listed}\tIsr: {in_sync}"
        )
        for b in alive:
            entry = {"partition": f"t{p // 16}-{p % 16}", "size": int(sizes[p]), "offsetLag": 0}
            entries_of.setdefault(b, []).append({**entry, "isFuture": False})
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    logs = [
        {"broker": b, "logDirs": [{"error": None, "logDir": "/data", "partitions": entries}]}
        for b, entries in sorted(entries_of.items())
    ]
    (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": logs}))
    room = {"disk": 2.0 * sizes.sum() * FACTOR / brokers}
    broker_entries = [
        {"id": b, "rack": f"r{b % RACKS}", "alive": b != DEAD, "capacity": room}
        for b in range(brokers)
    ]
    (folder / "brokers.json").write_text(json.dumps(broker_entries))


def dead_broker(brokers: int = 200, partitions: int = 33_334) -> Rows:
    """Time each command twice: the second finds kernels and files where the first left them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_cluster(folder, brokers, partitions)
        for words in DEAD_BROKER:
            first, again = (spend(run, (*CLI, *words, "-q"), folder) for _ in range(2))
            if first.value:
                raise RuntimeError(f"{' '.join(words)} ended with {first.value}")
            count = None
            if words[0] == "export":
                count = len(json.loads((folder / words[-1]).read_text())["partitions"])
            cells = (first.wall, first.cpu, again.wall, again.cpu)
            yield " ".join(words[:2]), *cells, count
