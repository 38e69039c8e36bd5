"""The sweep file: TOML in, a checked `Spec` out.

docs/sweeps.md shows one with all that it may hold.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypeVar, get_type_hints

import numpy as np
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    TypeAdapter,
    WrapValidator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from experiments.documents import (
    TABLE,
    Amount,
    Flag,
    Many,
    OneOrMany,
    Positive,
    Scalar,
    Size,
    Text,
    Whole,
    check_toml,
    is_many,
    read_toml,
    table_type,
)
from optim.errors import InvalidInput, Problem, raise_any
from optim.format.changes import AS_IT_IS, read_case
from optim.format.document import Fault
from optim.plugins import REFERENCE
from optim.rules import NUMBER_RULES, RULE_NAMES

MAX_SPEC_BYTES = 4 << 20
OPTION_PREFIX = "option."  # What the names of factors that are options of methods start with.

T = TypeVar("T")

_IMPLIED = ("load_share", "scale_capacity")
"""Variations that need no entry in ``vary``: their names are their kinds."""


# -- settings of a run: each can be a default of the sweep or a factor of its matrix ---------------


MIN_MEMORY = 64 << 20


def _limit(value: str) -> str:
    if value not in RULE_NAMES:
        raise Fault("is no limit", f"limits: {', '.join(RULE_NAMES)}")
    return value


def _percent(value: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)?%", value):
        raise Fault("must be a number or percent", 'such as 0.01 or "1%"')
    return value


def _checked_memory(value: int) -> int:
    if value < MIN_MEMORY:
        raise Fault(f"must be at least {MIN_MEMORY >> 20} MiB")
    return value


# TOML has no null
Name = Annotated[Text, AfterValidator(lambda value: None if value == "none" else value)]
Seed = Annotated[Whole, Field(ge=0, le=2**31 - 1)]
Threads = Annotated[Whole, Field(ge=1, le=1024)]
Gap = Annotated[
    Annotated[Amount, Tag("a number")]
    | Annotated[str, Strict(), AfterValidator(_percent), Tag("percent")],
    Discriminator(lambda value: "percent" if isinstance(value, str) else "a number"),
]
Starts = Literal["own", "none"]
Limits = tuple[Annotated[str, Strict(), AfterValidator(_limit)], ...]
Memory = Annotated[Size, AfterValidator(_checked_memory)]


@dataclass(frozen=True)
class Settings:
    """What a run is given besides method and instance; each can be a default or a factor."""

    objective: Name | None = None
    solver: Name | None = None
    seed: Seed = 0
    time_limit: Positive | None = None
    gap: Gap | None = None
    threads: Threads = 1
    warm_start: Name | None = None
    starts: Starts = "own"
    repair: Flag = False
    ignore: Limits = ()
    start_broken: Literal["mend", "refuse"] = "mend"
    run_timeout: Positive | None = None
    memory_limit: Memory | None = None
    certificate: Flag = False


TYPES: dict[str, Any] = get_type_hints(Settings, include_extras=True)
"""Of each setting, as a document has it."""

SETTINGS = tuple(TYPES)


# -- methods ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MethodEntry:
    """One value of the factor ``method``: its name, label, and what is given with it."""

    method: str  # Its registered name, ``FILE.py``, ``FILE.py:NAME`` or ``module:NAME``.
    label: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    varied: tuple[str, ...] = ()  # Names of the options that were given as lists.
    #: Which replace those of the matrix; None for its own choice.
    solvers: tuple[str | None, ...] = ()
    #: Others: time_limit, gap, warm_start, …
    settings: Mapping[str, Any] = field(default_factory=dict)

    def beside(self, base: Path) -> MethodEntry:
        """Return the entry with a method's file (``FILE.py``) looked for beside the sweep's own."""
        match = REFERENCE.fullmatch(self.method)
        if match is None or match["file"] is None:
            return self
        name = "" if match["name"] is None else f":{match['name']}"
        return replace(self, method=f"{(base / match['file']).resolve()}{name}")

    def answers_to(self, entry: MethodEntry) -> bool:
        """Return whether an exclude or include entry means this one: by name, label, or in full."""
        if entry == MethodEntry(entry.method):
            return entry.method in (self.method, self.label)
        return entry == self


_OWN = {key: kind for key, kind in TYPES.items() if key not in ("seed", "threads")}
_OWN["solver"] = OneOrMany[Name]
_WITH_KIND = WrapValidator(lambda value, handler: (handler(value), is_many(value)))
_TABLE = table_type(
    "MethodTable",
    method=Required[Text],
    label=Text,
    options=dict[str, Annotated[OneOrMany[Scalar], _WITH_KIND]],
    **_OWN,
)


def _entries(table: dict[str, Any]) -> tuple[MethodEntry, ...]:
    """Make the entries that a table means: lists of options multiply."""
    options = table.get("options", {})
    varied = tuple(name for name, (_, many) in options.items() if many)
    return tuple(
        MethodEntry(
            table["method"],
            table.get("label"),
            dict(zip(options, values, strict=True)),
            varied,
            table.get("solver", ()),
            {key: table[key] for key in _OWN if key in table and key != "solver"},
        )
        for values in itertools.product(*(values for values, _ in options.values()))
    )


MethodItem: Any = Annotated[
    _TABLE,
    BeforeValidator(lambda value: {"method": value} if isinstance(value, str) else value),
    AfterValidator(_entries),
]
"""One item of ``matrix.method``, a name or a table: the entries that it means."""


# -- instances -------------------------------------------------------------------------------------


class Generate(BaseModel):
    """One ``[[instances.generate]]``: a kind, seeds, and values of each parameter."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, OneOrMany[Scalar]]
    kind: Text
    seeds: OneOrMany[Annotated[Whole, Field(ge=0, le=2**63 - 1)]] = Field(
        (0,), validation_alias=AliasChoices("seeds", "seed")
    )

    @model_validator(mode="after")
    def _one_spelling(self) -> Generate:
        """``seed``, as the matrix spells it, means the same; no generator has it for its own."""
        if "seed" in self.__pydantic_extra__:
            raise Fault(problems=[Problem("seed", None, "is given, and seeds too", "keep seeds")])
        return self

    @property
    def parameters(self) -> Mapping[str, tuple[Any, ...]]:
        """Of each parameter its values."""
        return self.__pydantic_extra__


