"""A running Kafka, asked and changed through its Admin interface.

By the package kafka-python: of the clients for Python the one with reassignments, elections, log
directories and fenced brokers.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import as_number, as_whole
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.kafka import pages
from streamplace.clusters.kafka.cluster import Broker, Key, Partition, some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

EVERY = ""
"""Name of the configuration that all brokers share unless one has its own."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Keys of a broker's configuration: bytes a second of throttled replicas."""
SENDERS, RECEIVERS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
"""Keys of a topic's configuration: which replicas are throttled, ``PARTITION:BROKER,…``."""
MIN_ISR = "min.insync.replicas"
_ADDRESS = re.compile(r"[^/\s,]+:\d{1,5}(?:,[^/\s,]+:\d{1,5})*")
_NO_TEXT = ("ssl_context", "ssl_check_hostname", "sasl_oauth_token_provider", "sasl_kerberos_name")
_JAAS = re.compile(r"\b(username|password)\s*=\s*\"([^\"]*)\"")


class Unreachable(InvalidInput):
    """Kafka does not answer, or not as it should; a later question may be answered."""


def is_address(source: str) -> bool:
    """Whether a source is an address of brokers and no file."""
    return bool(_ADDRESS.fullmatch(source)) and not Path(source).exists()


class _EveryBroker(str):
    """The empty name, which the client sends to any broker: it routes by ``int(name)``."""

    def __new__(cls, route: int) -> _EveryBroker:
        instance = super().__new__(cls, EVERY)
        instance.route = route
        return instance

    route: int

    def __int__(self) -> int:
        return self.route


