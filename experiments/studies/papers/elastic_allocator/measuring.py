"""Tables behind the claims on the Elastic Allocator."""

from __future__ import annotations

from experiments.studies.papers.claims.making import Making
from experiments.studies.papers.elastic_allocator import day, limits, model, workloads

TABLES = {
    "testbed": Making(workloads.testbed_table, "0-29", "0-2"),
    "optimum": Making(workloads.optimum_table, "0"),
    "constants": Making(workloads.constants_table, "0-29", "0-1"),
    "uplinks": Making(limits.uplinks_table, "0-29", "0-2"),
    "gaps": Making(limits.gap_table, "0-6", "0"),
    "day": Making(day.day_table, "0-29", "0-1"),
    "formulas": Making(model.formulas_table, "0-99", "0-9"),
    "classes": Making(model.classes_table, "0-29", "0-2"),
    "best_effort": Making(model.best_effort_table, "0-29", "0-2"),
}
