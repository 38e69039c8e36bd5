"""Certificates of mended answers held against all placements, and tampered with.

    python -m tests.fuzz.mended [--from SEED] [--to SEED] [--seconds S] [--changes N] [--some]

Of a random instance whose current placement breaks limits, the best placement of least excess (or
any that is nowhere worse than the current one) is certified, of each objective. That no placement
has less excess, and that none of so much is better, is looked up. Then the certificate is changed
(``--changes`` times; 0 for all), or the instance behind it: what is accepted must be true of all
placements of what it is then held against. Plans that are worse must not pass as better.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from optim.certificates import check
from optim.certificates.grade import certified
from optim.certificates.write import certify
from tests.fuzz.brute import Space
from tests.fuzz.certificates import changed, run_seeds, tampered, tightened
from tests.fuzz.mending import DROPS, EVERY, EXACT, Rows, broken_instance
from tests.fuzz.product import Calls, InvalidInput, Setting
from tests.fuzz.reading import Document, Reading
from tests.fuzz.rules import TIGHT

CLOSE = 1e-6
"""Of the excess: what a level counts as closed."""


class Truth:
    """All placements that are nowhere worse than the current one, by an objective."""

    def __init__(
        self, document: Document, name: str, dropped: frozenset[str] = frozenset()
    ) -> None:
        self.reading, self.name = Reading(document, dropped), name
        self.space = Space(self.reading)
        self.sign = 1 if check.SENSES[name] == "min" else -1
        self.rows = Rows(self, TIGHT)  # type: ignore[arg-type]
        self.valid, self.excess = self.rows.valid, self.rows.excess
        values = self.space.figures.by_name.get(name)
        self.values = np.full(len(self.valid), np.inf) if values is None else self.sign * values
        scale = {"load_distance": float(self.reading.totals[0])}
        self.noise = 1e-9 * max(
            scale.get(name, self.reading.total_traffic if "traffic" in name + "imc" else 0.0), 1e-3
        )

    @property
    def known(self) -> bool:
        """Whether there is a placement of which a certificate can be."""
        return bool((self.valid & np.isfinite(self.values)).any())

    def false(self, certificate: dict[str, Any]) -> str:
        """Say what is false of an accepted certificate; empty where nothing is."""
        level = certificate[check.EXCESS]
        least, most = (float(Fraction(level[key])) for key in ("bound", "most"))
        if not self.valid.any():
            return ""
        mine = float(self.excess[self.valid].min())
        if mine < least * (1 - 1e-9) - 1e-9:
            return f"excess of at least {least!r}, least {mine!r}"
        among = self.valid & (self.excess <= most * (1 - 1e-12)) & np.isfinite(self.values)
        if not among.any():
            return ""
        if certificate["objective"] == "feasible":
            return f"no placement of excess {most!r}, and there is one"
        best, bound = (
            float(self.values[among].min()),
            self.sign * float(Fraction(certificate["bound"])),
        )
        if best < bound - self.noise - 1e-9 * abs(best):
            return f"{self.name} {bound!r}, best {best!r}"
        return ""

    def plan(self, at: int) -> dict[str, str]:
        """Return a placement by names."""
        return self.space.example(np.arange(len(self.excess)) == at)


def other_instances(document: Document, rng: random.Random) -> Iterator[Document]:
    """Yield the instance with other loads, limits, weights or current places."""
    for _ in range(3):
        made = copy.deepcopy(document)
        nodes, tasks = made["nodes"], made["tasks"]
        node, task = rng.choice(nodes), rng.choice(tasks)
        kind = rng.choice(["capacity", "home", "load", "weight", "background", "budget", "far"])
        if kind == "capacity":
            for r in node.get("capacity", {}):
                node["capacity"][r] = round(node["capacity"][r] * rng.choice([0.5, 0.9, 1.1, 2]), 6)
        elif kind == "home":
            task["node"] = rng.choice(nodes)["id"]
        elif kind == "load":
            task["load"] = {made.get("resources", ["cpu"])[0]: rng.choice([0, 1, 7.5, 30])}
        elif kind == "weight":
            node["weight"] = rng.choice([0.5, 2, 3])
        elif kind == "background":
            node["background"] = {made.get("resources", ["cpu"])[0]: rng.choice([0, 1, 5])}
        elif kind == "budget":
            made.setdefault("limits", {})["max_migrations"] = rng.randint(0, 4)
        else:
            made.setdefault("limits", {})["max_load_distance"] = rng.choice([0, 1, 5.5])
        yield made


def held(document: Document, certificate: dict[str, Any], plan: Any = None) -> bool:
    """Whether the checker takes a certificate of an instance, both as they stand in files."""
    text = json.dumps(document).encode()
    try:
        read, sha256 = check.parse(text)
        again = check.parse(json.dumps(certificate).encode())[0]
        check.check(read, sha256, again, plan)
    except (check.Refused, *check.MALFORMED):
        return False
    return True


def examine(
    seed: int, changes: int | None, found: Counter[str], *, some: bool = False, most: int = 6
) -> Iterator[str]:
    """Yield what is wrong with the certificates of an instance; count what was seen.

    Of `most` objectives, drawn.
    """
    document = broken_instance(seed, EVERY, some=some)
    reading, rng = Reading(document), random.Random(seed)
    if reading.slots_matter or not Space(reading).complete:
        return
    text = json.dumps(document).encode()
    found["instances"] += 1
    for name in rng.sample([name for name in check.SENSES if name != "feasible"], most):
        truth = Truth(document, name)
        if not truth.known:
            continue
        among = truth.valid & np.isfinite(truth.values)
        least = float(truth.excess[among].min())
        first = among & (truth.excess <= least * (1 + 1e-9) + 1e-12)
        at = int(np.where(first, truth.values, np.inf).argmin())
        if rng.random() < 0.2:  # any other plan bounds the excess as well
            at = int(rng.choice(np.flatnonzero(among).tolist()))
        excess, plan = float(truth.excess[at]), truth.plan(at)
        try:
            written = certify(
                text, name, plan, excess=excess, nodes=200, seconds=5,
                value=truth.sign * float(truth.values[at]), patterns=rng.random() < 0.6,
            )  # fmt: skip
        except (check.Refused, check.Unreadable) as error:
            found[f"none: {type(error).__name__} {str(error)[:40]}"] += 1
            continue
        certificate = written.document
        found["certificates"] += 1
        level = certificate[check.EXCESS]
        below = least - float(Fraction(level["bound"]))
        found[f"excess {'closed' if below <= CLOSE * least + 1e-9 else 'weaker'}"] += 1
        best = float(truth.values[among & (truth.excess <= excess * (1 + 1e-9) + 1e-12)].min())
        tight = abs(best - truth.sign * float(written.bound)) <= 1e-6 * abs(best) + truth.noise
        found[f"{name}: {'optimum' if tight else 'weaker'}"] += 1
        found[f"kinds {level['proof']['kind']}, {certificate['proof']['kind']}"] += 1
        found["of an excess above 0"] += least > 0
        told = truth.false(certificate)
        if told:
            yield f"seed {seed}: {name}: {told}"
        if not held(document, certificate, {"assignment": plan}):
            yield f"seed {seed}: {name}: is refused with its plan when read again"
        yield from _altered(seed, document, certificate, truth, rng, changes, found)


def solved(
    seed: int, found: Counter[str], methods: Sequence[str] = EXACT, *, some: bool = False
) -> Iterator[str]:
    """Yield what is wrong with the certificates of what exact methods answer; count by method."""
    document = broken_instance(seed, EVERY, some=some)
    reading, text = Reading(document), json.dumps(document).encode()
    if reading.slots_matter or not Space(reading).complete:
        return
    try:
        setting = Setting(document, Calls(patience=120))
    except InvalidInput:
        return
    found["instances"] += 1
    for method in methods:
        answer, keywords = setting.answer(method), {}
        drops = sorted(set(DROPS.findall(answer.refused or "")))
        if drops:
            keywords = {"ignore": drops}
            answer = setting.answer(method, **keywords)
        result = answer.result
        if result is None or result.mending is None or not result.mending.still:
            continue
        told, certificate = certified(result, text, nodes=200, seconds=5)
        name = result.objective.name
        if certificate is None:
            found[f"{method}: none, {told.notes[-1][:60]}"] += 1
            continue
        truth = Truth(document, name, frozenset(result.ignored))
        wrong = truth.false(certificate)
        if wrong:
            yield f"seed {seed}: {method}: {wrong}"
        if not held(document, certificate, {"assignment": dict(result.plan.assignment)}):
            yield f"seed {seed}: {method}: is refused with its plan when read again"
        level, claim = certificate[check.EXCESS], result.objective_levels[0]
        closed = claim.value - float(Fraction(level["bound"])) <= CLOSE * claim.value + 1e-9
        value, bound = result.objective.value, float(Fraction(certificate["bound"]))
        tight = abs(value - bound) <= 1e-6 * abs(value) + truth.noise
        words = "closed" if closed else "weaker", "optimum" if tight else "weaker"
        found[f"{method}: {result.termination}, excess {words[0]}, {words[1]}"] += 1


def _altered(
    seed: int, document: Document, certificate: dict[str, Any], truth: Truth, rng: random.Random,
    changes: int | None, found: Counter[str],
) -> Iterator[str]:  # fmt: skip
    """Yield what is accepted of changed certificates, plans and instances, and false."""
    every = [*tampered(certificate), *tightened(certificate), *_better(certificate)]
    if changes is not None:
        every = [*rng.sample(every, min(changes, len(every))), *_better(certificate)]
    truths = {truth.name: truth}
    for path, other in every:
        made = changed(certificate, path, other)
        if made == certificate:
            continue
        found["tampered with"] += 1
        if not held(document, made):
            found["of them refused"] += 1
            continue
        name = made["objective"]
        if name not in truths and name in check.SENSES:
            truths[name] = Truth(document, name)
        told = truths[name].false(made) if check.EXCESS in made else "is one of all placements"
        if told:
            yield f"seed {seed}: {truth.name}: accepted with {path} = {other}: {told}"
    for m in rng.sample(range(len(truth.excess)), min(4, len(truth.excess))):
        bound = truth.sign * float(Fraction(certificate["bound"]))
        passes = held(document, certificate, {"assignment": truth.plan(m)})
        found[f"plans {'accepted' if passes else 'refused'}"] += 1
        if passes and truth.values[m] < bound - truth.noise - 1e-9 * abs(bound):
            yield f"seed {seed}: {truth.name}: a plan beyond the bound is accepted"
    for made in other_instances(document, rng):
        try:
            again = Truth(made, truth.name)
        except (KeyError, ValueError):
            continue
        if not again.space.complete or again.reading.slots_matter:
            continue
        sha256 = check.parse(json.dumps(made).encode())[1]
        passes = held(made, {**certificate, "instance_sha256": sha256})
        found[f"other instances {'accepted' if passes else 'refused'}"] += 1
        told = again.false(certificate) if passes else ""
        if told:
            yield f"seed {seed}: {truth.name}: holds of another instance: {told}"
        if made != document and held(made, certificate):
            yield f"seed {seed}: {truth.name}: another instance of the same hash"


def _better(certificate: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (path, other value) of what says more of the excess."""
    level = certificate[check.EXCESS]
    for key, sign in (("bound", 1), ("most", 1), ("most", -1)):
        value = Fraction(level[key])
        for part in (1, Fraction(1, 20), Fraction(1, 10**4)):
            yield (check.EXCESS, key), str(value + sign * part * (abs(value) or 1))
    yield (check.EXCESS, "proof"), certificate["proof"]


def main(arguments: list[str]) -> int:
    """Examine seeds until the time is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED")
    parser.add_argument("--to", type=int, default=10**9, metavar="SEED", help="the first left out")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--changes", type=int, default=6, help="of each certificate; 0 for all")
    parser.add_argument("--objectives", type=int, default=6, help="of each instance, up to 6")
    parser.add_argument("--some", action="store_true", help="placements of some tasks")
    parser.add_argument("--solved", action="store_true", help="what exact methods answer instead")
    args = parser.parse_args(arguments)

    def lines_of(seed: int, found: Counter[str]) -> Iterable[str]:
        if args.solved:
            return solved(seed, found, some=args.some)
        return examine(seed, args.changes or None, found, some=args.some, most=args.objectives)

    return run_seeds(args, lines_of)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
