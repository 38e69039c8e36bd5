"""Model-driven scheduling

A. Shukla and Y. Simmhan, *Model-driven scheduling for distributed stream processing systems*, JPDC
2018, [arXiv:1702.01785](https://arxiv.org/abs/1702.01785).

LSA and MBA say how many threads each task gets and how many slots they ask for; DSM, RSM and SAM
map threads onto slots: the methods [`lsa+rsm`, `mba+sam`,
…](../methods/model_driven/model-driven.md). The optimum is
[`slots-milp`](../methods/model_driven/slots-milp.md), which the paper does not have: the fewest
slots for the same threads with the same bookings (CPU over a machine's slots for RSM, in each slot
for SAM).

The models are the authors' own measurements, without source and sink as in their totals. The
paper *ran* its plans on Storm; here *actual* is on simulated machines (`simulation.py`), whose
tasks follow the models: agreement shows the effect of shuffling, queues and chance, not how well
the models fit Storm.
"""
