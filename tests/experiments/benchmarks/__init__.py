"""Tests of `experiments.benchmarks`."""
