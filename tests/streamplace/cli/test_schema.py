"""The published JSON Schemas are the code's, describe every key, and real documents keep them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from optim import Instance, Plan, evaluate, solve
from optim.errors import InvalidInput, UnsuitableMethod
from optim.util.files import finite
from streamplace.cli.schema import ADAPTERS, schema
from streamplace.execute.batches import load_steps
from tests.command import run_command, validator
from tests.optim.make import document, instance

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.mark.parametrize("name", ADAPTERS)
def test_committed_schema_is_the_generated_one(name: str, repository: Path) -> None:
    path = repository / "docs" / "schema" / f"streamplace.{name}-1.json"
    assert json.loads(path.read_text()) == schema(name), (
        f"run: streamplace schema {name} > {path.relative_to(repository)}"
    )


def objects(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema that lists keys."""
    if isinstance(part, dict):
        if isinstance(part.get("properties"), dict) and "type" in part:
            yield part
        for inner in part.values():
            yield from objects(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from objects(inner)


@pytest.mark.parametrize("name", ADAPTERS)
def test_it_has_an_identifier_and_describes_every_key_and_no_other_is_allowed(name: str) -> None:
    published = schema(name)
    jsonschema.Draft202012Validator.check_schema(published)
    assert published["$id"] == f"urn:streamplace:schema:{name}:1"
    found = list(objects(published))
    assert found
    for part in found:
        assert part["additionalProperties"] is False, part["title"]
        for key, value in part["properties"].items():
            assert value.get("description"), f"{part['title']}.{key}"
            kinds = {"type", "$ref", "anyOf", "const", "enum"}
            assert kinds & value.keys(), f"{part['title']}.{key} may be anything"


def answers(examples: Path, folder: Path) -> dict[str, Any]:
    """Return a document of each sort that the command line makes, without a network."""
    file, plan, proof = str(examples / "capsys-q1.json"), "plan.json", "proof.json"
    lists = [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]
    content = {"version": 1, "partitions": lists}
    (folder / "reassignment.json").write_text(json.dumps(content))
    run_command(["solve", file, "-o", plan, "--certificate", proof, "-q"], folder, {})

    def printed(*words: str) -> Any:
        return json.loads(run_command([*words, "--json"], folder, {}).stdout)

    return {
        "instance": json.loads(Path(file).read_text()),
        "plan": json.loads((folder / plan).read_text()),
        "result": printed("solve", file, "-q"),
        "evaluation": printed("evaluate", file, plan),
        "explanation": printed("explain", file, plan),
        "scale": printed("scale", str(examples / "capsys-rate-q6.json"), "--target-rate", "2"),
        "steps": printed("steps", file, plan),
        "certificate": json.loads((folder / proof).read_text()),
        "verify": printed(
            "verify", "kafka", "reassignment.json",
            "--describe", str(examples / "kafka" / "topics.txt"),
        ),
        "decision": printed("decide", file, "--state", "state.json"),
    }  # fmt: skip


def test_a_key_that_is_unknown_or_missing_fails(examples: Path, tmp_path: Path) -> None:
    made = answers(examples, tmp_path)
    assert made.keys() == ADAPTERS.keys()
    for name, value in made.items():
        check = validator(name)
        check.validate(value)
        assert not check.is_valid({**value, "nonsense": 1}), name
        required = {"instance": {"format", "name"}, "plan": {"format", "instance", "assignment"}}
        for key in required.get(name, value.keys() - {"case", "excess"}):
            rest = {other: value[other] for other in value if other != key}
            assert not check.is_valid(rest), f"{name} without {key}"


def test_so_does_one_that_is_deep_inside(examples: Path, tmp_path: Path) -> None:
    value = answers(examples, tmp_path)["result"]
    check = validator("result")
    for part in (value["plan"], value["objective"], value["evaluation"], value["moves"][0]):
        part["nonsense"] = 1
        assert not check.is_valid(value)
        del part["nonsense"]
    for part, key in ((value["evaluation"], "imc_gain"), (value["moves"][0], "cost")):
        kept = part.pop(key)
        assert not check.is_valid(value)
        part[key] = kept
    check.validate(value)


@pytest.mark.parametrize("file", sorted(DATA.glob("*.json")), ids=lambda file: file.stem)
def test_results_of_all_sorts_of_instances_keep_it(file: Path) -> None:
    text = json.loads(file.read_text())
    if text.get("format") != "streamplace.instance/1":
        pytest.skip("is no instance")
    made = Instance.from_dict(text)
    try:
        found = solve(made, time_limit=0.3, explain=0.1)
    except (InvalidInput, UnsuitableMethod):
        pytest.skip("is refused")
    validator("result").validate(json.loads(found.to_json()))
    if found.plan is not None:
        judged = finite(evaluate(made, found.plan).to_dict())
        validator("evaluation").validate(json.loads(json.dumps(judged)))


def test_steps_that_were_not_found_are_no_order(tmp_path: Path, examples: Path) -> None:
    value = answers(examples, tmp_path)["steps"]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({**value, "found": False, "batches": []}))
    with pytest.raises(InvalidInput, match="there is no order"):
        load_steps(str(path), Instance.load(examples / "capsys-q1.json"))


def test_schema_takes_what_the_code_takes(examples: Path) -> None:
    check = validator("instance")
    check.validate(document())
    for path in sorted(examples.glob("*.json")):
        value = json.loads(path.read_text())
        if isinstance(value, dict) and value.get("format") == "streamplace.instance/1":
            check.validate(value)
    made = instance()
    plan = Plan.from_indices(made, [0, 0, 1, 1])
    validator("plan").validate(json.loads(plan.to_json()))


def test_schema_refuses_what_the_code_refuses() -> None:
    check = validator("instance")
    for bad in (
        {"colour": 1},
        {"nodes": [{"id": "n", "weight": 0}]},
        {"tasks": [{}]},
        {"operators": [{"id": "a", "group": {"tasks": 0}}]},
        {"traffic": [["a", "b"]]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check.validate(document(**bad))


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """As JSON Schema has it: 4.0 is an integer."""
    parts = {
        "nodes": [{"id": "n1", "slots": 4.0}, {"id": "n2"}],
        "operators": [{"id": "a", "group": {"tasks": 2e0}}],
        "tasks": [{"id": "a/0", "node": "n1", "slot": 3.0}],
        "streams": [],
        "limits": {"max_migrations": 1e1, "max_tasks_per_slot": 2.0},
    }
    validator("instance").validate(document(**parts))
    made = instance(**parts)
    assert (made.nodes.slots[0], made.num_tasks, made.limits.max_migrations) == (4, 2, 10)
    assert "3.0" not in made.to_json()
    value = {"format": "streamplace.plan/1", "instance": "x", "assignment": {"t": "n"}}
    value["slots"] = {"t": 2.0}
    validator("plan").validate(value)
    assert Plan.from_dict(value).slots == {"t": 2}
