"""``streamplace explain``: why no plan exists, or what a plan's moves are worth and what binds."""
