"""Draw ``docs/img/demo.svg`` from the tables of ``make demo``.

Run as ``python docs/img/make_demo_figure.py [build/demo]`` after ``make demo``. Each dot is one
query at one level of load: how much of the traffic that provably can stay inside nodes a method
keeps there. Cases whose optimum is not proved are left out, and so said in the title.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

METHODS = {
    "imc-exact [highs]": "imc-exact",
    "partition": "partition (METIS)",
    "imc-milp [highs]": "imc-milp, 2 s",
    "top-down": "top-down",
    "storm-even": "storm-even",
}
SHADES = {"0.5": "#9ecae1", "0.75": "#4292c6", "0.9": "#08306b"}


def read_cases(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the report's table of cases."""
    table = folder / "report-tables" / "collocation-by-case.csv"
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw(cases: list[dict[str, str]], target: Path) -> None:
    """Draw share of the proven optimum, one row a method, one dot a case."""
    proved = [case for case in cases if case["proven_optimum"]]
    plt.rcParams.update({"svg.hashsalt": "streamplace", "font.size": 10, "svg.fonttype": "none"})
    figure, axes = plt.subplots(figsize=(7.2, 2.9), layout="constrained")
    for row, column in enumerate(METHODS):
        shares = []
        for k, (load, shade) in enumerate(SHADES.items()):
            values = [
                100 * float(case[column]) / float(case["proven_optimum"])
                for case in proved
                if case["load_share"] == load and case.get(column)
            ]
            shares += values
            axes.scatter(
                values, [row + 0.22 * (k - 1)] * len(values), s=26, color=shade, zorder=3,
                label=f"load {float(load):.0%}" if row == 0 else None,
            )  # fmt: skip
        mean = sum(shares) / len(shares)
        axes.plot([mean, mean], [row - 0.4, row + 0.4], color="#d94801", lw=2, zorder=2)
        fewer = "" if len(shares) == len(proved) else f" ({len(shares)} plans)"
        axes.text(102, row, f"{mean:.1f} %{fewer}", va="center", color="#d94801")
    axes.set_yticks(range(len(METHODS)), list(METHODS.values()))
    axes.invert_yaxis()
    axes.set_xlim(0, 101)
    axes.set_xlabel("% of the proven optimum of traffic inside nodes (orange: mean)")
    axes.set_title(f"Six Flink queries, {len(proved)} of {len(cases)} cases proved", fontsize=10)
    axes.grid(axis="x", color="#dddddd", zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", fontsize=8, frameon=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/demo")
    draw(read_cases(source), Path(__file__).with_name("demo.svg"))
