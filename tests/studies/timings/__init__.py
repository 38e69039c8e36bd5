"""Tests of `experiments.studies.timings`."""
