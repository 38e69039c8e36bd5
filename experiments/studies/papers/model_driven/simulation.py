"""The actual side: threads of a DAG on slots, simulated tuple by tuple.

Every thread has a queue of its own, first in, first out. Senders deal their tuples out in turn to
all threads of the receiving task (Storm's shuffle grouping), whatever these can take. A tuple holds
a thread for the time that the task's performance model gives for as many threads on one slot, part
of it on a core, gamma distributed; cores of a machine that are asked for more than they have make
that part longer, and so do, optionally, those that one slot may use. What the models do not know,
the machines have: each is faster or slower than the one that was measured by a factor drawn from
the seed, and each group of threads of a task in a slot uses memory by another.

Selectivities are 1. Memory beyond a slot's is counted and slows nothing down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.modelling.trials import LATENCY_SLOPE, TrialResult
from formulations.model_driven.allocate import cores_of
from formulations.model_driven.performance_model import Bundles, performance_models
from formulations.model_driven.referee import checked_bundles
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.format.plan import Plan
from optim.format.tables import Floats
from optim.format.traffic import topological_order
from optim.util.compiled import kernel

_SETTLED = 30
_STRETCHES = 20


@dataclass(frozen=True)
class Machines:
    """What the performance models do not say; chosen, not measured."""

    # noise, memory_noise: standard deviations of the logarithms of the machines' factors on times,
    # and of those on memory.
    noise: float = 0.05
    memory_noise: float = 0.1
    spread: float = 0.2  # coefficient of variation of a tuple's time
    # Seconds from thread to thread in one slot, on one machine, and between machines.
    hops: tuple[float, float, float] = (0.0001, 0.0005, 0.001)
    # Cores that the threads of one slot may use; all of the machine's by default.
    slot_cores: float = np.inf
    # Between measured thread counts tasks reach what one thread does times their number, up to the
    # next measured rate, instead of what lies on the line between: the authors saw 9 tuples/s of
    # three table threads, where the line has 5.6.
    early: bool = False


class Ran(NamedTuple):
    """What a simulated run measured."""

    trial: TrialResult  # times and latencies of tuples at the sinks, CPU and memory of all machines
    # cpu, memory: (V,) use of each machine, percent of a slot.
    cpu: Floats
    memory: Floats

    @property
    def stable(self) -> bool:
        """Whether latency does not grow, as Algorithm 1 asks.

        Latencies of one moment are much alike; means of short stretches of time are compared, so
        that chance is not taken for growth.
        """
        times, latencies = np.asarray(self.trial.times), np.asarray(self.trial.latencies)
        # too few tuples for means of stretches
        if len(times) < 3 * _STRETCHES:
            return False
        ends = np.linspace(times[0], times[-1], _STRETCHES + 1)
        at = np.clip(np.searchsorted(ends, times, side="right") - 1, 0, _STRETCHES - 1)
        count = np.bincount(at, minlength=_STRETCHES)
        if (count == 0).any():
            return False
        means = np.bincount(at, latencies, _STRETCHES) / count
        centres = (ends[1:] + ends[:-1]) / 2
        return TrialResult(centres.tolist(), means.tolist(), 0, 0).growth() <= LATENCY_SLOPE


class Simulation:
    """A placement of threads on machines that are drawn from a seed.

    Raises `InvalidInput`: a selectivity is not 1, or a thread has no slot.
    """

    def __init__(self, instance: Instance, plan: Plan, seed: int, machines: Machines) -> None:
        if any(stream.selectivity != 1 for stream in instance.streams):
            reason = "are simulated with selectivity 1 only"
            raise InvalidInput(Problem("streams", instance.name, reason, "set them to 1"))
        self.instance, self.machines, self.seed = instance, machines, seed
        self.bundles: Bundles = checked_bundles(instance, plan, "linear")
        self.cores = np.array(cores_of(instance, plan.nodes), dtype=np.float64)
        # (B,) tuples/s of a bundle: all threads of a task in one slot
        self.peaks = _early(instance, self.bundles) if machines.early else self.bundles.peak
        rng = np.random.default_rng([seed, 1])
        count = len(self.bundles.peak)
        slower = np.exp(machines.noise * rng.standard_normal(len(self.cores)))
        self.slower: Floats = slower[self.bundles.node]
        self.larger = np.exp(machines.memory_noise * rng.standard_normal(count))
        edges = [(s.source, s.target) for s in instance.streams]
        self.order = topological_order(instance.num_operators, edges)
        self.senders: list[list[int]] = [[] for _ in self.order]
        for source, target in edges:
            self.senders[target].append(source)
        sending = {source for source, _ in edges}
        self.last = [o for o in self.order if o not in sending]
        row = np.repeat(np.arange(count), self.bundles.threads)
        # threads in order of their task: those of task o are ends[o] … ends[o + 1] - 1
        by_operator = np.argsort(self.bundles.operator[row], kind="stable")
        row = row[by_operator]
        ends = np.searchsorted(
            self.bundles.operator[row], np.arange(instance.num_operators + 1), side="left"
        )
        self.rows = [row[ends[o] : ends[o + 1]] for o in range(instance.num_operators)]
        """Per operator, the row of `bundles` that each of its threads stands in."""

    def times(self, rate: float) -> tuple[Floats, Floats]:
        """(B,) seconds that a tuple holds a thread, and of it a core, at an input rate.

        Cores that are asked for more than they have stretch the CPU part until what is served
        just fits.
        """
        b, machines = self.bundles, self.machines
        # k threads that reach p tuples/s hold each for k / p seconds; CPU % by rate is core time
        hold = b.threads * self.slower / self.peaks
        core = b.cpu / 100.0 * self.slower / b.peak
        wait = np.maximum(hold - core, 0.0)
        arriving = rate * b.per_input[b.operator] * b.share
        slot = b.node * (int(b.slots.max()) + 1) + b.slot
        stretch = np.ones(len(hold))
        for _ in range(_SETTLED):
            # a bundle serves what arrives, at most a tuple a thread at a time
            served = np.minimum(arriving, b.threads / (wait + stretch * core))
            demand = served * core * stretch
            busy = np.bincount(b.node, demand, len(self.cores)) / self.cores
            slots = np.bincount(slot, demand) / machines.slot_cores
            over = np.maximum(busy[b.node], slots[slot])
            # downwards at most by half a round, so that the loop does not swing
            stretch = np.maximum(1.0, stretch * np.where(over > 1, over, np.maximum(over, 0.5)))
        return wait + stretch * core, core

    @property
    def limit(self) -> float:
        """Input rate above which some thread is sent more than it can take even alone."""
        able = self.bundles.threads / self.bundles.share
        hold = self.bundles.threads * self.slower / self.peaks
        return float((able / hold / self.bundles.per_input[self.bundles.operator]).min())

    def run(self, rate: float, seconds: float = 180.0, warm_up: float = 0.3) -> Ran:
        """Send tuples at a rate for a while."""
        rng = np.random.default_rng([self.seed, 2, int(1000 * rate)])
        hold, core = self.times(rate)
        roots = np.arange(max(1, int(rate * seconds))) / rate
        out: dict[int, tuple[NDArray[np.int64], Floats, NDArray[np.int64]]] = {}
        served = np.zeros(len(hold))
        begin = warm_up * seconds
        for o in self.order:
            root, arrival, thread = self._arrivals(o, roots, out, rng)
            # a thread serves its tuples in the order in which they come
            order = np.lexsort((arrival, thread))
            root, arrival, thread = root[order], arrival[order], thread[order]
            row = self.rows[o][thread]
            mean = hold[row]
            spread = self.machines.spread
            # gamma with mean 1 and coefficient of variation `spread`: shape 1/s², scale s²
            work = mean * rng.gamma(1 / spread**2, spread**2, len(mean)) if spread else mean
            done = _queues(thread, arrival, work)
            # the beginning, with empty queues, does not count
            served += np.bincount(row[(done >= begin) & (done < seconds)], minlength=len(hold))
            out[o] = root, done, thread
        rates = served / (seconds - begin)
        return self._measured(rates, core, roots, out, begin, seconds)

    def _measured(
        self,
        rates: Floats,
        core: Floats,
        roots: Floats,
        out: dict[int, tuple[NDArray[np.int64], Floats, NDArray[np.int64]]],
        begin: float,
        seconds: float,
    ) -> Ran:
        b = self.bundles
        cpu = b.by_node(100.0 * rates * core)
        # memory grows with the rate up to the peak
        level = rates * self.slower / self.peaks
        memory = b.by_node(b.memory * self.larger * np.minimum(level, 1.0))
        far = 2 * self.machines.hops[2]  # from the source, and to the sink
        times, latencies = [], []
        for o in self.last:
            root, done, _ = out[o]
            in_window = (done >= begin) & (done < seconds)
            times.append(done[in_window])
            latencies.append(done[in_window] - roots[root[in_window]] + far)
        when = np.concatenate(times)
        order = np.argsort(when, kind="stable")
        took = np.concatenate(latencies)[order]
        trial = TrialResult(when[order], took, float(cpu.sum()), float(memory.sum()))  # type: ignore[arg-type]
        return Ran(trial, cpu, memory)

    def _arrivals(
        self,
        operator: int,
        roots: Floats,
        out: dict[int, tuple[NDArray[np.int64], Floats, NDArray[np.int64]]],
        rng: np.random.Generator,
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
        """Return root, arrival time and thread of every tuple that a task receives."""
        b, rows = self.bundles, self.rows[operator]
        count = len(rows)
        if not self.senders[operator]:
            index = np.arange(len(roots))
            # a source deals its tuples out in turn, too
            return index, roots, (index + int(rng.integers(count))) % count
        arrivals = []
        for sender in self.senders[operator]:
            root, done, sent_by = out[sender]
            # tuples stand in order of (thread, time): each sending thread deals them out in turn
            first = np.flatnonzero(np.diff(sent_by, prepend=-1))
            sent = np.diff(np.append(first, len(sent_by)))
            turn = np.arange(len(sent_by)) - np.repeat(first, sent)
            # each sender begins at a thread of its own
            thread = (turn + np.repeat(rng.integers(count, size=len(first)), sent)) % count
            row, to = self.rows[sender][sent_by], rows[thread]
            near = b.node[row] == b.node[to]
            hops = self.machines.hops
            hop = np.where(near, np.where(b.slot[row] == b.slot[to], hops[0], hops[1]), hops[2])
            arrivals.append((root, done + hop, thread))
        parts = list(zip(*arrivals, strict=True))
        return np.concatenate(parts[0]), np.concatenate(parts[1]), np.concatenate(parts[2])

    def peak(self, step: float, start: float, most: float = 1e6) -> tuple[float, Ran | None]:
        """Raise the rate by steps until the run is unstable; return the last stable one.

        It begins at `start`, and goes down from there when that is not stable already; rates well
        above the `limit` are not tried, since their queues grow for certain.
        """
        highest = 1.1 * self.limit
        rate = max(step, step * round(min(start, highest) / step))
        best = self.run(rate)
        while not best.stable:
            rate -= step
            if rate < step / 2:
                return 0.0, None
            best = self.run(rate)
        while rate + step <= most + 1e-9:
            more = self.run(rate + step)
            if not more.stable:
                break
            rate, best = rate + step, more
        return rate, best


def _early(instance: Instance, bundles: Bundles) -> Floats:
    """(B,) peak rates that grow with every thread up to the next measured one."""
    models = performance_models(instance)
    peaks = bundles.peak.copy()
    for i, (operator, count) in enumerate(
        zip(bundles.operator.tolist(), bundles.threads.tolist(), strict=True)
    ):
        model = models[operator]
        # peak of k threads: min(k × that of one, that of the next measured count)
        following = min(int(np.searchsorted(model.threads, count)), len(model.threads) - 1)
        if count > 1 and model.has_single:
            most = min(count * float(model.rates[0]), float(model.rates[following]))
            peaks[i] = max(peaks[i], most)
    return peaks


@kernel
def _queues(
    thread: NDArray[np.int64], arrival: NDArray[np.float64], work: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(K,) when each tuple is done; tuples stand in order of (thread, arrival)."""
    done = np.empty(len(arrival))
    free = 0.0
    for k in range(len(arrival)):
        # Lindley: done_k = max(done_(k-1), arrival_k) + work_k, for each thread from 0
        if k == 0 or thread[k] != thread[k - 1]:
            free = 0.0
        free = max(free, arrival[k]) + work[k]
        done[k] = free
    return done
