"""Figure 3: solution quality over solving time on 40 nodes."""

from __future__ import annotations

from experiments.papers.albic.solving_time import figure

FIGURE = figure(3, nodes=40, budgets=(20, 50))
