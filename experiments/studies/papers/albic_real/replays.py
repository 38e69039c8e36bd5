"""The real jobs: traced and replayed by every policy; and a synthetic stream of article edits.

No sweep: the product's replay runs the policies, each from where its last plan left the key groups.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from experiments.traces.job import Job


REDUCED_PERIODS = 30


def replayed(
    folder: Path, reduced: bool, job: str, policies: Sequence[str], days: int | None = None
) -> pd.DataFrame:
    """Return the rows of a figure, as `Replay` makes them; Real Job 1 has edits of our making."""
    prepare = write_edits if job == "real_job_1.toml" else None
    return Replay(job, policies, prepare=prepare, days=days)(folder, reduced)


@dataclass(frozen=True)
class Replay:
    """Rows of a figure: a job traced, then replayed.

    Attributes
    ----------
    job
        Job description beside this module.
    policies
        Names with settings; methods that are not registered are left out.
    serialise
        Cost of a tuple that crosses between nodes, on either side, where handling it costs 1.
    prepare
        Makes recordings in a folder and returns their paths; none for those of the description.
    days
        Periods of a figure at full size; all where there is no such number.
    """

    job: str
    policies: Sequence[str]
    serialise: float = 1.0
    prepare: Callable[[Path, bool], Mapping[str, str]] | None = None
    days: int | None = None

    def __call__(self, folder: Path, reduced: bool) -> pd.DataFrame:
        """Trace and replay; what is there already is not done again."""
        return self.first(folder, reduced, REDUCED_PERIODS if reduced else self.days)

    def first(
        self, folder: Path, reduced: bool, most: int | None, placement: str | None = None
    ) -> pd.DataFrame:
        """Trace, and replay the first periods; from another placement where one is named.

        What a replay of more periods has stored of them is taken from there.
        """
        import pandas as pd

        from experiments.replay.periods import load_trace
        from experiments.replay.run import ReplayOptions, run_replay
        from experiments.traces.instances import load_scale
        from streamplace.policies.deployment import CostModel

        trace = self.trace(folder, reduced)
        scale = self.serialise * load_scale(trace)
        periods = load_trace(trace.path, placement, most=most)
        options = ReplayOptions(policies=self._known(), costs=CostModel(scale, scale))
        if placement is None and (stored := self._stored(folder, len(periods))):
            return pd.DataFrame(stored)
        most = None if most == self.whole(reduced, len(trace.manifest.periods)) else most
        name = "-".join(str(part) for part in ("replay", placement, most) if part is not None)
        done = run_replay(periods, folder / name, options, quiet=False)
        return pd.DataFrame(list(done.rows))

    def _stored(self, folder: Path, most: int) -> list[dict[str, Any]]:
        """Return the first rows of every policy where a longer replay has them, else none."""
        from experiments.replay.run import ReplayFolder

        longer = [p for p in folder.glob("replay*") if p.name.removeprefix("replay-").isdigit()]
        rows: list[dict[str, Any]] = []
        for policy in self._known():
            found = (ReplayFolder(p).load(policy).rows for p in (folder / "replay", *longer))
            mine = next((rows for rows in found if len(rows) >= most), [])
            if not mine:
                return []
            rows += mine[:most]
        return rows

    @staticmethod
    def whole(reduced: bool, periods: int) -> int:
        """Return how many periods a figure replays."""
        return min(periods, REDUCED_PERIODS) if reduced else periods

    def _known(self) -> tuple[str, ...]:
        from optim.methods.registry import method_names
        from streamplace.policies.registry import POLICIES

        known = {*POLICIES.names(), *method_names()}
        return tuple(name for name in self.policies if name.partition(":")[0] in known)

    def trace(self, folder: Path, reduced: bool) -> Any:
        import json

        from experiments.traces.folder import TraceFolder, is_trace
        from experiments.traces.job import load_job
        from experiments.traces.trace import run_trace

        job: Job = load_job(Path(__file__).with_name(self.job))
        path = folder / "trace"
        with contextlib.suppress(InvalidInput):  # damaged, or of an older version: traced again
            if is_trace(path):
                trace = TraceFolder.open(path)
                if trace.manifest.job == json.loads(json.dumps(job.document, default=str)):
                    return trace
        paths = self.prepare(folder, reduced) if self.prepare else {}
        return run_trace(job, path, "local[2]", paths=paths, quiet=False)


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
