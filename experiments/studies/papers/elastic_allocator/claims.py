"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from experiments.studies.papers.claims import Judged
from experiments.studies.papers.elastic_allocator import judging, judging_workloads

JUDGES: dict[str, Judged] = {
    "EOA-A1": Judged(judging_workloads.one_plan, "testbed", "optimum"),
    "EOA-A2": Judged(judging.bandwidth_matters, "uplinks"),
    "EOA-A3": Judged(judging.adaptive, "day"),
    "EOA-M1": Judged(judging.load_formula, "formulas"),
    "EOA-M2": Judged(judging.bandwidth_formula, "formulas"),
    "EOA-M3": Judged(judging.classes, "classes"),
    "EOA-M4": Judged(judging.best_effort, "best_effort"),
    "EOA-M5": Judged(judging.linear, "optimum"),
    "EOA-F4a": Judged(judging_workloads.cpu_use, "testbed"),
    "EOA-F4b": Judged(judging_workloads.bandwidth_use, "testbed"),
    "EOA-F4c": Judged(judging_workloads.fluctuation, "testbed"),
    "EOA-F4d": Judged(judging_workloads.even_is_blind, "testbed"),
    "EOA-F4e": Judged(judging_workloads.grows, "testbed", "optimum"),
    "EOA-F4f": Judged(judging_workloads.no_limits, "testbed"),
    "EOA-F5a": Judged(judging_workloads.cpu_deviation, "testbed"),
    "EOA-F5b": Judged(judging_workloads.bandwidth_deviation, "testbed"),
    "EOA-F5c": Judged(judging_workloads.stable, "testbed", "optimum"),
    "EOA-F5d": Judged(judging_workloads.variable, "testbed", "constants"),
    "EOA-G1": Judged(judging.near_best, "gaps"),
    "EOA-G2": Judged(judging.feasible_only, "uplinks", "gaps"),
    "EOA-N3": Judged(judging.trace, "day"),
}
