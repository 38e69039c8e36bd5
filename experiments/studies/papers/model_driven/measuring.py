"""Tables behind the claims on model-driven scheduling."""

from __future__ import annotations

from experiments.studies.papers.claims.making import Making
from experiments.studies.papers.model_driven import actual, arithmetic, phase, plans

_ONCE = "nothing random"

TABLES = {
    "slots": Making(plans.slots_table, _ONCE),
    "planned": Making(plans.planned_table, _ONCE),
    "weights": Making(plans.weights_table, _ONCE),
    "models": Making(arithmetic.models_table, _ONCE),
    "bookings": Making(arithmetic.bookings_table, _ONCE),
    "acquired": Making(arithmetic.acquired_table, _ONCE),
    "worked": Making(arithmetic.worked_table, _ONCE),
    "mixed": Making(arithmetic.mixed_table, "0-99", "0-9"),
    "reached": Making(actual.reached_table, "0-29", "0-1"),
    "machines": Making(actual.machines_table, "0-29", "0-1"),
    "phase": Making(phase.phase_table, "0-29", "0-1"),
}
