"""From spec to runs: what multiplies, what collapses, what the key depends on, what is refused."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.sweep import plan
from experiments.sweep.instances import content_hash
from experiments.sweep.plan import Run, plan_runs
from experiments.sweep.spec import Spec
from optim import Instance
from optim.errors import InvalidInput
from optim.methods.registry import METHODS
from tests.experiments.sweep import fakes
from tests.experiments.sweep.conftest import INSTANCE

Make = Callable[..., Spec]


def problems_of(spec: Spec) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        plan_runs(spec)
    return {problem.path: str(problem) for problem in caught.value.problems}


def keys(runs: tuple[Run, ...]) -> set[str]:
    return {run.key for run in runs}


def test_solvers_multiply_only_methods_that_use_one(make_spec: Make) -> None:
    spec = make_spec({"method": ["top-down", "balance-milp"], "solver": ["cbc", "highs"]})
    runs = plan_runs(spec).runs
    assert [(r.method, r.settings.solver) for r in runs] == [
        ("top-down", None),
        ("balance-milp", "cbc"),
        ("balance-milp", "highs"),
    ]
    assert "solver" not in runs[0].factors
    assert runs[1].factors["solver"] == "cbc"
    assert runs[1].kind == "exact"
    assert runs[1].family == "rebalancing"


def test_the_default_solver_is_written_down(make_spec: Make) -> None:
    (run,) = plan_runs(make_spec({"method": ["balance-milp"]})).runs
    assert run.settings.solver is not None


def test_a_solver_that_a_method_cannot_use_is_left_out_and_told(
    make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from experiments.sweep import plan as planning
    from optim.methods.registry import get_method

    few = replace(get_method("balance-milp"), solvers=("highs",))
    monkeypatch.setattr(planning, "look_up", lambda name: few)
    plan = plan_runs(make_spec({"method": ["balance-milp"], "solver": ["highs", "cp-sat"]}))
    assert [r.settings.solver for r in plan.runs] == ["highs"]
    assert plan.notes == ("balance-milp does not run on cp-sat: 1 combinations left out",)


def test_warm_starts_multiply_only_methods_that_take_one(make_spec: Make) -> None:
    spec = make_spec({"method": ["top-down", "balance-milp"], "warm_start": ["none", "flux"]})
    found = [(r.method, r.settings.warm_start) for r in plan_runs(spec).runs]
    assert found == [("top-down", None), ("balance-milp", None), ("balance-milp", "flux")]


def test_options_of_the_matrix_reach_only_methods_that_have_them(make_spec: Make) -> None:
    spec = make_spec(
        {"method": ["storm-even", "top-down"], "option": {"priority": ["imc", "significance"]}}
    )
    runs = plan_runs(spec).runs
    assert [(r.method, dict(r.options)) for r in runs] == [
        ("storm-even", {}),
        ("top-down", {"priority": "imc"}),
        ("top-down", {"priority": "significance"}),
    ]
    assert len({r.label for r in runs}) == 3
    assert runs[1].factors["option.priority"] == "imc"


def test_labels_tell_what_sets_a_run_apart(make_spec: Make) -> None:
    methods = [
        "m",
        {"method": "m", "options": {"p": [1, 2]}},
        {"method": "m", "label": "L", "options": {"p": 3}},
        {"method": "m", "label": "V", "options": {"p": [4, 5], "q": True}},
        {"method": "m", "warm_start": "w"},
    ]
    runs = plan_runs(make_spec({"method": methods}), fakes.NAME).runs
    assert [r.label for r in runs] == [
        "m", "m (p=1)", "m (p=2)", "L", "V (p=4)", "V (p=5)", "m (warm_start=w)",
    ]  # fmt: skip


def test_runs_carry_arguments_and_columns(make_spec: Make) -> None:
    spec = make_spec(
        {"method": [{"method": "top-down", "options": {"priority": "imc"}}], "load_share": [0.5]},
        seed=7,
        time_limit=10,
        repair=True,
    )
    (run,) = plan_runs(spec).runs
    assert run.arguments() == {
        "method": "top-down", "solver": None, "time_limit": 10.0, "gap": None, "seed": 7,
        "threads": 1, "warm_start": None, "repair": True, "ignore": [], "priority": "imc",
    }  # fmt: skip
    columns = run.columns()
    assert columns["instance"] == "tiny"
    assert columns["num_tasks"] == 4
    assert columns["factors"]["load_share"] == "0.5"
    assert run.instance.name == "tiny [load_share=0.5]"
    varied = Instance.from_json(run.instance.text())
    assert varied.sha256 == columns["instance_sha256"]
    assert varied.nodes.capacity[:, 0].tolist() == [50, 150]


def test_deadline_follows_the_time_limit(make_spec: Make) -> None:
    def timeout(**top: Any) -> float:
        return plan_runs(make_spec({"method": ["top-down"]}, **top)).runs[0].timeout

    assert timeout() == 600
    assert timeout(time_limit=10) == 50
    assert timeout(time_limit=10, run_timeout=11) == 11
    assert timeout(time_limit=10, certificate=True) == 210  # it may take twice the solve


def test_a_certificate_is_asked_of_methods_that_the_file_names(make_spec: Make) -> None:
    methods = ["top-down", {"method": "imc-exact", "certificate": True}]
    plain, certified = plan_runs(make_spec({"method": methods})).runs
    assert "certificate" not in plain.arguments()
    assert certified.arguments()["certificate"] is True
    assert certified.label == "imc-exact"
    assert certified.factors["certificate"] == "true"


def test_key_depends_on_what_decides_the_outcome_only(make_spec: Make, base: Path) -> None:
    def key(matrix: dict[str, Any] | None = None, **top: Any) -> str:
        spec = make_spec(matrix or {"method": ["top-down"]}, **top)
        return plan_runs(spec).runs[0].key

    plain = key()
    assert key() == plain
    assert key(name="other name", description="…", run_timeout=5, memory_limit="1GB") == plain
    assert key({"method": [{"method": "top-down", "label": "TD"}]}) == plain
    text = json.dumps(json.loads((base / "tiny.json").read_text()), indent=3)
    (base / "tiny.json").write_text(text)
    assert key() == plain
    changed = [
        key(seed=1),
        key(time_limit=5),
        key(threads=2),
        key(repair=True),
        key(certificate=True),
        key({"method": ["storm-even"]}),
        key({"method": [{"method": "top-down", "options": {"priority": "imc"}}]}),
        key({"method": ["top-down"], "load_share": [0.5]}),
    ]
    (base / "tiny.json").write_text(json.dumps({**INSTANCE, "input_rate": 3}))
    changed.append(key())
    assert len({plain, *changed}) == len(changed) + 1


def test_two_variations_to_the_same_content_are_two_runs(make_spec: Make) -> None:
    spec = make_spec({"method": ["top-down"], "scale_capacity": [{"cpu": 1.0}, {"memory": 1.0}]})
    runs = plan_runs(spec).runs
    assert len(keys(runs)) == 2
    assert len({r.instance.sha256 for r in runs}) == 1


def test_extending_keeps_the_keys_there_were(make_spec: Make) -> None:
    before = keys(plan_runs(make_spec({"method": ["top-down"], "seed": [0, 1]})).runs)
    matrix = {"method": ["top-down", "storm-even"], "seed": [0, 1, 2]}
    after = keys(plan_runs(make_spec(matrix)).runs)
    assert before < after


def test_exclude_and_include_by_instance_label_and_glob(make_spec: Make) -> None:
    spec = make_spec(
        {
            "method": [{"method": "top-down", "label": "TD"}, "storm-even"],
            "exclude": [{"instance": "oth*", "method": "TD"}],
            "include": [
                {"instance": "tiny", "method": "storm-even", "time_limit": 9},
                {"method": "flux", "seed": 4},
            ],
        },
        instances={"files": ["*.json"]},
    )
    found = {
        (r.instance.name, r.method, r.settings.time_limit, r.settings.seed)
        for r in plan_runs(spec).runs
    }
    assert found == {
        ("other", "storm-even", None, 0),
        ("tiny", "top-down", None, 0),
        ("tiny", "storm-even", 9.0, 0),
        ("other", "flux", None, 4),
        ("tiny", "flux", None, 4),
    }


def test_exclude_and_include_see_the_solvers_of_a_method(make_spec: Make) -> None:
    def found(**more: Any) -> list[tuple[Any, ...]]:
        own = {"method": "balance-milp", "label": "B", "solver": ["scip", "cbc"]}
        spec = make_spec({"method": ["top-down", own], "solver": ["highs", "cbc"], **more})
        return [(r.label, r.settings.solver, r.settings.time_limit) for r in plan_runs(spec).runs]

    top_down, scip, cbc = ("top-down", None, None), ("B", "scip", None), ("B", "cbc", None)
    assert found() == [top_down, scip, cbc]
    assert found(exclude=[{"method": "B", "solver": "scip"}]) == [top_down, cbc]
    assert found(exclude=[{"solver": "highs"}]) == [top_down, scip, cbc]
    limited = {"solver": "cbc", "time_limit": 4}
    assert found(include=[limited]) == [top_down, scip, ("B", "cbc", 4.0)]


def test_a_method_may_do_without_what_the_sweep_sets(make_spec: Make) -> None:
    method = {"method": "balance-milp", "solver": "none", "warm_start": "none"}
    spec = make_spec({"method": [method, "balance-milp"]}, solver="scip", warm_start="flux")
    first, second = (run.settings for run in plan_runs(spec).runs)
    assert (first.solver, first.warm_start) == ("highs", None)
    assert (second.solver, second.warm_start) == ("scip", "flux")


def test_runs_that_differ_in_a_setting_differ_in_their_factors(make_spec: Make) -> None:
    settings: list[dict[str, Any]] = [
        {"time_limit": 1},
        {"time_limit": 2},
        {"gap": 0.0},
        {"gap": 0.1},
        {"gap": "10%"},
        {},
    ]
    spec = make_spec({"method": [{"method": "balance-milp", **one} for one in settings]})
    runs = plan_runs(spec).runs
    assert len({run.label for run in runs}) == 1
    assert len({json.dumps(dict(run.factors), sort_keys=True) for run in runs}) == len(settings)
    assert runs[0].factors["time_limit"] == "1"


def test_methods_that_mean_the_same_runs_are_told(make_spec: Make) -> None:
    twin = {"method": "balance-milp", "label": "H", "solver": "highs"}
    plan = plan_runs(make_spec({"method": ["balance-milp", twin], "seed": [0, 1]}))
    assert [run.label for run in plan.runs] == ["balance-milp"] * 2
    assert plan.notes == ("H means 2 runs that balance-milp means as well: done once",)


def test_an_include_of_its_own_may_name_a_label(make_spec: Make) -> None:
    labelled = {"method": "top-down", "label": "TD", "options": {"priority": "imc"}}
    spec = make_spec({"method": [labelled], "seed": [0], "include": [{"method": "TD", "seed": 5}]})
    found = [(r.method, r.label, r.settings.seed, dict(r.options)) for r in plan_runs(spec).runs]
    assert found == [
        ("top-down", "TD", 0, {"priority": "imc"}),
        ("top-down", "TD", 5, {"priority": "imc"}),
    ]


def test_a_file_is_taken_once_and_names_are_made_unique(make_spec: Make, base: Path) -> None:
    (base / "sub").mkdir()
    twin = {**INSTANCE, "input_rate": 2}
    (base / "sub" / "twin.json").write_text(json.dumps(twin))
    (base / "notes.txt").write_text("no instance")
    spec = make_spec(
        {"method": ["top-down"]}, instances={"files": ["**/*.json", "tiny.json", "tiny*"]}
    )
    names = [r.instance.name for r in plan_runs(spec).runs]
    assert sorted(names) == ["other", "tiny (tiny)", "tiny (twin)"]


@pytest.mark.parametrize(
    ("matrix", "path", "text"),
    [
        ({"method": ["top-dwon"]}, "matrix.method[0]", "did you mean top-down"),
        ({"method": ["top-down"], "solver": ["cplex"]}, "matrix.solver[0]", "is no solver"),
        ({"method": ["top-down"], "warm_start": ["magic"]}, "matrix.warm_start[0]", "no method"),
        ({"method": ["top-down"], "option": {"speed": [1]}}, "matrix.option.speed", "no method"),
        ({"method": ["top-down"], "option": {"priority": ["x"]}},
         "matrix.option.priority[0]", "is not a choice"),
        ({"method": [{"method": "top-down", "options": {"priority": "x"}}]},
         "matrix.method[0].options.priority", "is not a choice"),
        ({"method": [{"method": "top-down", "options": {"speed": 1}}]},
         "matrix.method[0].options.speed", "is no option of top-down"),
        ({"method": ["top-down"], "include": [{"method": "best"}]},
         "matrix.include[0].method", "is no method"),
        ({"method": ["top-down"], "exclude": [{"instance": "q7"}]},
         "matrix.exclude[0].instance", "is no instance of this sweep (one of tiny)"),
        ({"method": ["top-down"], "exclude": [{"method": "top-dwon"}]},
         "matrix.exclude[0].method", "value of method of this sweep (did you mean top-down?)"),
        ({"method": ["top-down"], "seed": [1], "exclude": [{"seed": 2}]},
         "matrix.exclude[0].seed", "is no value of seed of this sweep (one of 1)"),
        ({"method": ["top-down"], "exclude": [{"method": "top-down"}]}, "matrix", "no run"),
        ({"include": [{"seed": 1}]}, "matrix.include", "names no method"),
        ({"method": [{"method": "top-down", "gap": 0.1}], "gap": [0.2]}, "matrix.gap", "as well"),
        ({"method": [{"method": "top-down", "options": {"priority": "imc"}}],
          "option": {"priority": ["significance"]}}, "matrix.option.priority", "as well"),
        ({"method": ["top-down"], "scale_capacity": [{"disk": 2}]}, "tiny", "no resource disk"),
        ({"method": ["top-down"], "seed": {"from": 0, "to": 999_999}, "gap": [0.1, 0.2]},
         "matrix", "more than 1000000 runs"),
    ],
)  # fmt: skip
def test_what_is_refused(make_spec: Make, matrix: dict[str, Any], path: str, text: str) -> None:
    problems = problems_of(make_spec(matrix))
    assert list(problems) == [path]
    assert text in problems[path]


def test_spec_problems_come_together(make_spec: Make) -> None:
    spec = make_spec(
        {"method": ["a-method"], "solver": ["a-solver"]}, instances={"files": ["none*.json"]}
    )
    assert set(problems_of(spec)) == {"matrix.method[0]", "matrix.solver[0]", "instances.files[0]"}


def test_problems_of_all_instances_come_together(make_spec: Make, base: Path) -> None:
    (base / "a.json").write_text("{")
    (base / "b.json").write_text(json.dumps({**INSTANCE, "nodes": "none"}))
    spec = make_spec({"method": ["top-down"]}, instances={"files": ["*.json"]})
    problems = problems_of(spec)
    assert [Path(path.split(": ")[0]).name for path in problems] == ["a.json", "b.json"]


def test_generators_multiply_parameters_and_seeds(
    make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def generate(kind: str, *, seed: int, **parameters: Any) -> Instance:
        calls.append((kind, seed, parameters))
        return Instance.from_dict({**INSTANCE, "input_rate": 100 * seed + parameters["groups"]})

    module = types.ModuleType("experiments.generators")
    module.generate = generate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "experiments.generators", module)
    entry = {"kind": "graph", "seeds": {"from": 1, "to": 2}, "groups": [2, 3], "dense": True}
    spec = make_spec({"method": ["top-down"]}, instances={"generate": [entry]})
    runs = plan_runs(spec).runs
    assert calls == [
        ("graph", seed, {"groups": groups, "dense": True}) for groups in (2, 3) for seed in (1, 2)
    ]
    assert runs[0].factors["instance.groups"] == "2"
    assert runs[0].factors["instance.seed"] == "1"
    assert len({r.instance.name for r in runs}) == 4


GENERATE: dict[str, Any] = {"kind": "random_graphs"}


@pytest.mark.parametrize("key", ["seed", "seeds"])
@pytest.mark.parametrize(
    ("given", "seeds"), [([0, 1], "01"), (3, "3"), ({"from": 4, "to": 5}, "45")]
)
def test_seeds_of_a_generator_in_either_spelling(
    make_spec: Make, key: str, given: Any, seeds: str
) -> None:
    spec = make_spec({"method": ["top-down"]}, instances={"generate": [{**GENERATE, key: given}]})
    runs = plan_runs(spec).runs
    assert [run.factors["instance.seed"] for run in runs] == list(seeds)


def test_both_spellings_of_a_generators_seeds_are_refused(make_spec: Make) -> None:
    with pytest.raises(InvalidInput, match=r"generate\[0\].seed.*seeds too.*keep seeds"):
        make_spec(
            {"method": ["m"]}, instances={"generate": [{**GENERATE, "seed": 1, "seeds": [2]}]}
        )


@pytest.mark.parametrize("wrong", [-1, "x", [0, 1.5], [], [True]])
def test_a_seed_that_is_none_is_refused(make_spec: Make, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"instances.generate\[0\].seed"):
        make_spec({"method": ["m"]}, instances={"generate": [{**GENERATE, "seed": wrong}]})


def test_seeds_of_a_generator_without_chance_are_refused(make_spec: Make) -> None:
    entry = {"kind": "pipeline", "seeds": {"from": 0, "to": 99}, "nodes": [4, 8]}
    spec = make_spec({"method": ["top-down"]}, instances={"generate": [entry]})
    (told,) = problems_of(spec).values()
    assert "instances.generate[0]: seed" in told
    assert "draws nothing at random" in told
    assert "leave the seed out; what may vary: groups, tasks" in told


def test_seeds_that_make_an_instance_again_are_left_out_and_told(
    make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other packages' generators may take a seed and no notice of it, or few of its bits."""

    def generate(kind: str, *, seed: int, **parameters: Any) -> Instance:
        document = {
            **INSTANCE,
            "name": f"s{seed}",
            "origin": f"seed {seed}",
            "input_rate": seed % 3,
        }
        return Instance.from_dict({**document, "labels": {"seed": str(seed)}})

    module = types.ModuleType("experiments.generators")
    module.generate = generate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "experiments.generators", module)
    entry = {"kind": "graph", "seeds": {"from": 0, "to": 9}}
    made = plan_runs(make_spec({"method": ["top-down"]}, instances={"generate": [entry]}))
    assert [run.factors["instance.seed"] for run in made.runs] == ["0", "1", "2"]
    assert made.notes == ("graph: 7 of 10 seeds make an instance again",)


