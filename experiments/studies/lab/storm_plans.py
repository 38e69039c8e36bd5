"""Many random plans on one Storm, each executor counted: ``make lab-storm-plans``.

After every tenth plan a supervisor is killed with its workers and started again; once it is back
and Storm has put its executors elsewhere, the same plan is submitted again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.studies.lab.__main__ import tell
from experiments.studies.lab.cluster import LabError
from experiments.studies.lab.plans import Tally
from experiments.studies.lab.storm import (
    EXECUTORS,
    WORDS,
    Walk,
    address,
    all_run,
    conf_of,
    reports_of,
    start_all,
    wait_until,
)
from experiments.studies.lab.storm_cluster import SLOTS, SUPERVISORS, StormCluster
from optim import Instance, InvalidInput, Plan
from streamplace.clusters.storm.nimbus import Nimbus
from streamplace.clusters.storm.placement import load_placement
from streamplace.clusters.storm.submit import submit

if TYPE_CHECKING:
    from optim.format.tables import Ints

_KILL_EVERY = 10
_TWO = 0.2
_LONG = 240.0


def random_places(instance: Instance, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return a node and slot of each executor: random ones of a random set of workers."""
    nodes = rng.permutation(instance.num_nodes)[: rng.integers(1, instance.num_nodes + 1)]
    workers = [(node, slot) for node in nodes for slot in _slots(rng)]
    drawn = np.array(workers, dtype=np.int32)[rng.integers(len(workers), size=instance.num_tasks)]
    return drawn[:, 0].copy(), drawn[:, 1].copy()


def _slots(rng: np.random.Generator) -> list[int]:
    """Return one slot, or two for a fifth: a worker is two processes, which take seconds each."""
    return rng.permutation(SLOTS)[: 1 + (rng.random() < _TWO)].tolist()


def run(folder: Path, number: int, seed: int) -> Tally:
    """Carry the plans out, one after the other.

    Raises
    ------
    LabError
        The cluster does not do what it should.
    """
    rng = np.random.default_rng(seed)
    tally = Tally()
    with StormCluster(folder) as cluster:
        start_all(cluster)
        cluster.submit({"name": "words", "conf": conf_of(folder), "components": WORDS})
        wait_until(lambda: all_run(cluster.url, "words", EXECUTORS), "all executors run")
        walk = Walk(cluster, folder)
        walk.read()
        instance = Instance.load(walk.file["instance"])
        for k in range(number):
            Plan.from_indices(instance, *random_places(instance, rng)).save(walk.file["plan"])
            walk.export()
            began = time.monotonic()
            held = _holds(cluster, walk)
            seconds = time.monotonic() - began
            tally = tally._replace(plans=tally.plans + 1, held=tally.held + held)
            if k % _KILL_EVERY == _KILL_EVERY - 1:
                victim = SUPERVISORS[k // _KILL_EVERY % len(SUPERVISORS)]
                cluster.kill(victim)
                cluster.wait_for(len(SUPERVISORS) - 1)
                wait_until(lambda: all_run(cluster.url, "words", EXECUTORS), "they run elsewhere")
                cluster.start(victim, address(victim))
                cluster.wait_for(len(SUPERVISORS))
                again = _holds(cluster, walk)
                tally = tally._replace(kills=tally.kills + 1, held_again=tally.held_again + again)
            tell(f"plan {k + 1}, {seconds:.0f} s: {tally}; restarted {cluster.restarts}")
    return tally


def _holds(cluster: StormCluster, walk: Walk) -> bool:
    """Submit, and say whether each executor comes to run as planned."""
    with Nimbus(cluster.url, 60.0) as nimbus:
        verdict = submit(nimbus, load_placement(walk.file["placement"]), _LONG)
    if not verdict.holds:
        tell(verdict.text())
    return verdict.holds


def main() -> int:
    """Run the plans; the last line counts them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab-storm-plans", help="for logs and files")
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    folder = Path(args.folder).resolve()
    reports_of(folder)
    try:
        tally = run(folder, args.plans, args.seed)
    except (LabError, InvalidInput) as error:
        tell(f"lab-storm-plans: {error}")
        return 1
    tell(f"lab-storm-plans: {tally}")
    return int(tally.held < tally.plans or tally.held_again < tally.kills)


if __name__ == "__main__":
    sys.exit(main())