class KafkaAdmin:
    """What is asked of a running cluster, and sent to it; any method raises `Unreachable`.

    `address`: ``HOST:PORT``, or several with commas.
    `timeout`: seconds that an answer may take.
    `config`: a file of ``key=value`` for a secured cluster, as Kafka's tools take it.
    Raises `InvalidInput`: nothing answers there, or it cannot be spoken to.
    """

    def __init__(self, address: str, timeout: float = 10.0, config: str | None = None) -> None:
        import kafka.admin
        import kafka.errors

        ports = [one.rpartition(":")[2] for one in address.split(",")]
        if not _ADDRESS.fullmatch(address) or not all(0 < int(port) < 65536 for port in ports):
            remedy = "HOST:PORT of a broker, or several with commas"
            raise InvalidInput(Problem("SOURCE", address, "is no address", remedy))
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # failures are reported by us
        self.address = address
        self._api: Any = kafka.admin
        self._errors: Any = kafka.errors
        settings = {} if config is None else client_settings(config, self._api)
        milliseconds = max(1, round(1000 * timeout))
        self._settings: dict[str, Any] = {
            "bootstrap_servers": address.split(","),
            "client_id": "streamplace",
            "request_timeout_ms": milliseconds,
            "bootstrap_timeout_ms": milliseconds,
            **settings,
        }
        self._open: Any = None
        self.cluster()

    def __enter__(self) -> KafkaAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def _client(self) -> Any:
        """The client, made anew after a failure: it would go on asking a broker that has died."""
        if self._open is None:
            self._open = self._api.KafkaAdminClient(**self._settings)
            addresses = {
                f"{b['host']}:{b['port']}" for b in self._open.describe_cluster()["brokers"]
            }
            # all brokers that were seen: the one that was named may die
            servers = dict.fromkeys([*self._settings["bootstrap_servers"], *sorted(addresses)])
            self._settings["bootstrap_servers"] = list(servers)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Report what the client raises as `Unreachable`."""
        try:
            yield
        except self._errors.KafkaError as error:
            self._close()
            name = type(error).__name__.removesuffix("Error")
            # [Error 7] RequestTimedOutError: …, of which the text alone is for people
            lines = re.sub(r"^\[Error \d+\] \w+: ?", "", str(error)).splitlines()
            reason = f"does not answer as Kafka does: {': '.join([name, *lines[:1]])[:200]}"
            if "Timeout" in name:
                reason = "does not answer in time"
            remedy = (
                "is it a broker's listener that is reachable from here? One that asks for SASL or "
                "TLS needs --command-config FILE"
            )
            if "Authorization" in name:
                remedy = "ask as a user who may describe and alter the cluster"
            raise Unreachable(Problem(self.address, None, reason, remedy)) from None
        except (KeyError, TypeError) as error:
            reason = f"does not answer as Kafka does: a field is missing or null: {error}"
            raise Unreachable(Problem(self.address, None, reason, "which version is it?")) from None
        except (OSError, ValueError, RuntimeError) as error:
            self._close()
            reason = f"cannot be reached: {error}"
            raise Unreachable(Problem(self.address, None, reason, "HOST:PORT")) from None

    def cluster(self) -> str:
        """Return the cluster's id."""
        with self._asking():
            return str(self._client.describe_cluster()["cluster_id"])

    def brokers(self) -> dict[int, Broker]:
        """Return the registered brokers; fenced ones are not alive."""
        with self._asking():
            described = self._client.describe_cluster()["brokers"]
            return {
                b["broker_id"]: Broker(
                    b["broker_id"], b.get("rack"), not b.get("is_fenced"), host=b.get("host") or ""
                )
                for b in sorted(described, key=lambda b: b["broker_id"])
            }

    def partitions(self, ledger: Ledger | None = None) -> dict[Key, Partition]:
        """Return all partitions as ``--describe`` has them.

        Of one that is being reassigned the replicas are those of the old and the new list. The
        ledger takes a warning of topics that Kafka does not describe.
        """
        partitions: dict[Key, Partition] = {}
        with self._asking():
            topics = self._client.describe_topics()
            moving = {
                Key(at.topic, at.partition): reassignment
                for at, reassignment in self._client.list_partition_reassignments().items()
            }
            for topic in sorted(topics, key=lambda topic: topic["name"]):
                for one in sorted(topic["partitions"], key=lambda one: one["partition_index"]):
                    key = Key(topic["name"], one["partition_index"])
                    partitions[key] = _partition(key, one, moving.get(key))
        if ledger and (hidden := [t["name"] for t in topics if not t["partitions"]]):
            ledger.warn(
                f"Kafka does not describe topic {some(hidden)}, which is left out: it is being "
                "made or deleted, or this user may not describe it"
            )
        least = self.configs("topic", {key.topic for key in partitions}, [MIN_ISR])
        for key, partition in partitions.items():
            partition.min_isr = as_whole(least.get(key.topic, {}).get(MIN_ISR))
        return partitions

    def log_dirs(self, brokers: Collection[int], ledger: Ledger) -> pages.Logs:
        """Return what living brokers store; of one that stops answering nothing is known."""
        logs = pages.Logs({}, {}, {}, [])
        for broker in sorted(brokers):
            try:
                with self._asking():
                    described = self._client.describe_log_dirs(brokers=[broker])
                    folders = [_log_dir(folder) for one in described for folder in one["log_dirs"]]
            except Unreachable:
                folders = []
            if folders:
                logs.add(broker, folders)
            else:  # so Kafka answers one who may not describe the cluster, too
                ledger.warn(f"broker {broker} does not say what it stores: may this user ask it?")
        return logs

    def _resource(self, kind: str, name: str, configs: Any) -> Any:
        kinds = self._api.ConfigResourceType
        if kind == "broker" and name == EVERY:
            name = _EveryBroker(next(b for b, broker in self.brokers().items() if broker.alive))
        return self._api.ConfigResource(
            kinds.BROKER if kind == "broker" else kinds.TOPIC, name, configs
        )

    def configs(self, kind: str, names: Collection[str], keys: Sequence[str]) -> dict[str, Any]:
        """Return what is set of topics, or of brokers, by name and key.

        Of topics what holds, of brokers what is set for them alone, or for `EVERY`.
        """
        resources = [self._resource(kind, name, dict.fromkeys(keys)) for name in sorted(names)]
        if not resources:
            return {}
        with self._asking():
            described = self._client.describe_configs(resources, config_filter="all").get(kind, {})
        # a broker reports the rate that all share, too: that is not its own
        shared = "DYNAMIC_DEFAULT_BROKER_CONFIG"
        return {
            str(name): {
                k: e["value"]
                for k, e in entries.items()
                if e["value"] not in (None, "") and (name == EVERY or e["config_source"] != shared)
            }
            for name, entries in described.items()
        }

    def alter(self, kind: str, values: Mapping[str, Mapping[str, str | None]]) -> None:
        """Set keys of configurations by name; ``None`` deletes a key."""
        delete = (self._api.AlterConfigOp.DELETE, None)
        resources = [
            self._resource(kind, n, {k: delete if v is None else v for k, v in entries.items()})
            for n, entries in values.items()
        ]
        if not resources:
            return
        with self._asking():
            entries = self._client.alter_configs(
                resources, raise_on_unknown=False, incremental=True
            )
        for name, answer in entries.get(kind, {}).items():
            if answer != "OK":
                reason = f"the configuration of {kind} {name or 'defaults'} is refused: {answer}"
                raise Unreachable(Problem(self.address, None, reason, "may this user alter it?"))

    def reassign(self, lists: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        """Begin reassignments, or cancel them (``None``); return the refused, with the reason."""
        from kafka import TopicPartition

        if not lists:
            return {}
        reassignments = {
            TopicPartition(*key): None if brokers is None else list(brokers)
            for key, brokers in lists.items()
        }
        with self._asking():
            answers = self._client.alter_partition_reassignments(reassignments)
        # a cancel of what has ended by itself is no failure
        ended = self._errors.NoReassignmentInProgressError
        return {
            Key(at.topic, at.partition): error.__name__
            for at, error in answers.items()
            if error is not None and error is not ended
        }

    def elect(self, keys: Collection[Key]) -> None:
        """Elect preferred leaders; those that cannot be elected stay as they are."""
        topics: dict[str, list[int]] = {}
        for topic, number in keys:
            topics.setdefault(topic, []).append(number)
        if topics:
            with self._asking():
                # 0: preferred, the first replica of the list; 1 would be unclean
                self._client.elect_leaders(0, topics, raise_errors=False)


def _partition(key: Key, entry: Mapping[str, Any], moving: Mapping[str, Any] | None) -> Partition:
    """Return a partition of the metadata, and of the reassignment that is under way."""
    replicas, leader = list(entry["replica_nodes"]), entry["leader_id"]
    isr = [b for b in entry["isr_nodes"] if b in replicas]
    partition = Partition(*key, replicas, leader if leader in replicas else None, isr)
    # metadata has old and new replicas together; which are which the reassignment says
    if moving is not None:
        partition.replicas = list(moving["replicas"])
        partition.adding = tuple(moving["adding_replicas"])
        partition.removing = tuple(moving["removing_replicas"])
    return partition


def _log_dir(described: Mapping[str, Any]) -> pages.LogDir:
    stored = {
        Key(topic["name"], p["partition_index"]): as_number(p["partition_size"])
        for topic in described["topics"] or ()
        for p in topic["partitions"]
        if not p["is_future_key"]
    }
    sizes = {key: size for key, size in stored.items() if size is not None}
    total = as_number(described.get("total_bytes"))  # -1: not known
    return pages.LogDir(described["log_dir"], bool(described["error_code"]), total or 0.0, sizes)


def client_settings(name: str, api: Any) -> dict[str, str]:
    """Read a file of ``key=value`` as Kafka's tools take it, for the client.

    Raises `InvalidInput`: a line is no such pair, or a key that the client does not know.
    """
    ledger, settings = Ledger(), dict[str, str]()
    supported = {
        key.replace("_", "."): key
        for key in api.KafkaAdminClient.DEFAULT_CONFIG
        if key.startswith(("ssl_", "sasl_", "security_")) and key not in _NO_TEXT
    }
    for number, line in enumerate(read_text(Path(name)).splitlines(), 1):
        key, mark, value = (part.strip() for part in line.partition("="))
        where = f"{name}:{number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not mark:
            ledger.problem(where, line.strip()[:60], "is no key=value")
        elif key == "sasl.jaas.config":
            for word, credential in _JAAS.findall(value):
                settings[f"sasl_plain_{word}"] = credential
        elif key in supported:
            settings[supported[key]] = value
        else:
            ledger.problem(
                where, key[:60], "is not supported", f"one of {', '.join(sorted(supported))}"
            )
    ledger.check()
    return settings