# -- the sweep -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A checked sweep."""

    name: str
    #: Values of each factor of the matrix, in order; those of ``method`` are `MethodEntry`.
    factors: Mapping[str, tuple[Any, ...]]
    #: Where its instances come from; globs are relative to `base`.
    files: tuple[str, ...] = ()
    generators: tuple[Generate, ...] = ()
    defaults: Settings = field(default_factory=Settings)  # Settings of a run that no factor sets.
    #: Of the factors that vary the instances.
    variations: Mapping[str, Variation] = field(default_factory=dict)
    #: As in the file, values checked.
    exclude: tuple[Mapping[str, Any], ...] = ()
    include: tuple[Mapping[str, Any], ...] = ()
    description: str = ""
    base: Path = field(default_factory=Path)
    source: str = "sweep"  # Name of the file, for messages.
    #: The file's content, stored with the results.
    document: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, document: Any, base: str | Path = ".", source: str = "sweep") -> Spec:
        """Check the content of a sweep file.

        `document`: as TOML gives it.
        `base`: folder that file globs are relative to.
        Raises `InvalidInput`: with everything that is wrong with it.
        """
        raw = document if isinstance(document, dict) else {}
        problems: list[Problem] = []
        top = check_toml(_SWEEP, document, problems)
        implied = {name: Variation(name, name) for name in _IMPLIED}
        if top is None:  # which of them are wrong is reported: none is an unknown factor
            declared = {}
            kinds: dict[str, Any] = dict.fromkeys((*implied, *_keys(raw.get("vary"))), Any)
        else:
            declared = {
                name: Variation(name, **table) for name, table in top.get("vary", {}).items()
            }
            kinds = {name: _OF_KIND[varied.kind] for name, varied in (implied | declared).items()}
        matrix = check_toml(_matrix(kinds), raw.get("matrix", {}), problems, "matrix")
        raise_any(problems, source)
        assert top is not None
        assert matrix is not None
        entries = {kind: tuple(matrix.pop(kind, ())) for kind in ("exclude", "include")}
        # in the file's order: the last factor varies fastest
        factors = _flat({name: matrix[name] for name in _keys(raw.get("matrix")) if name in matrix})
        base = Path(base)
        if "method" in factors:
            factors["method"] = tuple(entry.beside(base) for entry in factors["method"])
        for item in (item for items in entries.values() for item in items if "method" in item):
            item["method"] = item["method"].beside(base)
        variations = declared | {
            k: implied[k] for k in factors if k in implied and k not in declared
        }
        raise_any([*_cross_check(factors, variations, entries)], source)
        return cls(
            name=top["name"],
            description=top.get("description", ""),
            files=top["instances"].files,
            generators=top["instances"].generate,
            defaults=Settings(**{key: top[key] for key in SETTINGS if key in top}),
            factors=factors,
            variations=variations,
            exclude=entries["exclude"],
            include=entries["include"],
            base=base,
            source=source,
            document=raw,
        )


