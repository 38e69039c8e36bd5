"""From the present placement to a plan: an order of moves in which nothing breaks on the way."""
