"""``streamplace schema``: the JSON Schemas of the formats and of what ``--json`` prints.

Each class has the keys of one ``to_dict``; tests hold every document that they meet against its
schema, so that a key without a line here fails, as does a line without its key. Fields with a
default are those that only some options bring. What JSON cannot say, nan and infinity, is null.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from optim.certificates.check import SENSES
from optim.errors import ExitCode
from optim.figures.catalogue import FIGURES, Figures
from optim.format.document import INSTANCE_ADAPTER, published
from optim.format.plan import PLAN_ADAPTER, PlanDocument
from optim.referee import Termination
from streamplace.clusters.flink.verify import FlinkVerdict
from streamplace.clusters.kafka.verify import KafkaVerdict
from streamplace.clusters.storm.verify import StormVerdict
from streamplace.execute.batches import STEPS_ADAPTER
from streamplace.present.arguments import declare
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

Number = float | None
"""A number that may be unknown, or infinite."""


def is_(description: str) -> Any:
    """Declare a key that is always there."""
    return Field(description=description)


def may(description: str) -> Any:
    """Declare a key that only some options bring."""
    return Field(None, description=description)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


# --- evaluation ------------------------------------------------------------------------------


class ViolationDocument(_Document):
    """A rule that is broken, or a reason why no plan can exist."""

    rule: str = is_("name of the rule, as --ignore takes it where it can be dropped")
    where: str = is_("the node, task, link, slot or limit; of loads as PLACE.RESOURCE")
    amount: Number = is_("by how much")
    needed: Number = is_("what the plan needs there")
    available: Number = is_("what is available; the difference is the amount")
    remark: str = is_("why, or what of it; may be empty")


class StillBrokenDocument(ViolationDocument):
    """A rule that the plan breaks, as the current placement does."""

    was: Number = is_("amount by which the current placement violates it")


class SaturationDocument(_Document):
    """What is full at some multiple of the current input: a node, a link, or a task."""

    node: str | None = may("a node; with resource")
    link: str | None = may("a link")
    operator: str | None = may("operator of the task, where a task uses all that it can")
    task: str | None = may("a task that uses all that it can; with resource")
    resource: str | None = may("the resource that is full")
    rate: float = is_("multiple of the current input at which it is full")
    tasks: int | None = may("number of tasks of the operator that the current input needs")
    tasks_at_twice: int | None = may("number of them that twice the current input needs")


class UndrainedTaskDocument(_Document):
    """A task that stays on a leaving node."""

    task: str = is_("its id")
    node: str = is_("the leaving node")
    why: str = is_("the reason why it stays there")


class UndrainedDocument(_Document):
    """What stays on leaving nodes."""

    count: int = is_("number of tasks")
    nodes: list[str] = is_("the leaving nodes that hold them")
    why: dict[str, int] = is_("reason to number of tasks")
    tasks: list[UndrainedTaskDocument] = is_("the first of them")


_TABLES: dict[str, Any] = {
    "saturation": list[SaturationDocument] | None,
    "undrained": UndrainedDocument | None,
}
"""Figures whose values have keys of their own."""


def _nullable(hint: Any) -> Any:
    """Return a type with every float in it nullable."""
    # JSON has neither nan nor infinity: both are written as null
    if hint is float:
        return Number
    origin, parts = get_origin(hint), tuple(map(_nullable, get_args(hint)))
    if origin in (Union, UnionType):
        return reduce(or_, parts)
    return origin[parts] if parts and origin is not None else hint


class ObjectiveDocument(_Document):
    """An objective and its value."""

    name: str = is_("name of a figure, or the expression of a sum or of levels")
    value: Number = is_("in the objective's unit; null where it is unknown")
    sense: Literal["max", "min"] | None = is_("whether more or less is better")


class _Verdict(_Document):
    feasible: bool = is_("whether the plan satisfies every rule")
    violations: list[ViolationDocument] = is_("the rules that it violates")


EvaluationDocument = create_model(
    "EvaluationDocument",
    __base__=_Verdict,
    __doc__="What the referee found of a plan: feasibility, violations, and every figure.",
    **{
        figure.name: (
            _nullable(_TABLES.get(figure.name, hint)),
            is_(f"{figure.words}; null where it does not apply"),
        )
        for figure, hint in zip(FIGURES, get_type_hints(Figures).values(), strict=True)
    },
)  # type: ignore[call-overload]


class PrintedEvaluation(EvaluationDocument):
    """An evaluation as ``evaluate --json`` prints it."""

    objective: ObjectiveDocument | None = may("of --objective: its first level")
    objective_levels: list[ObjectiveDocument] | None = may("of --objective: its further levels")


class CaseEvaluation(PrintedEvaluation):
    """An evaluation of one of several cases; the first case is the plan itself."""

    case: str = is_("the change of the instance, in the words of the options")
    placed_anew: dict[str, str] | None = may("task to node, for tasks of a node that is lost")
    unplaced: list[str] | None = may("tasks of a lost node that found no place")


# --- conflicts -------------------------------------------------------------------------------


class ClashDocument(_Document):
    """Rules of one sort in a conflict."""

    rule: str = is_("name of the rule")
    where: str = is_("description of what it limits")
    resource: str | None = is_("the resource, if it limits one")
    needed: Number = is_("least that the other rules of the conflict ask; null: not found in time")
    available: Number = is_("what these rules give")
    ids: list[str] = is_("the nodes, links, sets, topologies or tasks they are of")
    remark: str = is_("why what is available does not do; may be empty")


class ConflictDocument(_Document):
    """A minimal set of rules that cannot hold together."""

    rules: list[ClashDocument] = is_("the rules, grouped by name")


class RemedyDocument(_Document):
    """A change of a limit after which there is a plan."""

    rule: str = is_("name of the rule")
    where: str = is_("what it is of")
    by: Number = is_("by how much the limit is raised, or lowered where it is a least one")
    to: Number = is_("what it then is; null where the rule is given up")
    share: Number = is_("`by` as a share of what it was; null where that was 0")
    enough: bool = is_("whether a plan was found after this change alone")


class _Conflicts(_Document):
    conflicts: list[ConflictDocument] | None = may("of an infeasible problem")
    relaxation: list[RemedyDocument] | None = may("least change of limits after which it has plans")
    remedies: list[RemedyDocument] | None = may("what else would help")


# --- result ----------------------------------------------------------------------------------


class LevelDocument(ObjectiveDocument):
    """A level of an objective of several levels."""

    bound: Number = is_("proven bound of this level; null where there is none")


class MendingDocument(_Document):
    """What a plan leaves broken of a current placement that breaks limits."""

    excess_now: float = is_("excess of the current placement")
    excess: float = is_("excess of the plan")
    rounds: int | None = is_("further rounds of the budget that mend the rest; null: none do")
    certified_excess: Number = is_("excess below which a certificate proves that no plan is")
    still_broken: list[StillBrokenDocument] = is_("what the plan still violates")


class MoveDocument(_Document):
    """A task that leaves its current node."""

    task: str = is_("its id")
    source: str = Field(alias="from", description="its current node")
    to: str = is_("its node in the plan")
    cost: float = is_("what moving it costs")


class MostDocument(_Document):
    """How many moves bring 95 % of the gain over staying."""

    moves: int = is_("number of moves")
    of: int = is_("number of all moves")


class WarmStartDocument(_Document):
    """Where a solve started."""

    method: str = is_("the method, or file, whose plan it was")
    objective: Number = is_("its objective")
    accepted: bool | None = is_("whether the solver took it; null where that is unknown")


class FewestDocument(_Document):
    """Answer to --fewest-moves-within."""

    within: float = is_("share of the best objective that the plan may lose")
    of: ObjectiveDocument = is_("the best objective")
    moves: int = is_("moves of the plan")
    at_least: int = is_("moves that every such plan has")
    proved: bool = is_("whether no such plan has fewer moves")


class PointDocument(_Document):
    """A plan on the curve."""

    moves: int = is_("number of its moves")
    switches: int = is_("number of its switches to a copy of the state")
    cost: float = is_("its migration cost")
    value: Number = is_("its objective")


class CurveDocument(_Document):
    """Answer to --curve: the objective against what is moved."""

    by: Literal["moves", "cost"] = is_("the horizontal axis: number of moves, or their cost")
    knee: int | None = is_("index of the point that gains most beyond the line between the ends")
    points: list[PointDocument] = is_("plans that are worth their moves")


class ResultDocument(_Conflicts):
    """The result of one solve; every figure of the plan is the referee's."""

    format: Literal["streamplace.result/1"] = is_("what the document is, with its version")
    instance: str = is_("name of the instance")
    instance_sha256: str = is_("hash of the instance")
    method: str = is_("the method that made the plan")
    solver: str | None = is_("its solver, with version")
    seed: int = is_("of everything random")
    termination: Termination = is_("why it stopped")
    plan: PlanDocument | None = is_("the plan; null where there is none")
    objective: ObjectiveDocument | None = is_("what was optimised, and the plan's value")
    bound: Number = is_("proven bound of the objective")
    bound_of: Literal["problem", "restricted"] | None = is_("what the bound is of")
    assumes: list[str] = is_("assumptions of the bound that are not in the file")
    gap: Number = is_("distance of value and bound: relative, or in % of the mean load")
    bound_by: Literal["certificate", "two solvers", "one solver"] | None = is_(
        "what proves the bound"
    )
    certified_bound: Number = is_("bound that a certificate proves")
    certified_gap: Number = is_("distance of value and certified bound")
    objective_levels: list[LevelDocument] = is_("further levels; `excess` comes before all others")
    mending: MendingDocument | None = is_("how far violations of the current placement are mended")
    evaluation: EvaluationDocument | None = is_("the referee's figures of the plan")
    moves: list[MoveDocument] = is_("tasks that leave their current node")
    most_of_gain: MostDocument | None = is_("how many moves bring most of the gain")
    warm_start: WarmStartDocument | None = is_("null where there was none")
    repaired: bool = is_("whether repair completed the plan")
    ignored: list[str] = is_("limits that were dropped")
    unplaced: list[str] = is_("tasks that a heuristic could not place")
    reasons: list[ViolationDocument] = is_("why the instance is infeasible, where that is proven")
    departs: str | None = is_("of a changed instance: how its solve differs from that before")
    notes: list[str] = is_("remarks")
    times: dict[str, float] = is_("seconds by part: read, build, solve, check, total and others")
    trace: list[tuple[float, Number, Number]] = is_("[seconds, incumbent, bound] over time")
    versions: dict[str, str] = is_("of the programs that took part")
    fewest: FewestDocument | None = may("of --fewest-moves-within")
    curve: CurveDocument | None = may("of --curve")


