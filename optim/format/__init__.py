"""The instance format: documents, the immutable instance and plan, reading, building, writing."""
