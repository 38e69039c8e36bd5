"""Studies: the papers, the open benchmark, timings, the laboratory; a distribution of its own."""
