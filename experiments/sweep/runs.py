"""A run: what a worker is handed, what its row says it was given, and the key of its content."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.sweep.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.sweep.instances import Prepared

DEFAULT_RUNNER = "experiments.sweep.runner:run"

_KEY_FORMAT = "streamplace.run/1"
_TIMEOUT = 600.0
NOT_IN_KEY = ("run_timeout", "memory_limit")
"""Settings that do not decide what a run finds."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run, complete: what a worker needs and what its row says it was given.

    Attributes
    ----------
    key
        sha256 of all that decides its outcome: instance, method, options, settings.
    label
        What tables call its method.
    factors
        Everything that sets it apart, as texts.
    """

    key: str
    instance: Prepared
    method: str
    label: str
    family: str
    kind: str
    options: Mapping[str, Any]
    settings: Settings
    factors: Mapping[str, str]

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
        return {
            "run_key": self.key,
            "factors": dict(self.factors),
            "instance": self.instance.base,
            "instance_sha256": self.instance.sha256,
            "instance_content": self.instance.content,
            "num_tasks": self.instance.num_tasks,
            "num_nodes": self.instance.num_nodes,
            "method": self.method,
            "method_label": self.label,
            "family": self.family,
            "kind": self.kind,
            "solver": self.settings.solver,
            "seed": self.settings.seed,
            "time_limit": self.settings.time_limit,
            "threads": self.settings.threads,
        }

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `optim.solve`, and `certificate` where it is asked."""
        settings = self.settings
        asked = {"objective": settings.objective} if settings.objective else {}
        if settings.starts != "own":
            asked["starts"] = settings.starts
        return {
            "method": self.method,
            **asked,
            "solver": settings.solver,
            "time_limit": settings.time_limit,
            "gap": settings.gap,
            "seed": settings.seed,
            "threads": settings.threads,
            "warm_start": settings.warm_start,
            "repair": settings.repair,
            "ignore": list(settings.ignore),
            **({"start_broken": "refuse"} if settings.start_broken == "refuse" else {}),
            **({"certificate": True} if settings.certificate else {}),
            **self.options,
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
    told = {key: getattr(settings, key) for key in SETTINGS if key not in NOT_IN_KEY}
    if settings.objective is None:
        del told["objective"]  # as keys were before there was one
    if not settings.certificate:
        del told["certificate"]
    if settings.starts == "own":
        del told["starts"]
    if settings.start_broken == "mend":
        del told["start_broken"]
    content = {
        "format": _KEY_FORMAT,
        "instance": instance.sha256,
        "base": instance.base_sha256,
        "variations": dict(variations),
        "method": method,
        "options": dict(options),
        "settings": told,
    }
    if runner != DEFAULT_RUNNER:
        content["runner"] = runner
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
