"""Sustainable throughput: the placement that carries most input."""
