"""Placing tasks on nodes with compiled moves: first fit, repair, and descent by moves and swaps."""
