"""What the real jobs share: trace, replay by every policy, one line a policy, four panels; and a
synthetic stream of article edits: popularity after Zipf, places spread evenly.
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
from streamplace.present.plots import COLORS, DASHES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

    from experiments.traces.job import Job


POLICIES: Mapping[str, str] = {
    "albic": "ALBIC, 1 pair",
    "cola": "COLA",
    "balance-milp:gap=6": "MILP",
    "flux": "Flux",
    "static": "static",
    "albic:pairs_per_round=5": "ALBIC, 5 pairs",
    "joint-search:max_load_distance=10,bound=counting,steps=5000": "joint-search",
}
"""Policies and their names in tables. The gap of the MILP, where its proof stops, is in percent of
the mean load."""

PROVED_LESS: Mapping[str, str] = {
    "albic:balance_gap=5": "ALBIC, 1 pair",
    **{policy: name for policy, name in POLICIES.items() if not policy.startswith("albic")},
    "albic:balance_gap=5,pairs_per_round=5": "ALBIC, 5 pairs",
}
"""Those of Real Jobs 3 and 4, where a proof within a point takes long."""

REDUCED_PERIODS = 30
END = 12
"""*At the end* is the mean over the last twelfth of the periods: of a year, its last month."""

SERIES = "series"
"""Attribute of a table that holds the rows of every period, for the plot."""

_PANELS = (
    ("collocation_factor", "collocation factor (%)", 100.0),
    ("load_distance", "load distance (points)", 1.0),
    ("load_index", "load index (%)", 100.0),
    ("migrations", "migrations", 1.0),
)


@dataclass(frozen=True)
class Replaying:
    """Rows of a figure: a job traced, then replayed.

    Attributes
    ----------
    job
        Job description beside this module.
    policies
        As `POLICIES`; methods that are not registered are left out.
    serialise
        Cost of a tuple that crosses between nodes, on either side, where handling it costs 1.
    prepare
        Makes recordings in a folder and returns their paths; none for those of the description.
    days
        Periods of a figure at full size; all where there is no such number.
    """

    job: str
    policies: Mapping[str, str]
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
        from experiments.replay.store import ReplayFolder

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


def table_of(policies: Mapping[str, str]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return what makes one line a policy of the rows."""

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        lines = []
        for policy, mine in rows.groupby("policy", sort=False):
            end = mine.tail(max(1, len(mine) // END))
            lines.append(
                {
                    "policy": policies[str(policy)],
                    "collocation at the end (%)": 100 * end["collocation_factor"].mean(),
                    "best (%)": 100 * mine["collocation_factor"].max(),
                    "load distance now (points)": mine["load_distance"].mean(),
                    "next (points)": mine["load_distance_next"].mean(),
                    "load index at the end (%)": 100 * end["load_index"].mean(),
                    "migrations a period": mine["migrations"].mean(),
                }
            )
        made = pd.DataFrame(lines)
        made.attrs[SERIES] = rows.assign(policy=rows["policy"].map(dict(policies)))
        return made

    return table


def draw(table: pd.DataFrame, axes: Any) -> None:
    """Draw the paper's four panels; long replays as means over seven periods."""
    rows = table.attrs[SERIES]
    smooth = 7 if rows["period"].max() > 60 else 1
    for place, (column, label, factor) in zip(axes, _PANELS, strict=True):
        for number, (policy, mine) in enumerate(rows.groupby("policy", sort=False)):
            values = mine.set_index("period")[column].astype(float) * factor
            place.plot(
                values.rolling(smooth, center=True, min_periods=1).mean(),
                label=policy,
                color=COLORS[number % len(COLORS)],
                linestyle=DASHES[number % len(DASHES)],
            )
        place.set_ylabel(label)
        place.set_ylim(bottom=0)
    axes[0].legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    mean = ", means over 7" if smooth > 1 else ""
    axes[-1].set_xlabel(f"period{mean}")


def line(table: pd.DataFrame, policy: str) -> dict[str, Any] | None:
    """Return the line of a policy, if it is there."""
    found = table[table["policy"] == policy].to_dict("records")
    return found[0] if found else None  # type: ignore[return-value]


def climbing(table: pd.DataFrame) -> list[str]:
    """Return what the paper says of ALBIC and COLA, with our figures."""
    rows = table.attrs[SERIES]
    cola = line(table, "COLA")
    ours = {
        text: found
        for text, name in (("one pair", "ALBIC, 1 pair"), ("five pairs", "ALBIC, 5 pairs"))
        if (found := line(table, name))
    }
    if not cola or not ours:
        return []
    share, index = "collocation at the end (%)", "load index at the end (%)"
    told = [
        f"COLA collocates {cola[share]:.0f} % of the traffic at the end, and nearly as much from "
        f"its first plan on ({100 * _first(rows, 'COLA'):.0f} %), with "
        f"{cola['migrations a period']:.0f} migrations a period."
    ]
    for text, mine in ours.items():
        reached = _reached(rows, mine["policy"], 0.9 * cola[share] / 100)
        told.append(
            f"ALBIC with {text} a period reaches {mine['best (%)']:.0f} % ({mine[share]:.0f} % at "
            f"the end; 90 % of COLA's {reached}), with {mine['migrations a period']:.1f} "
            "migrations a period."
        )
    each = ", ".join(f"ALBIC {mine[index]:.0f} % ({text})" for text, mine in ours.items())
    told.append(
        f"Load index at the end: {each}, COLA {cola[index]:.0f} % before what its migrations cost."
    )
    for column, when in (("load distance now (points)", "just after migrating"),
                         ("next (points)", "on the next day")):  # fmt: skip
        each = ", ".join(f"ALBIC {mine[column]:.1f} ({text})" for text, mine in ours.items())
        told.append(f"Mean load distance {when}: {each}, COLA {cola[column]:.1f} points.")
    joint = line(table, "joint-search")
    if joint:
        told.append(
            f"joint-search, at most 10 points asked for, reaches {joint['best (%)']:.0f} % "
            f"(90 % of COLA's {_reached(rows, 'joint-search', 0.9 * cola[share] / 100)}) with "
            f"{joint['migrations a period']:.1f} migrations a period, at a load distance of "
            f"{joint['load distance now (points)']:.1f} points."
        )
    return told


def _first(rows: pd.DataFrame, policy: str) -> float:
    return float(rows[rows["policy"] == policy]["collocation_factor"].iloc[0])


def _reached(rows: pd.DataFrame, policy: str, share: float) -> str:
    mine = rows[(rows["policy"] == policy) & (rows["collocation_factor"] >= share)]
    return f"first in period {mine['period'].min()}" if len(mine) else "never"


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
