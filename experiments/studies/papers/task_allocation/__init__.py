"""Task allocation

A. Chatzistergiou and S. D. Viglas, *Fast heuristics for near-optimal task allocation in data stream
processing over clusters*, CIKM 2014,
[doi:10.1145/2661829.2661882](https://doi.org/10.1145/2661829.2661882).

IMC is intermodule communication: traffic between tasks. The IMC gain is the part of it that stays
inside nodes. TL is [`task-level`](../methods/task_allocation/task-level.md), TD is
[`top-down`](../methods/task_allocation/top-down.md), Storm is
[`storm-even`](../methods/storm/storm-even.md).
"""
