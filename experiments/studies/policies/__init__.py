"""Policies of replays that only the papers use."""
