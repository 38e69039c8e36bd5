"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from pathlib import Path

from experiments.studies.papers.claims import Judged, read_claims
from experiments.studies.papers.storm import judging as j
from experiments.studies.papers.storm import judging_latency as waiting

JUDGES = {
    "STORM-A1": Judged(j.both_better, "clusters"),
    "STORM-A2": Judged(waiting.online_is_quicker, "latency"),
    "STORM-A3": Judged(j.always_better, "clusters", "sizes"),
    "STORM-A4": Judged(j.offline_is_worse, "clusters"),
    "STORM-A6": Judged(j.avoids_bottlenecks, "clusters", "limits"),
    "STORM-A7": Judged(j.packs_an_idle_edge, "built"),
    "STORM-D1": Judged(j.dealt_evenly, "rules"),
    "STORM-D2": Judged(j.possible_iff, "rules"),
    "STORM-M1": Judged(j.bounds, "rules"),
    "STORM-M2": Judged(j.alpha_tunes, "alphas"),
    "STORM-M3": Judged(j.all_workers_used, "betas"),
    "STORM-M4": Judged(j.best_beta, "betas"),
    "STORM-M5": Judged(j.simple_but_good, "clusters"),
    "STORM-O1": Judged(j.in_hertz, "hertz"),
    "STORM-O2": Judged(j.after_the_window, "trigger"),
    "STORM-O3": Judged(j.more_than_r, "trigger"),
    "STORM-O4": Judged(j.keeps_capacity, "limits"),
    "STORM-O5": Judged(j.quick_greedy, "sizes"),
    "STORM-O6": Judged(j.avoids_imbalance, "clusters"),
    "STORM-L1": Judged(waiting.fewer_is_quicker, "latency"),
}

CLAIMS = read_claims(Path(__file__).with_name("claims.toml"), JUDGES)
