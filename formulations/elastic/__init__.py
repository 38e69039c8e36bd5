"""The Elastic Allocator's problem (EOA), exactly."""
