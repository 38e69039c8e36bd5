"""Model-driven scheduling

A. Shukla and Y. Simmhan, *Model-driven scheduling for distributed stream processing systems*, JPDC
2018, [arXiv:1702.01785](https://arxiv.org/abs/1702.01785).

LSA and MBA say how many threads each task gets and how many slots they ask for; DSM, RSM and SAM
map threads onto slots: the methods [`lsa+rsm`, `mba+sam`,
…](../methods/model_driven/model-driven.md). The optimum is
[`slots-milp`](../methods/model_driven/slots-milp.md), which the paper does not have: the fewest
slots for the same threads with the same bookings (CPU over a machine's slots for RSM, in each slot
for SAM).

The models are the authors' own measurements, source and sink left out as in their totals. The
paper *ran* its plans on Storm. Here stand apart: what is planned, what the models predict, and what
is *actual* on simulated machines (`simulation.py`): a queue for each thread, shuffle grouping, the
models' times with chance, machines that are not as measured. Since the simulated tasks are the
models' own, agreement says what shuffling, queues and chance change, not how well the models fit
Storm.
"""
