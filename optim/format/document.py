"""The types of ``streamplace.instance/1`` as they stand in a file; the JSON Schema comes from here.

Field descriptions are part of the published schema, so they are written for a reader of the file.
Cross references (an id that must exist elsewhere) are checked in `optim.format.build`.
"""

from __future__ import annotations

import json
import sys
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeVar, cast

import jiter
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
)
from typing_extensions import TypedDict

from optim.errors import InvalidInput, Problem, meant, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_core import ErrorDetails

INSTANCE_FORMAT = "streamplace.instance/1"
MAX_TASKS = 20_000_000
MAX_NODES = 1_000_000
MAX_NUMBER = 1e15
MIN_NUMBER = sys.float_info.min  # Least positive number of full precision: 2.2e-308.


def _whole(value: Any) -> Any:
    """Take 4.0 for 4: to JSON, and to JSON Schema, they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_full_precision(value: float) -> float:
    """Refuse a subnormal number: products and quotients of such ones are off by any factor."""
    if 0 < value < MIN_NUMBER:
        reason = "is too small for a floating-point number of full precision"
        raise Fault(reason, "write 0, or choose another unit")
    return value


Whole = BeforeValidator(_whole)
Identifier = Annotated[str, Field(min_length=1, max_length=1000)]
Text = Annotated[str, Field(max_length=100_000)]
Precise = AfterValidator(_of_full_precision)
Amount = Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False), Precise]
Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER, allow_inf_nan=False), Precise]
Amounts = dict[Identifier, Amount]
Labels = dict[Identifier, Text]
Count = Annotated[int, Field(ge=0, le=MAX_TASKS), Whole]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_TASKS), Whole]
SmallCount = Annotated[int, Field(ge=1, le=1_000_000), Whole]
Pattern = Literal["full", "one_to_one", "rescale", "merge", "local_first"]

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class NodeDocument(BaseModel):
    """A place for tasks: a machine, a broker, a task manager."""

    model_config = _STRICT
    id: Identifier = Field(description="unique among nodes")
    capacity: Amounts = Field(
        {}, description="what the node offers; a resource left out is unbounded"
    )
    min_load: Amounts = Field({}, description="least background + load; binds every staying node")
    background: Amounts = Field({}, description="load that is there before any task is placed")
    weight: Positive = Field(1.0, description="share of the mean load of a heterogeneous node")
    slots: Count | None = Field(None, description="worker processes or VM slots")
    slot_capacity: Amounts = Field({}, description="what one slot offers")
    max_tasks: Count | None = Field(None, description="most tasks it may hold")
    max_inflow: Count | None = Field(
        None, description="most tasks that may move onto it; limits.max_inflow binds beside it"
    )
    rack: Identifier | None = Field(
        None, description="name of its rack, a place of sets over racks"
    )
    leaving: bool = Field(False, description="marked for removal")
    vm_type: Identifier | None = Field(
        None, description="id of the machine type that it is; scale adds machines like it"
    )
    labels: Labels = Field({}, description="free texts, carried through unread")


class LinkDocument(BaseModel):
    """A shared line: traffic between a listed node and any other node crosses it."""

    model_config = _STRICT
    id: Identifier = Field(description="unique among links")
    nodes: list[Identifier] = Field(
        min_length=1, description="nodes on one side of it; all others are on the other"
    )
    capacity: Amount = Field(description="most rate that crosses it")
    background: Amount = Field(0.0, description="rate that crosses it whatever is placed")
    direction: Literal["both", "out", "in"] = Field(
        "both", description="what counts: all that crosses, what leaves its nodes, what enters them"
    )


class CrossingCostDocument(BaseModel):
    """Units of a resource that one unit of rate costs when it crosses nodes: serialisation."""

    model_config = _STRICT
    out: Amount = Field(0.0, description="on the node that sends")
    into: Amount = Field(0.0, alias="in", description="on the node that receives")


class SetDocument(BaseModel):
    """Tasks that are to be apart, together or spread over nodes, racks or slots."""

    model_config = _STRICT
    id: Identifier = Field(description="unique among sets")
    tasks: list[Identifier] = Field([], description="its members; or give operator")
    operator: Identifier | None = Field(None, description="all tasks of that operator are members")
    rule: Literal["apart", "together", "spread"] = Field(
        description="at most at_most on one place; all on one place; on at least at_least places"
    )
    over: Literal["node", "rack", "slot"] = Field("node", description="what a place is")
    at_most: SmallCount | None = Field(None, description="of apart; 1 when left out")
    at_least: SmallCount | None = Field(None, description="of spread, which needs it")


class TopologyDocument(BaseModel):
    """A job of a Storm-like engine and the number of its worker processes."""

    model_config = _STRICT
    id: Identifier = Field(description="unique among topologies")
    workers: PositiveCount | None = Field(
        None, description="number of slots that it fills; as many as the method likes when left out"
    )
    exclusive_nodes: PositiveCount | None = Field(
        None, description="most nodes that it stands on, which hold no task of any other topology"
    )


class GroupDocument(BaseModel):
    """Equal tasks ``op/0``, ``op/1``, … that share load and state evenly."""

    model_config = _STRICT
    tasks: PositiveCount = Field(description="number of tasks")
    load: Amounts = Field({}, description="of all its tasks together, by resource")
    max_load: Amounts = Field(
        {}, description="what one of its tasks can use wherever it runs; overrides the operator's"
    )
    state: Amount | None = Field(
        None, description="of all its tasks together, in the unit of state"
    )
    allowed: Annotated[list[Identifier], Field(min_length=1)] | None = Field(
        None, description="nodes its tasks may use; an entry in tasks overrides it"
    )


class OperatorDocument(BaseModel):
    """A vertex of the job graph."""

    model_config = _STRICT
    id: Identifier = Field(description="unique among operators")
    topology: Identifier | None = Field(None, description="id of the topology that it belongs to")
    role: Literal["source", "operator", "sink", "system"] = Field(
        "operator", description="what it does in the job graph"
    )
    group: GroupDocument | None = Field(None, description="equal tasks of it")
    max_load: Amounts = Field(
        {}, description="what one of its tasks can use wherever it runs: a task is one thread"
    )
    cpu_per_tuple: Amount | None = Field(
        None, description="first resource used per tuple/s of input"
    )
    service_rate: Positive | None = Field(None, description="tuples/s the operator can serve")
    model: Identifier | None = Field(None, description="performance model of one thread")
    min_parallelism: SmallCount | None = Field(
        None, description="least number of tasks that scale may give it; 1 when left out"
    )
    max_parallelism: SmallCount | None = Field(
        None, description="most tasks that scale may give it; key_groups when left out"
    )
    key_groups: SmallCount | None = Field(
        None,
        description="key groups, or partitions of a source, of which a task holds whole ones: "
        "some of n tasks have ⌈key_groups / n⌉",
    )
    labels: Labels = Field({}, description="free texts, carried through unread")


class TaskDocument(TypedDict, total=False):
    """Whatever is placed: a task, key group, executor or thread."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]
    id: Required[
        Annotated[Identifier, Field(description="unique; op/i overrides member i of a group")]
    ]
    operator: Annotated[Identifier, Field(description="id of the operator that it belongs to")]
    load: Annotated[Amounts, Field(description="by resource")]
    max_load: Annotated[
        Amounts, Field(description="what it can use wherever it runs; overrides its operator's")
    ]
    state: Annotated[
        Amount, Field(description="size of its state: what moving it costs without migration_cost")
    ]
    migration_cost: Annotated[Amount, Field(description="what moving it costs")]
    node: Annotated[Identifier, Field(description="where the task runs now")]
    slot: Annotated[Count, Field(description="slot of its node that it runs in now")]
    allowed: Annotated[
        Annotated[list[Identifier], Field(min_length=1)],
        Field(description="the only nodes that it may be on"),
    ]
    copies: Annotated[
        list[Identifier],
        Field(description="nodes that hold its state already: moving there is no migration"),
    ]
    labels: Annotated[Labels, Field(description="free texts, carried through unread")]


