"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from experiments.studies.papers.claims import Judged
from experiments.studies.papers.model_driven import judging_rates as rates
from experiments.studies.papers.model_driven import judging_use as use

JUDGES: dict[str, Judged] = {
    "MD-A1": Judged(use.predictable, "planned", "machines"),
    "MD-F7g": Judged(rates.table_threads, "slots", "models"),
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
}
