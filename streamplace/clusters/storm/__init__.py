"""Apache Storm: import from its UI, export."""
