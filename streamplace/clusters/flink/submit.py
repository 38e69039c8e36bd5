"""Submitting a job so that it runs as planned: all is checked before anything is sent.

Flink's own client runs in a JVM of its own: a program becomes a job graph, is regrouped, and sent.
Only public classes of the shipped jars are called, over py4j; no jar of ours, no compiler. The
program is run as ``flink run`` does, so that nothing of it has to change.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.flink.exporter import Group, Sheet, check_parallelism
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streamplace.clusters.flink.pages import TaskManager


_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|`(?:[^`]|``)*`|"(?:[^"]|"")*")"""
    r"""|(?P<comment>--[^\n]*|/\*(?!\+).*?\*/)|(?P<end>;)""",
    re.DOTALL,
)
_SET = re.compile(r"SET\s+'([^']+)'\s*=\s*'((?:[^']|'')*)'", re.IGNORECASE | re.DOTALL)
_FRAME = re.compile(
    r"(EXECUTE\s+STATEMENT\s+SET\s+BEGIN|BEGIN\s+STATEMENT\s+SET|END)\s*", re.IGNORECASE
)
_INSERT = re.compile(r"(EXECUTE\s+)?(?=INSERT\s)", re.IGNORECASE)
_OWN_JOB = re.compile(
    r"(CREATE|REPLACE)(\s+OR\s+REPLACE)?(\s+TEMPORARY)?\s+TABLE\b.*\bAS\s+SELECT\b", re.I | re.S
)
_STATEMENT = 60
"""Characters of a statement that are shown."""
_CPU, _HEAP = 0.01, 1
"""Cores and MB a slot asks for: compulsory, and small, as the quota alone is to bind."""
_EXIT_TIMEOUT = 3.0
_MAX_MESSAGE = 500
"""Characters of what an exception says."""
_OPENED = (
    "lang net io nio lang.reflect text time util util.concurrent util.concurrent.atomic "
    "util.concurrent.locks"
)
_PACKAGE = "pip install 'streamplace[flink]', or --flink-home DIR of an unpacked Flink 2"
_SHOWN = 5


class Script(NamedTuple):
    """Settings, statements that define, and those that insert: all of these are one job."""

    settings: dict[str, str]
    definitions: list[str]
    inserts: list[str]


def read_script(text: str) -> Script:
    """Part a script, as Flink's SQL client takes it, into its statements.

    Raises `InvalidInput`: it inserts nothing, starts a job beside the inserts, or asks a question,
        whose answer would have nowhere to go.
    """
    script = Script({}, [], [])
    for statement in _statements(text):
        # BEGIN STATEMENT SET; and END; frame the inserts, which are one job here anyway
        rest = _FRAME.sub("", statement, count=1) if _FRAME.match(statement) else statement
        setting = _SET.fullmatch(rest)
        insert = _INSERT.match(rest)
        if setting:
            script.settings[setting[1]] = setting[2].replace("''", "'")
        elif insert:
            script.inserts.append(rest[insert.end() :])
        elif re.match(r"(SELECT|WITH|VALUES)\b", rest, re.IGNORECASE):
            remedy = "insert its rows into a table"
            raise InvalidInput(Problem("--sql", rest[:_STATEMENT], "writes no table", remedy))
        elif _OWN_JOB.match(_TOKEN.sub("", rest)):
            remedy = "create the table, then insert into it: nothing was submitted"
            reason = "starts a job of its own, without the plan"
            raise InvalidInput(Problem("--sql", rest[:_STATEMENT], reason, remedy))
        elif rest:
            script.definitions.append(rest)
    if not script.inserts:
        raise InvalidInput(Problem("--sql", None, "has no INSERT: there is no job in it"))
    return script


def _statements(text: str) -> list[str]:
    """Split at semicolons outside quotes and comments; comments that are no hints are dropped."""
    statements, current, at = [], "", 0
    for token in _TOKEN.finditer(text):
        current += text[at : token.start()]
        at = token.end()
        if token["quoted"]:
            current += token["quoted"]
        elif token["end"]:
            statements.append(current.strip())
            current = ""
        else:
            current += " "
    statements.append((current + text[at:]).strip())
    return [statement for statement in statements if statement]


def java_options() -> list[str]:
    """Return what a JVM from 17 on needs: Flink's ``config.yaml`` has it for its processes."""
    exported = ("rmi/sun.rmi.registry", "security.jgss/sun.security.krb5")
    return [
        *(f"--add-exports=java.{module}=ALL-UNNAMED" for module in exported),
        *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED.split()),
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    ]


def flink_jars(home: str | None = None) -> list[str]:
    """Return Flink's jars: of an unpacked distribution, or of the package."""
    if home is not None:
        folder = Path(home) / "lib"
    else:
        try:
            from pyflink import version
        except ImportError:
            reason = "are not installed"
            raise InvalidInput(Problem("Flink's classes", None, reason, _PACKAGE)) from None
        folder = Path(version.__file__).parent / "lib"
    jars = sorted(str(path) for path in folder.glob("*.jar"))
    if not any(Path(jar).name.startswith("flink-dist") for jar in jars):
        raise InvalidInput(Problem(str(folder), None, "holds no flink-dist*.jar", _PACKAGE))
    return jars


