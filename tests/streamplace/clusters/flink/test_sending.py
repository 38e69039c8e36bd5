"""A program all the way to a job manager's door: a small server takes what Flink's client sends."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from experiments.studies.lab.flink import MAIN, build_jar
from streamplace.cli.main import main
from streamplace.clusters.flink.exporter import Group, Sheet
from streamplace.clusters.flink.submit import FlinkClient
from tests.streamplace.clusters.systems import JOB

pytestmark = pytest.mark.slow
ARGUMENTS = ["1", "2", "2", "1", "1", "100", "50"]


class JobManager(ThreadingHTTPServer):
    """Answers with pages; keeps what is posted, and has a running job from then on."""

    def __init__(self, pages: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages = pages
        self.posted: list[tuple[str, bytes]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: JobManager

    def do_GET(self) -> None:
        self._answer(self.server.pages.get(self.path.strip("/").removeprefix("v1/"), {}))

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, body))
        self._answer({"jobUrl": f"/jobs/{JOB}"}, 202)

    def _answer(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


def test_the_groups_are_in_what_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(
        "pyflink.version", reason="Flink is not installed: pip install 'streamplace[flink]'"
    )
    with FlinkClient("127.0.0.1", 9, {}) as client:
        jar = str(build_jar(client, tmp_path))
        vertices = client.vertices_of(client.graph_of_jar(jar, MAIN, ARGUMENTS))
    groups = [
        Group(operator=name, job=MAIN, vertices={key: name}, parallelism=n, counts={"tm1": n})
        for key, (name, n) in vertices.items()
    ]
    sheet = Sheet(tuple(groups), {})
    plan = tmp_path / "sheet.json"
    plan.write_text(json.dumps(sheet.to_dict()))
    quotas = {sheet.resource(group): float(group.parallelism) for group in groups}
    resources = {"extendedResources": quotas}
    manager = {"id": "tm1", "slotsNumber": 1, "totalResource": resources, "freeResource": resources}
    tasks = {"state": "RUNNING", "vertices": [{"tasks": {"RUNNING": 7}}]}
    server = JobManager(
        {
            "taskmanagers": {"taskmanagers": [manager]},
            "jobs/overview": {"jobs": [{"jid": "x", "name": "orders", "state": "RUNNING"}]},
            "jobs/x": tasks,
        }
    )
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        submit = ["submit", "flink", url, str(plan), "--jar", jar, "--class", MAIN, "--wait", "0"]
        quotas[sheet.resource(groups[0])] = 0.0
        assert main([*submit, "--args", *ARGUMENTS]) == 2
        assert "nothing was submitted" in capsys.readouterr().err
        assert server.posted == []
        quotas[sheet.resource(groups[0])] = 1.0
        main([*submit, "--args", *ARGUMENTS])
        path, body = server.posted[0]
        assert path == "/v1/jobs"
        for group in groups:
            assert sheet.resource(group).encode() in body
        assert Path(jar).read_bytes() in body  # the user's jar as it is
        assert len(capsys.readouterr().out.strip()) == 32
    finally:
        server.shutdown()
        server.server_close()