class CaseResult(ResultDocument):
    """The result of one of several cases; the first case is the instance as it is."""

    case: str = is_("the change of the instance, in the words of the options")


# --- explanation -----------------------------------------------------------------------------


class WorthDocument(_Document):
    """A move of the plan and what it brings."""

    task: str = is_("its id")
    source: str = Field(alias="from", description="its current node")
    to: str = is_("its node in the plan")
    worth: Number = is_("by how much the objective is worse without this one move")
    breaks: list[str] = is_("rules that the plan violates without it")


class BindingDocument(_Document):
    """A rule that leaves no room for one unit, or one task, more."""

    rule: str = is_("name of the rule")
    where: str = is_("what it is of")
    used: Number = is_("what the plan uses; of a least one, what it has")
    available: Number = is_("what there is; of a least one, what it needs")
    more: Number = is_("by how much the limit was raised to solve again; null: not tried")
    buys: Number = is_("by how much the objective is better then")
    slack: Number = is_("room between the two")


class ExplanationDocument(_Document):
    """Why there is no plan, or what a plan's moves are worth and what binds it."""

    instance: str = is_("name of the instance")
    instance_sha256: str = is_("hash of the instance")
    feasible: bool | None = is_("whether there is a plan; null where that was not decided in time")
    decided: bool = is_("whether it was decided")
    conflicts: list[ConflictDocument] = is_("of an infeasible problem; no two share a rule")
    relaxation: list[RemedyDocument] = is_("least change of limits after which it has plans")
    remedies: list[RemedyDocument] = is_("what else would help")
    plan_feasible: bool | None = is_("whether the plan satisfies every rule; null without a plan")
    violations: list[ViolationDocument] | None = is_("rules that the plan violates")
    objective: str | None = is_("objective that measures the gain of moves")
    value: Number = is_("the plan's value of it")
    bound: Number = is_("what was proved of the objective")
    bound_of: Literal["problem", "restricted"] | None = is_("what the bound is of")
    gap: Number = is_("distance of value and bound")
    moves: list[WorthDocument] = is_("moves of the plan, those that bring most first")
    binding: list[BindingDocument] = is_("rules that leave no room")
    saturation: list[SaturationDocument] | None = is_("bottleneck as the input grows, and the next")
    departs: str | None = is_("of a changed instance: how its solve differs from that before")
    placed_anew: dict[str, str] = is_("task to node, for tasks of a node that is lost")
    unplaced: list[str] = is_("tasks that have no node")
    notes: list[str] = is_("remarks")
    seconds: float = is_("what it took")


