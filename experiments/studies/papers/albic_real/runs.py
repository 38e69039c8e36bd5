"""The real jobs: traced and replayed by every policy; and a synthetic stream of article edits.

No sweep: the product's replay runs the policies, each from where its last plan left the key groups.
A tuple that crosses between nodes costs on either side as much as handling it.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.replay.periods import load_trace
from experiments.replay.run import ReplayFolder, ReplayOptions, run_replay
from experiments.traces.folder import TraceFolder, is_trace
from experiments.traces.instances import load_scale
from experiments.traces.job import load_job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from optim.methods.registry import method_names
from optim.util.files import write_atomic
from streamplace.policies.nodes import CostModel
from streamplace.policies.registry import POLICIES

REDUCED_PERIODS = 30


def replayed(
    folder: Path, reduced: bool, job: str, policies: Sequence[str], days: int | None = None
) -> pd.DataFrame:
    """Return the rows of a figure: a job traced, then replayed for so many days, or for all."""
    return first_days(folder, reduced, job, policies, REDUCED_PERIODS if reduced else days)


def first_days(
    folder: Path, reduced: bool, job: str, policies: Sequence[str], most: int | None,
    placement: str | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Trace, and replay the first periods; from another placement where one is named.

    What is there already is not done again, nor what a replay of more periods has of them; policies
    that are not registered are left out.
    """
    trace = traced(job, folder, reduced)
    scale = load_scale(trace)
    periods = load_trace(trace.path, placement, most=most)
    names = {*POLICIES.names(), *method_names()}
    policies = tuple(name for name in policies if name.partition(":")[0] in names)
    if placement is None and (stored := _longer_replay_rows(folder, policies, len(periods))):
        return pd.DataFrame(stored)
    # a replay of all periods has the plain name: figures and longer tables find it
    whole = len(trace.manifest.periods)
    most = None if most == (min(whole, REDUCED_PERIODS) if reduced else whole) else most
    name = "-".join(str(part) for part in ("replay", placement, most) if part is not None)
    options = ReplayOptions(policies=policies, costs=CostModel(scale, scale))
    return pd.DataFrame(list(run_replay(periods, folder / name, options, quiet=False).rows))


def _longer_replay_rows(folder: Path, policies: Sequence[str], most: int) -> list[dict[str, Any]]:
    """Return the first rows of every policy where a longer replay has them, else none."""
    longer = [p for p in folder.glob("replay*") if p.name.removeprefix("replay-").isdigit()]
    rows: list[dict[str, Any]] = []
    for policy in policies:
        stored = (ReplayFolder(p).load(policy).rows for p in (folder / "replay", *longer))
        policy_rows = next((rows for rows in stored if len(rows) >= most), [])
        if not policy_rows:
            return []
        rows += policy_rows[:most]
    return rows


def traced(name: str, folder: Path, reduced: bool) -> Any:
    """Return the trace of a job of this folder; Real Job 1 has edits of our making."""
    job, path = load_job(Path(__file__).with_name(name)), folder / "trace"
    with contextlib.suppress(InvalidInput):  # damaged, or of an older version: traced again
        if is_trace(path):
            trace = TraceFolder.open(path)
            # as JSON: the manifest has texts where TOML has dates
            if trace.manifest.job == json.loads(json.dumps(job.document, default=str)):
                return trace
    paths = write_edits(folder, reduced) if name == "real_job_1.toml" else {}
    return run_trace(job, path, "local[2]", paths=paths, quiet=False)


ARTICLES = 50_000
EXPONENT = 0.8
PERIOD_SECONDS = 300
EDITS_A_PERIOD = 10_000
PERIODS, PERIODS_REDUCED = 48, 12
_START = 1_199_145_600  # 2008-01-01 00:00 UTC.


def write_edits(folder: Path, reduced: bool) -> dict[str, str]:
    """Write the edits as Parquet and return where they are, as a trace takes it.

    An edit has a time, a GeoHash (even), an article (Zipf) and the rank of the article's edit
    count in a minute, which the global top-k is partitioned by (even). The rate goes up and down
    by a third; every period a hundredth of the articles swap their popularity.
    """
    path = folder / "edits.parquet"
    if path.is_file():
        return {"edits": str(path)}
    rng = np.random.default_rng(2016)
    weight = 1.0 / np.arange(1, ARTICLES + 1) ** EXPONENT
    cumulated = np.cumsum(weight / weight.sum())
    article = rng.permutation(ARTICLES)
    parts = []
    for period in range(PERIODS_REDUCED if reduced else PERIODS):
        # up and down by a third in a cycle of 24 periods, two hours
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
