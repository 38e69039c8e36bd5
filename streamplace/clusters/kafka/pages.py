"""What Kafka's own tools print, read into plain tables; every problem by file and line.

Formats: ``kafka-topics.sh --describe``, ``kafka-log-dirs.sh --describe``, ``kafka-cluster.sh
list-endpoints``, the current assignment as ``kafka-reassign-partitions.sh`` prints it, and two
files that no tool of Kafka writes: brokers with racks and capacities, and rates.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import PlainValidator

from optim.errors import InvalidInput, Problem, problems_in
from optim.format.document import Fault, parse_json
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import (
    Amount,
    Many,
    MaybeNumber,
    MaybeText,
    Number,
    Page,
    Text,
    Whole,
    as_number,
    as_whole,
    is_whole,
    needed,
    read_page,
    words,
)
from streamplace.clusters.exchange.sources import csv_rows
from streamplace.clusters.kafka.cluster import Broker, Key, Partition, some

if TYPE_CHECKING:
    from collections.abc import Sequence


CAPACITIES = ("disk", "nw_in", "nw_out", "cpu")
RATES = ("bytes_in", "bytes_out", "cpu")
_FIELD = re.compile(
    r"(?:^|(?<=\s))(Topic|TopicId|PartitionCount|ReplicationFactor|Configs|Partition|Leader|Replicas"
    r"|Isr|Elr|LastKnownElr|Offline|Adding Replicas|Removing Replicas|MarkedForDeletion):[ ]*"
)
_MIN_ISR = re.compile(r"\bmin\.insync\.replicas=(\d{1,9})\b")
_THROTTLED = re.compile(r"\b(?:leader|follower)\.replication\.throttled\.replicas=")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MOST_REPLICAS = 1000
EXPORT = "`streamplace export kafka INSTANCE PLAN -o FILE` writes it"
_SAVE = "save what kafka-topics.sh --describe prints, as it is"


def broker_number(value: Any) -> int | None:
    """Return a broker's number out of JSON; ``None`` for what is no whole number from 0."""
    number = as_whole(value)
    return number if number is not None and number < 2**31 else None


def brokers_in(value: Any) -> list[int]:
    """Return the brokers of a list out of JSON, or refuse what is none."""
    numbers = [broker_number(item) for item in value] if isinstance(value, list) else [None]
    brokers = [number for number in numbers if number is not None]
    if len(brokers) < len(numbers) or len(numbers) > _MOST_REPLICAS:
        raise Fault("is no list of brokers")
    return brokers


def _replicas(value: Any) -> list[int]:
    return brokers_in(value or None)  # an empty one is none


class LogDir(NamedTuple):
    """A log directory: its name, whether it failed, bytes of its disk, and of what it stores."""

    name: str
    failed: bool
    total: float
    sizes: dict[Key, float]


class Logs(NamedTuple):
    """What ``kafka-log-dirs.sh``, or the cluster itself, reports."""

    sizes: dict[Key, dict[int, float]]  # Bytes by partition and broker.
    failed: dict[int, list[str]]  # Broker to the names of its failed log dirs.
    #: Of brokers with failed dirs the share of dirs that work, and the bytes of their disks
    #: (``None`` where not reported).
    working: dict[int, tuple[float, float | None]]
    brokers: list[int]  # Those that answered.

    def add(self, broker: int, folders: Sequence[LogDir]) -> None:
        """Add what a broker reports."""
        self.brokers.append(broker)
        if failed := [folder.name[:60] for folder in folders if folder.failed]:
            self.failed[broker] = failed
            # 0 bytes stand for a size that was not reported (before Kafka 3.3)
            works = [folder.total for folder in folders if not folder.failed]
            total = sum(works) if works and all(works) else None
            self.working[broker] = len(works) / len(folders), total
        for folder in folders:
            for key, size in () if folder.failed else folder.sizes.items():
                self.sizes.setdefault(key, {})[broker] = size


# -- kafka-topics.sh --describe --------------------------------------------------------------------


