"""A real Storm in one process: imported, planned, submitted, verified, reverted."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.studies.lab import storm_plugin
from experiments.studies.lab.runner import LabError
from optim import Instance, Plan
from streamplace.cli.main import main
from tests.experiments.sweep.test_cluster import free_port

pytestmark = pytest.mark.slow


SPEC = {
    "name": "words",
    "conf": {
        "topology.workers": 4,
        "topology.acker.executors": 2,
        "topology.stats.sample.rate": 1.0,
        "topology.disable.loadaware.messaging": True,
        "executor.metrics.frequency.secs": 2,
    },
    "components": [
        {"id": "lines", "executors": 2, "rate": 20},
        {"id": "split", "executors": 4, "from": "lines", "out": 3},
        {"id": "count", "executors": 3, "from": "split", "grouping": "fields", "out": 0},
    ],
}


def fetched(folder: Path, version: str = storm_plugin.STORM) -> Path:
    """Return the jars of a Storm, or skip."""
    if storm_plugin.jdk() is None:
        pytest.skip("needs a JDK")
    try:
        return storm_plugin.fetch(folder, version)
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the jars of the Storm that the plug-in is built against; fetched once."""
    return fetched(tmp_path_factory.mktemp("storm"))


@pytest.fixture(scope="module")
def nimbus(lib: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    storm_plugin.build(
        lib, folder / "lab.jar", Path(storm_plugin.__file__).parent / "StormLab.java"
    )
    (folder / "spec.json").write_text(json.dumps(SPEC))
    path = f"{lib}/*:{folder / 'lab.jar'}:{storm_plugin.JAR}"
    flags = ["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [
        "java",
        *flags,
        "-cp",
        path,
        "lab.StormLab",
        "local",
        "3",
        str(free_port()),
        str(folder / "spec.json"),
    ]
    log = folder / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while not (
                found := re.search(r"^nimbus (\d+)$", log.read_text(errors="replace"), re.M)
            ):
                assert process.poll() is None, log.read_text(errors="replace")[-2000:]
                time.sleep(0.3)
            yield f"nimbus://127.0.0.1:{found[1]}"
        finally:
            process.kill()


@pytest.mark.live
def test_the_plan_is_carried_out_and_reverted(
    nimbus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance, plan, placement = (str(tmp_path / f"{n}.json") for n in ("instance", "plan", "storm"))
    options = ["--option", "node=supervisor", "--option", "cpu=requested", "--timeout", "60"]
    # 40 lines/s, 120 words/s; what is acked: init 40, split 40, count 120, and 40 back to spouts
    full_rate = pytest.approx(400, rel=0.2)
    for _ in range(60):  # until all executors run and have reported their full rate
        if main(["import", "storm", nimbus, "-o", instance, "-q", *options]) == 2:
            assert "runs nowhere yet" in capsys.readouterr().err
            time.sleep(1)
            continue
        live = Instance.from_json(Path(instance).read_bytes())
        placed = live.num_tasks == 11 and (live.tasks.node >= 0).all()
        if placed and live.total_traffic == full_rate:
            break
        time.sleep(1)
    assert live.total_traffic == full_rate
    assert live.num_nodes == 3
    # all on two supervisors, one worker each and one more
    node = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]
    slot = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    Plan.from_indices(live, node, slot).save(plan)
    assert main(["export", "storm", instance, plan, "-o", placement, "-q"]) == 0
    capsys.readouterr()
    patience = ["--timeout", "60", "--wait", "240"]
    assert main(["submit", "storm", nimbus, placement, *patience]) == 0
    assert "11 of 11 executors as planned" in capsys.readouterr().out
    assert main(["verify", "storm", nimbus, placement, "--timeout", "60"]) == 0
    assert main(["revert", "storm", nimbus, "words", *patience]) == 0
    assert main(["verify", "storm", nimbus, placement, "--timeout", "60"]) == 1


PREPARED = """
import java.util.Map;
public class Prepared {
    public static void main(String[] args) {
        org.apache.storm.scheduler.IScheduler scheduler = new streamplace.PlanScheduler();
        scheduler.prepare(Map.of());
        System.out.println(scheduler.config());
    }
}
"""


def test_an_older_storm_prepares_it(tmp_path: Path) -> None:
    """Its own ZooKeeper does not run on Java 14 and newer, so that no cluster of it is started."""
    lib = fetched(tmp_path / "storm", storm_plugin.OLDER)
    (tmp_path / "Prepared.java").write_text(PREPARED)
    path = f"{lib}/*:{storm_plugin.JAR}:{tmp_path}"
    subprocess.run(["javac", "-cp", path, tmp_path / "Prepared.java"], check=True)
    done = subprocess.run(
        ["java", "-cp", path, "Prepared"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "{}\n", done.stderr[-2000:]


@pytest.mark.live
def test_the_jar_is_built_of_its_source(lib: Path, tmp_path: Path) -> None:
    built = tmp_path / "built.jar"
    storm_plugin.build(lib, built)
    if storm_plugin.jdk() != storm_plugin.JDK:
        pytest.skip(f"the jar in the package is that of JDK {storm_plugin.JDK}")
    assert built.read_bytes() == storm_plugin.JAR.read_bytes()
