"""The classes of check: each is a question put to one method about one instance.

A probe is a function of a setting, a method, the keywords of `solve`, and parameters of its own,
and yields (kind, detail) of what is wrong. All is repeatable from these, so that a counterexample
can be run again and made smaller.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fuzz.claim import Claim, indices
from tests.fuzz.figures import measure
from tests.fuzz.judge import judge, verdict
from tests.fuzz.mending import wrong_with
from tests.fuzz.models import judge_exact_models, judge_models
from tests.fuzz.product import Answer, InvalidInput, Plan, Setting, evaluate
from tests.fuzz.promises import FAMILY, leaves_behind
from tests.fuzz.proofs import indifferent, prove
from tests.fuzz.reading import Reading
from tests.fuzz.rules import LOOSE, TIGHT, broken
from tests.fuzz.variants import factor, in_units, permuted

Findings = Iterator[tuple[str, str]]
Keywords = dict[str, Any]


def reads_alike(setting: Setting, _method: str | None, _keywords: Keywords) -> Findings:
    """Tasks and traffic are read as the format's page says, and written back the same."""
    instance = setting.instance
    again = type(instance).from_json(instance.to_json())
    if again.sha256 != instance.sha256:
        yield "round-trip", f"{instance.sha256} becomes {again.sha256}"
    reading = setting.reading
    ours, theirs = reading.total_traffic, instance.total_traffic
    if instance.num_tasks != len(reading.task_ids):
        yield "reading", f"tasks: ours {len(reading.task_ids)} theirs {instance.num_tasks}"
    elif abs(ours - theirs) > 1e-9 * max(ours, theirs):
        yield "reading", f"traffic: ours {ours} theirs {theirs}"


def evaluated(
    setting: Setting, _method: str | None, _keywords: Keywords, count: int = 12
) -> Findings:
    """Placements of all kinds break the rules that they break, and no others."""
    space, draw = setting.space(), random.Random(str(setting.document))
    reading, instance = space.reading, setting.instance
    for _ in range(count if len(reading.node_ids) else 0):
        node = [draw.choice(choices.tolist()) for choices in space.choices]
        evaluation = evaluate(instance, Plan.from_indices(instance, node))
        sure, maybe = (broken(reading, node, None, slack) for slack in (LOOSE, TIGHT))
        yield from verdict(evaluation, sure, maybe, str(node), decided=False)


def result(setting: Setting, method: str, keywords: Keywords) -> Findings:
    """Verdict, figures, gap, marks, proofs of one result; no failure of any kind."""
    answer = setting.answer(method, **keywords)
    yield from _checked(setting, method, keywords, answer)


def _checked(setting: Setting, method: str, keywords: Keywords, answer: Answer) -> Findings:
    if answer.failure is not None:
        yield answer.failure
    if answer.result is not None:
        claim = Claim(setting, method, keywords, answer.result)
        yield from judge(claim)
        yield from prove(claim)


def mended(setting: Setting, method: str, keywords: Keywords) -> Findings:
    """From a current placement that breaks limits: nowhere worse, least excess, best objective."""
    answer = setting.answer(method, **keywords)
    if answer.result is not None:
        yield from wrong_with(Claim(setting, method, keywords, answer.result))


def twice(setting: Setting, method: str, keywords: Keywords) -> Findings:
    """The same call gives the same plan, bound and end."""
    first = setting.answer(method, **keywords).result
    second = setting.answer(method, again=True, **keywords).result
    if first is None or second is None:
        return
    told = [_told(setting.reading, r) for r in (first, second)]
    if told[0] != told[1]:
        yield "not-repeatable", f"{told[0]} then {told[1]}"


def _told(reading: Reading, result: Any) -> tuple[Any, ...]:
    plan = None if result.plan is None else indices(reading, result.plan)
    return plan, result.bound, str(result.termination)


def units(
    setting: Setting, method: str, keywords: Keywords, loads: int, rates: int, costs: int
) -> Findings:
    """Loads, rates and costs × 10^k change neither the plan, the end, nor what is proved."""
    first = setting.answer(method, **keywords).result
    if first is None:
        return
    words = f"loads × 1e{loads}, rates × 1e{rates}, costs × 1e{costs}"
    try:
        other = Setting(in_units(setting.document, loads, rates, costs), setting.calls)
    except InvalidInput as error:
        if not any(
            told in str(error) for told in ("must be at most", "beyond")
        ):  # beyond the largest number that is read
            yield "scale-dependent", f"{words}: the instance is refused: {error}"
        return
    answer = other.answer(method, **keywords)
    if answer.result is None:
        yield "scale-dependent", f"{words}: {answer.refused or answer.failure}"
        return
    second, wrong = answer.result, []
    if str(first.termination) != str(second.termination):
        wrong.append(f"{first.termination} becomes {second.termination}")
    by = factor(first.objective and first.objective.name, loads, rates, costs)
    claim = Claim(setting, method, keywords, first)
    for name in ("value", "bound"):
        ours = getattr(claim, name)
        theirs = second.bound if name == "bound" else second.objective and second.objective.value
        if (ours is None) != (theirs is None):
            wrong.append(f"{name} {ours} becomes {theirs}")
        elif ours is not None and not _near(claim, ours, theirs / by, name):
            wrong.append(f"{name} {ours!r} becomes {theirs / by!r}")
    plans = [_told(setting.reading, r)[0] for r in (first, second)]
    if wrong:
        yield "scale-dependent", f"{words}: {'; '.join(wrong)}"
    elif plans[0] != plans[1]:  # rounding alone may choose among equals: only to be looked at
        yield "scale-tie", f"{words}: {plans[0]} becomes {plans[1]}"