class FlinkClient:
    """A JVM with Flink's client, for one submission; a context manager.

    SQL names its vertices by a counter of the JVM, so that a second compilation in it would give
    other names.

    `host`, `port`: of the job manager's REST interface.
    `settings`: Flink's configuration keys, beyond the address.
    `home`: an unpacked Flink; the package's classes if not given.
    """

    def __init__(
        self, host: str, port: int, settings: Mapping[str, str], home: str | None = None
    ) -> None:
        from streamplace.java import find_java

        jars = flink_jars(home)
        try:
            from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        except ImportError:
            raise InvalidInput(Problem("py4j", None, "is not installed", _PACKAGE)) from None
        self._address = {"rest.address": host, "rest.port": str(port)}
        self._address["jobmanager.rpc.address"] = host
        self._settings = dict(settings)
        gate, self._process = launch_gateway(
            classpath=os.pathsep.join(jars),
            java_path=str(find_java().home / "bin" / "java"),
            javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *java_options()],
            die_on_exit=True,
            return_proc=True,
        )
        parameters = GatewayParameters(port=gate, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self.jvm: Any = self._gateway.jvm
        self._flink: Any = self.jvm.org.apache.flink

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the JVM: Flink's client leaves threads behind that would keep it."""
        self._gateway.shutdown()
        self._process.stdin.close()
        try:
            self._process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def array(self, kind: Any, values: Sequence[Any]) -> Any:
        """Return a Java array."""
        array = self._gateway.new_array(kind, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def graph_of_jar(self, jar: str, main: str | None, arguments: Sequence[str]) -> Any:
        """Run a program's ``main`` up to where it would submit, and return its job graph."""
        conf = self._configuration()
        program = self._flink.client.program.PackagedProgram.newBuilder()
        program = program.setJarFile(self.jvm.java.io.File(jar)).setConfiguration(conf)
        if main is not None:
            program = program.setEntryPointClassName(main)
        built = program.setArguments(self.array(self.jvm.java.lang.String, arguments)).build()
        # as `flink run`: what the program sets itself goes first
        parallelism = int(self._settings.get("parallelism.default", 1))
        utilities = self._flink.client.program.PackagedProgramUtils
        return utilities.createJobGraph(built, conf, parallelism, False)

    def graph_of_sql(self, script: Script) -> Any:
        """Compile a script, and return the job graph of all its inserts."""
        self._settings |= script.settings
        environments = self._flink.streaming.api.environment.StreamExecutionEnvironment
        environment = environments.getExecutionEnvironment(self._configuration())
        tables = self._flink.table.api.bridge.java.StreamTableEnvironment.create(environment)
        for key, value in self._settings.items():
            tables.getConfig().set(key, value)
        for statement in script.definitions:
            tables.executeSql(statement)
        inserts = tables.createStatementSet()
        for statement in script.inserts:
            inserts.addInsertSql(statement)
        inserts.attachAsDataStream()
        return environment.getStreamGraph().getJobGraph()

    def vertices_of(self, graph: Any) -> dict[str, tuple[str, int]]:
        """Return the vertices of a job graph: id to name and parallelism."""
        return {
            vertex.getID().toString(): (vertex.getName(), vertex.getParallelism())
            for vertex in graph.getVerticesSortedTopologicallyFromSources()
        }

    def regroup(self, graph: Any, sheet: Sheet, groups: Sequence[Group], managed: int) -> None:
        """Give the vertices their slot sharing groups, each with one unit of its resource.

        `groups`: those of this job; they name all of its vertices.
        `managed`: managed memory of a slot, MB: what RocksDB, Python and batch operators live on.
        """
        types = self._flink.runtime.clusterframework.types
        sharing: dict[str, Any] = {}
        for group in groups:
            name = sheet.resource(group)
            unit = self._flink.api.common.resources.ExternalResource(name, 1.0)
            # one unit of the group's own resource a slot: quotas bind, CPU and heap do not
            profile = types.ResourceProfile.newBuilder().setCpuCores(_CPU)
            profile = profile.setTaskHeapMemoryMB(_HEAP).setManagedMemoryMB(managed)
            sharing_group = self._sharing_group(name)
            sharing_group.setResourceProfile(profile.setExtendedResource(unit).build())
            sharing |= dict.fromkeys(group.vertices, sharing_group)
        for vertex in graph.getVerticesSortedTopologicallyFromSources():
            vertex.setSlotSharingGroup(sharing[vertex.getID().toString()])

    def part(self, graph: Any) -> None:
        """Give each vertex a slot sharing group of its own, without any quota."""
        for vertex in graph.getVerticesSortedTopologicallyFromSources():
            vertex.setSlotSharingGroup(self._sharing_group(vertex.getID().toString()))

    def _sharing_group(self, name: str) -> Any:
        group = self._flink.runtime.jobmanager.scheduler.SlotSharingGroup()
        group.setSlotSharingGroupName(name)
        return group

    def submit(self, graph: Any) -> str:
        """Send a job graph, and return the id of its job."""
        standalone = self._flink.client.deployment.StandaloneClusterId.getInstance()
        rest = self._flink.client.program.rest.RestClusterClient(self._configuration(), standalone)
        try:
            return str(rest.submitJob(graph).get().toString())
        finally:
            rest.close()

    def _configuration(self) -> Any:
        conf = self._flink.configuration.Configuration()
        for key, value in (self._settings | self._address).items():
            conf.setString(key, value)
        return conf


def reason_of(error: Any) -> str:
    """Return what a Java exception says, with its last cause."""
    first = last = error.java_exception
    # Flink wraps: the first says what failed, the last why
    while (cause := last.getCause()) is not None:
        last = cause
    texts = [str(one.toString()).strip().partition("\n")[0][:_MAX_MESSAGE] for one in (first, last)]
    return "; ".join(dict.fromkeys(texts))


def submit(
    url: str,
    sheet: Sheet,
    settings: Mapping[str, str],
    make: Callable[[FlinkClient], Any],
    *,
    home: str | None = None,
    managed: int = 0,
    dry_run: bool = False,
) -> tuple[str | None, list[Group]]:
    """Make a job graph, give it the plan's groups, and send it.

    `make`: makes the graph of the user's program.
    `dry_run`: do all but send it.
    Returns: the job's id, or ``None`` for a dry run; and its groups.
    Raises `InvalidInput`: the program fails, is not the one that was planned, or the cluster does
        not take it.
    """
    from py4j.protocol import Py4JJavaError

    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        remedy = "http://HOST:PORT, as jobs are not sent through proxies or TLS"
        raise InvalidInput(Problem("URL", url, "is no address to submit to", remedy))
    with FlinkClient(parts.hostname, parts.port or 80, settings, home) as client:
        step = "the program"
        try:
            graph = make(client)
            groups = groups_of_job(sheet, client.vertices_of(graph))
            client.regroup(graph, sheet, groups, managed)
            step = "the cluster"
            return (None if dry_run else client.submit(graph)), groups
        except Py4JJavaError as error:
            reason = f"fails: {reason_of(error)}"
            raise InvalidInput(Problem(step, None, reason, "nothing was submitted")) from None


def groups_of_job(sheet: Sheet, vertices: Mapping[str, tuple[str, int]]) -> list[Group]:
    """Return the groups of the planned job that has just these vertices.

    Raises `InvalidInput`: there is none, or a vertex has another parallelism: nothing may be
        submitted.
    """
    differences: list[set[str]] = []
    for groups in sheet.by_job.values():
        differences.append({v for group in groups for v in group.vertices} ^ vertices.keys())
        if not differences[-1]:
            remedy = "-D parallelism.default=N, or import and solve again; nothing was submitted"
            check_parallelism(groups, {v: width for v, (_, width) in vertices.items()}, "", remedy)
            return groups
    # vertices of the program that is nearest, to name what differs
    names = {v: n for group in sheet.groups for v, n in group.vertices.items()}
    names |= {identity: name for identity, (name, _) in vertices.items()}
    nearest = sorted(min(differences, key=len, default=()))
    differing = listed([f"{names.get(v, '')} ({v})" for v in nearest], _SHOWN)
    reason = f"is not the one that was planned: only one of both has {differing}"
    remedy = "import and solve for this program; nothing was submitted"
    raise InvalidInput(Problem("the program", None, reason, remedy))


def check_quotas(sheet: Sheet, groups: list[Group], managers: list[TaskManager]) -> None:
    """See that the task managers offer what the plan takes, and that it is free."""
    by_name = {manager.id: manager for manager in managers}
    ledger = Ledger()
    for group in groups:
        name = sheet.resource(group)
        for manager in sorted(by_name.keys() | group.counts.keys()):
            planned = group.counts.get(manager, 0)
            task_manager = by_name.get(manager)
            total = task_manager.totalResource if task_manager else None
            free = task_manager.freeResource if task_manager else None
            offered = total.amount(name) if total else 0.0
            where = f"task manager {manager}: {name}"
            if planned and task_manager is None:
                remedy = "start it, with its block of the export"
                ledger.problem(where, None, "is not there", remedy)
            # more would let Flink place otherwise, so that it has to be just as many
            elif offered != planned:
                reason = f"are offered, the plan takes {planned}"
                remedy = "give it its block of the export, and restart it; nothing was submitted"
                ledger.problem(where, f"{offered:g}", reason, remedy)
            elif free is not None and free.amount(name) < planned:
                reason = f"are free, the plan takes {planned}"
                remedy = "cancel the job that runs there; nothing was submitted"
                ledger.problem(where, f"{free.amount(name):g}", reason, remedy)
    ledger.check()
