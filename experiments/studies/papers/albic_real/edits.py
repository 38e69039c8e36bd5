"""A synthetic stream of article edits: popularity after Zipf, places spread evenly."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from optim.util.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

ARTICLES = 50_000
EXPONENT = 0.8
PERIOD_SECONDS = 300
EDITS_A_PERIOD = 10_000
PERIODS, PERIODS_REDUCED = 48, 12
_START = 1_199_145_600
"""2008-01-01 00:00 UTC."""


def write_edits(folder: Path, reduced: bool) -> dict[str, str]:
    """Write the edits as Parquet and return where they are, as a trace takes it.

    An edit has a time, a GeoHash (even), an article (Zipf) and the rank of the article's edit
    count in a minute, which the global top-k is partitioned by (even). The rate goes up and down
    by a third; every period a hundredth of the articles swap their popularity.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "edits.parquet"
    if path.is_file():
        return {"edits": str(path)}
    rng = np.random.default_rng(2016)
    weight = 1.0 / np.arange(1, ARTICLES + 1) ** EXPONENT
    cumulated = np.cumsum(weight / weight.sum())
    article = rng.permutation(ARTICLES)
    parts = []
    for period in range(PERIODS_REDUCED if reduced else PERIODS):
        rate = 1.0 + np.sin(2 * np.pi * period / 24.0) / 3.0
        count = int(rng.poisson(EDITS_A_PERIOD * rate))
        chosen = np.minimum(np.searchsorted(cumulated, rng.random(count)), ARTICLES - 1)
        seconds = _START + PERIOD_SECONDS * (period + np.sort(rng.random(count)))
        parts.append(
            pa.table(
                {
                    "seconds": seconds,
                    "geohash": rng.integers(0, 1 << 20, count),
                    "article": article[chosen],
                    "rank": rng.integers(0, 1 << 20, count),
                }
            )
        )
        swapped = rng.choice(ARTICLES, ARTICLES // 100, replace=False)
        article[swapped] = rng.permutation(article[swapped])
    buffer = io.BytesIO()
    pq.write_table(pa.concat_tables(parts), buffer)
    # half a file would be taken for a whole one by the next run
    write_atomic(path, buffer.getvalue())
    return {"edits": str(path)}
