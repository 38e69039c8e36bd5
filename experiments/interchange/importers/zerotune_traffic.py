"""Rates between instances, inferred: a graph tells what each sends and receives, not to whom."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from experiments.interchange.importers.zerotune_reading import Instance, Operator
    from experiments.interchange.ledger import Ledger
    from optim.format.tables import Floats

Pairs = list[tuple[int, int, float]]


def edge_pairs(
    sender: Operator, receiver: Operator, *, even: bool, ledger: Ledger
) -> tuple[float, dict[str, str], Pairs]:
    """Return the rate of a stream, its pattern as in an instance, and the rates of task pairs.

    Flink forwards one to one between operators of the same parallelism unless a key or the program
    says otherwise; in the measured graphs the hosts of both then agree one by one, which is asked
    for here too. All else is spread in proportion to what each sends and each receives, or, if
    `even`, evenly; then the pattern says it all and there are no pairs.
    """
    rate = float(sum(i.sent for i in sender.instances))
    if is_forward(sender, receiver):
        ledger.reading(
            "no key, the same parallelism and the same hosts: FORWARD, instances paired on each "
            "host by the order of their rates"
        )
        pairs = _pair_up(sender.instances, receiver.instances)
        if even:
            pairs = [(i, j, rate / len(pairs)) for i, j, _ in pairs]
        return rate, {"pattern": "one_to_one"}, pairs
    if even:
        ledger.reading("other streams: every pair of instances has the same rate")
        return rate, {}, []
    ledger.reading(
        "other streams: rates of pairs in proportion to what each sends and each receives"
    )
    shares = _received(receiver)
    pairs = [
        (i, j, instance.sent * share)
        for i, instance in enumerate(sender.instances)
        for j, share in enumerate(shares.tolist())
        if instance.sent * share > 0
    ]
    return rate, {}, pairs


def is_forward(sender: Operator, receiver: Operator) -> bool:
    """Whether a stream is forwarded one to one."""
    if receiver.keyed or sender.parallelism != receiver.parallelism:
        return False
    return Counter(i.host for i in sender.instances) == Counter(i.host for i in receiver.instances)


def _pair_up(senders: list[Instance], receivers: list[Instance]) -> Pairs:
    """Pair instances on each host, the busiest with the busiest."""

    def ranked(instances: list[Instance], rates: list[float]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i in sorted(range(len(instances)), key=lambda i: (-rates[i], i)):
            found.setdefault(instances[i].host, []).append(i)
        return found

    out = ranked(senders, [i.sent for i in senders])
    into = ranked(receivers, [i.received or 0.0 for i in receivers])
    pairs = [
        (i, j, senders[i].sent) for host in out for i, j in zip(out[host], into[host], strict=True)
    ]
    return sorted(pair for pair in pairs if pair[2] > 0)


def _received(receiver: Operator) -> Floats:
    """Return the share of each instance in what its operator receives; even where unknown."""
    count = len(receiver.instances)
    known = [i.received for i in receiver.instances]
    total = sum(r for r in known if r is not None)
    if not total or any(r is None for r in known):
        return np.full(count, 1.0 / max(1, count))
    return np.array(known, dtype=np.float64) / total