class StreamDocument(BaseModel):
    """Traffic between two operators, spread over their tasks by `pattern`."""

    model_config = _STRICT
    source: Identifier = Field(alias="from", description="operator that sends")
    target: Identifier = Field(alias="to", description="operator that receives")
    rate: Amount | None = Field(None, description="from all tasks of one to all of the other")
    selectivity: Amount | None = Field(None, description="tuples sent here per tuple received")
    tuple_bytes: Amount | None = Field(
        None, description="size of a tuple: with the tuple rate it gives the rate"
    )
    pattern: Pattern = Field("full", description="how the rate spreads over pairs of tasks")
    sender_weights: list[Amount] | None = Field(
        None,
        description="what each sending task sends, in proportion; of local_first streams",
    )


class LimitsDocument(BaseModel):
    """What a plan must keep beside capacities; null and absent mean no limit."""

    model_config = _STRICT
    max_migrations: Count | None = Field(None, description="most tasks that may move")
    max_migration_cost: Amount | None = Field(
        None, description="most migration cost of all moves together"
    )
    max_migration_state: Amount | None = Field(
        None, description="most state that may move, of all tasks together"
    )
    max_load_distance: Amount | None = Field(
        None,
        description="farthest that the load of a staying node may be from its share of the mean",
    )
    max_tasks_per_slot: PositiveCount | None = Field(None, description="most tasks in one slot")
    max_nodes_used: PositiveCount | None = Field(
        None, description="most nodes that hold a task; background does not count"
    )
    max_workers_restarted: Count | None = Field(
        None, description="most slots whose tasks are others than now, emptied ones included"
    )
    max_inflow: Count | None = Field(None, description="most tasks that may move onto any one node")
    max_utilisation: dict[Identifier, Positive] = Field(
        {}, description='share of the capacity that may be used; "links" for all links'
    )


