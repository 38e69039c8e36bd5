"""Tests of `experiments.papers`."""
