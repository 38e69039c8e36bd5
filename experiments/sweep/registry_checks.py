"""Check what only the registry knows: methods, their options, solvers, warm starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.sweep.methods import OPTION_PREFIX, Card, MethodEntry, look_up
from experiments.sweep.runs import DEFAULT_RUNNER
from experiments.sweep.settings import SETTINGS
from optim.errors import InvalidInput, Problem
from optim.figures.catalogue import find_objective
from optim.methods.objective import aim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.sweep.spec import Spec


class RegistryChecks:
    """Looks up every method of a spec; problems are added to the list given.

    With a runner of one's own, methods mean what that runner makes of them: nothing is looked up.

    Attributes
    ----------
    cards
        What is known of each method, by name.
    """

    def __init__(self, spec: Spec, problems: list[Problem], runner: str) -> None:
        self.spec = spec
        self.problems = problems
        self.runner = runner
        self.cards: dict[str, Card] = {}

    def run(self) -> None:
        """Do all checks."""
        self._read_cards()
        self._check_values()

    def _entries(self) -> Iterator[tuple[str, MethodEntry]]:
        for i, entry in enumerate(self.spec.factors.get("method", ())):
            yield f"matrix.method[{i}]", entry
        labels = {e.label for e in self.spec.factors.get("method", ())}
        for i, values in enumerate(self.spec.include):
            if "method" in values and values["method"].method not in labels:
                yield f"matrix.include[{i}].method", values["method"]

    def _read_cards(self) -> None:
        """Look every method up, and check the options that come with it."""
        for path, entry in self._entries():
            if self.runner != DEFAULT_RUNNER:
                self.cards.setdefault(entry.method, Card(entry.method))
                continue
            try:
                method = look_up(entry.method)
                self.cards[entry.method] = Card.of(method)
            except InvalidInput as error:
                self._add(error, path, entry.method)
                continue
            options = dict(entry.options)
            wanted = entry.settings.get("objective")
            if all(option.name != "objective" for option in method.options):
                wanted = options.pop("objective", wanted)  # where earlier versions had it
            try:
                method.read_options(aim(method, wanted, options)[1])
            except InvalidInput as error:
                self._add(error, f"{path}.options")

    def _add(self, error: InvalidInput, path: str, value: Any = None) -> None:
        for problem in error.problems:
            name = problem.path.removeprefix("--option ")
            where = path if name.startswith("-") or name == "method" else f"{path}.{name}"
            shown = problem.value if value is None else value
            self.problems.append(Problem(where, shown, problem.reason, problem.remedy))

    def _check_values(self) -> None:
        """Check what only the registry can: solvers, warm starts, options of the matrix."""
        if self.runner != DEFAULT_RUNNER:
            return
        for path, name in self._named_values("solver"):
            self._check_solver(path, name)
        for path, name in self._named_values("objective"):
            self._check_objective(path, name)
        for path, name in self._named_values("warm_start"):
            try:
                look_up(name)
            except InvalidInput as error:
                self._add(error, path, name)
        for path, entry in self._entries():
            card = self.cards.get(entry.method)
            if entry.settings.get("starts") == "none" and card is not None and not card.cold:
                reason = f"is not for {entry.method}, which goes on from what it finds itself"
                self.problems.append(Problem(f"{path}.starts", "none", reason, "leave it out"))
        for factor, values in self.spec.factors.items():
            if factor.startswith(OPTION_PREFIX):
                self._check_option(factor, values)
                if any(
                    factor.removeprefix(OPTION_PREFIX) in entry.options
                    for entry in self.spec.factors.get("method", ())
                ):
                    reason = "is a factor, and a method sets it as well"
                    self.problems.append(
                        Problem(f"matrix.{factor}", None, reason, "keep one of them")
                    )
        settings_of = [e.settings for _, e in self._entries()]
        for key in SETTINGS:
            if key in self.spec.factors and any(key in settings for settings in settings_of):
                reason = "is a factor, and a method sets it as well"
                self.problems.append(
                    Problem(f"matrix.{key}", None, reason, "use include for exceptions")
                )

    def _named_values(self, key: str) -> Iterator[tuple[str, str]]:
        """Give the values of a setting that is a name, wherever it may stand."""
        spec = self.spec
        places: list[tuple[str, Any]] = [(key, getattr(spec.defaults, key))]
        places += [(f"matrix.{key}[{i}]", v) for i, v in enumerate(spec.factors.get(key, ()))]
        places += [(f"matrix.include[{i}].{key}", e.get(key)) for i, e in enumerate(spec.include)]
        for path, entry in self._entries():
            own = (entry.settings.get(key),)
            given: Sequence[str | None] = entry.solvers if key == "solver" else own
            places += [(f"{path}.{key}", value) for value in given]
        return ((path, value) for path, value in places if value)

    def _check_objective(self, path: str, name: str) -> None:
        """A figure, or a choice of an option ``objective`` that a method of the sweep has."""
        words = {
            choice
            for _, entry in self._entries()
            if entry.method in self.cards
            for option in look_up(entry.method).options
            if option.name == "objective"
            for choice in option.choices
        }
        try:
            if name not in words:
                find_objective(name)
        except InvalidInput as error:
            self._add(error, path)

    def _check_solver(self, path: str, name: str) -> None:
        from optim.solvers import SOLVERS

        if name not in SOLVERS:
            known = ", ".join(SOLVERS)
            self.problems.append(Problem(path, name, "is no solver", f"solvers: {known}"))

    def _check_option(self, factor: str, values: Sequence[Any]) -> None:
        name = factor.removeprefix(OPTION_PREFIX)
        takers = [card for card in self.cards.values() if name in card.defaults]
        if not takers:
            reason = "is an option of no method of this sweep"
            self.problems.append(
                Problem(f"matrix.{factor}", None, reason, "remove it, or add such a method")
            )
        for card in takers:
            for i, value in enumerate(values):
                try:
                    look_up(card.name).read_options({name: value})
                except InvalidInput as error:
                    (problem,) = error.problems
                    path = f"matrix.{factor}[{i}]"
                    self.problems.append(
                        Problem(path, problem.value, problem.reason, problem.remedy)
                    )
                    return
