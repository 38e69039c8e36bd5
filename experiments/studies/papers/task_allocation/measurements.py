"""The tables behind the claims."""

from __future__ import annotations

from experiments.studies.papers.claims.tables import Making
from experiments.studies.papers.task_allocation import examples, graphs, throughput, workloads

TABLES = {
    "examples": Making(examples.examples, "0-99 of the shuffled orders", "0-29"),
    "balance_mode": Making(examples.balance_mode, "0-29", "0-9"),
    "coarseness": Making(examples.coarseness, "0-59", "0-9"),
    "built": Making(examples.built, "0-29", "0-9"),
    "relaxed": Making(examples.relaxed, "0-99", "0-19"),
    "priorities": Making(examples.priorities, "0-29 of the shuffled orders", "0-9"),
    "uneven_pair": Making(examples.uneven_pair, "0-29 of the shuffled orders", "0-9"),
    "graphs": Making(graphs.graphs, "0-1999", "0-99"),
    "readings": Making(graphs.readings, "0-99", "0-29"),
    "task_counts": Making(graphs.task_counts, "0-39 a size", "0-9 a size"),
    "throughput": Making(throughput.throughput, "0-29", "0-4"),
    "dense": Making(throughput.dense, "one instance a line"),
    "scaling": Making(throughput.scaling, "one instance a line"),
    "workloads": Making(workloads.workloads, "0-39: costs of groups and edges drawn", "0-9"),
    "varying_rate": Making(workloads.varying_rate, "one instance; 0-29 the course of the rate"),
    "workers": Making(workloads.workers, "one instance"),
}
