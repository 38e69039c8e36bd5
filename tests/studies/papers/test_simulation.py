"""The simulated DAG: against arithmetic where nothing is left to chance."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.studies.papers.model_driven.runs import Predicted, dag_at, plan_of
from experiments.studies.papers.model_driven.simulation import Machines, Simulation
from optim import Instance, InvalidInput

EXACT = Machines(noise=0, memory_noise=0, spread=0, hops=(0, 0, 0))


def simulated(rate: float = 100.0, machines: Machines = EXACT, seed: int = 0) -> Simulation:
    instance = dag_at("linear", rate)
    plan = plan_of(instance, "MBA+SAM")
    assert plan is not None
    return Simulation(instance, plan, seed, machines)


def test_its_limit_is_the_shuffled_prediction() -> None:
    instance = dag_at("linear", 100.0)
    plan = plan_of(instance, "MBA+SAM")
    assert plan is not None
    assert simulated().limit == pytest.approx(Predicted(instance, plan).shuffled)


def test_runs_are_stable_below_the_limit_and_not_above() -> None:
    sim = simulated()
    assert sim.run(0.6 * sim.limit).stable
    assert not sim.run(1.2 * sim.limit).stable
    peak, ran = sim.peak(5.0, 100.0)
    assert ran is not None
    assert 0.75 * sim.limit <= peak <= 1.05 * sim.limit


def test_latency_is_that_of_the_threads_at_a_low_rate() -> None:
    sim = simulated()
    seen = np.asarray(sim.run(2.0).trial.latencies)
    hold, _ = sim.times(2.0)
    by_task = [sorted(hold[sim.rows[o]]) for o in range(5)]
    assert seen.min() >= sum(times[0] for times in by_task) - 1e-9
    assert np.median(seen) <= sum(times[-1] for times in by_task)  # few meet in a queue


def test_cpu_is_that_of_the_models_in_proportion() -> None:
    sim = simulated()
    rate = 0.5 * sim.limit
    b = sim.bundles
    expected = b.by_node(b.use(b.shuffled(rate))[0])
    assert sim.run(rate).cpu == pytest.approx(expected, rel=0.05)


def test_the_seed_alone_decides() -> None:
    first, again, other = (simulated(machines=Machines(), seed=s).run(40.0) for s in (1, 1, 2))
    assert first.trial.latencies == pytest.approx(again.trial.latencies)
    assert first.cpu.tolist() == again.cpu.tolist() != other.cpu.tolist()


def test_cores_that_are_asked_for_too_much_make_tuples_slower() -> None:
    few = simulated(machines=Machines(noise=0, slot_cores=0.2)).times(80.0)[0]
    assert (few >= simulated().times(80.0)[0] - 1e-12).all()
    assert few.max() > simulated().times(80.0)[0].max()


def test_early_tasks_are_at_least_as_fast() -> None:
    early, line = simulated(machines=Machines(early=True)), simulated()
    assert (early.peaks >= line.peaks).all()
    assert early.peaks.sum() >= line.peaks.sum()


def test_other_selectivities_are_refused() -> None:
    document = dag_at("linear", 10.0).to_dict()
    document["streams"][0]["selectivity"] = 2.0
    instance = Instance.from_dict(document)
    plan = plan_of(instance, "MBA+SAM")
    assert plan is not None
    with pytest.raises(InvalidInput, match="selectivity 1 only"):
        Simulation(instance, plan, 0, EXACT)
