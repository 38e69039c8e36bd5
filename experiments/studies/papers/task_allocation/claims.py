"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from experiments.studies.papers.claims import Judged
from experiments.studies.papers.task_allocation import judging_graphs as graphs
from experiments.studies.papers.task_allocation import judging_jobs as jobs

JUDGES = {
    "CIKM-A1": Judged(graphs.fast_and_near, "graphs", "throughput", "scaling"),
    "CIKM-A2": Judged(graphs.better_than_tl, "graphs", "readings"),
    "CIKM-A3": Judged(graphs.better_guarantee, "graphs"),
    "CIKM-M1": Judged(jobs.least_nodes, "built"),
    "CIKM-M2": Judged(jobs.balanced, "balance_mode"),
    "CIKM-M3": Judged(jobs.coarse_fails, "coarseness"),
    "CIKM-M4": Judged(jobs.loss_of_one, "built"),
    "CIKM-M5": Judged(jobs.misleading, "built"),
    "CIKM-M6": Judged(graphs.significance_helps, "graphs"),
    "CIKM-C1": Judged(graphs.tl_quadratic, "scaling"),
    "CIKM-C2": Judged(graphs.td_linear, "scaling"),
    "CIKM-C3": Judged(graphs.td_quadratic, "dense", "scaling"),
    "CIKM-E1": Judged(jobs.splits_first_pair, "examples"),
    "CIKM-E2": Judged(jobs.links_of_example_2, "examples"),
    "CIKM-R1": Judged(jobs.recut_places, "relaxed"),
    "CIKM-R2": Judged(jobs.normalised, "relaxed"),
    "CIKM-R3": Judged(jobs.few_new_groups, "relaxed"),
    "CIKM-F4a": Judged(jobs.significance_is_constant, "priorities"),
    "CIKM-F4b": Judged(graphs.tl_falls, "uneven_pair"),
    "CIKM-F4c": Judged(jobs.td_gains_a_little, "uneven_pair"),
    "CIKM-F5a": Judged(graphs.two_orders, "throughput", "scaling"),
    "CIKM-F5b": Judged(graphs.evenly, "fig-5"),
    "CIKM-F5c": Judged(graphs.large_clusters, "scaling"),
    "CIKM-L1": Judged(graphs.td_share, "graphs"),
    "CIKM-L2": Judged(graphs.tl_share, "graphs", "examples", "uneven_pair"),
    "CIKM-L3": Judged(graphs.sums, "graphs"),
    "CIKM-L4": Judged(graphs.costly_does_not_pay, "graphs"),
    "CIKM-L5": Judged(graphs.few_tasks_favour_tl, "task_counts"),
    "CIKM-F6a": Judged(jobs.best_over("twitter", "storm", 91), "workloads"),
    "CIKM-F6b": Judged(jobs.best_over("twitter", "tl", 79), "workloads"),
    "CIKM-F6c": Judged(jobs.saves("twitter", 13), "workloads"),
    "CIKM-F6d": Judged(jobs.rises_and_converges, "workloads"),
    "CIKM-F7a": Judged(jobs.best_over("bargain", "storm", 89), "workloads"),
    "CIKM-F7b": Judged(jobs.best_over("bargain", "tl", 31), "workloads"),
    "CIKM-F7c": Judged(jobs.saves("bargain", 22), "workloads"),
    "CIKM-F8a": Judged(jobs.imc_is_about_tl, "workloads"),
    "CIKM-F8b": Judged(jobs.significance_further_improves, "workloads"),
    "CIKM-F9a": Judged(jobs.twice_storm, "workers"),
    "CIKM-F9b": Judged(jobs.follows_the_rate, "fig-9"),
    "CIKM-F9c": Judged(jobs.almost_constant, "fig-9"),
    "CIKM-F9d": Judged(jobs.changes_are_noticed, "varying_rate"),
}