def read_topics(text: str, path: str, ledger: Ledger) -> dict[Key, Partition]:
    """Read ``kafka-topics.sh --describe`` of any version: partitions in the order they stand."""
    partitions: dict[Key, Partition] = {}
    counts: dict[str, tuple[int, str]] = {}
    min_isr: dict[str, int] = {}
    throttled: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        fields = _fields(line)
        match = _MIN_ISR.search(fields.get("Configs", ""))
        if match and "Topic" in fields:
            min_isr[fields["Topic"]] = int(match[1])
        if _THROTTLED.search(fields.get("Configs", "")):
            throttled[fields.get("Topic", "")] = None
        if "Topic" not in fields:
            if line.strip():
                ledger.problem(where, line.strip()[:60], "is no line of --describe", _SAVE)
        elif not _TOPIC.fullmatch(fields["Topic"]):
            ledger.problem(where, fields["Topic"][:60], "is no topic", _SAVE)
        elif "Partition" in fields:
            _take_partition(fields, where, partitions, ledger)
        elif is_whole(fields.get("PartitionCount", "")):
            counts[fields["Topic"]] = int(fields["PartitionCount"]), where
    listed_counts = Counter(topic for topic, _ in partitions)
    for topic, (count, where) in counts.items():
        if listed_counts[topic] != count:
            reason = f"partitions are reported, and {listed_counts[topic]} are listed ({topic})"
            ledger.problem(where, count, reason, _SAVE)
    if not partitions:
        ledger.problem(path, None, "holds no partition", _SAVE)
    if throttled:
        ledger.warn(
            f"throttled replicas are set of topic {some(throttled)}: where no reassignment is "
            "under way, delete leader. and follower.replication.throttled.replicas"
        )
    for key, partition in partitions.items():
        partition.min_isr = min_isr.get(key.topic)
    return partitions


def _fields(line: str) -> dict[str, str]:
    parts = _FIELD.split(line)
    return {key: value.strip() for key, value in zip(parts[1::2], parts[2::2], strict=False)}


def _take_partition(
    fields: dict[str, str], where: str, partitions: dict[Key, Partition], ledger: Ledger
) -> None:
    name = f"{fields['Topic']}-{fields['Partition']}"
    if not is_whole(fields["Partition"]):
        ledger.problem(where, fields["Partition"][:60], "is no partition's number", _SAVE)
        return
    replicas, isr = (_brokers(fields.get(key)) for key in ("Replicas", "Isr"))
    if not replicas or isr is None:
        what = "Isr" if replicas else "Replicas"
        value = fields.get(what, "")[:60] or None
        reason = f"is no list of brokers: {what} of" if value else f"{what} is missing:"
        ledger.problem(where, value, f"{reason} {name}", _SAVE)
        return
    if len(set(replicas)) < len(replicas):
        ledger.problem(where, fields["Replicas"], f"lists a broker twice ({name})", _SAVE)
    if not set(isr) <= set(replicas):
        reason = f"are in sync, and not all among the replicas of {name}"
        ledger.problem(where, fields["Isr"], reason, _SAVE)
    leader = fields.get("Leader", "")
    if leader not in ("none", "-1") and not is_whole(leader):
        ledger.problem(where, leader[:60] or None, f"is no leader ({name})", "a number, or none")
    elif is_whole(leader) and int(leader) not in replicas:
        ledger.problem(where, int(leader), f"leads {name}, and is not among its replicas", _SAVE)
    adding, removing = (_brokers(fields.get(f"{k} Replicas", "")) for k in ("Adding", "Removing"))
    if adding is None or removing is None:
        reason = f"is no list of brokers: Adding or Removing Replicas of {name}"
        ledger.problem(where, None, reason, _SAVE)
    elif set(replicas) <= set(removing):
        reason = f"are all replicas of {name}, and being removed"
        ledger.problem(where, fields["Removing Replicas"], reason, _SAVE)
    key = Key(fields["Topic"], int(fields["Partition"]))
    if key in partitions:
        ledger.problem(where, name, "stands twice", "one --describe of the whole cluster")
    leader_number = int(leader) if is_whole(leader) else None
    partitions[key] = Partition(*key, list(replicas), leader_number, list(isr))
    partitions[key].adding, partitions[key].removing = adding or (), removing or ()


@functools.lru_cache(4096)
def _brokers(text: str | None) -> tuple[int, ...] | None:
    """Return the brokers of a list; ``None`` for what is none. The same few stand in every line."""
    words = [word.strip() for word in text.split(",")] if text else []
    return None if text is None or not all(map(is_whole, words)) else tuple(map(int, words))


# -- kafka-log-dirs.sh --describe ------------------------------------------------------------------


