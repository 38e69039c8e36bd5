"""Carrying out an order of moves, batch by batch."""
