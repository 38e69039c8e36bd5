"""Many random plans carried out on one cluster: ``make lab-plans``.

Task managers hold the quotas of all plans at once, so that a change of plan is cancel and submit.
After every fifth plan a task manager is killed with -9 and started again, and its job is counted
once more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from experiments.studies.lab.__main__ import ARGUMENTS, MANAGERS, tell
from experiments.studies.lab.bench import Running, as_planned, joined
from experiments.studies.lab.cluster import HOST, MAIN, PATIENCE, Lab, LabError, build_jar
from optim import InvalidInput
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Group, Sheet
from streamplace.clusters.flink.fetch import wait_until_running
from streamplace.clusters.flink.submit import FlinkClient

if TYPE_CHECKING:
    from collections.abc import Mapping

_KILL_EVERY = 5
_LONG = 300.0


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


def random_sheet(vertices: Mapping[str, tuple[str, int]], rng: np.random.Generator) -> Sheet:
    """Return a plan that puts each subtask on a random task manager."""
    groups = []
    for key, (name, parallelism) in vertices.items():
        drawn = Counter(MANAGERS[k] for k in rng.integers(len(MANAGERS), size=parallelism).tolist())
        counts = dict(sorted(drawn.items()))
        group = Group(
            operator=name, job=MAIN, vertices={key: name}, parallelism=parallelism, counts=counts
        )
        groups.append(group)
    return Sheet(tuple(groups), {})


def run(folder: Path, number: int, seed: int) -> Tally:
    """Carry the plans out, one after the other.

    Raises
    ------
    LabError
        The cluster does not do what it should.
    """
    rng = np.random.default_rng(seed)
    tally = Tally()
    with Lab(folder) as lab, FlinkClient(HOST, int(lab.url.rpartition(":")[2]), {}) as client:
        jar = str(build_jar(client, folder))
        vertices = client.vertices_of(client.graph_of_jar(jar, MAIN, ARGUMENTS))
        sheets = [random_sheet(vertices, rng) for _ in range(number)]
        quotas = {name: joined(sheets, name) for name in MANAGERS}
        for name in MANAGERS:
            lab.start(name, quotas[name])
        lab.wait_for(set(MANAGERS))
        for k, sheet in enumerate(sheets):
            graph = client.graph_of_jar(jar, MAIN, ARGUMENTS)
            client.regroup(graph, sheet, sheet.groups, 0)
            job = client.submit(graph)
            held = _holds(lab, job, sheet)
            tally = tally._replace(plans=tally.plans + 1, held=tally.held + held)
            if k % _KILL_EVERY == 0:
                victim = sheet.task_managers[k // _KILL_EVERY % len(sheet.task_managers)]
                lab.kill(victim)
                lab.wait_for(set(MANAGERS) - {victim})
                lab.start(victim, quotas[victim])
                lab.wait_for(set(MANAGERS))
                again = _holds(lab, job, sheet)
                tally = tally._replace(kills=tally.kills + 1, held_again=tally.held_again + again)
            lab.cancel(job)
            tell(f"plan {k + 1} ({sheet.key}): {tally}")
    return tally


def _holds(lab: Lab, job: str, sheet: Sheet) -> bool:
    """Whether a job comes to run just as its plan counts."""
    if not wait_until_running(WebClient(lab.url, PATIENCE), job, _LONG):
        return False
    where = Running(lab.url, job).assignment()
    return as_planned(sheet, where) == len(where)


def main() -> int:
    """Run the plans; the last line counts them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab-plans", help="for logs and files")
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    folder = Path(args.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        tally = run(folder, args.plans, args.seed)
    except (LabError, InvalidInput) as error:
        tell(f"lab-plans: {error}")
        return 1
    tell(f"lab-plans: {tally}")
    return int(tally.held < tally.plans or tally.held_again < tally.kills)


if __name__ == "__main__":
    sys.exit(main())
