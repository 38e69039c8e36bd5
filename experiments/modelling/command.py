"""``streamplace model``: performance models of tasks, by Algorithm 1 over trials."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from experiments.modelling.trials import (
    SlotTask,
    Trial,
    TrialResult,
    as_document,
    callable_trial,
    model_task,
    queueing_trial,
)
from optim.errors import ExitCode, InvalidInput, Problem, meant, raise_any
from optim.format.tables import ModelPoint
from optim.plugins import loaded
from optim.util.files import write_atomic
from streamplace.present.arguments import add_json, count, declare, positive, seconds, whole

EXAMPLES = """\
examples:
  streamplace model parse:cpu=0.01,contention=0.04 fetch:cpu=0.004,wait=0.1,outside_rate=60
  streamplace model parse=mypackage.tasks:parse_one --seconds 10 --max-threads 4 -o models.json
  streamplace model "fetch=mypackage.trials:trial_of_fetch" --trial

The document goes under "models" of an instance; docs/modelling.md describes the parameters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(
        parser, "TASK", "NAME:KEY=VALUE,… is simulated (cpu, wait, contention, outside_rate, "
        "spread, memory, …); NAME=MODULE:FUNCTION is called for every tuple", nargs="+"
    )  # fmt: skip
    declare(
        parser, "--trial", "FUNCTION is a trial of your own instead: it takes threads and rate and "
        "returns a TrialResult"
    )  # fmt: skip
    declare(
        parser, "--trials N", "trials of each rate, of which more than half must be stable (3)",
        count, 3
    )  # fmt: skip
    declare(parser, "--seconds S", "length of a trial (simulated 60, real 2)", seconds)
    declare(parser, "--rate-step R", "step of the rate, in tuples/s (1)", positive, 1.0)
    declare(parser, "--thread-step N", "step of the number of threads (1)", count, 1)
    last = "largest value to try"
    declare(parser, "--max-threads N", last, count, 100)
    declare(parser, "--max-rate R", last, positive, 1e6)
    declare(parser, "--seed N", "of simulated trials (0)", whole, 0)
    declare(parser, "-o, --output FILE", "write the models there", Path)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Model every task and print or write the points."""
    models: dict[str, list[ModelPoint]] = {}
    for text in args.task:
        name, trials = trials_of(text, args)
        if name in models:
            raise InvalidInput(Problem("TASK", name, "stands twice", "give each its own name"))
        models[name] = model_task(
            trials,
            rate_step=args.rate_step,
            thread_step=args.thread_step,
            max_threads=args.max_threads,
            max_rate=args.max_rate,
        )
    document = {"models": {name: as_document(points) for name, points in models.items()}}
    text = json.dumps(document, allow_nan=False)
    if args.output:
        write_atomic(args.output, text + "\n")
    if args.json:
        sys.stdout.write(text + "\n")
        return int(ExitCode.OK)
    for name, points in models.items():
        sys.stdout.write(f"{name}\n  threads  tuples/s   CPU %  memory %\n")
        for p in points:
            sys.stdout.write(f"  {p.threads:7}  {p.rate:8.6g}  {p.cpu:6.2f}  {p.memory:8.2f}\n")
    return int(ExitCode.OK)


def trials_of(text: str, args: argparse.Namespace) -> tuple[str, Sequence[Trial]]:
    """Return name and trials of a TASK.

    Raises `InvalidInput`: it has neither form, names an unknown key, or what it names is not there.
    """
    colon, equals = text.find(":"), text.find("=")
    real = 0 < equals < colon
    if min(colon, equals) <= 0:
        remedy = "as parse:cpu=0.01 or parse=package.module:function"
        raise InvalidInput(Problem("TASK", text, "is neither simulated nor a function", remedy))
    name, _, rest = text.partition("=" if real else ":")
    if not real:
        return name, _simulated(rest, args)
    function = loaded(rest, "TASK")
    trial = function if args.trial else callable_trial(function, seconds=args.seconds or 2.0)

    def checked(threads: int, rate: float) -> TrialResult:
        """Run a trial; whatever is wrong with the user's function is wrong input."""
        try:
            result = trial(threads, rate)
        except Exception as error:
            reason = f"fails: {type(error).__name__}: {error}"
            raise InvalidInput(Problem("TASK", rest, reason, "mend the function")) from error
        if not isinstance(result, TrialResult):
            reason = f"returns {type(result).__name__}, not a TrialResult"
            raise InvalidInput(Problem("TASK", rest, reason, "mend it, or leave --trial out"))
        return result

    return name, [checked] * args.trials


def _simulated(text: str, args: argparse.Namespace) -> Sequence[Trial]:
    keys = [field.name for field in fields(SlotTask)]
    values: dict[str, float] = {}
    problems = []
    for part in text.split(","):
        key, _, value = part.partition("=")
        try:
            values[key] = float(value)
        except ValueError:
            problems.append(Problem(key, value, "is no number", "give it as cpu=0.01"))
        if key not in keys:
            problems.append(Problem(key, value, "is no key of a task", meant(key, keys)))
        if f",{text}".count(f",{key}=") > 1:
            problems.append(Problem(key, value, "stands twice", "keep one"))
    if "cpu" not in values and not problems:
        remedy = "give seconds of the core a tuple takes"
        problems.append(Problem("cpu", None, "is missing", remedy))
    raise_any(problems)
    task = SlotTask(**values)
    return [
        queueing_trial(task, seconds=args.seconds or 60.0, seed=args.seed + k)
        for k in range(args.trials)
    ]
