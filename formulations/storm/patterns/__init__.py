"""What is Storm's in its placement by node patterns; the engine is `formulations.patterns`.

All patterns are listed (`states`); that every topology gets its workers is rows of the master
(`rows`); placements with different numbers of empty nodes are parts of their own (`solve`). The
best split of a pattern's executors into its workers (`split`) is the value of the second level
(`slots`).
"""