class _Stored(Page):
    partition: Text
    size: Number
    isFuture: Any = False
    offsetLag: Any = None


class _Directory(Page):
    logDir: Any = None
    error: Any = None
    totalBytes: MaybeNumber = None
    usableBytes: Any = None
    partitions: list[_Stored]


class _Directories(Page):
    broker: Whole
    logDirs: list[_Directory]


class _Logs(Page):
    version: Any = None
    brokers: list[_Directories]


def read_logs(text: str, path: str, ledger: Ledger) -> Logs:
    """Read bytes by partition and broker, and failed disks, out of ``kafka-log-dirs.sh``."""
    page: _Logs | None = read_page(_Logs, _json_in(text, path, ledger), path, ledger)
    logs = Logs({}, {}, {}, [])
    for i, broker in enumerate(page.brokers if page else ()):
        folders = []
        for j, folder in enumerate(broker.logDirs):
            sizes: dict[Key, float] = {}
            for k, stored in enumerate(folder.partitions):
                topic, _, number = stored.partition.rpartition("-")
                if not topic or not is_whole(number):
                    where = f"{path}.brokers[{i}].logDirs[{j}].partitions[{k}].partition"
                    ledger.problem(where, stored.partition, "is not of the form topic-number")
                elif stored.isFuture is not True:
                    sizes[Key(topic, int(number))] = stored.size
            fields = str(folder.logDir), bool(folder.error), folder.totalBytes or 0.0
            folders.append(LogDir(*fields, sizes))
        logs.add(broker.broker, folders)
    return logs


def _json_in(text: str, path: str, ledger: Ledger) -> Any:
    """Return the first JSON object that begins a line; tools print words before it."""
    at = re.search(r"^\s*\{", text, re.MULTILINE)
    if at is None:
        ledger.problem(path, text.strip()[:60] or None, "holds no JSON", "save the tool's output")
        ledger.check()
    assert at is not None
    # tools print JSON in one line, or over several, of which the last begins with }
    line = text[at.start() :].lstrip()
    whole = line if "\n}" in line else line.partition("\n")[0]
    return parsed(whole, path)


def parsed(text: str, path: str) -> Any:
    """Return JSON; problems name the file."""
    with problems_in(path):
        return parse_json(text.encode())


# -- brokers, rates, the current assignment --------------------------------------------------------


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Fault("is neither true nor false")
    return value


class _Capacity(Page):
    disk: Amount = None
    nw_in: Amount = None
    nw_out: Amount = None
    cpu: Amount = None


class _Broker(Page):
    id: Whole
    rack: MaybeText = None
    alive: Annotated[bool, PlainValidator(_truth)] = True
    capacity: _Capacity | None = None
    host: MaybeText = None


def read_brokers(text: str, path: str, ledger: Ledger) -> dict[int, Broker]:
    """Read brokers with racks and capacities."""
    page: list[_Broker] | None = read_page(list[_Broker], parsed(text, path), path, ledger)
    brokers: dict[int, Broker] = {}
    for i, entry in enumerate(page or ()):
        if entry.id in brokers:
            ledger.problem(f"{path}[{i}].id", entry.id, "stands twice", "one entry a broker")
        amounts = {} if entry.capacity is None else vars(entry.capacity)
        capacity = {name: amounts[name] for name in CAPACITIES if amounts.get(name) is not None}
        brokers[entry.id] = Broker(
            entry.id, entry.rack, entry.alive, capacity, host=entry.host or ""
        )
    return brokers


_FENCED = {"fenced": False, "unfenced": True}
_LIST = "save what kafka-cluster.sh list-endpoints --include-fenced-brokers prints"


def read_endpoints(text: str, path: str, ledger: Ledger) -> dict[int, Broker]:
    """Read brokers with host, rack and life out of ``kafka-cluster.sh list-endpoints``, Kafka 4."""
    brokers: dict[int, Broker] = {}
    headings: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words, where = line.split(), f"{path}:{number}"
        if words[:3] == ["ID", "HOST", "PORT"]:
            headings = words
        elif headings and words and is_whole(words[0]):
            if len(words) == len(headings) - 1 and "RACK" in headings:
                words.insert(headings.index("RACK"), "null")  # an empty rack
            columns = dict(zip(headings, words, strict=False))
            alive = _FENCED.get(columns.get("STATE", "unfenced"))
            if len(words) != len(headings) or alive is None:
                ledger.problem(where, line.strip()[:60], "is no broker's line", _LIST)
            elif int(words[0]) in brokers:
                ledger.problem(where, int(words[0]), "stands twice", "one line a broker")
            else:
                rack = columns.get("RACK")
                rack_name = None if rack == "null" else rack
                brokers[int(words[0])] = Broker(
                    int(words[0]), rack_name, alive, host=columns["HOST"]
                )
        elif headings and line.strip():
            ledger.problem(where, line.strip()[:60], "is no broker's line", _LIST)
    if not headings:
        ledger.problem(path, text.strip()[:60] or None, "lacks the line ID HOST PORT", _LIST)
    return brokers


