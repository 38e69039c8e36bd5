"""A real Kafka: a plan with a broker killed and back, the command killed and run again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("kafka")

from experiments.studies.lab.kafka import KafkaCluster, Round, kafka_jars, random_lists
from experiments.studies.lab.runner import LabError

pytestmark = pytest.mark.slow  # two minutes; `make lab-kafka` does more


def test_replicas_and_leaders_are_as_planned_after_kills(tmp_path: Path) -> None:
    try:
        kafka_jars()
    except LabError as error:
        pytest.skip(str(error))
    rng = random.Random(3)
    with KafkaCluster(tmp_path / "lab") as lab:
        lab.fill(5)
        done = Round(lab)
        done.plan("a broker killed", random_lists(rng, 12), done.disturbed(2))
        done.killed_itself("the command killed", random_lists(rng, 12))
    assert done.failures == []
    assert (done.plans, done.replicas, done.leaders) == (1, 36, 12)
