"""Certificates of random instances held against all placements, and tampered with.

Run as ``python -m tests.fuzz.certificates WHAT --from SEED --seconds N``: ``tampered`` certifies
the best of all placements, changes certificates in ways that are drawn (``--changes`` of each; 0
for all), and does so again with the textbook's model alone; ``optima`` leaves that out (some 50 ms
an instance: what is certified is what an exact method answers that is right), ``solved`` has every
exact method solve each instance, certifies what it answers as ``solve --certificate`` does, reads
the certificate back from its text, checks it with the plan, and changes it as well.
``--small`` leaves up to 256 placements. Prints what was counted; ends with 1 after a bound that is
beyond the optimum, or a changed certificate that was accepted and is false: one of a bound that a
placement surpasses. A changed one that is true (other multipliers, a weaker bound) may be accepted.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from optim.certificates import check
from optim.certificates.grade import certified
from optim.certificates.write import certify
from tests.fuzz.brute import Space
from tests.fuzz.figures import measure
from tests.fuzz.generate import PLACEMENTS, generate
from tests.fuzz.newer import PROBES
from tests.fuzz.product import InvalidInput, Setting, registered
from tests.fuzz.reading import INF, Reading
from tests.fuzz.rules import LOOSE, kept


class Case(NamedTuple):
    """An instance and the best of all placements under an objective; none where there is none."""

    text: bytes
    objective: str
    best: float
    plan: dict[str, str] | None
    noise: float

    def beyond(self, bound: Fraction | str | int) -> bool:
        """Whether a placement is better than a bound."""
        off = self.best - float(Fraction(bound))
        return (off if check.SENSES[self.objective] == "max" else -off) > self.noise

    def weaker(self, bound: Fraction | str | int) -> bool:
        """Whether a bound is more than the optimum allows for."""
        off = self.best - float(Fraction(bound))
        return (-off if check.SENSES[self.objective] == "max" else off) > self.noise


SMALL = 256


def cases(seed: int, placements: int = PLACEMENTS) -> Iterator[Case]:
    """Yield what can be asked of a random instance."""
    document = generate(seed, frozenset(PROBES), 0.0, placements)
    text, space = json.dumps(document).encode(), Space(Reading(document))
    if not space.complete:
        return
    traffic, load = space.reading.total_traffic, float(space.reading.totals[0])
    noises = {"load_distance": load, "imc_gain": traffic, "internode_traffic": traffic}
    for objective, sense in check.SENSES.items():
        among = _unmeasured(space) if objective == "sustainable_rate" else space.loose
        if objective == "feasible":
            yield Case(text, objective, float(among.any()), None, 0.5)
        values = space.figures.by_name.get(objective)
        if values is None or not among.any():
            continue
        worth = np.where(among, values if sense == "max" else -values, -INF)
        at = int(worth.argmax())
        if np.isfinite(worth[at]):
            best, plan = float(values[at]), space.example(np.arange(len(among)) == at)
            noise = 1e-9 * max(noises.get(objective, 0.0), abs(best))
            yield Case(text, objective, best, plan, noise)


def _unmeasured(space: Space) -> np.ndarray:
    """(M,) which placements keep the rules, apart from what the rate measures."""
    free = Reading(space.reading.document)
    free.room[:, free.rate_driven] = INF
    free.max_load[:, free.rate_driven] = INF
    free.links = []
    good = kept(free, space.at, measure(free, space.at), LOOSE).values()
    return np.asarray(np.logical_and.reduce(list(good)))


def tampered(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield (path, other value) for each number, text, list and object of a certificate."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from tampered(inner, (*path, key))
            yield path, {k: v for k, v in value.items() if k != key}
        yield from ((path, {**value, key: []}) for key in ("more", "close", "drop") if path)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from tampered(inner, (*path, i))
            yield path, value[:i] + value[i + 1 :]
            yield path, value[: i + 1] + value[i:]
            yield path, [*value[:i], *value[i + 1 : i + 2], inner, *value[i + 2 :]]
        yield from ((path, other) for other in (value[::-1], [], value + value))
    elif isinstance(value, int):
        others = (-value, value + 1, value - 1, 2 * value, 0, 10**30, value + 0.5, str(value))
        yield from ((path, other) for other in (*others, True, None, "nan"))
    elif isinstance(value, str):
        yield from ((path, other) for other in (value[1:], value[:-1] + "1", "max", "0"))


def tightened(certificate: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (path, other value) of what asks for more: a better bound, fewer rules assumed away."""
    bound, step = Fraction(certificate["bound"]), -1 if certificate["sense"] == "max" else 1
    for digits in (0, 1, 2, 3, 6, 9, 12):
        more = bound + step * (abs(bound) or 1) / 10**digits
        yield ("bound",), str(more)
    yield ("assumes",), []
    yield from ((("assumes",), [f"without {name}"]) for name in check.DROPPED.split())
    for objective, sense in check.SENSES.items():
        yield ("objective",), objective
        yield ("sense",), sense