def load_spec(path: str | Path) -> Spec:
    """Read a sweep file.

    Raises
    ------
    InvalidInput
        It cannot be read, is not TOML, or is wrong; with everything that is.
    """
    path = Path(path)
    return Spec.from_dict(read_toml(path, MAX_SPEC_BYTES), path.parent, str(path))


# -- the types of the file -------------------------------------------------------------------------


class Instances(BaseModel):
    """The table ``[instances]``."""

    model_config = TABLE
    files: Many[Text] = ()
    generate: Many[Generate] = ()

    @model_validator(mode="after")
    def _not_empty(self) -> Instances:
        if not self.model_fields_set:
            remedy = 'add files = ["…/*.json"] or [[instances.generate]]'
            raise Fault("names neither files nor generators", remedy)
        return self


class _VaryTable(TypedDict, total=False):
    __pydantic_config__ = TABLE  # type: ignore[misc]
    kind: Required[Literal[KINDS]]  # type: ignore[valid-type]
    resource: Text
    limit: Literal[LIMITS]  # type: ignore[valid-type]


def _limit_is_named(table: _VaryTable) -> _VaryTable:
    if table["kind"] == "limit" and "limit" not in table:
        raise Fault(problems=[Problem("limit", None, "is missing", f"one of {', '.join(LIMITS)}")])
    return table


def _free(name: str) -> str:
    if name in (*SETTINGS, "method", "instance", "option", "exclude", "include"):
        raise Fault("has a name that means something else", "choose another name")
    return name


def _fill_kinds(vary: Any) -> Any:
    """Give the variations whose names are kinds theirs."""
    if not isinstance(vary, dict):
        return vary
    return {
        name: {"kind": name, **table} if name in _IMPLIED and isinstance(table, dict) else table
        for name, table in vary.items()
    }


_Vary = Annotated[
    dict[
        Annotated[str, AfterValidator(_free)],
        Annotated[_VaryTable, AfterValidator(_limit_is_named)],
    ],
    BeforeValidator(_fill_kinds),
]


_SWEEP: TypeAdapter[dict[str, Any]] = TypeAdapter(
    table_type(
        "Sweep",
        name=Required[Text],
        description=Annotated[str, Strict()],
        instances=Required[Instances],
        matrix=Any,  # its keys hang on `vary`: checked afterwards
        vary=_Vary,
        **TYPES,
    )
)


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    if len({repr(value) for value in values}) < len(values):
        raise Fault("holds a value twice", "keep one")
    return values


def _one_method(entries: tuple[MethodEntry, ...]) -> MethodEntry:
    if len(entries) > 1:
        raise Fault("means several methods", "name one")
    return entries[0]