def read_rates(
    text: str, path: str, ledger: Ledger
) -> tuple[list[str], dict[Key, dict[str, float]]]:
    """Read bytes in and out a second and CPU by partition; which of these columns there are."""
    with problems_in(path):
        lines = [(number, [value.strip() for value in row]) for number, row in csv_rows(text)]
    _, headings = lines[0] if lines else (1, [])
    columns = [name for name in RATES if name in headings]
    missing = [name for name in ("topic", "partition") if name not in headings]
    if missing or not columns:
        what = ", ".join(missing) or f"any of {', '.join(RATES)}"
        ledger.problem(f"{path}:1", ",".join(headings)[:60], f"lacks {what}", "a line of headings")
        return [], {}
    by_key: dict[Key, dict[str, float]] = {}
    for number, values in lines[1:]:
        row = dict(zip(headings, values, strict=False))
        where, name = f"{path}:{number}", f"{row.get('topic')}-{row.get('partition')}"
        rates = {column: as_number(row.get(column)) for column in columns}
        wrong = [column for column, rate in rates.items() if rate is None]
        if not row.get("topic") or not is_whole(row.get("partition", "")):
            ledger.problem(where, name[:60], "is no partition", "topic and its number")
        elif wrong:
            value = row.get(wrong[0], "")[:60]
            ledger.problem(where, value, f"is no rate: {wrong[0]} of {name}", "a number from 0")
        elif (key := Key(row["topic"], int(row["partition"]))) in by_key:
            ledger.problem(where, name, "stands twice", "one line a partition")
        else:
            by_key[key] = {k: r or 0.0 for k, r in rates.items()}
    return columns, by_key


class _Assigned(Page):
    unused = words("log_dirs")
    topic: Text
    partition: Annotated[int, needed(broker_number, "a partition's number")]
    replicas: Annotated[list[int], PlainValidator(_replicas)]


class AssignmentPage(Page):
    """Replica lists, as ``kafka-reassign-partitions.sh`` prints and takes them."""

    unused = words("version cluster")
    partitions: list[_Assigned]
    elected: Many[_Assigned] = ()


def exported(value: Any, path: str) -> tuple[dict[Key, list[int]], dict[Key, list[int]]]:
    """Read the JSON of a file of ``export kafka``, as `read_elected`.

    Raises `InvalidInput`: it is none.
    """
    ledger = Ledger()
    if not isinstance(value, dict) or "partitions" not in value:
        raise InvalidInput(Problem(path, None, "is no reassignment", EXPORT))
    lists = read_elected(value, path, ledger)
    ledger.check()
    return lists


def read_elected(
    value: Any, path: str, ledger: Ledger
) -> tuple[dict[Key, list[int]], dict[Key, list[int]]]:
    """Read new lists, and lists that stay and whose first is to be elected (our own field)."""
    page: AssignmentPage | None = read_page(AssignmentPage, value, path, ledger)
    lists, elected = dict[Key, list[int]](), dict[Key, list[int]]()
    for what, target in ("partitions", lists), ("elected", elected):
        for i, entry in enumerate(getattr(page, what) if page else ()):
            key = Key(entry.topic, entry.partition)
            if key in lists or key in target:
                ledger.problem(f"{path}.{what}[{i}]", str(key), "stands twice")
            target[key] = entry.replicas
    return lists, elected


def read_current(text: str, path: str, ledger: Ledger) -> dict[Key, list[int]]:
    """Read the current assignment out of what ``--generate`` or ``--execute`` print."""
    head, mark, rest = text.partition("urrent partition replica assignment")
    return read_elected(_json_in(rest if mark else head, path, ledger), path, ledger)[0]
