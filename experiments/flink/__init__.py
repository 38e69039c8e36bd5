"""A running Flink cluster: carrying a plan out, and checking that it was."""
