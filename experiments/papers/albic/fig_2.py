"""Figure 2: solution quality over solving time on 20 nodes."""

from __future__ import annotations

from experiments.papers.albic.solving_time import figure

FIGURE = figure(2, nodes=20, budgets=(10, 20))
