"""Spark sessions on machines that may have no Java."""
