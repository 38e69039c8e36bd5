"""One case: an instance, and what is asked of which method about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.fuzz.changed import CHANGES
from tests.fuzz.generate import Draw, generate
from tests.fuzz.probes import PROBES
from tests.fuzz.product import Calls, InvalidInput, Setting, known_fields, registered
from tests.fuzz.promises import MODEL_DRIVEN, STARTS, option_choices
from tests.fuzz.reading import Document

_IGNORED = (
    "capacity", "min_load", "allowed", "leaving", "links", "slots", "max_migrations",
    "max_migration_cost", "max_load_distance", "max_tasks_per_slot", "max_utilisation",
    "max_tasks", "max_inflow", "max_migration_state", "max_nodes_used", "sets",
    "slot_sets", "exclusive_nodes", "max_workers_restarted",
)  # fmt: skip


_PARTIAL = 5
"""Of so many calls one is asked about a part of its plan."""


@dataclass(frozen=True)
class Question:
    """A probe by name, the method, the keywords of `solve`, and the probe's own parameters."""

    probe: str
    method: str | None = None
    keywords: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    def put(self, setting: Setting) -> Iterator[tuple[str, str]]:
        """Yield (kind, detail) of what is wrong with the answer."""
        return PROBES[self.probe](setting, self.method, self.keywords, **self.parameters)


@dataclass(frozen=True)
class Finding:
    """A counterexample: what was asked about which instance, and what is wrong."""

    kind: str
    detail: str
    question: Question
    seed: int
    instance: Document

    @property
    def method(self) -> str:
        """The method asked, ``default`` for none."""
        return self.question.method or "default"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Finding:
        """Read what `to_dict` wrote."""
        return cls(**{**value, "question": Question(**value["question"])})


@dataclass(frozen=True)
class Shares:
    """In what share of the cases, or of a case's calls, something is asked."""

    options: float = 0.3
    solver: float = 0.3
    limited: float = 0.06
    gap: float = 0.05
    start: float = 0.15
    twice: float = 0.08
    units: float = 0.1
    ids: float = 0.1
    ignoring: float = 0.1
    repair: float = 0.05
    default: float = 1.0


def examine(
    seed: int,
    calls: Calls,
    methods: tuple[str, ...] | None = None,
    shares: Shares | None = None,
    *,
    change: str = "",
    sure: frozenset[str] = frozenset(),
) -> list[Finding]:
    """Make the instance of a seed and ask every method about it.

    Parameters
    ----------
    methods
        Names; ``None`` for all, ``default`` stands for none named.
    change
        What is changed in the instance, of `tests.fuzz.changed`.
    sure
        Newer fields that the instance has in any case.
    """
    modelled = {"modelled": 0.0} if change or sure else {}
    document = generate(seed, known_fields(), sure=sure, **modelled)
    if change:
        document = CHANGES[change](document, seed) or document
    try:
        setting = Setting(document, calls)
    except InvalidInput as error:
        if change and ("beyond" in str(error) or "must be at most" in str(error)):
            return []  # more than the format reads
        return [Finding("instance-refused", str(error), Question("reads_alike"), seed, document)]
    draw = Draw(seed ^ 0x5EED)
    wanted = methods or (*registered(), "default")
    found = []
    for question in questions(draw, setting, wanted, shares or Shares()):
        for kind, detail in question.put(setting):
            finding = Finding(kind, detail, question, seed, document)
            found.append(finding)
    return found


def questions(
    draw: Draw, setting: Setting, wanted: tuple[str, ...], shares: Shares
) -> Iterator[Question]:
    """Yield what is asked about an instance."""
    yield Question("reads_alike")
    if not setting.document.get("models"):
        yield Question("evaluated")
    modelled = bool(setting.document.get("models"))
    for name, declared in registered().items():
        if name not in wanted or (declared["family"] == MODEL_DRIVEN) != modelled:
            continue
        keywords = _keywords(draw, declared, shares, modelled)
        if modelled:
            yield Question("modelled", name, keywords)
            continue
        yield Question("result", name, keywords)
        yield from _further(draw, setting, name, declared, keywords, shares)
    if "default" in wanted and draw.chance(shares.default):
        yield Question("default")


def _keywords(
    draw: Draw, declared: dict[str, Any], shares: Shares, modelled: bool
) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    choices = option_choices(declared)
    if choices and draw.chance(shares.options):
        name, value = draw.choice(choices)
        keywords[name] = value
    if draw.chance(shares.options):
        keywords["seed"] = draw.choice([1, 7, 2**31 - 1])
    if declared["solvers"] and draw.chance(shares.solver):
        keywords["solver"] = draw.choice(declared["solvers"])
    if draw.chance(shares.limited):
        keywords["time_limit"] = draw.choice([0.001, 0.02, 0.1, 0.3, 1.0])
    elif keywords.get("break_symmetry") is False and keywords.get("solver") == "cbc":
        keywords["time_limit"] = 5.0  # of equal nodes CBC tries every order, for minutes
    if not modelled and draw.chance(shares.gap):
        keywords["gap"] = draw.choice([0.0, 0.1, 1.0, 1e-12])
    return keywords


def _further(
    draw: Draw,
    setting: Setting,
    name: str,
    declared: dict[str, Any],
    keywords: dict[str, Any],
    shares: Shares,
) -> Iterator[Question]:
    """Yield the questions about more than one answer; each is drawn whether or not it is asked."""
    asked = {key: draw.chance(getattr(shares, key)) for key in
             ("start", "twice", "units", "ids", "ignoring", "repair")}  # fmt: skip
    exponents = [draw.randint(-9, 12) for _ in range(3)]
    which = draw.randrange(4)  # one unit alone, or all three
    powers = [k if which in (i, 3) else 0 for i, k in enumerate(exponents)]
    source, seed, limit = draw.choice(STARTS), draw.getrandbits(16), draw.choice(_present(setting))
    limited, tighter = "time_limit" in keywords, "max_load_distance" in keywords
    if declared["kind"] == "exact" and not tighter:
        yield Question("family", name, keywords)
    if declared["takes_warm_start"] and asked["start"] and not tighter:
        yield Question("start", name, keywords, {"source": source})
    if asked["twice"] and not limited:
        yield Question("twice", name, keywords)
    weighed = "weighted" in keywords  # a sum of two units
    if asked["units"] and not limited and not tighter and not weighed:
        parameters = dict(zip(("loads", "rates", "costs"), powers, strict=True))
        yield Question("units", name, keywords, parameters)
    if asked["ids"] and declared["kind"] == "exact" and not limited:
        yield Question("ids", name, keywords, {"seed": seed})
    if asked["ignoring"]:
        yield Question("ignoring", name, keywords, {"limit": limit})
    if asked["repair"] and not limited:
        yield Question("repair", name, keywords)
    if seed % _PARTIAL == 0 and not limited:
        yield Question("partial", name, keywords, {"seed": seed})


def _present(setting: Setting) -> list[str]:
    """Return the limits that an instance has, of those that can be ignored."""
    document, known = setting.document, set(setting.document.get("limits", {}))
    for node in document.get("nodes", []):
        known |= {key for key, value in node.items() if value}
    known |= {key for key in ("links", "sets") if document.get(key)}
    if any(t.get("allowed") for t in document.get("tasks", [])):
        known.add("allowed")
    return [name for name in _IGNORED if name in known] or ["capacity"]
