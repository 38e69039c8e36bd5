"""Model-driven scheduling: allocations of threads combined with mappings onto slots.

Source: Shukla and Simmhan, "Model-driven scheduling for distributed stream processing systems",
JPDC 2018, arXiv:1702.01785.
"""
