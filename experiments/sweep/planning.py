"""From a spec to its runs: every combination of the matrix made concrete, each key once."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.sweep import instances as inst
from experiments.sweep import matrix
from experiments.sweep.methods import (
    LABELLED,
    OPTION_PREFIX,
    Card,
    MethodEntry,
    as_text,
    label_of,
)
from experiments.sweep.registry_checks import RegistryChecks
from experiments.sweep.runs import DEFAULT_RUNNER, NOT_IN_KEY, Run, run_key
from experiments.sweep.settings import SETTINGS, Settings
from optim.errors import InvalidInput, Problem, raise_any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from experiments.sweep.instances import Prepared
    from experiments.sweep.spec import Spec

MAX_RUNS = 1_000_000


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, each key once, in the order of the matrix.

    Attributes
    ----------
    runs
        Method varies slowest as the spec has it; instances slowest of all.
    notes
        What was left out and why.
    """

    runs: tuple[Run, ...]
    notes: tuple[str, ...]


def plan_runs(spec: Spec, runner: str = DEFAULT_RUNNER) -> Plan:
    """Make the runs of a sweep.

    Parameters
    ----------
    runner
        The function that will do them; one of your own may give methods a meaning that the
        registry does not know.

    Raises
    ------
    InvalidInput
        A method, option, solver or generator is unknown, no file matches, an instance is wrong,
        or there are too many runs; all that can be found at once.
    """
    return _Planner(spec, runner).plan()


