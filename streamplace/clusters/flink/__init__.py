"""Apache Flink: import, export, submit, verify, watch."""
