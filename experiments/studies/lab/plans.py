"""Many random plans carried out on one cluster, each unit counted: ``make lab-plans``.

On a Flink (``make lab-plans``) task managers hold the quotas of all plans at once, so that a change
of plan is cancel and submit; after every fifth plan a task manager is killed with -9 and started
again, and its job is counted once more. On a Storm (``make lab-storm-plans``) a supervisor is
killed after every tenth; once it is back and Storm has put its executors elsewhere, the same plan
is submitted again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.studies.lab.flink import ARGUMENTS, MAIN, MANAGERS, FlinkCluster, build_jar
from experiments.studies.lab.flink_bench import Running, as_planned, joined
from experiments.studies.lab.runner import LONG, Walk, run_lab, tell
from experiments.studies.lab.storm import (
    EXECUTORS,
    SLOTS,
    SUPERVISORS,
    WORDS,
    StormCluster,
    placed,
)
from experiments.studies.lab.storm_plugin import OLDER, STORM
from optim import Instance, Plan
from optim.format.tables import Ints
from streamplace.clusters.flink.exporter import Group, Sheet
from streamplace.clusters.flink.fetch import wait_until_running
from streamplace.clusters.flink.submit import FlinkClient

_TWO = 0.2


class Tally(NamedTuple):
    """Plans, and those that ran as counted: after a submission, and after a kill."""

    plans: int = 0
    held: int = 0
    kills: int = 0
    held_again: int = 0

    def __str__(self) -> str:
        return (
            f"{self.held} of {self.plans} plans as counted, "
            f"after kill -9 {self.held_again} of {self.kills}"
        )


def carried_out(trial: FlinkTrial | StormTrial, number: int) -> Tally:
    """Carry plans out, one after the other, and count; every `kill_every` a machine fails."""
    tally = Tally()
    for k in range(number):
        began = time.monotonic()
        counted = trial.carry_out(k)
        seconds = time.monotonic() - began
        tally = tally._replace(plans=tally.plans + 1, held=tally.held + counted)
        # after the fifth, the tenth, …
        if k % trial.kill_every == trial.kill_every - 1:
            again = trial.kill(k)
            tally = tally._replace(kills=tally.kills + 1, held_again=tally.held_again + again)
        tell(f"plan {k + 1}, {seconds:.0f} s ({trial.end(k)}): {tally}")
    return tally


# --- Flink -----------------------------------------------------------------------------------


def random_sheet(vertices: Mapping[str, tuple[str, int]], rng: np.random.Generator) -> Sheet:
    """Return a plan that puts each subtask on a random task manager."""
    groups = []
    for key, (name, parallelism) in vertices.items():
        # how many subtasks of a vertex each task manager has: they are alike
        drawn = Counter(MANAGERS[k] for k in rng.integers(len(MANAGERS), size=parallelism).tolist())
        counts = dict(sorted(drawn.items()))
        group = Group(
            operator=name, job=MAIN, vertices={key: name}, parallelism=parallelism, counts=counts
        )
        groups.append(group)
    return Sheet(tuple(groups), {})


class FlinkTrial:
    """Plans of a job on task managers that hold the quotas of all of them."""

    kill_every = 5

    def __init__(
        self, cluster: FlinkCluster, client: FlinkClient, number: int, rng: np.random.Generator
    ) -> None:
        self._cluster, self._client, self._job = cluster, client, ""
        self._jar = str(build_jar(client, cluster.folder))
        vertices = client.vertices_of(client.graph_of_jar(self._jar, MAIN, ARGUMENTS))
        self._sheets = [random_sheet(vertices, rng) for _ in range(number)]
        self._quotas = {name: joined(self._sheets, name) for name in MANAGERS}
        for name in MANAGERS:
            cluster.start(name, self._quotas[name])
        cluster.wait_for(set(MANAGERS))

    def carry_out(self, number: int) -> bool:
        """Submit the job with the groups of a plan."""
        sheet, graph = self._sheets[number], self._client.graph_of_jar(self._jar, MAIN, ARGUMENTS)
        self._client.regroup(graph, sheet, sheet.groups, 0)
        self._job = self._client.submit(graph)
        return self._holds(sheet)

    def kill(self, number: int) -> bool:
        """Kill a task manager of the plan with -9, and start it again."""
        sheet = self._sheets[number]
        victim = sheet.task_managers[number // self.kill_every % len(sheet.task_managers)]
        self._cluster.kill(victim)
        self._cluster.wait_for(set(MANAGERS) - {victim})
        self._cluster.start(victim, self._quotas[victim])
        self._cluster.wait_for(set(MANAGERS))
        return self._holds(sheet)

    def end(self, number: int) -> str:
        """Cancel the job."""
        self._cluster.cancel(self._job)
        return self._sheets[number].key

    def _holds(self, sheet: Sheet) -> bool:
        """Whether the job comes to run just as its plan counts."""
        if not wait_until_running(self._cluster.web, self._job, LONG):
            return False
        where = Running(self._cluster.web, self._job).assignment()
        return as_planned(sheet, where) == len(where)


# --- Storm -----------------------------------------------------------------------------------


def random_places(instance: Instance, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return a node and slot of each executor: random ones of a random set of workers."""
    nodes = rng.permutation(instance.num_nodes)[: rng.integers(1, instance.num_nodes + 1)]
    # as many nodes as drawn, each with a worker or two
    workers = [(node, slot) for node in nodes for slot in _slots(rng)]
    drawn = np.array(workers, dtype=np.int32)[rng.integers(len(workers), size=instance.num_tasks)]
    return drawn[:, 0].copy(), drawn[:, 1].copy()


