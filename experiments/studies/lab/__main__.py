"""The whole loop on a cluster of its own: ``make lab``.

A job is started as Flink places it, imported, planned, submitted again unchanged with the plan's
groups, and verified; a task manager is killed and started again, and all is verified once more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.cluster import MAIN, PATIENCE, Lab, LabError, build_jar
from optim.errors import InvalidInput
from optim.exit_codes import ExitCode
from streamplace.cli.main import main as streamplace
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Sheet
from streamplace.clusters.flink.fetch import wait_until_running
from streamplace.clusters.flink.submit import FlinkClient

if TYPE_CHECKING:
    from collections.abc import Sequence

ARGUMENTS = ("2", "4", "4", "2", "1", "600", "400")
"""Of the job: 13 subtasks, 400 orders of 600 bytes a second."""
MANAGERS = ("tm1", "tm2", "tm3", "tm4")
_LONG = 300.0
"""Most seconds for subtasks to run."""
_WARM = 10.0
"""Seconds from all running to the import: rates of the very start say little."""


def command(*arguments: str) -> str:
    """Run a command of streamplace, and return what it printed.

    A solve may end with the best plan there is, although it carries less than the input.

    Raises
    ------
    LabError
        It failed.
    """
    tell(f"$ streamplace {' '.join(arguments)}")
    out = StringIO()
    with redirect_stdout(out):
        code = streamplace(arguments)
    text = out.getvalue()
    sys.stdout.write(text)
    if code and (arguments[0], code) != ("solve", ExitCode.NO_PLAN):
        raise LabError(f"streamplace {arguments[0]} ended with {code}: see what it says above")
    return text


def tell(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def start_unplanned(lab: Lab, arguments: Sequence[str] = ARGUMENTS) -> tuple[Path, str]:
    """Build the job, and submit it as ``flink run`` would."""
    host, _, port = lab.url.removeprefix("http://").partition(":")
    with FlinkClient(host, int(port), {}) as client:
        jar = build_jar(client, lab.folder)
        job = client.submit(client.graph_of_jar(str(jar), MAIN, arguments))
    return jar, job


def start_with(lab: Lab, job: str, sheet: Sheet) -> None:
    """Cancel a job, and start the task managers anew with a sheet's quotas."""
    lab.cancel(job)
    for name in MANAGERS:
        lab.kill(name)
    lab.wait_for(set())  # else those that are gone would be taken for those that come
    for name in MANAGERS:
        lab.start(name, sheet.configuration(name))
    lab.wait_for(set(MANAGERS))


def submit_with(lab: Lab, sheet: Path, jar: Path, arguments: Sequence[str] = ARGUMENTS) -> str:
    """Submit the job as a sheet has it, wait until it runs, and return its id."""
    words = ("submit", "flink", lab.url, str(sheet), "--jar", str(jar), "--class", MAIN)
    patience = ("--timeout", f"{PATIENCE:g}", "--wait", f"{_LONG:g}")
    command(*words, *patience, "--args", *arguments)
    jobs = WebClient(lab.url, PATIENCE).get("jobs/overview")["jobs"]
    return next(str(job["jid"]) for job in jobs if job["state"] == "RUNNING")


def run(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Go through the loop, and return both verdicts."""
    begin = time.monotonic()
    names = {part: str(folder / f"{part}.json") for part in ("instance", "plan", "sheet")}

    def step(text: str) -> None:
        tell(f"[{time.monotonic() - begin:5.1f} s] {text}")

    with Lab(folder) as lab:
        client = WebClient(lab.url, PATIENCE)
        for name in MANAGERS:
            lab.start(name)
        lab.wait_for(set(MANAGERS))
        step("job manager and task managers are up")
        jar, job = start_unplanned(lab)
        if not wait_until_running(client, job, _LONG):
            raise LabError("the unplanned job does not run")
        step("the job runs as Flink places it")
        time.sleep(_WARM)
        patience = ("--timeout", f"{PATIENCE:g}")
        # its task managers share one machine, and are configured as if each had its own
        cores = ("--option", "cores=configured")
        command("import", "flink", lab.url, *cores, "-o", names["instance"], *patience)
        command("solve", names["instance"], "-o", names["plan"], "--time-limit", "20", "-q")
        command("export", "flink", names["instance"], names["plan"], "-o", names["sheet"], "-q")
        step("imported, planned, exported")
        sheet = Sheet.from_dict(json.loads(Path(names["sheet"]).read_text()))
        start_with(lab, job, sheet)
        step("task managers are up with their quotas")
        submit_with(lab, Path(names["sheet"]), jar)
        first = verdict(lab, names["sheet"])
        victim = max(sheet.task_managers, key=lambda name: len(sheet.configuration(name)))
        lab.kill(victim)
        lab.wait_for(set(MANAGERS) - {victim})
        ends = time.monotonic() + PATIENCE  # job and cluster have heartbeats of their own
        while _states(client) == {"RUNNING"}:
            if time.monotonic() >= ends:
                raise LabError(f"the job does not notice that {victim} is gone")
            time.sleep(0.3)
        step(f"{victim} was killed with -9, and the job waits for it")
        lab.start(victim, sheet.configuration(victim))
        second = verdict(lab, names["sheet"])
        step("verified again")
    return first, second


def _states(client: WebClient) -> set[str]:
    """Return the states of jobs that have not been cancelled."""
    return {job["state"] for job in client.get("jobs/overview")["jobs"]} - {"CANCELED"}


def verdict(lab: Lab, sheet: str) -> dict[str, Any]:
    """Return what ``streamplace verify`` says, also where it says no."""
    out = StringIO()
    patience = ["--timeout", f"{PATIENCE:g}", "--wait", f"{_LONG:g}"]
    arguments = ["verify", "flink", lab.url, sheet, "--json", *patience]
    tell(f"$ streamplace {' '.join(arguments)}")
    with redirect_stdout(out):
        code = streamplace(arguments)
    if code not in (0, 1):
        raise LabError(f"streamplace verify ended with {code}")
    tell(out.getvalue().strip())
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def main() -> int:
    """Run the laboratory; the last line says how much was as planned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab", help="for logs and files")
    args = parser.parse_args()
    folder = Path(args.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        first, second = run(folder)
    except (LabError, InvalidInput) as error:
        tell(f"lab: failed: {error}")
        return 1
    tell(
        f"lab: {first['as_planned']} of {first['planned']} as planned, "
        f"after kill -9 {second['as_planned']} of {second['planned']}"
    )
    return 0 if first["holds"] and second["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