class ModelPointDocument(BaseModel):
    """A measured point of a performance model: threads on one slot and what they reach and use."""

    model_config = _STRICT
    threads: SmallCount = Field(description="number of threads on one slot")
    rate: Amount = Field(description="peak stable rate, in tuples/s")
    cpu: Amount = Field(description="CPU in percent of the slot")
    memory: Amount = Field(description="memory in percent of the slot")


class VmTypeDocument(BaseModel):
    """A kind of machine that may be acquired."""

    model_config = _STRICT
    id: Identifier = Field(description="unique among machine types")
    slots: SmallCount = Field(description="number of slots of such a machine")
    price: Amount = Field(description="of one such machine for an hour")


TrafficEntry = Annotated[tuple[Identifier, Identifier, Amount], Strict(False)]


class InstanceDocument(BaseModel):
    """A placement problem: nodes, tasks, what flows between them, and limits."""

    model_config = _STRICT
    format: Literal["streamplace.instance/1"] = Field(
        description="what the file is, with its version"
    )
    name: Identifier = Field(description="of the instance; plans and results carry it")
    origin: Text = Field("", description="how the instance was made, with its source")
    units: dict[Identifier, Text] = Field(
        {},
        description="of each resource, of rate, state and price, as texts to show beside numbers",
    )
    labels: Labels = Field({}, description="free texts, carried through unread")
    resources: list[Identifier] = Field(
        ["cpu"], min_length=1, max_length=64, description="any names; the first is balanced"
    )
    nodes: list[NodeDocument] = Field([], max_length=MAX_NODES, description="places for tasks")
    links: list[LinkDocument] = Field(
        [], max_length=MAX_NODES, description="shared lines with a capacity"
    )
    rate_driven: list[Identifier] | None = Field(
        None,
        min_length=1,
        description="resources whose load grows with the input rate; the first one when left out",
    )
    crossing_cost: dict[Identifier, CrossingCostDocument] = Field(
        {}, description="by resource: what traffic between nodes adds to their loads"
    )
    sets: list[SetDocument] = Field(
        [], description="tasks that are to be apart, together or spread"
    )
    topologies: list[TopologyDocument] = Field([], description="jobs of a Storm-like engine")
    operators: list[OperatorDocument] = Field([], description="vertices of the job graph")
    tasks: list[TaskDocument] = Field(
        [], max_length=MAX_TASKS, description="single tasks, or overrides of members of a group"
    )
    streams: list[StreamDocument] = Field([], description="traffic between operators")
    traffic: list[TrafficEntry] = Field([], description="directed task pairs [from, to, rate]")
    limits: LimitsDocument = Field(
        LimitsDocument(), description="what a plan must keep beside capacities"
    )
    models: dict[Identifier, Annotated[list[ModelPointDocument], Field(min_length=1)]] = Field(
        {}, description="performance models by name, each as its measured points"
    )
    input_rate: Amount | None = Field(None, description="tuples/s at every source")
    vm_types: list[VmTypeDocument] = Field([], description="machines that may be acquired")


INSTANCE_ADAPTER: TypeAdapter[InstanceDocument] = TypeAdapter(InstanceDocument)


