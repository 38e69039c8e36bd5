"""``streamplace decide``: one step of an adaptation policy, for a controller of the user's own."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from streamplace.policies.guard import Guarded, StateFile
from streamplace.policies.policy import decide, figures_of, judged
from streamplace.policies.registry import CHOSEN, read_policy
from streamplace.present.arguments import (
    add_json,
    add_output,
    amount,
    count,
    declare,
    delay,
    growth,
    load_instance,
    seconds,
    whole,
)
from streamplace.present.numbers import plural
from streamplace.present.streams import print_json, printable

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance
    from streamplace.policies.policy import Decision, Policy

EXAMPLES = """\
examples:
  streamplace decide cluster.json --policy balance-search --state state.json --json
  streamplace decide cluster.json --policy algorithm-1:method=flux,upper=0.7 --state state.json
  streamplace decide cluster.json --policy ./mine.py --state state.json -o plan.json

Each call reads what runs, decides, and stores the policy's memory in the state file. The next call
assumes that the decision was carried out, except after --dry-run.

exit codes: 0 whatever is decided; 2 refused

More: docs/loop.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "INSTANCE", "what runs, with its loads; - is standard input")
    declare(parser, "--state FILE", "state of the policy; created if absent", required=True)
    add_policy(parser.add_argument_group("policy"))
    declare(parser, "--now S", "current time in seconds; default the clock's", amount)
    declare(parser, "--dry-run", "the decision is not carried out, and the state file says so")
    add_output(parser, "write the plan, if there is one", "PLAN")
    add_json(parser)


def add_policy(group: argparse._ArgumentGroup) -> None:
    """Declare which policy decides, and when a change is carried out."""
    declare(
        group, "--policy P", "a method, a policy, FILE.py or module:NAME, with options as "
        "algorithm-1:method=flux,upper=0.7; default what `solve` chooses", default=CHOSEN
    )  # fmt: skip
    declare(
        group, "--gain SHARE", "least improvement for which a plan is carried out; default 0.1",
        growth, 0.1
    )  # fmt: skip
    declare(
        group, "--cool-down S", "seconds from one change to the next; default 3600", delay, 3600.0
    )
    declare(
        group, "--confirm N", "looks in a row that must ask for a change; default 1",
        count, 1
    )  # fmt: skip
    declare(group, "--time-limit S", "seconds for each plan; default 30", seconds, 30.0)
    declare(group, "--seed N", "default 0", whole, 0)


def guarded(args: argparse.Namespace) -> Guarded:
    """Return the policy that the arguments name."""
    policy = read_policy(args.policy, args.seed, args.time_limit)
    return Guarded(policy, args.gain, args.cool_down, args.confirm)


def run(args: argparse.Namespace) -> int:
    """Decide once."""
    policy, file = guarded(args), StateFile(args.state, args.policy)
    instance = load_instance(args.instance)
    with file.locked():
        state = file.load()
        policy.check(instance)
        decision = step(policy, state, instance, time.time() if args.now is None else args.now)
        if args.output and decision.plan is not None:
            plan = decision.plan_on(instance)
            assert plan is not None
            plan.save(args.output)
        # after the plan: a state that knows of a plan which nobody has would be wrong
        file.save(state_after(decision, state, carried_out=not args.dry_run))
    if args.json:
        print_json(answer(decision, instance, args.policy), indent=None)
    else:
        sys.stdout.write(printable(line(decision, instance)) + "\n")
    return 0


def step(policy: Policy, state: dict[str, Any], instance: Instance, now: float) -> Decision:
    """Ask a policy for what a plan can hold.

    Raises `InvalidInput`: it splits key groups.
    """
    decision = decide(policy, state, instance, now)
    planned = decision.planned
    if planned is not None and planned.deployment and not planned.deployment.is_whole:
        reason, remedy = "splits tasks, which no plan holds", "it is for `streamplace replay`"
        raise InvalidInput(Problem("--policy", None, reason, remedy))
    return decision


def state_after(decision: Decision, state: dict[str, Any], carried_out: bool) -> dict[str, Any]:
    """Return what the policy is to be given the next time."""
    if carried_out:
        return decision.state
    return state if decision.otherwise is None else decision.otherwise


def line(decision: Decision, instance: Instance) -> str:
    """Return a decision as a line."""
    moved = plural(len(decision.moved(instance)), "move")
    kind = decision.kind(instance)
    reason = decision.reason or "no reason given"
    return f"{kind}: {reason}" + ("" if kind == "keep" else f"; {moved}")


def answer(decision: Decision, instance: Instance, policy: str) -> dict[str, Any]:
    """Return a decision as ``--json`` prints it."""
    target = decision.there(instance)
    kind = decision.kind(instance)
    plan = None if kind == "keep" else decision.plan_on(instance)
    moves = []
    base = decision.instance or instance
    if plan is not None and decision.plan is not None:
        names = instance.nodes.ids
        at = dict(zip(instance.tasks.ids, instance.tasks.node.tolist(), strict=True))
        for t in decision.moved(instance):
            task = target.tasks.ids[t]
            current = at.get(task, -1)
            source = names[current] if current >= 0 else None
            moves.append({"task": task, "from": source, "to": plan.assignment[task]})
    return {
        "decision": kind,
        "reason": decision.reason,
        "policy": policy,
        "instance": instance.name,
        "instance_sha256": instance.sha256,
        "plan": None if plan is None else plan.to_dict(),
        "moves": moves,
        "add": [{"id": one.id, "like": one.like} for one in decision.add],
        "mark": list(decision.mark),
        "recall": list(decision.recall),
        "release": list(decision.release),
        "parallelism": dict(decision.parallelism),
        "before": figures_of(judged(instance)),
        "after": None if decision.plan is None else figures_of(judged(base, decision.plan)),
    }
