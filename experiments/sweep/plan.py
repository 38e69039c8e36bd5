"""From a spec to its runs: every combination of the matrix made concrete, each key once."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from experiments.sweep import instances as inst
from experiments.sweep.instances import Prepared
from experiments.sweep.spec import OPTION_PREFIX, SETTINGS, MethodEntry, Settings, Spec, as_text
from optim.errors import InvalidInput, Problem, meant, raise_any
from optim.figures.catalogue import find_objective
from optim.methods.choose import aim
from optim.methods.registry import Method
from optim.plugins import REFERENCE

Combination = dict[str, Any]
Matches = Callable[[str, Any, Any], bool]
Narrow = Callable[[Combination], Iterable[Combination]]

T = TypeVar("T")

MAX_RUNS = 1_000_000
DEFAULT_RUNNER = "experiments.sweep.row:run"

_KEY_FORMAT = "streamplace.run/1"
_TIMEOUT = 600.0
NOT_IN_KEY = ("run_timeout", "memory_limit")  # Settings that do not decide what a run finds.
_LATER = {"objective": None, "starts": "own", "start_broken": "mend", "certificate": False}
"""Settings that older keys lack, and what they were then."""
LABELLED = ("objective", "warm_start", "starts", "repair", "ignore", "start_broken")
"""Settings that change what a method does so much that its label shows them where they vary."""


# -- the runs --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """One run, complete: what a worker needs and what its row says it was given."""

    key: str  # sha256 of all that decides its outcome: instance, method, options, settings.
    instance: Prepared
    method: str
    label: str  # What tables call its method.
    family: str
    kind: str
    options: Mapping[str, Any]
    settings: Settings
    factors: Mapping[str, str]  # Everything that sets it apart, as texts.

    @property
    def timeout(self) -> float:
        """Seconds after which the run is killed."""
        if self.settings.run_timeout is not None:
            return self.settings.run_timeout
        limit = self.settings.time_limit
        most = _TIMEOUT if limit is None else 2 * limit + 30
        return 3 * most + 60 if self.settings.certificate else most

    def columns(self) -> dict[str, Any]:
        """Return the columns of its row that are known before it runs."""
        instance, settings = self.instance, self.settings
        return {
            "run_key": self.key,
            "factors": dict(self.factors),
            "instance": instance.base,
            "instance_sha256": instance.sha256,
            "instance_content": instance.content,
            **{name: getattr(instance, name) for name in ("num_tasks", "num_nodes")},
            "method": self.method,
            "method_label": self.label,
            "family": self.family,
            "kind": self.kind,
            **{
                name: getattr(settings, name)
                for name in ("solver", "seed", "time_limit", "threads")
            },
        }

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `optim.solve`, and `certificate` where it is asked."""
        settings = {**decisive(self.settings), "ignore": list(self.settings.ignore)}
        return {"method": self.method, **settings, **self.options}


