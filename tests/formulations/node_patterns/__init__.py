"""Tests of formulations.node_patterns."""