_LISTS: dict[str, Any] = {"tasks": list[TaskDocument], "traffic": list[TrafficEntry]}
_PART = 2_000
"""Elements of a list that are checked at once."""


def checked(value: Any) -> InstanceDocument:
    """Check a parsed document that nobody else holds.

    Elements of long lists are checked part by part and given up for what comes of that, so that
    memory never holds both.

    Raises `InvalidInput`: with every problem by path.
    """
    # a million checked dictionaries beside the parsed ones take twice the memory
    lists = {name: value[name] for name in _LISTS if _is_long(value, name)}
    try:
        for name, entries in lists.items():
            adapter: TypeAdapter[list[Any]] = TypeAdapter(_LISTS[name])
            for at in range(0, len(entries), _PART):
                entries[at : at + _PART] = adapter.validate_python(entries[at : at + _PART])
    except ValidationError:
        lists = {}  # all problems are named where the whole is checked
    rest = {**value, **{name: [] for name in lists}} if lists else value
    return validate(INSTANCE_ADAPTER, rest).model_copy(update=lists)


def _is_long(value: Any, name: str) -> bool:
    entries = value.get(name) if isinstance(value, dict) else None
    return isinstance(entries, list) and _PART < len(entries) <= MAX_TASKS


def published(
    name: str, adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"]
) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a format, with identifier and title.

    `mode`: ``serialization`` for what is always written whole: fields with a default are required.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:streamplace:schema:{name}:1",
        **adapter.json_schema(by_alias=True, mode=mode),
        "title": f"streamplace {name}, version 1",
    }


# From bytes to a validated document, with every problem reported at once with its path.

T = TypeVar("T")

_MAX_PROBLEMS = 1000
_LONG = 10_000
_SHOWN_KEY = 100
_REASONS = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be {table}",
    "dict_type": "must be {table}",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is missing",
    "model_type": "must be {table}",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
}
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
_EMPTY = ("string_too_short", "too_short")
_REMEDIES = {
    "finite_number": "write a finite number",
    "less_than_equal": "check the unit",
    "missing": "add it",
}


