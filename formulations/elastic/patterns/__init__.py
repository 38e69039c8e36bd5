"""`eoa-milp` by node patterns: one variable for each set of tasks that a node can hold."""