def test_equal_files_are_told_and_have_one_content(make_spec: Make) -> None:
    made = plan_runs(make_spec({"method": ["top-down"]}, instances={"files": ["*.json"]}))
    assert [run.instance.name for run in made.runs] == ["other", "tiny"]
    assert len({run.columns()["instance_sha256"] for run in made.runs}) == 2
    assert len({run.columns()["instance_content"] for run in made.runs}) == 1
    assert made.notes == (
        "2 instances hold 1 different contents: equal ones count as one case in reports",
    )


def test_the_content_of_an_instance_is_all_but_its_names(tiny: dict[str, Any]) -> None:
    def content(**changes: Any) -> str:
        return content_hash(Instance.from_dict({**tiny, **changes}))

    nodes = [{**node, "labels": {"host": "h"}} for node in tiny["nodes"]]
    named = content(name="x", origin="y", units={"cpu": "cores"}, labels={"a": "b"}, nodes=nodes)
    assert named == content()
    assert content(nodes=[tiny["nodes"][0]]) != content()
    assert content(limits={"max_migrations": 3}) != content()
    assert content(streams=[{"from": "a", "to": "b", "rate": 9}]) != content()


def test_methods_of_a_foreign_runner_are_not_looked_up(make_spec: Make) -> None:
    spec = make_spec({"method": ["good"], "solver": ["mine"], "option": {"x": [1]}})
    (run,) = plan_runs(spec, fakes.NAME).runs
    assert (run.settings.solver, run.options, run.kind) == ("mine", {"x": 1}, "")
    assert run.key != plan_runs(spec, "some:other").runs[0].key