def _slots(rng: np.random.Generator) -> list[int]:
    """Return one slot, or two for a fifth: a worker is two processes, which take seconds each."""
    return rng.permutation(SLOTS)[: 1 + (rng.random() < _TWO)].tolist()


class StormTrial:
    """Plans of a topology."""

    kill_every = 10

    def __init__(self, cluster: StormCluster, rng: np.random.Generator) -> None:
        self._cluster, self._rng = cluster, rng
        cluster.start_all()
        cluster.run("words", EXECUTORS, WORDS)
        self._walk = Walk("storm", cluster.url, cluster.folder)
        self._walk.read(cpu="requested")
        self._instance = Instance.load(self._walk.file["instance"])

    def carry_out(self, number: int) -> bool:
        """Draw a plan, and submit it."""
        drawn = random_places(self._instance, self._rng)
        Plan.from_indices(self._instance, *drawn).save(self._walk.file["plan"])
        self._walk.export()
        return self._holds()

    def kill(self, number: int) -> bool:
        """Kill a supervisor with its workers, start it again, and submit the same plan again."""
        victim = SUPERVISORS[number // self.kill_every % len(SUPERVISORS)]
        self._cluster.kill(victim)
        self._cluster.wait_for(len(SUPERVISORS) - 1)
        self._cluster.wait_for_executors("words", EXECUTORS)
        self._cluster.start(victim)
        self._cluster.wait_for(len(SUPERVISORS))
        return self._holds()

    def end(self, number: int) -> str:
        """Return which daemons ended by themselves."""
        return f"restarted {self._cluster.restarts}"

    def _holds(self) -> bool:
        """Submit, and say whether each executor comes to run as planned."""
        verdict = placed(self._cluster.url, self._walk)
        if not verdict.holds:
            tell(verdict.text())
        return verdict.holds


NAMES = {"flink": "lab-plans", "storm": "lab-storm-plans"}


def main(system: str) -> int:
    """Run the plans; the last line counts them."""

    def work(folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
        rng = np.random.default_rng(args.seed)
        if system == "flink":
            with FlinkCluster(folder) as jobs, jobs.client() as client:
                tally = carried_out(FlinkTrial(jobs, client, args.plans, rng), args.plans)
        else:
            with StormCluster(folder, version=args.storm) as topologies:
                tally = carried_out(StormTrial(topologies, rng), args.plans)
        return str(tally), (tally.held, tally.held_again) == (tally.plans, tally.kills)

    plans, seed = ("--plans", {"type": int, "default": 50}), ("--seed", {"type": int, "default": 0})
    older = f"of Storm; {OLDER} needs a Java before 14"
    version = ("--storm", {"default": STORM, "metavar": "VERSION", "help": older})
    return run_lab(NAMES[system], __doc__, work, plans, seed, *[version] * (system == "storm"))


if __name__ == "__main__":
    sys.exit(main(sys.argv.pop(1)))
