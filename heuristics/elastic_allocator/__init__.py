"""Parts of the Elastic Allocator's methods: `gma`, `even` and `random`."""
