"""Parts of Storm's adaptive schedulers: slots for topologies, components in order, kernels."""
