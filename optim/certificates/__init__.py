"""Certificates of bounds: a checker that stands alone, and what writes them."""
