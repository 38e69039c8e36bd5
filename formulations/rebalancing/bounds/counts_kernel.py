"""Compiled part of the counting bound."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.util.compiled import helper, kernel


@kernel(steps=lambda low: 15 * len(low))
def least_spending(sums, low, high, closed, share, price):
    """Return a lower bound of what a placement spends whose nodes gain between `low` and `high`.

    Parameters
    ----------
    sums
        As `formulations.rebalancing.bounds.counts.Sums`.
    low, high
        (N,) least and greatest load that each node gains; `low` may be −inf.
    closed
        (N,) whether only key groups of leaving nodes may arrive.
    share, price
        What leaving pays of the cost of a migration, and the price on load gained.
    """
    total = 0.0
    for i in range(len(low)):
        if closed[i]:
            least = least_of_node(
                sums, i, low[i], high[i], share, price,
                sums.least_drained, sums.most_drained, sums.cheapest_drained,
            )  # fmt: skip
        else:
            least = least_of_node(
                sums, i, low[i], high[i], share, price,
                sums.least_in, sums.most_in, sums.cheapest_in,
            )  # fmt: skip
        if least == np.inf:
            return np.inf
        total += least
    return total


@helper
def least_of_node(sums, i, low, high, share, price, least_in, most_in, cheapest_in):
    """Return the least priced cost over whole numbers that leave and arrive; inf if none do."""
    begin = sums.begin[i]
    best = np.inf
    for out in range(sums.forced[i], sums.begin[i + 1] - begin):
        least_out, most_out = sums.least_out[begin + out], sums.most_out[begin + out]
        fits, brought = sums.fits[begin + out], sums.brought[begin + out]
        paid = share * sums.cheapest_out[begin + out]
        if price >= 0.0 and paid - price * high >= best:
            break
        if price < 0.0 and low > -np.inf and paid - price * low >= best:
            break
        into = np.searchsorted(most_in, low + least_out) if low > -np.inf else 0
        while into < min(len(most_in), fits + 1):
            if least_in[into] - most_out > high:
                break  # more that arrive only add to it
            gain_low = max(low, least_in[into] - most_out)
            gain_high = min(high, min(most_in[into], brought) - least_out)
            if gain_low > gain_high:
                if most_in[into] >= brought:
                    break  # another resource has no room for more load
                into += 1
                continue
            gain = gain_high if price > 0.0 else gain_low
            value = paid + (1.0 - share) * cheapest_in[into]
            if price != 0.0:
                value -= price * gain
            best = min(best, value)
            if price <= 0.0 or gain_high >= high or most_in[into] >= brought:
                break
            into += 1
    return best
