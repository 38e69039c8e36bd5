"""The compiled RSM against Algorithm 5 written down as it reads."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.model_driven import SLOT_RULES, map_threads

TOLERANCE = 1e-8


def as_it_reads(threads, cpu, memory, sizes, cores, weights, rule):
    """Algorithm 5: machines sorted by distance for every thread, the first that will do."""
    free_cpu, free_memory = [float(c) for c in cores], [float(c) for c in cores]
    slots = [[1.0] * s for s in sizes]
    placed: dict[int, list[tuple[int, int]]] = {t: [] for t in range(len(threads))}
    reference = 0
    while any(len(placed[t]) < threads[t] for t in placed):
        for task in placed:
            if len(placed[task]) == threads[task]:
                continue
            c, m = cpu[task], memory[task]

            def distance(v: int, c: float = c, m: float = m, reference: int = reference) -> float:
                hop = 0.0 if v == reference else 0.5  # all machines stand in one rack
                return (
                    weights[0] * (free_memory[v] - m) ** 2
                    + weights[1] * (free_cpu[v] - c) ** 2
                    + weights[2] * hop
                )

            for v in sorted(range(len(sizes)), key=distance):
                able = [s for s in range(sizes[v]) if slots[v][s] + TOLERANCE >= m]
                if free_cpu[v] + TOLERANCE < c or not able:
                    continue
                if rule == "most_free":
                    s = max(able, key=lambda s, v=v: slots[v][s])
                elif rule == "least_free":
                    s = min(able, key=lambda s, v=v: slots[v][s])
                else:
                    s = able[0]
                slots[v][s] -= m
                free_cpu[v] -= c
                free_memory[v] -= m
                placed[task].append((v, s))
                reference = v
                break
            else:
                return None, task
    return placed, -1


# shares of a slot in steps of 1/64 keep sums exact, so that ties are the same ties
SHARE = st.integers(0, 64).map(lambda n: n / 64)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), SHARE, SHARE), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=6),
    st.sampled_from(SLOT_RULES),
    st.sampled_from([(1.0, 1.0, 1.0), (0.0, 0.0, 1.0), (2.0, 0.5, 4.0)]),
)
def test_the_kernel_does_what_the_algorithm_says(tasks, machines, rule, weights) -> None:
    threads = np.array([t for t, _, _ in tasks])
    cpu, memory = (np.array([row[k] for row in tasks]) for k in (1, 2))
    sizes, unused = (np.array([row[k] for row in machines]) for k in (0, 1))
    cores = sizes + unused
    first = np.cumsum(threads) - threads
    node, slot, failed = map_threads(
        np.arange(len(tasks)), threads, first, cpu, memory, sizes, cores, weights,
        SLOT_RULES.index(rule), TOLERANCE,
    )  # fmt: skip
    expected, failing = as_it_reads(
        threads.tolist(),
        cpu.tolist(),
        memory.tolist(),
        sizes.tolist(),
        cores.tolist(),
        weights,
        rule,
    )
    assert failed == failing
    if expected is None:
        return
    for task, places in expected.items():
        here = slice(first[task], first[task] + threads[task])
        assert list(zip(node[here].tolist(), slot[here].tolist(), strict=True)) == places
