"""Figure 8: slots of the application DAGs."""

from __future__ import annotations

from pathlib import Path

from experiments.studies.papers.figure import Figure
from experiments.studies.papers.model_driven.slots import measured_slots, plot_slots, slots_table
from experiments.studies.papers.sweeps import sweep_rows

FIGURE = Figure(
    name="model-driven/fig-8",
    title="Slots of the application DAGs",
    source="Shukla and Simmhan, JPDC 2018, Figure 8, section 8.4.2",
    words=(
        "MBA+SAM takes 33 to 50 % fewer slots than LSA+RSM for all applications and rates; least "
        "for finance, 3 fewer at 50 and 5 fewer at 100 tuples/s. LSA+RSM needs up to 65 slots. RSM "
        "acquires 1 to 3 extra slots everywhere, SAM only for the grid at 50."
    ),
    rows=sweep_rows(
        Path(__file__).with_name("fig_8.toml"),
        reduced={"instances.generate.0.application": ["finance"]},
        wide=True,
    ),
    table=slots_table("instance.application", {}),
    plot=plot_slots,
    measured=measured_slots,
    readings=(
        "The wirings stood in a figure that is lost. They are rebuilt from the text (number of "
        "tasks, overall selectivity, rates at the table query, which has more blob or Pi), so that "
        "this compares shapes, not numbers.",
        "*Fewest for LSA's threads* is of packings, in which every slot holds whole items within "
        "its CPU and memory; `lsa+dsm`, which deals threads round robin, may do with fewer slots.",
        "Where the fewest slots are not proven within 120 s, bound and best plan are both shown.",
    ),
    size="Full: 6 cases. Reduced: finance only.",
)
