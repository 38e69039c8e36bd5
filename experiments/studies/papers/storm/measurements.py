"""The tables behind the claims."""

from __future__ import annotations

from experiments.studies.papers.claims.tables import Making
from experiments.studies.papers.storm import clusters, latency, rules

TABLES = {
    "rules": Making(rules.rules, "0-199", "0-49"),
    "built": Making(rules.built, "one instance a line"),
    "hertz": Making(rules.hertz, "0-29", "0-9"),
    "trigger": Making(rules.trigger, "0-29 of the drifts", "0-9 of the drifts"),
    "clusters": Making(clusters.clusters, "0-29 a line", "0-9 a line"),
    "optima": Making(clusters.optima, "0-29 a line", "0-1 a line"),
    "node-loads": Making(clusters.node_loads, "0-29 a line", "0-9 a line"),
    "limits": Making(clusters.limits, "0-29 a line", "0-9 a line"),
    "alphas": Making(clusters.alphas, "0-29", "0-9"),
    "betas": Making(clusters.betas, "0-29", "0-9"),
    "latency": Making(latency.latency, "0-29; 4 stages, 2 executors each", "0-2"),
    "sizes": Making(clusters.sizes, "0-29 a size", "0-4 a size"),
}
