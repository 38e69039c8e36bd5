"""``streamplace explain``: why nothing fits, or what a plan's moves are worth and what binds."""
