"""Figure 4: solution quality over solving time on 60 nodes."""

from __future__ import annotations

from experiments.papers.albic.solving_time import figure

FIGURE = figure(4, nodes=60, budgets=(20, 50))
