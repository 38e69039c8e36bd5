"""The published JSON Schemas are the code's, and real files keep them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from optim.format.document import instance_schema
from optim.format.plan import Plan, plan_schema
from tests.optim.make import document, instance

PUBLISHED = {"instance": instance_schema, "plan": plan_schema}


@pytest.mark.parametrize("name", PUBLISHED)
def test_committed_schema_is_the_generated_one(name: str, repository: Path) -> None:
    path = repository / "docs" / "schema" / f"streamplace.{name}-1.json"
    assert json.loads(path.read_text()) == PUBLISHED[name](), (
        f"run: streamplace schema {name} > {path.relative_to(repository)}"
    )


def test_schema_takes_what_the_code_takes(examples: Path) -> None:
    check = jsonschema.Draft202012Validator(instance_schema())
    check.validate(document())
    for path in sorted(examples.glob("*.json")):
        value = json.loads(path.read_text())
        if isinstance(value, dict) and value.get("format") == "streamplace.instance/1":
            check.validate(value)
    made = instance()
    plan = Plan.from_indices(made, [0, 0, 1, 1])
    jsonschema.Draft202012Validator(plan_schema()).validate(json.loads(plan.to_json()))


def test_schema_refuses_what_the_code_refuses() -> None:
    check = jsonschema.Draft202012Validator(instance_schema())
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
    jsonschema.Draft202012Validator(instance_schema()).validate(document(**parts))
    made = instance(**parts)
    assert (made.nodes.slots[0], made.num_tasks, made.limits.max_migrations) == (4, 2, 10)
    assert "3.0" not in made.to_json()
    value = {"format": "streamplace.plan/1", "instance": "x", "assignment": {"t": "n"}}
    value["slots"] = {"t": 2.0}
    jsonschema.Draft202012Validator(plan_schema()).validate(value)
    assert Plan.from_dict(value).slots == {"t": 2}
