"""The product as the fuzzer sees it: reading an instance, `solve`, `evaluate`, what is registered.

Nothing else of it is imported anywhere in `tests.fuzz`; a test holds that.
"""

from __future__ import annotations

import json
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from optim import Instance, InvalidInput, Plan, StreamplaceError, all_methods, evaluate, solve
from tests.fuzz.brute import Space
from tests.fuzz.newer import PROBES
from tests.fuzz.promises import MODEL_DRIVEN
from tests.fuzz.reading import Document, Reading

__all__ = ["Answer", "InvalidInput", "Plan", "Setting", "evaluate", "known_fields", "registered"]


@dataclass(frozen=True)
class Answer:
    """What one call came to: a result, a refusal, or a failure (kind, detail)."""

    result: Any = None
    refused: str | None = None
    failure: tuple[str, str] | None = None


class _NoAnswer(BaseException):
    """A call that does not come back; no `Exception`, so that nothing takes it for its own."""


@contextmanager
def _patience(seconds: int) -> Iterator[None]:
    """Raise `_NoAnswer` in the main thread after that long."""

    def ring(*_: object) -> None:
        raise _NoAnswer

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Calls:
    """Counts over all settings; `told` hears of every call before it is made."""

    patience: int = 60
    made: int = 0
    refused: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    told: Callable[[Document, str | None, dict[str, Any]], None] | None = None
    solve: Callable[..., Any] = solve


class Setting:
    """One instance, read by the product and by us, and the answers to the calls made so far.

    Raises
    ------
    InvalidInput
        The product refuses the instance.
    """

    def __init__(self, document: Document, calls: Calls | None = None) -> None:
        self.document = document
        self.calls = calls or Calls()
        self.instance = Instance.from_json(json.dumps(document))
        self._answers: dict[str, Answer] = {}
        self._readings: dict[frozenset[str], Space] = {}

    @cached_property
    def reading(self) -> Reading:
        """Our reading of it."""
        return self.space().reading

    def space(self, dropped: frozenset[str] = frozenset()) -> Space:
        """Return all placements, without some limits."""
        if dropped not in self._readings:
            self._readings[dropped] = Space(Reading(self.document, dropped))
        return self._readings[dropped]

    def answer(self, method: str | None, *, again: bool = False, **keywords: Any) -> Answer:
        """Return what `solve` answers; a call made before is not repeated unless `again`."""
        plan = keywords.get("warm_start")
        key = f"{method} {sorted((k, str(v)) for k, v in keywords.items())} {id(plan)}"
        if again or key not in self._answers:
            found = self._call(method, keywords)
            if again:
                return found
            self._answers[key] = found
        return self._answers[key]

    def accepting(self) -> Iterator[tuple[str, Answer]]:
        """Yield every method that places tasks and takes the instance, with its answer."""
        for name, declared in registered().items():
            if declared["family"] != MODEL_DRIVEN:
                found = self.answer(name)
                if found.result is not None:
                    yield name, found

    def _call(self, method: str | None, keywords: dict[str, Any]) -> Answer:
        calls = self.calls
        if calls.told is not None:
            calls.told(self.document, method, keywords)
        calls.made += 1
        began = time.perf_counter()
        try:
            with _patience(calls.patience):
                return Answer(calls.solve(self.instance, method, **keywords))
        except InvalidInput as error:
            calls.refused += 1
            return Answer(refused=str(error))
        except StreamplaceError as error:
            return Answer(failure=(f"error-{type(error).__name__}", str(error)))
        except _NoAnswer:
            return Answer(failure=("slow", f"no answer in {calls.patience} s"))
        except Exception as error:  # any other exception is what is looked for
            if "_NoAnswer" in traceback.format_exc():  # compiled code wraps it, maybe twice
                return Answer(failure=("slow", f"no answer in {calls.patience} s"))
            told = traceback.format_exc()[-1500:]
            return Answer(failure=(f"crash-{type(error).__name__}", f"{error!r}\n{told}"))
        finally:
            name = method or "default"
            spent = time.perf_counter() - began
            calls.seconds[name] = calls.seconds.get(name, 0.0) + spent


@cache
def known_fields() -> frozenset[str]:
    """Return the newer fields that the product's reader takes."""
    known = set()
    for name, document in PROBES.items():
        try:
            Instance.from_dict(document)
        except InvalidInput:
            continue
        known.add(name)
    return frozenset(known)


@cache
def registered() -> dict[str, dict[str, Any]]:
    """Return what every method declares of itself, by name."""
    return {method.name: {**method.to_dict(), "kind": method.kind} for method in all_methods()}
