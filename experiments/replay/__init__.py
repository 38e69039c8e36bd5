"""Replay: an adaptation policy over recorded or synthetic periods, before anyone trusts it."""