def _near(claim: Claim, ours: float, theirs: float, name: str) -> bool:
    """Whether two values, or bounds, are the same but for rounding."""
    relative = 1e-9 if name == "value" else 1e-6
    return abs(ours - theirs) <= relative * max(abs(ours), abs(theirs)) + claim.rounding()


def ids(setting: Setting, method: str, keywords: Keywords, seed: int) -> Findings:
    """What is proved depends neither on ids nor on the order of tables."""
    first = setting.answer(method, **keywords).result
    if first is None or str(first.termination) not in ("optimal", "infeasible"):
        return
    try:
        other = Setting(permuted(setting.document, seed), setting.calls)
    except InvalidInput as error:
        yield "ids-matter", f"with other ids the instance is refused: {error}"
        return
    second = other.answer(method, **keywords).result
    if second is None:
        yield "ids-matter", f"with other ids: {other.answer(method, **keywords)}"
        return
    if str(first.termination) != str(second.termination):
        yield "ids-matter", f"{first.termination} becomes {second.termination}"
        return
    claim = Claim(setting, method, keywords, first)
    value = second.objective.value if second.objective else None
    if claim.value is None or value is None:
        return
    if abs(claim.value - value) > 2.2 * claim.allowed_miss(claim.value, value) + claim.rounding():
        yield "ids-matter", f"{claim.name} {claim.value!r} becomes {value!r}"


def start(setting: Setting, method: str, keywords: Keywords, source: str) -> Findings:
    """A plan to start from that keeps every rule is never made worse."""
    given = setting.answer(source, repair=True).result
    if given is None or given.plan is None:
        return
    answer = setting.answer(method, **keywords, warm_start=given.plan)
    yield from _checked(setting, method, keywords, answer)
    if answer.result is not None:
        yield from _no_worse(Claim(setting, method, keywords, answer.result), given, "start")


def _no_worse(claim: Claim, other: Any, kind: str) -> Findings:
    """Yield where a plan that keeps every rule is better than what was returned."""
    reading = claim.reading
    node, slot = indices(reading, other.plan)
    if min(node, default=0) < 0 or broken(reading, node, slot, TIGHT) or claim.name is None:
        return
    if reading.leaving[node].any() and not leaves_behind(claim.method, claim.keywords):
        return
    theirs = claim.worth(measure(reading, np.array([node])))
    if theirs is None:
        return
    if not claim.feasible or claim.value is None:
        if claim.termination != "infeasible":  # a false proof is told as such
            yield f"worse-than-{kind}", f"no feasible plan, {other.method} has {theirs!r}"
        return
    value = claim.worth(claim.figures)
    value = claim.value if value is None else value
    allowed = 1e-9 * max(abs(theirs), abs(value)) + claim.rounding()
    if claim.worse_by(value, theirs) > allowed:
        told = f"{claim.name} {value!r}, {other.method} has {theirs!r}"
        yield f"worse-than-{kind}", told


def family(setting: Setting, method: str, keywords: Keywords) -> Findings:
    """An exact method never returns less than its family's heuristics."""
    found = setting.answer(method, **keywords).result
    if found is None:
        return
    for heuristic in FAMILY.get(method, ()):
        other = setting.answer(heuristic).result
        if other is not None and other.plan is not None:
            yield from _no_worse(Claim(setting, method, keywords, found), other, "family")


def repair(setting: Setting, method: str, keywords: Keywords) -> Findings:
    """Repair touches no good plan, is told, and packs what first fit packs."""
    answer = setting.answer(method, **keywords, repair=True)
    mended, asked = answer.result, setting.answer(method, **keywords)
    plain = asked.result
    for kind, detail in _checked(setting, method, keywords, answer):
        # a method that does not keep a limit proves nothing of the plans that do
        if kind != "unproven" or asked.refused is None:
            yield kind, detail
    if mended is None:
        return
    if plain is not None and plain.feasible:
        told = [_told(setting.reading, r)[0] for r in (plain, mended)]
        if told[0] != told[1]:
            yield "repair-touched", f"a plan that keeps every rule was changed: {told}"
        if mended.repaired:
            yield "repair-mark", "marked as repaired though the plan was good"
    proved = str(mended.termination) == "infeasible"
    if not mended.feasible and not proved and _first_fit(setting.reading):
        notes = list(mended.notes)
        yield "repair-fails", f"first fit decreasing places all, repair does not; {notes}"


