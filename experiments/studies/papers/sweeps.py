"""Rows from a sweep: a TOML file of the paper, or an entry of one, run on Spark, taken up again."""

from __future__ import annotations

import copy
import tomllib
from itertools import product
from typing import TYPE_CHECKING, Any

from optim.errors import StreamplaceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from experiments.studies.papers.figure import Rows
    from experiments.sweep.spec import Spec

_SHOWN_ERRORS = 3
_WIDE = ("trace", "result", "versions", "factors")


def sweep_rows(path: Path, reduced: Mapping[str, Any], *, wide: bool = False) -> Rows:
    """Return the function that runs a sweep and gives its rows.

    Parameters
    ----------
    path
        The sweep file, at the paper's size.
    reduced
        What a reduced run has in place of it: dotted places in the file (a number for an entry of a
        list) and their values, as ``{"instances.generate.0.seeds": {"from": 0, "to": 19}}``.
    wide
        Keep the columns ``trace``, ``result`` (the whole result as JSON) and ``versions``.

    Returns
    -------
    Rows
        Its frame has the columns of `experiments.sweep.row`, and each factor as one more, numbers
        as numbers: ``instance.nodes``, ``option.priority``, ``load_share``, …
    """

    changes = dict(reduced)

    def rows(folder: Path, reduced: bool) -> pd.DataFrame:
        return run_rows(load(path, changes if reduced else None), folder, wide=wide)

    return rows


def run_rows(spec: Spec, folder: Path, *, wide: bool = False) -> pd.DataFrame:
    """Run a sweep, or the rest of it, and return its rows as `sweep_rows` describes them.

    Raises
    ------
    StreamplaceError
        A run failed, or Spark did; what is finished stays in the folder.
    """
    from experiments.sweep import plan_runs, run_sweep
    from experiments.sweep.store import MARKER

    again = (folder / MARKER).is_file()
    run_sweep(spec, folder)
    rows = read_planned(folder, wide)
    if again:
        # rows keep the label of their day; a label is no part of a run's key, and may be new
        labels = {run.key: run.label for run in plan_runs(spec).runs}
        rows["method_label"] = rows["run_key"].map(labels)
    return rows


def load(path: Path, changes: Mapping[str, Any] | None = None) -> Spec:
    """Read a sweep file, at full size or, with changes, reduced; the latter says so in its name.

    Raises
    ------
    InvalidInput
        The file, or what the changes made of it, is wrong.
    KeyError, IndexError
        A change names no place in the file.
    """
    from experiments.sweep import Spec

    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if changes is not None:
        document = change(document, changes)
        document["name"] = f"{document['name']} (reduced)"
    return Spec.from_dict(document, path.parent, path.name)


def run_all(sweeps: Sequence[Mapping[str, Any]], base: Path, folder: Path) -> pd.DataFrame:
    """Run sweeps one after another; return their rows, ``sweep`` the name, results as JSON too.

    A sweep runs an instance once that several seeds make; here every seed has its rows.
    """
    import pandas as pd

    from experiments.spark.session import spark_session
    from experiments.sweep import Spec

    specs = [Spec.from_dict(dict(one), base, one["name"]) for one in sweeps]
    with spark_session("local[*]"):
        found = [run_rows(s, folder / s.name, wide=True).merge(_seeds(s)) for s in specs]
    return pd.concat(found)


def _seeds(spec: Spec) -> pd.DataFrame:
    """Return each seed, and the instance of the first one that makes the same."""
    import pandas as pd

    from experiments.generators import generate
    from experiments.sweep.instances import content_hash

    rows = []
    for entry in spec.generators:
        for values in product(*entry.parameters.values()):
            given, first = dict(zip(entry.parameters, values, strict=True)), dict[str, str]()
            for seed in entry.seeds:
                made = generate(entry.kind, seed=seed, **given)
                name = first.setdefault(content_hash(made), made.name)
                rows.append({"instance": name, "drawn": seed})
    return pd.DataFrame(rows)


def change(document: Any, changes: Mapping[str, Any]) -> Any:
    """Return a document with other values at dotted places; ``*`` is every entry of a list.

    Raises
    ------
    KeyError, IndexError
        A change names no place; a new one would hide a slip in it.
    """
    document = copy.deepcopy(document)
    for place, value in changes.items():
        _change(document, place.split("."), value)
    return document


def _change(document: Any, place: Sequence[str], value: Any) -> None:
    step, *rest = place
    if step == "*":
        for entry in document:
            _change(entry, rest, value)
        return
    key: Any = int(step) if isinstance(document, list) else step
    found = document[key]  # raises where there is none
    if rest:
        _change(found, rest, value)
    else:
        document[key] = value


def read_planned(folder: Path, wide: bool = False) -> pd.DataFrame:
    """Return the rows that a folder's sweep means now, in the order of the matrix.

    Raises
    ------
    StreamplaceError
        A run ended otherwise than ``ok``: a figure must not be drawn from what is left.
    """
    from experiments.sweep import read_rows_pandas
    from experiments.sweep.store import ResultFolder

    rows = read_rows_pandas(folder).set_index("run_key")
    rows = rows.loc[ResultFolder(folder).marker()["runs"]].reset_index()
    failed = rows[rows["outcome"] != "ok"]
    if len(failed):
        told = [f"{r.method_label} on {r.instance}: {r.error}" for r in failed.itertuples()]
        raise StreamplaceError(
            f"{len(failed)} of {len(rows)} runs failed; first: "
            + "; ".join(told[:_SHOWN_ERRORS])
            + f"; `streamplace sweep … -o {folder} --retry-failed` does them again"
        )
    return _with_factors(rows, wide)


def _with_factors(rows: pd.DataFrame, wide: bool) -> pd.DataFrame:
    import pandas as pd

    factors = pd.DataFrame(list(rows["factors"]), index=rows.index)
    factors = factors.drop(columns=[name for name in factors if name in rows])
    for name in factors:
        # a factor that is a number for all runs that have it is one here
        numbers = pd.to_numeric(factors[name], errors="coerce")
        if (numbers.notna() == factors[name].notna()).all():
            factors[name] = numbers
    dropped = ["factors"] if wide else list(_WIDE)
    return pd.concat([rows.drop(columns=dropped), factors], axis=1)