class CaseExplanation(ExplanationDocument):
    """An explanation as ``explain --json`` prints it."""

    case: str = is_("the change of the instance, in the words of the options; empty without one")


# --- decide ----------------------------------------------------------------------------------


class ReplacedDocument(_Document):
    """A task that is to run on another node."""

    task: str = is_("its id")
    source: str | None = Field(alias="from", description="its current node; null: it has none")
    to: str = is_("its node in the plan")


class AddedDocument(_Document):
    """A node to add."""

    id: str = is_("its name in the plan")
    like: str = is_("the node that it is like")


_Figures = dict[str, bool | Number]


class DecisionDocument(_Document):
    """What a policy decides."""

    decision: Literal["keep", "move", "scale"] = is_(
        "scale: nodes or numbers of tasks change; move: only places do"
    )
    reason: str = is_("why, in words")
    policy: str = is_("as --policy has it")
    instance: str = is_("name of the instance")
    instance_sha256: str = is_("hash of the instance")
    plan: PlanDocument | None = is_("where all tasks go; null: they stay")
    moves: list[ReplacedDocument] = is_("tasks that change their node")
    add: list[AddedDocument] = is_("nodes to add before the plan is carried out")
    mark: list[str] = is_("nodes that are to be emptied")
    recall: list[str] = is_("nodes that are to be emptied no more")
    release: list[str] = is_("marked nodes that are empty: to be turned off")
    parallelism: dict[str, int] = is_("operator to its new number of tasks")
    before: _Figures | None = is_("figures of what runs; null where a task has no node")
    after: _Figures | None = is_("figures of the plan; null without one")


