"""The figures of the model-driven scheduling paper, from results without a sweep."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.generators import generate
from experiments.studies.papers import find_figures
from experiments.studies.papers.model_driven import runs
from experiments.studies.papers.tables import tables_of
from optim import solve
from tests.studies.papers.test_claim import judge_claim

METHODS = {
    "LSA+RSM": ("lsa+rsm", {}),
    "MBA+SAM": ("mba+sam", {}),
    "least for threads": ("slots-milp", {"items": "threads", "cpu": "vm", "traffic": False}),
    "least for bundles": ("slots-milp", {"traffic": False}),
}


def rows_of(shape: str, rates: list[float], methods: dict) -> pd.DataFrame:
    rows = []
    for rate in rates:
        instance = generate("micro_dag", shape=shape, rate=rate)
        for label, (method, options) in methods.items():
            result = solve(instance, method, **options)
            rows.append(
                {
                    "instance.shape": shape,
                    "instance.rate": rate,
                    "method_label": label,
                    "result": result.to_json(),
                }
            )
    return pd.DataFrame(rows)


SLOTS, MACHINES = (find_figures(f"model-driven/{name}")[0] for name in ("fig-7", "fig-9"))


@pytest.fixture(scope="module")
def slots() -> pd.DataFrame:
    return SLOTS.table(rows_of("linear", [50.0, 200.0], METHODS))


def test_the_figures_are_found() -> None:
    names = [figure.name for figure in find_figures("model-driven")]
    assert names == [
        f"model-driven/{name}" for name in ("fig-7", "fig-8", "fig-9", "live", "rates")
    ]


def test_slots_beside_the_papers_and_the_fewest(slots: pd.DataFrame) -> None:
    assert slots["MBA+SAM"].tolist() == [4, 15]
    assert slots["fewest for MBA's bundles"].tolist() == ["4", "15"]
    assert slots["fewest for LSA's threads"].tolist() == ["7", "26"]
    assert slots["paper LSA + RSM"].tolist() == ["7", "25 + 3"]
    assert slots["MBA+SAM fewer (%)"].tolist() == pytest.approx(
        [100 * (1 - 4 / 7), 100 * (1 - 15 / 27)]
    )
    sentences = SLOTS.measured(slots)
    assert "43 to 44 % fewer" in sentences[0]
    assert "SAM in 1 (linear at 200)" in sentences[1]


def test_the_slots_are_drawn(slots: pd.DataFrame) -> None:
    from streamplace.present.plots import canvas, to_svg

    with canvas(1, "slots") as (drawing, axes):
        SLOTS.plot(slots, axes)
        text = to_svg(drawing)
    assert "LSA+RSM: extra slots of the mapping" in text


def test_planned_predicted_and_actual_rates() -> None:
    rate, plan = runs.planned_on_20("linear", "MBA+DSM")
    found = runs.Predicted(runs.dag_at("linear", rate), plan)
    assert rate == 280
    assert found.shuffled == pytest.approx(265.65, abs=0.01)
    assert found.nearest == pytest.approx(200)
    assert found.capacity == pytest.approx(270)
    assert found.by_slot("blob") == [24] * 10 + [23] * 10
    planned = {"DAG": "linear", "pair": "MBA+DSM", "planned": rate,
               "predicted": 270.0, "predicted, nearest count": 200.0,
               "predicted, shuffled": 265.0}  # fmt: skip
    machines = [
        {"DAG": "linear", "pair": "MBA+DSM", "machine": name, "noise": 0.05,
         "seed": seed, "VM": vm, "actual": 200.0 + seed, "predicted CPU %": 50.0,
         "actual CPU %": 40.0 + vm, "predicted memory %": 10.0, "actual memory %": 9.0}
        for name in ("interpolated", "early") for seed in range(3) for vm in (1, 2)
    ]  # fmt: skip
    frames = {"planned": pd.DataFrame([planned]), "machines": pd.DataFrame(machines)}
    line = MACHINES.table(frames).iloc[0]
    assert (line["predicted"], line["actual (simulated, median)"]) == (270, 201)
    assert line["CPU of a machine, actual (%)"] == "41 to 42"


def test_the_worked_example_is_the_papers() -> None:
    assert (
        judge_claim("model_driven", "MD-F4", tables_of("model_driven")["worked"].make(True)).verdict
        == "same"
    )
    broken = tables_of("model_driven")["worked"].make(True)
    broken.loc[5, "SAM"] = "O4 G5"
    assert judge_claim("model_driven", "MD-F4", broken).verdict == "in part"


def test_books_and_prices_of_the_paper() -> None:
    booked = tables_of("model_driven")["bookings"].make(True)
    assert judge_claim("model_driven", "MD-L1", booked).verdict == "same"
    assert judge_claim("model_driven", "MD-L2", booked).verdict == "same"
    booked.loc[booked["allocation"] == "lsa", "CPU %"] += 5
    assert judge_claim("model_driven", "MD-L1", booked).verdict == "in part"