def parse_json(data: bytes) -> Any:
    """Parse JSON; duplicate keys, deep nesting and non-JSON are refused with a place.

    NaN and infinities pass here on purpose: the document's types refuse them with a path.

    Raises `InvalidInput`: the bytes are no JSON document, or an object names a key twice.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InvalidInput(Problem("$", None, "is empty", "expected a JSON document"))
    try:
        # keys repeat a million times, values do not: only keys are worth interning
        return jiter.from_json(data, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        text = str(error)
    if "uplicate key" in text:
        raise InvalidInput(list(_duplicate_keys(data, text)))
    if "recursion limit" in text:
        raise InvalidInput(Problem("$", None, f"is nested too deeply: {text}"))
    raise InvalidInput(Problem("$", None, f"is not JSON: {text}"))


def _duplicate_keys(data: bytes, text: str) -> Iterable[Problem]:
    """Find the paths of all duplicate keys; only ever run on a document that has one."""

    class Pairs(list[tuple[str, Any]]):
        """An object as its pairs, so that a repeated key is still there to be found."""

    repeats = False
    try:
        stack: list[tuple[str, Any]] = [("", json.loads(data, object_pairs_hook=Pairs))]
    except (RecursionError, ValueError):
        stack = []
    while stack:
        path, value = stack.pop()
        if isinstance(value, Pairs):
            seen = set()
            for key, item in value:
                here = _below(path, key)
                if key in seen:
                    repeats = True
                    yield Problem(here, None, "stands twice in the same object", "keep one")
                seen.add(key)
                stack.append((here, item))
        elif isinstance(value, list):
            stack.extend((f"{path}[{i}]", item) for i, item in enumerate(value))
    if not repeats:
        yield Problem("$", None, f"repeats a key: {text}", "keep one")


class Fault(ValueError):
    """What a validator of a document's type raises, to be reported with the path of what it
    checked.

    `problems`: instead: several, their paths relative to what was checked.
    """

    def __init__(
        self, reason: str = "", remedy: str = "", problems: Iterable[Problem] = ()
    ) -> None:
        super().__init__(reason)
        self.reason, self.remedy, self.problems = reason, remedy, list(problems)


def check(
    adapter: TypeAdapter[T],
    value: Any,
    problems: list[Problem],
    at: str = "",
    table: str = "an object",
    context: Any = None,
) -> T | None:
    """Check a parsed value against a document type; add a problem per offending field.

    `adapter`: of the type: it may raise `Fault` from validators of its own.
    `problems`: where problems are added, by path.
    `at`: path of the value in its document.
    `table`: what the document's language calls an object.
    `context`: passed to validators of the type.
    Returns ``None`` where there are problems.
    """
    details: list[ErrorDetails] = []
    try:
        if _has_long_list(value):  # nothing but errors: reported before they fill the memory
            details = _first_errors(adapter, value, context, deep=False)
        if not details:
            return adapter.validate_python(value, context=context)
    except ValidationError as error:
        count = error.error_count()
        details = error.errors(include_url=False) if count <= _MAX_PROBLEMS else []
        if not details and not (details := _first_errors(adapter, value, context, deep=True)):
            problems.append(
                Problem(at or "$", None, f"has {count:,} problems", "correct its lists")
            )
    known_keys = KnownKeys(adapter)
    for detail in details:
        problems += _problems(dict(detail), value, at, known_keys, table)
    return None


def _has_long_list(document: Any) -> bool:
    parts = document.values() if isinstance(document, dict) else ()
    return any(isinstance(part, list) and len(part) > _LONG for part in parts)


def _first_errors(
    adapter: TypeAdapter[Any], value: Any, context: Any, *, deep: bool
) -> list[ErrorDetails]:
    """Return errors found in the first elements of a document's lists, where all are too many.

    Each takes some hundred times the memory of what it is about. Unless `deep`, only the lists
    right in the document are cut, and only what is wrong with their elements counts.
    """
    # an error of each element would take a hundred times the memory of the document
    for most in (_MAX_PROBLEMS // 10, 1):
        try:
            adapter.validate_python(_shortened(value, most, deep), context=context)
        except ValidationError as error:
            if error.error_count() <= _MAX_PROBLEMS:
                errors = error.errors(include_url=False)
                return [e for e in errors if deep or any(isinstance(p, int) for p in e["loc"])]
    return []


def _shortened(value: Any, most: int, deep: bool) -> Any:
    """Return a document with no more than the first elements of its lists."""
    if isinstance(value, list):
        return [_shortened(item, most, deep) if deep else item for item in value[:most]]
    if isinstance(value, dict):
        return {
            key: _shortened(item, most, deep) if deep or isinstance(item, list) else item
            for key, item in islice(value.items(), 100 * most if deep else None)
        }
    return value


def validate(adapter: TypeAdapter[T], value: Any) -> T:
    """Check a parsed value against a document type.

    Raises `InvalidInput`: with one problem per offending field, by path.
    """
    problems: list[Problem] = []
    checked = check(adapter, value, problems)
    if problems:
        raise InvalidInput(problems)
    return cast("T", checked)


class KnownKeys:
    """The keys that an object may hold at a place of a document, out of its type's JSON Schema."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return self._adapter.json_schema(by_alias=True)

    def at(self, location: Sequence[str | int]) -> list[str]:
        """Return the known keys of the object at a location."""
        nodes = [self._schema]
        for part in location:
            nodes = [inner for node in self._resolved(nodes) for inner in _inside(node, part)]
        return [key for node in self._resolved(nodes) for key in node.get("properties", ())]

    def _resolved(self, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Follow references and alternatives to the schemas they stand for."""
        schemas = []
        for node in nodes:
            if "$ref" in node:
                node = self._schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
            schemas += self._resolved(node["anyOf"]) if "anyOf" in node else [node]
        return schemas


def _inside(schema: dict[str, Any], part: str | int) -> list[dict[str, Any]]:
    if isinstance(part, int):
        inner = schema.get("items")
    else:
        inner = schema.get("properties", {}).get(part, schema.get("additionalProperties"))
    return [inner] if isinstance(inner, dict) else []


def path_of(location: Iterable[str | int], at: str = "") -> str:
    """Write a location as in the file: ``nodes[3].capacity.cpu``."""
    path = at
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else _below(path, part)
    return path or "$"


def _below(path: str, key: str) -> str:
    """Go one key down; a key longer than anyone would read is cut."""
    shown = key if len(key) <= _SHOWN_KEY else key[:_SHOWN_KEY] + "…"
    return f"{path}.{shown}" if path else shown


def _in_document(location: Sequence[str | int], document: Any, lacks: bool) -> list[str | int]:
    """Keep the parts of a location that stand in the document, and a last one that lacks there.

    The others are names of types and validators, and places in what a validator made of a value.
    """
    present: list[str | int] = []
    for number, part in enumerate(location, 1):
        if isinstance(part, int):
            stands = isinstance(document, list) and part < len(document)
        else:
            stands = isinstance(document, dict) and part in document
        if stands:
            document = document[part]
        # pydantic names branches of unions and validators in the location as well
        elif not lacks or part == "[key]" or number < len(location):
            continue
        present.append(part)
    return present


def _problems(
    detail: dict[str, Any], document: Any, at: str, known_keys: KnownKeys, table: str
) -> Iterable[Problem]:
    kind, value, limits = detail["type"], detail.get("input"), detail.get("ctx", {})
    location = _in_document(detail["loc"], document, kind == "missing")
    path, remedy = path_of(location, at), _REMEDIES.get(kind, "")
    fault = limits.get("error")
    if isinstance(fault, Fault) and fault.problems:
        for inner in fault.problems:
            below = f"{path}{'' if inner.path.startswith('[') else '.'}{inner.path}"
            where = below.removeprefix("$.") if inner.path else path
            yield Problem(where, inner.value, inner.reason, inner.remedy)
        return
    if isinstance(fault, ValueError):
        reason, remedy = str(fault), getattr(fault, "remedy", "")
    elif kind in _UNKNOWN_KEY:
        reason, remedy, value = "is not a known key", _meant(location, known_keys), None
    elif kind == "float_type" and isinstance(value, int) and not isinstance(value, bool):
        reason = "is too large a number"  # a whole number beyond what a float holds
    else:
        reason = _reason(kind, detail["msg"], limits, table)
        if kind.endswith(("_type", "_parsing")):
            json_type = _json_type(value, table)
            reason += "" if json_type == "a number" and kind == "int_type" else f", not {json_type}"
        value = None if kind == "missing" else value
    yield Problem(path, value, reason, remedy)


def _reason(kind: str, message: str, limits: dict[str, Any], table: str) -> str:
    """Say in our words what the type demands."""
    if kind in _EMPTY and limits["min_length"] == 1:
        return "is empty"
    template = _REASONS.get(kind)
    if template is None:
        return message[0].lower() + message[1:].replace("Input should be", "must be")
    numbers = {name: _plain(limit) for name, limit in limits.items()}
    return template.format(table=table, **numbers)


def _plain(limit: Any) -> str:
    """Write a limit as people do: 20000000, 1e+15, 0.5."""
    if isinstance(limit, float | int) and limit == int(limit) and abs(limit) < 1e12:
        return str(int(limit))
    return f"{limit:g}" if isinstance(limit, float | int) else str(limit)


def _meant(location: Sequence[str | int], known_keys: KnownKeys) -> str:
    """Say which key may be meant by an unknown one, or which there are."""
    keys = known_keys.at(location[:-1])
    return meant(str(location[-1]), keys, "known:")


def _json_type(value: Any, table: str) -> str:
    names = {bool: "true/false", str: "a text", int: "a number", float: "a number"}
    names |= {list: "a list", dict: table, type(None): "null"}
    return names.get(type(value), shorten(value))


# The documents there are, distinguished by their ``format``: one given for another is named.

_KINDS = {
    "streamplace.instance": "an instance",
    "streamplace.plan": "a plan",
    "streamplace.result": "a result",
    "streamplace.steps": "an order of moves",
}
_WANTED_REMEDIES = {
    "streamplace.instance": "the instance comes first, then the plan: INSTANCE PLAN",
    "streamplace.plan": "name the plan's file: `streamplace solve -o` writes it; a result holds "
    "it under `plan`",
    "streamplace.steps": "`streamplace steps -o` writes it",
}


def refuse_other_kind(value: Any, wanted: str) -> None:
    """Refuse a document of another kind by its name, not by every key that differs.

    `wanted`: ``streamplace.instance``, ``streamplace.plan`` or ``streamplace.steps``.
    Raises `InvalidInput`: it is another of our documents.
    """
    format_name = value.get("format") if isinstance(value, dict) else None
    kind = format_name.partition("/")[0] if isinstance(format_name, str) else ""
    if kind in _KINDS and kind != wanted:
        reason = f"is {_KINDS[kind]}, and {_KINDS[wanted]} is wanted here"
        raise InvalidInput(Problem("format", format_name, reason, _WANTED_REMEDIES[wanted]))
