"""A running Flink job scaled to twice its input rate: ``make lab-scale``.

On machines with a share of a core each, a job runs on as many slots as its rate needs. It is
imported, ``streamplace scale`` plans twice the rate, and what ``streamplace export`` writes is sent
to the job manager while the job runs (adaptive scheduler). The rate is measured before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.__main__ import command, start_unplanned, tell
from experiments.studies.lab.bench import MACHINES, Running
from experiments.studies.lab.cluster import PATIENCE, Lab, LabError
from experiments.studies.lab.loop import Phases
from experiments.studies.lab.machines import GATEWAY, Machines, reason_against
from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import WebClient

if TYPE_CHECKING:
    from collections.abc import Iterator

CORES = 0.3
"""Of each machine, held by a control group."""
MEGABITS = 100.0
ORDERS = 300.0
"""Orders/s at first."""
FACTOR = 2
SLOTS = 2
"""Subtasks of each vertex at first: all vertices share slots, and a task manager has one."""
ADAPTIVE: dict[str, Any] = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "1 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": "1 s",
}
"""Rescale at once: the defaults wait up to a minute."""
_ROUNDS = "500000"
_LONG = 240.0
_COMPILED, _SETTLED = 12.0, 6.0


@contextmanager
def flink_up(folder: Path, settings: dict[str, Any]) -> Iterator[tuple[Lab, Machines]]:
    """Start a Flink with a task manager on each machine."""
    with ExitStack() as stack:
        machines = stack.enter_context(Machines(MACHINES, MEGABITS))
        own = {"taskmanager.cpu.cores": CORES, **ADAPTIVE, **settings}
        lab = stack.enter_context(Lab(folder, host=GATEWAY, settings=own))
        for name in MACHINES:
            lab.start(name, host=machines.address(name), inside=machines.inside(name))
        lab.wait_for(set(MACHINES))
        yield lab, machines


def put(url: str, body: str) -> None:
    """Send a JSON document by PUT."""
    head = {"Content-Type": "application/json"}
    asked = urllib.request.Request(url, body.encode(), head, method="PUT")
    urllib.request.urlopen(asked, timeout=PATIENCE).close()


def wait_for_slots(url: str, job: str, slots: int) -> float:
    """Wait until all vertices run with so many subtasks, and return the seconds that it took.

    Raises
    ------
    LabError
        They do not in time.
    """
    client, began = WebClient(url, PATIENCE), time.monotonic()
    while time.monotonic() - began < _LONG:
        vertices = client.get(f"jobs/{job}")["vertices"]
        if vertices and all(vertex["tasks"]["RUNNING"] == slots for vertex in vertices):
            return time.monotonic() - began
        time.sleep(0.2)
    raise LabError(f"not in {_LONG:g} s: {slots} subtasks of each vertex run")


def run(folder: Path, seconds: float) -> tuple[float, float, float]:
    """Scale the job; return orders/s at first, at twice the input before, and after."""
    begin = time.monotonic()
    files = {part: str(folder / f"{part}.json") for part in ("instance", "plan", "rescale")}
    rate = Phases(folder / "rate", ORDERS, FACTOR * ORDERS, 0.0)
    rate.set(rate.low)

    def step(text: str) -> None:
        tell(f"[{time.monotonic() - begin:5.1f} s, load {os.getloadavg()[0]:.0f}] {text}")

    with flink_up(folder, {}) as (lab, machines):
        arguments = (*[str(SLOTS)] * 5, "600", "0", _ROUNDS, _ROUNDS, str(rate.file))
        _, job = start_unplanned(lab, arguments)
        wait_for_slots(lab.url, job, SLOTS)
        time.sleep(_COMPILED)
        machines.limit(CORES)
        time.sleep(_SETTLED)

        def measured() -> float:
            return Running(lab.url, job).rate_during(lambda: time.sleep(seconds))

        options = ("cores=configured", "cpu=process", "place=slots", f"interval={seconds:g}")
        words = [word for option in options for word in ("--option", option)]
        low = measured()
        step(f"{low:,.0f} orders/s at an input of {rate.low:,.0f}")
        command("import", "flink", lab.url, *words, "-o", files["instance"], "-q")
        rate.set(rate.high)
        time.sleep(_SETTLED)
        before = measured()
        step(f"{before:,.0f} orders/s at an input of {rate.high:,.0f}")
        command("scale", files["instance"], "--target-rate", str(FACTOR), "-o", files["plan"])
        command("export", "flink", files["instance"], files["plan"], "-o", files["rescale"])
        (slots,) = json.loads(Path(files["plan"]).read_text())["parallelism"].values()
        machines.limit(None)  # as for every start: only the steady state is measured
        put(f"{lab.url}/jobs/{job}/resource-requirements", Path(files["rescale"]).read_text())
        took = wait_for_slots(lab.url, job, slots)
        step(f"rescaled from {SLOTS} to {slots} slots in {took:.1f} s")
        time.sleep(_COMPILED)
        machines.limit(CORES)
        time.sleep(_SETTLED)
        after = measured()
        nodes = len(set(Running(lab.url, job).assignment().values()))
        step(f"{after:,.0f} orders/s at an input of {rate.high:,.0f}, on {nodes} task managers")
    return low, before, after


def main() -> int:
    """Run the laboratory; where it cannot be run, say why and end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab-scale", help="for logs and files")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a measurement")
    args = parser.parse_args()
    reason = reason_against()
    if reason is not None:
        tell(f"lab-scale: skipped: {reason}")
        return 0
    folder = Path(args.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        low, before, after = run(folder, args.seconds)
    except (LabError, InvalidInput) as error:
        tell(f"lab-scale: failed: {error}")
        return 1
    share = after / low
    tell(f"lab-scale: {before / low:.2f} times the rate before, {share:.2f} times after")
    return int(share < 0.95 * FACTOR)


if __name__ == "__main__":
    sys.exit(main())
