"""Benchmarks of task allocation: shares of the optimum, proofs, allocations a second."""