# --- certificate -----------------------------------------------------------------------------

Exact = int | Annotated[str, Field(pattern=r"^-?[0-9]+(/[1-9][0-9]*)?$")]
Multipliers = list[int]
_OVER = Field(1, ge=0, description="common divisor of the multipliers")


class CloseDocument(_Document):
    """Closes a case: its multipliers show that nothing better is in it."""

    close: Multipliers = is_("one a row of the model, and of the branches taken")
    over: int = _OVER


class DropDocument(_Document):
    """Leaves out columns: its multipliers show that nothing better uses them."""

    drop: Multipliers = is_("one a row of the model, and of the branches taken")
    over: int = _OVER


class BranchDocument(_Document):
    """Splits a case: the steps of its low side follow, then those of its high side."""

    branch: list[tuple[int, int, int]] = is_(
        "columns whose key has such numbers: [place, from, to]"
    )
    at: int = Field(
        ge=0, description="most of their sum on the low side; the high side begins one above"
    )


class StepsProof(_Document):
    """A proof over a model of the instance."""

    kind: Literal["patterns", "threshold", "dual", "counting"] = is_("which model")
    steps: list[CloseDocument | DropDocument | BranchDocument] = is_(
        "in order, until all is closed"
    )


class ThreadsProof(_Document):
    """A proof by one task that can use no more, which the checker finds in the instance."""

    kind: Literal["threads"] = is_("which proof")


Proof = StepsProof | ThreadsProof


class ExcessDocument(_Document):
    """The level before the objective, where the current placement violates limits."""

    bound: Exact = is_("least excess of any plan")
    most: Exact = is_("excess up to which the objective's bound holds")
    proof: Proof = is_("of the least excess")