def changed(certificate: dict[str, Any], path: tuple[Any, ...], other: Any) -> dict[str, Any]:
    """Return a certificate with one value replaced."""
    if not path:
        return dict(other)
    made = copy.deepcopy(certificate)
    place: Any = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other
    return made


def accepted(document: Any, sha256: str, certificate: Any) -> bool:
    """Whether the checker takes a certificate, as it stands in a file."""
    try:
        check.check(document, sha256, check.parse(json.dumps(certificate).encode())[0])
    except (check.Refused, *check.MALFORMED):
        return False
    return True


def examine(
    seed: int,
    tamperings: int | None,
    found: Counter[str],
    placements: int = PLACEMENTS,
    *,
    again: bool = True,
) -> Iterator[str]:
    """Yield what is wrong with the certificates of an instance; count what was seen.

    `again`: once more with the textbook's model alone.
    """
    asked_of = {case.objective: case for case in cases(seed, placements)}
    found["instances"] += bool(asked_of)
    for case, patterns in itertools.product(asked_of.values(), (True, False)[: 1 + again]):
        if case.objective == "feasible" and case.best:
            continue
        try:
            written = certify(
                case.text, case.objective, case.plan, nodes=200 if patterns else 20, seconds=5,
                patterns=patterns,
            )  # fmt: skip
        except (check.Refused, check.Unreadable) as error:
            found[f"none: {type(error).__name__} {str(error)[:30]}"] += 1
            continue
        found["certificates"] += 1
        found[f"kind {written.document['proof']['kind']}"] += 1
        tight = abs(float(written.bound) - case.best) <= 1e-6 * abs(case.best) + case.noise
        by = "" if patterns else ", dual"
        found[f"{case.objective}{by}: {'optimum' if tight else 'weaker'}"] += 1
        if case.beyond(written.bound):
            yield f"seed {seed}: {case.objective} {case.best} beyond {written.bound}"
        for told in falsified(case.text, written.document, tamperings, seed, asked_of, found):
            yield f"seed {seed}: {case.objective} {told}"