def test_the_number_of_runs_is_capped_before_they_are_made(
    make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MAX_RUNS", 3)
    assert "matrix" in problems_of(make_spec({"method": ["top-down"], "seed": [0, 1, 2, 3]}))
    assert len(plan_runs(make_spec({"method": ["top-down"], "seed": [0, 1, 2]})).runs) == 3


def test_objectives_multiply_only_methods_that_have_several(make_spec: Make) -> None:
    wanted = ["used_capacity", "cpu_deviation"]
    runs = plan_runs(make_spec({"method": ["gma", "top-down"], "objective": wanted})).runs
    found = [(r.method, r.settings.objective, r.arguments().get("objective")) for r in runs]
    assert sorted(found, key=str) == [
        ("gma", "cpu_deviation", "cpu_deviation"),
        ("gma", "used_capacity", "used_capacity"),
        ("top-down", None, None),
    ]
    assert {r.label for r in runs} == {
        "gma (objective=used_capacity)", "gma (objective=cpu_deviation)", "top-down",
    }  # fmt: skip


def test_an_objective_of_the_method_s_own_table_and_where_earlier_versions_had_it(
    make_spec: Make,
) -> None:
    new = {"method": "gma", "objective": "cpu_deviation"}
    old = {"method": "gma", "label": "old", "options": {"objective": "deviation"}}
    runs = plan_runs(make_spec({"method": [new, old]})).runs
    assert [r.arguments()["objective"] for r in runs] == ["cpu_deviation", "deviation"]
    plain, asked = (
        plan_runs(make_spec({"method": [{"method": "gma", **more}]})).runs[0]
        for more in ({}, {"objective": "cpu_deviation"})
    )
    assert plain.key != asked.key


def test_objectives_that_are_none_are_told(make_spec: Make) -> None:
    found = problems_of(make_spec({"method": ["gma"], "objective": ["luck"]}))
    assert "is no figure to optimise" in found["matrix.objective[0]"]
    table = {"method": "gma", "objective": "load_distance"}
    found = problems_of(make_spec({"method": [table]}))
    (told,) = found.values()
    assert "does not minimise load_distance" in told


def test_starts_reach_the_methods_that_can_begin_with_nothing(make_spec: Make) -> None:
    matrix = {"method": ["imc-milp", "imc-exact", "top-down"], "warm_start": ["none", "top-down"]}
    made = plan_runs(make_spec(matrix, starts="none"))
    found = [(r.method, r.arguments().get("starts"), r.settings.warm_start) for r in made.runs]
    assert found == [
        ("imc-milp", "none", None), ("imc-milp", "none", "top-down"),
        ("imc-exact", None, None), ("imc-exact", None, "top-down"), ("top-down", None, None),
    ]  # fmt: skip
    assert made.notes == ("imc-exact uses starts of its own: starts = none is not supported",)
    usual = plan_runs(make_spec(matrix)).runs
    assert usual[0].key != made.runs[0].key
    assert [run.key for run in usual[2:]] == [run.key for run in made.runs[2:]]


def test_starts_as_a_factor_are_shown(make_spec: Make) -> None:
    runs = plan_runs(make_spec({"method": ["imc-milp", "naive"], "starts": ["own", "none"]})).runs
    assert [run.label for run in runs] == [
        "imc-milp (starts=own)", "imc-milp (starts=none)", "naive"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("matrix", "top", "path"),
    [
        ({"method": [{"method": "imc-exact", "starts": "none"}]}, {}, "matrix.method[0].starts"),
        ({"method": ["imc-milp"], "starts": ["cold"]}, {}, "matrix.starts[0]"),
        ({"method": ["imc-milp"]}, {"starts": True}, "starts"),
    ],
)
def test_starts_that_are_none_of_the_two_are_refused(
    make_spec: Make, matrix: dict[str, Any], top: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        plan_runs(make_spec(matrix, **top))
    assert [problem.path for problem in caught.value.problems] == [path]


MINE = """
from dataclasses import replace
from optim.methods.registry import get_method
METHOD = replace(get_method("random"), name="mine")
"""


def test_a_method_of_a_file_beside_the_sweep(base: Path) -> None:
    """Its name is the method's; the file's text is what makes it the same, not where it lies."""
    methods = ["./mine.py", "mine.py:METHOD", "random"]  # the first two are one
    document = {"name": "t", "instances": {"files": [str(base / "tiny.json")]}}
    found = []
    for folder, text in (("a", MINE), ("b", MINE), ("c", f"{MINE}\n")):
        (base / folder).mkdir()
        (base / folder / "mine.py").write_text(text)
        runs = plan_runs(Spec.from_dict(document | {"matrix": {"method": methods}}, base / folder))
        assert [run.label for run in runs.runs] == ["mine", "random"]
        assert runs.runs[0].method == str(base / folder / "mine.py")
        found.append(keys(runs.runs))
    METHODS.added.clear()
    assert found[0] == found[1]
    assert len(found[0] & found[2]) == 1  # of random


def test_a_method_of_a_module_is_another_one_when_its_text_changes(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(base))
    document = {"name": "t", "instances": {"files": [str(base / "tiny.json")]}}
    spec = Spec.from_dict(document | {"matrix": {"method": ["mine_module:METHOD"]}}, base)
    found = []
    for text in (MINE, f"{MINE}\n"):
        (base / "mine_module.py").write_text(text)
        found.append(keys(plan_runs(spec).runs))
        METHODS.added.clear()
    assert not found[0] & found[1]


def test_a_method_of_a_file_that_is_none(make_spec: Make) -> None:
    told = problems_of(make_spec({"method": ["./none.py"]}))
    assert "cannot be loaded: [Errno 2]" in told["matrix.method[0]"]