def _refuse_instance(_: Any) -> None:
    raise Fault("is given by [instances]", "move it there")


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the table ``option`` into one factor ``option.NAME`` for each of its entries."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if key == "option":
            flat |= {f"{OPTION_PREFIX}{name}": item for name, item in value.items()}
        else:
            flat[key] = value
    return flat


def _non_empty_factors(entry: dict[str, Any]) -> dict[str, Any]:
    if not _flat(entry):
        raise Fault("is empty", "name at least one factor")
    return _flat(entry)


def _factor(kind: Any) -> Any:
    """Return the type of a factor's values."""
    return Annotated[Many[kind], AfterValidator(_distinct)]


_Methods = Annotated[
    Many[MethodItem], AfterValidator(lambda items: _distinct(sum(items, start=())))
]
_Factors = Annotated[
    Annotated[Positive, Tag("a number")] | Annotated[dict[Text, Positive], Tag("a table")],
    Discriminator(lambda value: "a table" if isinstance(value, dict) else "a number"),
]


def _case(text: str) -> str:
    try:
        read_case(text)
    except ValueError as error:
        raise Fault(
            f"says no change: {error}", f'such as "fail-node n1", or "{AS_IT_IS}"'
        ) from None
    return text


_OF_KIND = {
    "load_share": Positive,
    "scale_capacity": _Factors,
    "limit": Amount,
    "what_if": Annotated[Text, AfterValidator(_case)],
}