def decisive(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide the outcome of a run; later ones only where they do."""
    return {
        key: value
        for key, value in vars(settings).items()
        if key not in NOT_IN_KEY and not (key in _LATER and value == _LATER[key])
    }


def run_key(
    instance: Prepared,
    variations: Mapping[str, Any],
    method: str,
    options: Mapping[str, Any],
    settings: Settings,
    runner: str,
) -> str:
    """Return the sha256 of the canonical JSON of all that decides the outcome of a run.

    Names and labels do not, so renaming repeats nothing; neither do the deadline and the memory
    cap, which a failed run may be given more of.
    """
    content = {
        "format": _KEY_FORMAT, "instance": instance.sha256, "base": instance.base_sha256,
        "variations": dict(variations), "method": method, "options": dict(options),
        "settings": decisive(settings),
    }  # fmt: skip
    if runner != DEFAULT_RUNNER:
        content["runner"] = runner
    # canonical: the same question is the same text, in whatever order it was asked
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# -- what the registry says of methods -------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """What a sweep must know of a method; of an unknown one that is little."""

    name: str
    family: str = ""
    kind: str = ""
    solvers: tuple[str, ...] = ()
    default_solver: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    takes_warm_start: bool = True
    cold: bool = True
    registered: bool = False
    chooses_objective: bool = True
    content: str = ""

    @classmethod
    def of(cls, method: Method, reference: str) -> Card:
        """Take it from the registry's entry; `content` distinguishes versions of a method's
        file.
        """
        same = ("name", "family", "kind", "solvers", "default_solver", "takes_warm_start", "cold")
        defaults = {option.name: option.default for option in method.options}
        return cls(
            **{name: getattr(method, name) for name in same},
            defaults=defaults,
            registered=True,
            chooses_objective=len(method.objectives) > 1 or "objective" in defaults,
            content=_content_of(reference),
        )

    def uses(self, factor: str) -> bool:
        """Return whether a factor of the matrix makes a difference to the method."""
        match factor:
            case "warm_start":
                return self.takes_warm_start
            case "starts":
                return self.cold
            case "objective":
                return self.chooses_objective
            case "solver":
                return bool(self.solvers) or not self.registered
        return (
            not self.registered
            or not factor.startswith(OPTION_PREFIX)
            or factor.removeprefix(OPTION_PREFIX) in self.defaults
        )


def _content_of(reference: str) -> str:
    """Return the sha256 of the file of a loaded method; nothing of a registered name."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        return ""
    file = Path(match["file"] or getattr(sys.modules[match["module"]], "__file__", None) or "")
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def look_up(name: str) -> Method:
    """Return a method from the registry.

    Raises `InvalidInput`: there is none of that name, or its module does not import.
    """
    from optim.methods.registry import get_method

    try:
        return get_method(name)
    except ImportError as error:
        reason = f"is registered but does not import: {error}"
        raise InvalidInput(Problem("method", name, reason, "install what it needs")) from None


def label_of(entry: MethodEntry, card: Card, options: Mapping[str, Any], shown: Any) -> str:
    """Return what tables call a run's method: its name or label, and what sets it apart.

    `shown`: further settings to show, those of `LABELLED` that vary in the sweep.
    """
    if entry.label is None:
        shown_options = {
            k: v for k, v in options.items() if k not in card.defaults or card.defaults[k] != v
        }
    else:
        shown_options = {
            k: v for k, v in options.items() if k in entry.varied or k not in entry.options
        }
    parts = [f"{key}={as_text(value)}" for key, value in {**shown_options, **shown}.items()]
    name = entry.label or card.name
    return f"{name} ({', '.join(parts)})" if parts else name


class RegistryChecks:
    """Looks up every method of a spec; problems are added to the list given.

    With a runner of one's own, methods mean what that runner makes of them: nothing is looked up.

    `cards`: what is known of each method, by name.
    """

    def __init__(self, spec: Spec, problems: list[Problem], runner: str) -> None:
        self.spec = spec
        self.problems = problems
        methods = spec.factors.get("method", ())
        labels = {entry.label for entry in methods}
        self.entries: list[tuple[str, MethodEntry]] = [
            *((f"matrix.method[{i}]", entry) for i, entry in enumerate(methods)),
            *(
                (f"matrix.include[{i}].method", values["method"])
                for i, values in enumerate(spec.include)
                if "method" in values and values["method"].method not in labels
            ),
        ]
        self.own_runner = runner != DEFAULT_RUNNER
        unknown = self.entries if self.own_runner else ()
        self.cards = {entry.method: Card(entry.method) for _, entry in unknown}

    def run(self) -> None:
        """Do all checks: methods and their options, then all else that only the registry knows."""
        if self.own_runner:
            return
        for path, entry in self.entries:
            self._read_card(path, entry)
        from optim.solvers import SOLVERS

        for path, name in self._named_values("solver"):
            if name not in SOLVERS:
                self._problem(path, name, "is no solver", f"solvers: {', '.join(SOLVERS)}")
        words = self._words_of_objectives()
        for path, name in self._named_values("objective"):
            if name not in words:
                self._try(lambda name=name: find_objective(name), path)  # type: ignore[misc]
        for path, name in self._named_values("warm_start"):
            self._try(lambda name=name: look_up(name), path, name)  # type: ignore[misc]
        for path, entry in self.entries:
            card = self.cards.get(entry.method)
            if entry.settings.get("starts") == "none" and card is not None and not card.cold:
                reason = f"is not supported by {entry.method}, which uses starts of its own"
                self._problem(f"{path}.starts", "none", reason, "leave it out")
        twice = "is a factor, and a method sets it as well"
        for factor, values in self.spec.factors.items():
            if factor.startswith(OPTION_PREFIX):
                name = factor.removeprefix(OPTION_PREFIX)
                self._check_option(name, values)
                if any(name in entry.options for entry in self.spec.factors.get("method", ())):
                    self._problem(f"matrix.{factor}", None, twice, "keep one of them")
        for key in SETTINGS:
            if key in self.spec.factors and any(key in e.settings for _, e in self.entries):
                self._problem(f"matrix.{key}", None, twice, "use include for exceptions")

    def _problem(self, path: str, value: Any, reason: str, remedy: str) -> None:
        self.problems.append(Problem(path, value, reason, remedy))

    def _try(self, check: Callable[[], T], path: str, value: Any = None) -> T | None:
        """Return what a check returns; where it fails, add its problems under a path."""
        try:
            return check()
        except InvalidInput as error:
            for problem in error.problems:
                name = problem.path.removeprefix("--option ")
                where = path if name.startswith("-") or name == "method" else f"{path}.{name}"
                shown = problem.value if value is None else value
                self._problem(where, shown, problem.reason, problem.remedy)
            return None

    def _read_card(self, path: str, entry: MethodEntry) -> None:
        """Look a method up, and check the options that come with it."""
        method = self._try(lambda: look_up(entry.method), path, entry.method)
        if method is None:
            return
        self.cards[entry.method] = Card.of(method, entry.method)
        options = dict(entry.options)
        objective = entry.settings.get("objective")
        if all(option.name != "objective" for option in method.options):
            objective = options.pop("objective", objective)  # where earlier versions had it
        self._try(
            lambda: method.read_options(aim(method, objective, options)[1]), f"{path}.options"
        )

    def _named_values(self, key: str) -> Iterator[tuple[str, str]]:
        """Give the values of a setting that is a name, wherever it may stand."""
        spec = self.spec
        places: list[tuple[str, Any]] = [(key, getattr(spec.defaults, key))]
        places += [(f"matrix.{key}[{i}]", v) for i, v in enumerate(spec.factors.get(key, ()))]
        places += [(f"matrix.include[{i}].{key}", e.get(key)) for i, e in enumerate(spec.include)]
        for path, entry in self.entries:
            setting = (entry.settings.get(key),)
            names: Sequence[str | None] = entry.solvers if key == "solver" else setting
            places += [(f"{path}.{key}", value) for value in names]
        return ((path, value) for path, value in places if value)

    def _words_of_objectives(self) -> set[str]:
        """Return the choices of the option ``objective`` that methods of the sweep have."""
        return {
            choice
            for name in self.cards
            for option in look_up(name).options
            if option.name == "objective"
            for choice in option.choices
        }

    def _check_option(self, name: str, values: Sequence[Any]) -> None:
        path = f"matrix.{OPTION_PREFIX}{name}"
        takers = [card for card in self.cards.values() if name in card.defaults]
        if not takers:
            reason = "is an option of no method of this sweep"
            self._problem(path, None, reason, "remove it, or add such a method")
        for card in takers:
            for i, value in enumerate(values):
                try:
                    look_up(card.name).read_options({name: value})
                except InvalidInput as error:
                    (problem,) = error.problems
                    self._problem(f"{path}[{i}]", problem.value, problem.reason, problem.remedy)
                    return


# -- the matrix, with the semantics of GitHub Actions: product, then exclude, then include ---------


def equal(_key: str, value: Any, named: Any) -> bool:
    """Return whether a combination's value is the one that an entry names."""
    return bool(value == named)


def size(factors: Mapping[str, Sequence[Any]]) -> int:
    """Return the number of combinations before exclusion."""
    return math.prod(len(values) for values in factors.values())


def expand(
    factors: Mapping[str, Sequence[Any]],
    exclude: Sequence[Mapping[str, Any]] = (),
    include: Sequence[Mapping[str, Any]] = (),
    matches: Matches = equal,
    narrow: Narrow = lambda combination: (combination,),
) -> list[Combination]:
    """Return all combinations, in the order of the factors, the last one fastest.

    `exclude`: a combination goes when it matches *all* keys of an entry.
    `include`: an entry's pairs are added to every combination of the product none of whose original
        values it would overwrite (values added by an earlier entry may be). An entry that can be
        added to none becomes a combination of its own, to which later entries are not added.
    `matches`: (key, value held, value wanted) -> bool.
    `narrow`: what becomes of a combination of the product before anything else: combinations that
        may lack factors or hold other values, or none. An entry that names a factor which a
        combination lacks does not match it.
    Source: GitHub Docs, "Running variations of jobs in a workflow".
    """

    def excluded(combination: Combination) -> bool:
        return any(
            all(key in combination and matches(key, combination[key], entry[key]) for key in entry)
            for entry in exclude
        )

    combinations = [
        narrowed
        for values in (itertools.product(*factors.values()) if factors else ())
        for narrowed in narrow(dict(zip(factors, values, strict=True)))
        if not excluded(narrowed)
    ]
    # the keys of each before inclusion; equal ones share a set, for there may be a million
    shared: dict[frozenset[str], frozenset[str]] = {}
    key_sets = [shared.setdefault(keys, keys) for keys in map(frozenset, combinations)]
    alone: list[Combination] = []
    for entry in include:
        fits = False
        for combination, keys in zip(combinations, key_sets, strict=True):
            # an entry adds factors that are lacking, and overwrites none of the product
            if all(
                key in keys and matches(key, combination[key], value)
                for key, value in entry.items()
                if key in keys or key in factors
            ):
                fits = True
                combination.update({k: v for k, v in entry.items() if k not in keys})
        if not fits:
            alone.append(dict(entry))
    return combinations + alone


# -- the plan --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, each key once, in the order of the matrix."""

    runs: tuple[Run, ...]  # Method varies slowest as the spec has it; instances slowest of all.
    notes: tuple[str, ...]  # What was left out and why.


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
        count = len(files) + inst.count_generated(spec.generators)
        if count > inst.MAX_INSTANCES or count * max(1, size(spec.factors)) > MAX_RUNS:
            self._refuse("matrix", f"makes more than {MAX_RUNS} runs",
                         "name fewer values, or split the sweep")  # fmt: skip
        raise_any(problems, spec.source)
        prepared = inst.load_instances(spec, files, self.again)
        combinations = self._combinations(prepared)
        raise_any(problems, spec.source)
        by_name = {p.name: p for p in prepared}
        different = len({p.content for p in prepared})
        if different < len(prepared):
            message = f"{len(prepared)} instances hold {different} different contents"
            self.again.append(f"{message}: equal ones count as one case in reports")
        unique: dict[str, Run] = {}
        for combination in combinations:
            for run in self._runs(combination, by_name):
                # equal keys are one run: the first label stays
                first = unique.setdefault(run.key, run)
                if first.label != run.label:
                    self.merged[run.label, first.label] += 1
        raise_any(problems, spec.source)
        if not unique:
            self._refuse("matrix", "leaves no run", "exclude less")
        if len(unique) > MAX_RUNS:
            reason = f"makes {len(unique)} runs, more than {MAX_RUNS}"
            self._refuse("matrix", reason, "split the sweep")
        raise_any(problems, spec.source)
        skipped, merged = self.skipped.items(), self.merged.items()
        notes = [
            *self.again,
            *(f"{method} does not run on {solver}: {count} combinations left out"
              for (method, solver), count in skipped),
            *(f"{label} means {count} runs that {other} means as well: done once"
              for (label, other), count in merged),
        ]  # fmt: skip
        return Plan(tuple(unique.values()), tuple(notes))

    def _refuse(self, path: str, reason: str, remedy: str = "", value: Any = None) -> None:
        self.problems.append(Problem(path, value, reason, remedy))

    # -- combinations ----------------------------------------------------------------------------

    def _combinations(self, prepared: Sequence[Prepared]) -> list[dict[str, Any]]:
        spec = self.spec
        names = tuple(p.name for p in prepared)
        factors = {"instance": names, **spec.factors}
        method_solvers = tuple(s for m in spec.factors.get("method", ()) for s in m.solvers)
        for kind in ("exclude", "include"):
            for i, entry in enumerate(getattr(spec, kind)):
                for key in entry if kind == "exclude" else entry.keys() & {"instance"}:
                    values = factors[key] + method_solvers if key == "solver" else factors[key]
                    if not any(_matches(key, value, entry[key]) for value in values):
                        shown = entry[key].method if key == "method" else entry[key]
                        what = "instance" if key == "instance" else f"value of {key}"
                        reason = f"is no {what} of this sweep"
                        known = dict.fromkeys(n for value in values for n in _names_of(value))
                        remedy = meant(str(shown), known)
                        self._refuse(f"matrix.{kind}[{i}].{key}", reason, remedy, shown)
        combinations = expand(factors, spec.exclude, spec.include, _matches, self._narrow)
        if any("method" not in combination for combination in combinations):
            reason = "makes runs of its own, and names no method"
            self._refuse("matrix.include", reason, 'add method = "…"')
        return [
            resolved for combination in combinations for resolved in self._by_label(combination)
        ]

    def _by_label(self, combination: dict[str, Any]) -> Iterator[dict[str, Any]]:
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
        """Leave out what the method has no use for, and give it its own solvers, if it has any."""
        entry: MethodEntry | None = combination.get("method")
        if entry is None:
            yield combination
            return
        card = self.registry.cards[entry.method]
        dropped = {key for key in combination if not card.uses(key)}
        solvers = entry.solvers if card.uses("solver") else ()
        if solvers and "solver" in combination:
            dropped.add("solver")
        # combinations that mean the same run are one, or an exclude would hit one of several
        if any(combination[key] != self.spec.factors[key][0] for key in dropped):
            return  # the first value stands for all of them
        remaining = {key: value for key, value in combination.items() if key not in dropped}
        if not solvers:
            yield remaining
        for solver in solvers:
            yield {**remaining, "solver": solver}

    def _runs(
        self, combination: Mapping[str, Any], prepared: Mapping[str, Prepared]
    ) -> Iterator[Run]:
        """Make the runs of a combination: one for each instance and solver that it leaves open."""
        entry: MethodEntry = combination["method"]
        card = self.registry.cards[entry.method]
        pattern = combination.get("instance", "*")
        names = [pattern] if pattern in prepared else fnmatch.filter(prepared, pattern)
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
        key = repr([(v.name, value) for v, value in variations])
        prepared = self.varied.get((base.name, key))
        if prepared is None:
            try:
                prepared = inst.vary(base, variations)
            except InvalidInput as error:
                self.problems += [p for p in error.problems if p not in self.problems]
                return None
            self.varied[base.name, key] = prepared
        return prepared

    def _settings(
        self, entry: MethodEntry, card: Card, combination: Mapping[str, Any]
    ) -> Iterator[Settings]:
        """Give the settings of a combination; what a method has no use for is left out of them."""
        chosen = dict(entry.settings)
        chosen |= {key: combination[key] for key in SETTINGS if key in combination}
        if not card.takes_warm_start:
            chosen["warm_start"] = None
        if not card.cold:
            starts = chosen.get("starts", self.spec.defaults.starts)
            note = f"{entry.method} uses starts of its own: starts = none is not supported"
            if starts == "none" and card.kind == "exact" and note not in self.again:
                self.again.append(note)
            chosen["starts"] = "own"
        # one objective: the factor would make equal runs under different keys
        if not card.chooses_objective and "objective" not in entry.settings:
            chosen["objective"] = None
        settings = dataclasses.replace(self.spec.defaults, **chosen)
        solvers = (
            (settings.solver,) if "solver" in combination or not entry.solvers else entry.solvers
        )
        for choice in solvers:
            solver = choice or card.default_solver
            if card.registered and not card.solvers:
                solver = None
            elif card.registered and solver is not None and solver not in card.solvers:
                self.skipped[entry.label or entry.method, solver] += 1
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
        option_factors = {
            key.removeprefix(OPTION_PREFIX): value
            for key, value in combination.items()
            if key.startswith(OPTION_PREFIX)
        }
        accepted = {
            k: v for k, v in option_factors.items() if not card.registered or k in card.defaults
        }
        options = {**entry.options, **accepted}
        labelled = {key: getattr(settings, key) for key in LABELLED}
        # an objective that a labelled entry gives is what its label stands for
        implied = {"objective"} if entry.label is not None else set()
        explicit = entry.settings.keys() - implied | combination.keys()
        shown = {k: v for k, v in labelled.items() if v and k in explicit}
        label = label_of(entry, card, options, shown)
        factors = self._run_factors(combination, instance, settings, label, options)
        varied = {k: combination[k] for k in self.spec.variations if k in combination}
        # the same file elsewhere is the same method; another text in it is another one
        method = f"{card.name} {card.content}" if card.content else entry.method
        key = run_key(instance, varied, method, options, settings, self.runner)
        return Run(
            key, instance, entry.method, label, card.family, card.kind, options, settings, factors
        )

    def _run_factors(
        self,
        combination: Mapping[str, Any],
        instance: Prepared,
        settings: Settings,
        label: str,
        options: Mapping[str, Any],
    ) -> dict[str, str]:
        factors: dict[str, Any] = {"instance": instance.base, **instance.factors, "method": label}
        factors |= {key: combination[key] for key in self.spec.variations if key in combination}
        factors |= {f"{OPTION_PREFIX}{name}": value for name, value in options.items()}
        # all that decides the outcome, so that no two runs of one key each look alike in a report
        factors |= {
            k: getattr(settings, k) for k in SETTINGS if k in combination or k not in NOT_IN_KEY
        }
        for key, usual in (("repair", False), ("certificate", False), ("starts", "own")):
            if getattr(settings, key) == usual and key not in combination:
                del factors[key]
        return {key: as_text(value) for key, value in factors.items() if value not in (None, ())}


def _names_of(value: Any) -> list[str]:
    """Return by what an exclude or include may name a value: a method by its name or label."""
    names = (value.method, value.label) if isinstance(value, MethodEntry) else (value,)
    return [str(name) for name in names if name is not None]


def _matches(key: str, value: Any, named: Any) -> bool:
    if key == "method":
        return bool(value.answers_to(named))
    if key == "instance":
        return value == named or fnmatch.fnmatchcase(value, named)
    return bool(value == named)