class _Planner:
    def __init__(self, spec: Spec, runner: str) -> None:
        self.spec = spec
        self.runner = runner
        self.problems: list[Problem] = []
        self.registry = RegistryChecks(spec, self.problems, runner)
        self.varied: dict[tuple[str, str], Prepared] = {}
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.merged: Counter[tuple[str, str]] = Counter()
        self.again: list[str] = []

    def plan(self) -> Plan:
        spec, problems = self.spec, self.problems
        self.registry.run()
        files = inst.find_files(problems, spec)
        generate = inst.find_generator(problems, spec.generators)
        count = len(files) + inst.count_generated(spec.generators)
        if count > inst.MAX_INSTANCES or count * max(1, matrix.size(spec.factors)) > MAX_RUNS:
            reason = f"makes more than {MAX_RUNS} runs"
            problems.append(
                Problem("matrix", None, reason, "name fewer values, or split the sweep")
            )
        raise_any(problems, spec.source)
        prepared = inst.load_instances(spec, files, generate, self.again)
        combinations = self._combinations(prepared)
        raise_any(problems, spec.source)
        by_name = {p.name: p for p in prepared}
        different = len({p.content for p in prepared})
        if different < len(prepared):
            told = f"{len(prepared)} instances hold {different} different contents"
            self.again.append(f"{told}: equal ones count as one case in reports")
        unique: dict[str, Run] = {}
        for combination in combinations:
            for run in self._runs(combination, by_name):
                first = unique.setdefault(run.key, run)
                if first.label != run.label:
                    self.merged[run.label, first.label] += 1
        raise_any(problems, spec.source)
        if not unique:
            reason = "leaves no run"
            raise InvalidInput(Problem("matrix", None, reason, "exclude less"), spec.source)
        if len(unique) > MAX_RUNS:
            reason = f"makes {len(unique)} runs, more than {MAX_RUNS}"
            raise InvalidInput(Problem("matrix", None, reason, "split the sweep"), spec.source)
        return Plan(tuple(unique.values()), tuple(self._notes()))

    def _notes(self) -> Iterator[str]:
        yield from self.again
        for (method, solver), count in self.skipped.items():
            yield f"{method} does not run on {solver}: {count} combinations left out"
        for (label, other), count in self.merged.items():
            yield f"{label} means {count} runs that {other} means as well: done once"

    # -- combinations ----------------------------------------------------------------------------

    def _combinations(self, prepared: Sequence[Prepared]) -> list[dict[str, Any]]:
        spec = self.spec
        names = tuple(p.name for p in prepared)
        factors = {"instance": names, **spec.factors}
        own = tuple(s for m in spec.factors.get("method", ()) for s in m.solvers)
        for kind in ("exclude", "include"):
            for i, entry in enumerate(getattr(spec, kind)):
                for key in entry if kind == "exclude" else entry.keys() & {"instance"}:
                    values = factors[key] + own if key == "solver" else factors[key]
                    if not any(_matches(key, value, entry[key]) for value in values):
                        told = entry[key].method if key == "method" else entry[key]
                        what = "instance" if key == "instance" else f"value of {key}"
                        where = f"matrix.{kind}[{i}].{key}"
                        self.problems.append(Problem(where, told, f"is no {what} of this sweep"))
        combinations = matrix.expand(factors, spec.exclude, spec.include, _matches, self._narrow)
        for combination in combinations:
            if "method" not in combination:
                reason = "makes runs of its own, and names no method"
                self.problems.append(Problem("matrix.include", None, reason, 'add method = "…"'))
                break
        return [meant for combination in combinations for meant in self._meant(combination)]

    def _meant(self, combination: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Put the methods that an include of its own names by their label in its place."""
        entry: MethodEntry | None = combination.get("method")
        methods = self.spec.factors.get("method", ())
        labelled = []
        if entry is not None and not any(entry is method for method in methods):
            labelled = [m for m in methods if m.label == entry.method and m.answers_to(entry)]
        for method in labelled:
            yield {**combination, "method": method}
        if not labelled:
            yield combination

    def _narrow(self, combination: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Leave out what the method has no use for, and give it its own solvers, if it has any.

        Else an exclude or include would hit one of several combinations that mean the same run.
        """
        entry: MethodEntry | None = combination.get("method")
        if entry is None:
            yield combination
            return
        card = self.registry.cards[entry.method]
        dropped = {key for key in combination if not card.uses(key)}
        solvers = entry.solvers if card.uses("solver") else ()
        if solvers and "solver" in combination:
            dropped.add("solver")
        if any(combination[key] != self.spec.factors[key][0] for key in dropped):
            return  # the first value stands for all of them
        kept = {key: value for key, value in combination.items() if key not in dropped}
        if not solvers:
            yield kept
        for solver in solvers:
            yield {**kept, "solver": solver}

    def _runs(
        self, combination: Mapping[str, Any], prepared: Mapping[str, Prepared]
    ) -> Iterator[Run]:
        """Make the runs of a combination: one for each instance and solver that it leaves open."""
        entry: MethodEntry = combination["method"]
        card = self.registry.cards[entry.method]
        wanted = combination.get("instance", "*")
        names = [wanted] if wanted in prepared else fnmatch.filter(prepared, wanted)
        variations = [
            (variation, combination[factor])
            for factor, variation in self.spec.variations.items()
            if factor in combination
        ]
        for name in names:
            instance = self._varied(prepared[name], variations)
            if instance is None:
                continue
            for settings in self._settings(entry, card, combination):
                yield self._run(entry, card, combination, instance, settings)

    def _varied(self, base: Prepared, variations: list[Any]) -> Prepared | None:
        told = repr([(v.name, value) for v, value in variations])
        found = self.varied.get((base.name, told))
        if found is None:
            try:
                found = inst.vary(base, variations)
            except InvalidInput as error:
                problems = [p for p in error.problems if p not in self.problems]
                self.problems += problems
                return None
            self.varied[base.name, told] = found
        return found

    def _settings(
        self, entry: MethodEntry, card: Card, combination: Mapping[str, Any]
    ) -> Iterator[Settings]:
        """Give the settings of a combination; what a method has no use for is left out of them."""
        chosen = dict(entry.settings)
        chosen |= {key: combination[key] for key in SETTINGS if key in combination}
        settings = dataclasses.replace(self.spec.defaults, **chosen)
        if not card.takes_warm_start:
            settings = dataclasses.replace(settings, warm_start=None)
        if not card.cold:
            note = f"{entry.method} goes on from what it finds itself: starts = none is not for it"
            if settings.starts == "none" and card.kind == "exact" and note not in self.again:
                self.again.append(note)
            settings = dataclasses.replace(settings, starts="own")
        if not card.chooses_objective and "objective" not in entry.settings:
            settings = dataclasses.replace(settings, objective=None)
        wanted = (
            (settings.solver,) if "solver" in combination or not entry.solvers else entry.solvers
        )
        for named in wanted:
            solver = named or card.default_solver
            if card.known and not card.solvers:
                solver = None
            elif card.known and solver is not None and solver not in card.solvers:
                place = (entry.label or entry.method, solver)
                self.skipped[place] += 1
                continue
            yield dataclasses.replace(settings, solver=solver)

    def _run(
        self,
        entry: MethodEntry,
        card: Card,
        combination: Mapping[str, Any],
        instance: Prepared,
        settings: Settings,
    ) -> Run:
        given = {
            key.removeprefix(OPTION_PREFIX): value
            for key, value in combination.items()
            if key.startswith(OPTION_PREFIX)
        }
        taken = {k: v for k, v in given.items() if not card.known or k in card.defaults}
        options = {**entry.options, **taken}
        own = {key: getattr(settings, key) for key in LABELLED}
        # an objective that a labelled entry gives is what its label stands for
        said = {"objective"} if entry.label is not None else set()
        given_here = entry.settings.keys() - said | combination.keys()
        shown = {k: v for k, v in own.items() if v and k in given_here}
        label = label_of(entry, card, options, shown)
        factors = self._told(combination, instance, settings, label, options)
        varied = {k: combination[k] for k in self.spec.variations if k in combination}
        key = run_key(instance, varied, entry.method, options, settings, self.runner)
        return Run(
            key, instance, entry.method, label, card.family, card.kind, options, settings, factors
        )

    def _told(
        self,
        combination: Mapping[str, Any],
        instance: Prepared,
        settings: Settings,
        label: str,
        options: Mapping[str, Any],
    ) -> dict[str, str]:
        told: dict[str, Any] = {"instance": instance.base, **instance.factors, "method": label}
        told |= {key: combination[key] for key in self.spec.variations if key in combination}
        told |= {f"{OPTION_PREFIX}{name}": value for name, value in options.items()}
        # all that decides the outcome, so that no two runs of one key each look alike in a report
        told |= {
            k: getattr(settings, k) for k in SETTINGS if k in combination or k not in NOT_IN_KEY
        }
        for key, usual in (("repair", False), ("certificate", False), ("starts", "own")):
            if getattr(settings, key) == usual and key not in combination:
                del told[key]
        return {key: as_text(value) for key, value in told.items() if value not in (None, ())}


def _matches(key: str, held: Any, wanted: Any) -> bool:
    if key == "method":
        return bool(held.answers_to(wanted))
    if key == "instance":
        return held == wanted or fnmatch.fnmatchcase(held, wanted)
    return bool(held == wanted)