def _matrix(variations: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
    """Make the type of ``[matrix]``: its factors, and single values of them in its entries."""
    values = {**variations, **TYPES}
    single: dict[str, Any] = {
        "instance": Text,
        "method": Annotated[MethodItem, AfterValidator(_one_method)],
        "option": dict[str, Scalar],
    }
    entry: Any = Annotated[
        table_type("Entry", **(values | single)), AfterValidator(_non_empty_factors)
    ]
    lists = {name: _factor(kind) for name, kind in values.items()} | {
        "instance": Annotated[Any, SkipJsonSchema(), AfterValidator(_refuse_instance)],
        "method": _Methods,
        "option": dict[str, _factor(Scalar)],  # type: ignore[misc]
        "exclude": list[entry],
        "include": list[entry],
    }
    return TypeAdapter(table_type("Matrix", **lists))


def _keys(table: Any) -> list[str]:
    return list(table) if isinstance(table, dict) else []


def _cross_check(
    factors: Mapping[str, Any],
    variations: Mapping[str, Any],
    entries: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Iterator[Problem]:
    """Find what the parts of a sweep say against each other."""
    for unused in variations.keys() - factors.keys():
        reason = "is varied by no factor of the matrix"
        yield Problem(f"vary.{unused}", None, reason, f"add matrix.{unused} = […]")
    if "method" not in factors and not entries["include"]:
        yield Problem("matrix.method", None, "is missing", 'add method = ["…"]')
    factor_names = ("instance", *factors)
    for kind, listed in entries.items():
        for i, entry in enumerate(listed):
            for name in entry:
                unvaried = name in _IMPLIED and name not in variations
                if name not in factor_names and (kind == "exclude" or unvaried):
                    reason, remedy = (
                        "is no factor of the matrix",
                        f"factors: {', '.join(factor_names)}",
                    )
                    yield Problem(f"matrix.{kind}[{i}].{name}", None, reason, remedy)


def as_text(value: Any) -> str:
    """Write a factor's value as tables and the map of factors show it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, list | tuple):
        return "+".join(map(as_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{k}={as_text(v)}" for k, v in value.items())
    return str(value)


# -- variations: an instance document and a value in, the varied document out ----------------------

KINDS = ("load_share", "scale_capacity", "limit", "what_if")
LIMITS = NUMBER_RULES

_CAPACITIES = ("capacity", "slot_capacity")


@dataclass(frozen=True)
class Variation:
    """One way to vary an instance."""

    #: Of the factor in the matrix; one of `KINDS`.
    name: str
    kind: str
    #: Which one; None for the first of the instance, or where the value names it.
    resource: str | None = None
    limit: str | None = None  # Which limit a ``limit`` sets.

    def apply(self, document: Mapping[str, Any], value: Any) -> dict[str, Any]:
        """Return the varied document; the one given stays as it is.

        `document`: a valid instance document, as `Instance.to_dict` gives it.
        `value`: the share, the factor (or a mapping of resource to factor), the limit, or the
            changes.
        Raises `InvalidInput`: the instance cannot be varied so: the resource is unknown, or a node
            has no capacity.
        """
        match self.kind:
            case "load_share":
                resource = self._resource(document)
                return scale_capacity(
                    document, {resource: _capacity_factor(document, resource, value)}
                )
            case "scale_capacity" if isinstance(value, dict):
                return scale_capacity(document, value)
            case "scale_capacity":
                return scale_capacity(document, {self._resource(document): value})
            case "what_if":
                return _changed(document, value)
            case _:
                return set_limit(document, str(self.limit), value)

    def _resource(self, document: Mapping[str, Any]) -> str:
        return self.resource or str(document["resources"][0])


def apply_all(
    document: Mapping[str, Any], variations: Sequence[tuple[Variation, Any]]
) -> dict[str, Any]:
    """Return the document after several variations, one after another."""
    varied = dict(document)
    for variation, value in variations:
        varied = variation.apply(varied, value)
    return varied


def scale_capacity(document: Mapping[str, Any], factors: Mapping[str, float]) -> dict[str, Any]:
    """Multiply the capacities of resources on all nodes, those of their slots along with them.

    Raises `InvalidInput`: the instance has no such resource.
    """
    for resource in factors:
        _check_resource(document, resource)
    nodes = []
    for node in document["nodes"]:
        scaled = dict(node)
        for part in _CAPACITIES:
            if part in node:
                amounts = node[part].items()
                scaled[part] = {r: v * factors[r] if r in factors else v for r, v in amounts}
        nodes.append(scaled)
    return {**document, "nodes": nodes}


def set_limit(document: Mapping[str, Any], name: str, value: float) -> dict[str, Any]:
    """Set one limit, the others stay; counts are whole numbers."""
    amount = int(value) if float(value).is_integer() else value
    return {**document, "limits": {**document.get("limits", {}), name: amount}}


def _changed(document: Mapping[str, Any], case: str) -> dict[str, Any]:
    """Make the changes that are named."""
    from optim.format.changes import altered, read_case
    from optim.format.instance import Instance

    changes = read_case(case)
    return altered(Instance.from_dict(document), changes).to_dict() if changes else dict(document)


def _capacity_factor(document: Mapping[str, Any], resource: str, share: float) -> float:
    """Return what capacities of staying nodes must be multiplied by, for load to take `share`."""
    from optim.format.instance import Instance

    _check_resource(document, resource)
    instance = Instance.from_dict(document)
    column = instance.resources.index(resource)
    staying = instance.open_nodes
    capacity = instance.nodes.capacity[staying, column]
    unbounded = np.flatnonzero(~np.isfinite(capacity))
    if unbounded.size:
        node = np.array(instance.nodes.ids, dtype=object)[staying][unbounded[0]]
        reason = f"has no capacity of {resource} on node {node}, so load is no share of it"
        raise InvalidInput(Problem(instance.name, None, reason, "give every node a capacity"))
    load = instance.total_load[column] + instance.nodes.background[staying, column].sum()
    if load <= 0 or capacity.sum() <= 0:
        reason = f"has no load or no capacity of {resource}"
        raise InvalidInput(Problem(instance.name, None, reason, "vary another resource"))
    return float(load / (share * capacity.sum()))


def _check_resource(document: Mapping[str, Any], resource: str) -> None:
    resources = document["resources"]
    if resource not in resources:
        reason = f"has no resource {resource}"
        remedy = f"its resources: {', '.join(resources)}"
        raise InvalidInput(Problem(str(document.get("name", "instance")), None, reason, remedy))
