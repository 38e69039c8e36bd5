"""The Elastic Allocator's methods: `gma`, `even` and `random`."""
