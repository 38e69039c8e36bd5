"""Apache Kafka: import from its tools or Cruise Control, operations, export, verify."""