class CertificateDocument(_Document):
    """A proof of a bound, which `streamplace certify` and optim/certificates/check.py check."""

    format: Literal["streamplace.certificate/1"] = is_("what the file is, with its version")
    instance_sha256: str = Field(
        pattern="^[0-9a-f]{64}$", description="of the bytes of the instance's file, unpacked"
    )
    objective: Literal[tuple(SENSES)] = is_("what is bounded; feasible: that there is no plan")  # type: ignore[valid-type]
    sense: Literal["max", "min"] = is_("whether more or less of it is better")
    bound: Exact = is_("exact: a whole number, or a text p/q")
    assumes: list[Annotated[str, Field(pattern="^(without [a-z_]+|no worse than now)$")]] = is_(
        "limits that were dropped; `no worse than now` beside `excess`"
    )
    excess: ExcessDocument = Field(
        None, description="only where the current placement violates limits"
    )  # type: ignore[assignment]
    proof: Proof = is_("of the bound")


class ScaleLevelDocument(_Document):
    """A level of a plan that chooses the parallelism."""

    name: str = is_("nodes_used or price, tasks, imc_gain, migrations; or a method's objective")
    value: float = is_("of the plan")
    bound: Number = is_("proven, among plans that are as good on the levels before; null: open")
    proven: bool = is_("whether value and bound are the same")


class ScaleDocument(_Document):
    """What carries a rate, as ``scale --json`` prints it; of several rates a list."""

    target_rate: float = is_("multiple of the current input")
    feasible: bool = is_("whether there is a plan")
    infeasible: bool = is_("whether it is proven that there is none")
    parallelism: dict[str, int] | None = is_("operator to number of tasks, or of threads")
    least_parallelism: dict[str, int] = is_("operator to the tasks that one thread each needs")
    nodes_used: int | None = is_("nodes that hold a task")
    added_nodes: dict[str, str] = is_("nodes that are added, each with the one it is like")
    levels: list[ScaleLevelDocument] = is_("the figures that were optimised, one after another")
    plan: PlanDocument | None = is_("the plan, as `evaluate` and `export` read it")
    evaluation: EvaluationDocument | None = is_("the referee's, at the current input")
    notes: list[str] = is_("reasons, and readings that were used")


ADAPTERS: dict[str, tuple[TypeAdapter[Any], Literal["validation", "serialization"]]] = {
    "instance": (INSTANCE_ADAPTER, "validation"),
    "plan": (PLAN_ADAPTER, "validation"),
    "result": (TypeAdapter(ResultDocument | list[CaseResult]), "validation"),
    "evaluation": (TypeAdapter(PrintedEvaluation | list[CaseEvaluation]), "validation"),
    "explanation": (TypeAdapter(CaseExplanation | list[CaseExplanation]), "validation"),
    "scale": (TypeAdapter(ScaleDocument | list[ScaleDocument]), "validation"),
    "steps": (STEPS_ADAPTER, "serialization"),
    "verify": (TypeAdapter(FlinkVerdict | KafkaVerdict | StormVerdict), "serialization"),
    "decision": (TypeAdapter(DecisionDocument), "validation"),
    "certificate": (TypeAdapter(CertificateDocument), "validation"),
}
"""By name of the schema; files that are read are read by the same types."""


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a format or of what ``--json`` prints.

    `name`: one of `ADAPTERS`.
    """
    adapter, mode = ADAPTERS[name]
    return published(name, adapter, mode)


EXAMPLES = """\
examples:
  streamplace schema > instance.schema.json
  streamplace schema result"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(
        parser, "what", "a file's format, or what solve (result), evaluate (evaluation), explain "
        "(explanation), scale, steps, verify or decide (decision) print with --json",
        default="instance", nargs="?", choices=tuple(ADAPTERS)
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print a JSON Schema (draft 2020-12)."""
    print_json(schema(args.what))
    return int(ExitCode.OK)


# The list of figures for the documentation: `python -m streamplace.cli.schema`.

_UNITS = {
    "multiple": "multiple of the present rate", "resource": "first resource", "count": "number",
    "flag": "true or false", "table": "one each",
}  # fmt: skip
"""Of kinds of figures, where they are called otherwise."""


def figure_list() -> str:
    """Return the lines of ``docs/figures.md``, a figure each: its unit, its sense, what it is."""
    lines = []
    for figure in FIGURES:
        sense = f"; **{figure.sense}**" if figure.sense else ""
        unit = _UNITS.get(figure.unit, figure.unit)
        lines.append(f"- `{figure.name}` ({unit}{sense}): {figure.words}\n")
    return "".join(lines)


if __name__ == "__main__":
    print(figure_list(), end="")
