"""`balance-milp`: ALBIC's load-balance MILP, its forms, its bounds and its solving."""