def falsified(
    text: bytes,
    document: dict[str, Any],
    tamperings: int | None,
    seed: int,
    asked_of: dict[str, Case],
    found: Counter[str],
) -> Iterator[str]:
    """Yield the changes of a certificate that are accepted and false; count all of them."""
    changes, asked = list(tampered(document)), list(tightened(document))
    if tamperings is not None:
        rng = random.Random(seed)
        changes = rng.sample(changes, min(tamperings, len(changes)))
        asked = rng.sample(asked, min(-(-tamperings // 2), len(asked)))
    read, sha256 = check.parse(text)
    for path, other in (*changes, *asked):
        certificate = changed(document, path, other)
        if certificate == document:
            continue
        found["tampered with"] += 1
        if not accepted(read, sha256, certificate):
            found["of them refused"] += 1
        else:
            found["of them accepted, and true"] += 1
            told = asked_of.get(certificate["objective"])  # none: no placement has a value
            other_file = certificate["instance_sha256"] != document["instance_sha256"]
            if other_file or (told is not None and told.beyond(certificate["bound"])):
                yield f"accepted with {path} = {other}"


def solved(
    seed: int, tamperings: int | None, found: Counter[str], placements: int = PLACEMENTS
) -> Iterator[str]:
    """Yield what is wrong with the certificates of what exact methods answer; count by method."""
    asked_of = {case.objective: case for case in cases(seed, placements)}
    if not asked_of:
        return
    text = asked_of["feasible"].text
    try:
        setting = Setting(json.loads(text))
    except InvalidInput:
        return
    found["instances"] += 1
    for name, declared in registered().items():
        result = setting.answer(name).result if declared["kind"] == "exact" else None
        if result is None:
            continue
        told, document = certified(result, text, nodes=200, seconds=5)
        if document is None:
            unsolved = "nothing to certify" if result.objective is None else "no certificate"
            found[f"{name}: {unsolved}"] += 1
            continue
        found["certificates"] += 1
        found[f"kind {document['proof']['kind']}"] += 1
        objective, bound = document["objective"], document["bound"]
        plan = None if objective == "feasible" else {"assignment": dict(result.plan.assignment)}
        read, sha256 = check.parse(text)
        try:
            check.check(read, sha256, check.parse(json.dumps(document).encode())[0], plan)
        except (check.Refused, *check.MALFORMED) as error:
            yield f"seed {seed}: {name}: {objective} is refused when read again: {error}"
        best = asked_of.get(objective)
        if best is None:  # no placement keeps the rules, or none has a value
            found[f"{name}: {objective} without an optimum"] += 1
            continue
        closed = not best._replace(noise=1e-6 * abs(best.best) + best.noise).weaker(bound)
        found[f"{name}: {objective} {'equal' if closed else 'weaker'}"] += 1
        if best.beyond(bound):
            found["beyond"] += 1
            yield f"seed {seed}: {name}: {objective} {best.best} beyond {bound}"
        if told.certified_bound is not None and told.certified_bound != float(Fraction(bound)):
            yield f"seed {seed}: {name}: tells {told.certified_bound}, its certificate {bound}"
        if not closed and told.certified_gap == 0:
            yield f"seed {seed}: {name}: {objective}: does not tell that {bound} is weaker"
        for wrong in falsified(text, document, tamperings, seed, asked_of, found):
            yield f"seed {seed}: {name}: {objective} {wrong}"


def run_seeds(args: argparse.Namespace, lines_of: Callable[..., Iterable[str]]) -> int:
    """Print what is wrong with each seed until the time is over, and counts; 1 if anything is."""
    found, wrong, end = Counter[str](), 0, time.monotonic() + args.seconds
    seed = args.first
    while seed < args.to and time.monotonic() < end:
        for line in lines_of(seed, found):
            print(line, flush=True)
            wrong += 1
        seed += 1
    print(f"seeds {args.first} to {seed - 1}: {wrong} wrong")
    for name, count in sorted(found.items()):
        print(f"{count:8,} {name}")
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    """Examine seeds until the time is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("tampered", "optima", "solved"))
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED")
    parser.add_argument("--to", type=int, default=10**9, metavar="SEED", help="the first left out")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--changes", type=int, default=6, help="of each certificate; 0 for all")
    parser.add_argument("--small", action="store_true", help=f"at most {SMALL} placements each")
    args = parser.parse_args(arguments)
    most = SMALL if args.small else PLACEMENTS

    def lines_of(seed: int, found: Counter[str]) -> Iterable[str]:
        if args.what == "solved":
            return solved(seed, args.changes or None, found, most)
        both = args.what == "tampered"
        return examine(seed, args.changes or None, found, most, again=both)

    return run_seeds(args, lines_of)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