def _first_fit(reading: Reading) -> bool:
    """Whether first fit by decreasing load keeps every rule."""
    load, node = reading.background.copy(), np.full(len(reading.task_ids), -1)
    for t in np.argsort(-reading.load[:, 0], kind="stable"):
        for n in np.flatnonzero(reading.open[t]):
            if (load[n] + reading.load[t] <= reading.room[n]).all():
                load[n] += reading.load[t]
                node[t] = n
                break
    simple = not (reading.limits or reading.links or reading.sets or reading.slots_matter)
    return (
        simple
        and not reading.document.get("crossing_cost")
        and not broken(reading, node.tolist(), None, TIGHT)
    )


def ignoring(setting: Setting, method: str, keywords: Keywords, limit: str) -> Findings:
    """With a limit ignored the result is that of the instance without it, and says so."""
    told = {**keywords, "ignore": (limit,)}
    yield from _checked(setting, method, told, setting.answer(method, **told))


def default(setting: Setting, _method: str | None, keywords: Keywords) -> Findings:
    """Without a method: no refusal where one accepts, no lost plan where there is one."""
    answer = setting.answer(None, **keywords)
    if answer.refused is not None:
        for name, other in setting.accepting():
            if other.result.feasible:
                yield "auto-refuses", f"{answer.refused}; but {name} has a feasible plan"
                return
    if answer.failure is not None:
        yield answer.failure
    found = answer.result
    if found is None or setting.document.get("models"):
        return
    keywords = {**keywords, "repair": True}
    claim = Claim(setting, found.method, keywords, found)
    yield from judge(claim)
    yield from prove(claim)
    if found.feasible and indifferent(claim) and setting.reading.load[:, 0].any():
        yield "auto-for-nothing", f"{claim.name} of {found.method}: {claim.value!r} for every plan"
    if not found.feasible and claim.termination != "infeasible" and claim.space.complete:
        count = int(claim.space.tight.sum())
        if count:
            held = [name for name, other in setting.accepting() if other.result.feasible]
            told = f"{found.method}: {claim.termination}, {count} placements keep every rule"
            yield "auto-no-plan", f"{told}; methods with a plan: {held}"


_OF_PLACES = ("drained", "undrained", "total_traffic")
"""Figures that no task is needed for, or that are of where some are; the rest are of a whole job,
or tables of what is on each place."""


def partial(setting: Setting, method: str, keywords: Keywords, seed: int) -> Findings:
    """A plan that lacks tasks tells what is on each node, and no figure of the whole job."""
    found, reading = setting.answer(method, **keywords).result, setting.reading
    if found is None or found.plan is None or not found.plan.assignment:
        return
    assignment = dict(found.plan.assignment)
    for number, task in enumerate(sorted(assignment)):
        if (seed >> number % 16) & 1 or number == seed % len(found.plan.assignment):
            del assignment[task]
    lacking = dataclasses.replace(found.plan, assignment=assignment, slots=None)
    told = evaluate(setting.instance, lacking).to_dict()
    at = [reading.node_ids.index(assignment[t]) if t in assignment else -1
          for t in reading.task_ids]  # fmt: skip
    measured = measure(reading, np.array([at]))
    if told["feasible"]:
        yield "partial-feasible", f"{len(assignment)} of {len(at)} tasks are placed"
    counts = dict(zip(reading.node_ids, measured.counts[0].tolist(), strict=True))
    if told["node_tasks"] != counts:
        yield "partial-figure", f"node_tasks: ours {counts}, theirs {told['node_tasks']}"
    for node, loads in zip(reading.node_ids, measured.loads[0], strict=True):
        theirs = np.array(list(told["node_loads"][node].values()))
        if not np.allclose(loads, theirs, rtol=1e-9, atol=1e-9 * abs(loads).max(initial=0.0)):
            yield "partial-figure", f"loads of {node}: ours {loads}, theirs {theirs}"
    known = {"feasible", "violations", "node_tasks", *_OF_PLACES}
    for name, value in told.items():
        if name not in known and value is not None and not isinstance(value, dict):
            yield "partial-figure", f"{name} of a part of the job: {value}"


def modelled(setting: Setting, method: str, keywords: Keywords) -> Findings:
    """Threads, slots and price of a model-driven plan add up; `slots-milp` proves no more."""
    answer = setting.answer(method, **keywords)
    if answer.failure is not None:
        yield answer.failure
    found = answer.result
    if found is None:
        return
    yield from judge_models(setting.document, found)
    if found.plan is not None:
        again = evaluate(setting.instance, found.plan)
        if again.to_dict() != found.evaluation.to_dict():
            yield "evaluate", "evaluate(plan) differs from the result's evaluation"
    if method == "slots-milp" and not keywords:
        yield from judge_exact_models(found, setting.answer("mba+sam").result)


#: what can be asked, by name
PROBES: dict[str, Callable[..., Findings]] = {
    probe.__name__: probe
    for probe in (
        reads_alike, evaluated, result, twice, units, ids, start, family, repair, ignoring, default,
        modelled, partial, mended,
    )
}  # fmt: skip
