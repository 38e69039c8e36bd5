"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from pathlib import Path

from experiments.studies.papers.claims import Judged, read_claims
from experiments.studies.papers.model_driven import judging_models as models
from experiments.studies.papers.model_driven import judging_rates as rates
from experiments.studies.papers.model_driven import judging_slots as slots
from experiments.studies.papers.model_driven import judging_use as use

JUDGES: dict[str, Judged] = {
    "MD-A1": Judged(use.predictable, "planned", "machines"),
    "MD-F3a": Judged(models.xml, "models", "phase"),
    "MD-F3b": Judged(models.pi, "models", "phase"),
    "MD-F3c": Judged(models.file_write, "models"),
    "MD-F3d": Judged(models.blob, "models"),
    "MD-F3e": Judged(models.table, "models"),
    "MD-F3f": Judged(models.curves, "phase"),
    "MD-P0": Judged(models.cheap, "phase"),
    "MD-F4": Judged(models.worked_example, "worked"),
    "MD-M1": Judged(models.mixed, "mixed"),
    "MD-M2": Judged(models.over_allocation, "mixed"),
    "MD-M3": Judged(models.acquired, "acquired"),
    "MD-M4": Judged(models.source_and_sink, "bookings"),
    "MD-L1": Judged(models.lsa_numbers, "bookings"),
    "MD-L2": Judged(models.mba_numbers, "bookings"),
    "MD-L3": Judged(models.more_threads, "bookings"),
    "MD-F7a": Judged(slots.twice, "slots", "bookings"),
    "MD-F7b": Judged(slots.rsm_extra, "slots", "weights"),
    "MD-F7c": Judged(slots.sam_extra, "slots", "weights"),
    "MD-F7d": Judged(slots.lsa_short, "reached", "weights"),
    "MD-F7e": Judged(slots.mba_short, "slots", "reached"),
    "MD-F7f": Judged(slots.diamond_rates, "slots", "reached"),
    "MD-F7g": Judged(slots.table_threads, "slots", "models"),
    "MD-F7h": Judged(slots.shares, "slots"),
    "MD-F7i": Judged(slots.proportional, "slots"),
    "MD-F7j": Judged(slots.star, "slots"),
    "MD-F7k": Judged(slots.fragments, "slots", "models"),
    "MD-F8a": Judged(slots.fewer, "slots"),
    "MD-F8b": Judged(slots.apps_extra, "slots", "weights"),
    "MD-F8c": Judged(slots.finance_least, "slots"),
    "MD-F8d": Judged(slots.apps_size, "slots"),
    "MD-F8e": Judged(slots.over_twice, "slots"),
    "MD-F8f": Judged(slots.apps_short, "slots", "reached", "weights"),
    "MD-F8g": Judged(slots.extra_share, "slots"),
    "MD-F8h": Judged(slots.stacked, "slots", "reached"),
    "MD-F9a": Judged(rates.plans, "planned"),
    "MD-F9b": Judged(rates.above_lsa, "planned", "machines"),
    "MD-F9c": Judged(rates.rate_fit, "planned", "machines"),
    "MD-F10a": Judged(rates.on_the_line, "planned", "machines"),
    "MD-F10b": Judged(rates.linear_dsm, "planned", "machines"),
    "MD-F10c": Judged(rates.linear_rsm, "planned", "machines"),
    "MD-F10d": Judged(rates.rsm_above_sam, "planned", "machines"),
    "MD-F10e": Judged(rates.underestimated, "models", "machines", "planned"),
    "MD-F10f": Judged(rates.dsm_lowest, "machines"),
    "MD-F11a": Judged(use.cpu_fit, "machines"),
    "MD-F11b": Judged(use.cpu_ranges, "machines"),
    "MD-F11c": Judged(use.linear_ranges, "machines"),
    "MD-F11d": Judged(use.rsm_varies, "machines"),
    "MD-F11e": Judged(use.rsm_beats_dsm, "planned", "machines"),
    "MD-F11f": Judged(use.star_xml, "planned", "models"),
    "MD-F11g": Judged(use.shuffled_pi, "machines"),
    "MD-F12a": Judged(use.memory_fit, "machines"),
    "MD-F12b": Judged(use.memory_signs, "machines"),
    "MD-F13a": Judged(use.latency_order, "machines"),
    "MD-F13b": Judged(use.latency_of_pairs, "machines"),
    "MD-S1": Judged(slots.summary, "slots", "reached"),
}

CLAIMS = read_claims(Path(__file__).with_name("claims.toml"), JUDGES)
