"""What a person reads about an instance, an evaluation, a set of moves."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np
from rich.measure import Measurement
from rich.text import Text

from optim.figures.catalogue import BY_NAME, FIGURES, find_objective
from optim.figures.measures import slack
from streamplace.present.numbers import bar, duration, is_bytes, number, percent, plural, quantity
from streamplace.present.streams import name, plain_table, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.referee import Evaluation
    from optim.rules.base import Violation
    from optim.util.progress import Progress

SHOWN_NODES = 24
SHOWN_MOVES = 20
SHOWN_VIOLATIONS = 20
SHOWN_LEAVING = 5

_ROUNDING = 1e-12

#: Resources up to which a node's line has bars, and loads beside the shares, where there is room.
MOST_BARS, MOST_FIGURES = 2, 4

#: What a node's line shows of a resource, from the widest to the narrowest.
Cells = Literal["bars", "figures", "shares", "fullest"]


def unit_of(instance: Instance, kind: str) -> str:
    """Return the unit the instance gives to a kind of figure, with a space before it; or nothing.

    The kind is ``rate``, ``state``, or ``resource`` for the first resource.
    """
    key = instance.resources[0] if kind == "resource" else kind
    unit = printable(instance.units.get(key, ""))
    # A sentence is an explanation of the unit, not a unit that can stand behind a number.
    return f" {unit}" if unit and len(unit) <= 24 and "(" not in unit else ""


def figure(instance: Instance, kind: str, value: Any) -> str:
    """Write a figure of a given kind with its unit."""
    if value is None:
        return "–"
    if kind == "flag":
        return "yes" if value else "no"
    if kind == "text":
        return printable(value)
    if kind == "share":
        return percent(value)
    if kind == "multiple":
        return f"{number(value)} ×"
    if kind == "count":
        return f"{int(value):,}"
    return quantity(value, unit_of(instance, kind).strip())


def gap_text(objective: Figure, gap: float | None) -> str:
    """Write a gap: relative, or for some figures in percent of a mean."""
    if gap is None:
        return "–"
    of = " of the mean" if objective.percent else ""
    share = gap / 100 if objective.percent else gap
    if _ROUNDING < gap <= objective.optimal_gap:  # counts as proved, and still is not nothing
        limit = objective.optimal_gap * (1 if objective.percent else 100)
        return f"< {number(limit)} %{of}"
    return percent(share if gap > _ROUNDING else 0.0, 2 if objective.percent else 1) + of


def size_line(instance: Instance) -> str:
    """Say in one line how large an instance is and what it holds."""
    tasks = plural(instance.num_tasks, "task")
    if instance.num_operators:
        tasks += f" of {plural(instance.num_operators, 'operator')}"
    if instance.models and not instance.num_tasks:
        return printable(f"{instance.name}: {_model_driven_parts(instance)}")
    parts = [f"{tasks} on {plural(instance.num_nodes, 'node')}", "/".join(instance.resources)]
    if instance.has_traffic:
        parts.append(f"traffic {figure(instance, 'rate', instance.total_traffic)}")
    if len(instance.links.ids):
        parts.append(plural(len(instance.links.ids), "link"))
    placed = int((instance.tasks.node >= 0).sum())
    if placed:
        of = "" if instance.has_current else f" of {plural(placed, 'task')}"
        parts.append(f"current placement{of} known")
    leaving = int((~instance.open_nodes).sum())
    if leaving:
        parts.append(f"{plural(leaving, 'node')} leaving")
    return printable(f"{instance.name}: {', '.join(parts)}")


def _model_driven_parts(instance: Instance) -> str:
    """Say what an instance holds that leaves threads and machines to the plan."""
    parts = [f"{plural(instance.num_operators, 'operator')} with performance models"]
    if instance.input_rate is not None:
        parts.append(f"input {figure(instance, 'rate', instance.input_rate)}")
    types = ", ".join(f"{vm.id} of {plural(vm.slots, 'slot')}" for vm in instance.vm_types[:6])
    more = ", …" if len(instance.vm_types) > 6 else ""
    parts.append(f"machines {types}{more}" if types else "no machine types")
    return ", ".join(parts)


def node_table(
    instance: Instance, evaluation: Evaluation, console: Console | None = None
) -> Table | None:
    """Lay out load against capacity of every node, or of the fullest of many; if it has nodes.

    Where resources do not fit side by side on the console, each shows less, and at last only the
    fullest of a node is named.
    """
    if not evaluation.node_loads or evaluation.node_tasks is None:
        return None
    table = None
    for cells in _layouts(instance.num_resources):
        table = _laid_out(instance, evaluation, cells)
        # from the widest layout down to the first that fits
        if console is None or _fits(table, console):
            break
    return table


def _layouts(resources: int) -> Iterator[Cells]:
    if resources <= MOST_BARS:
        yield "bars"
    if resources <= MOST_FIGURES:
        yield "figures"
    yield "shares"
    if resources > 1:
        yield "fullest"


def _fits(table: Table, console: Console) -> bool:
    # measured on a console without bounds: else it is cut to what there is
    wide = console.options.update(width=10_000, max_width=10_000)
    return Measurement.get(console, wide, table).maximum <= console.width


def _laid_out(instance: Instance, evaluation: Evaluation, cells: Cells) -> Table:
    assert evaluation.node_loads is not None
    assert evaluation.node_tasks is not None
    headings = ["fullest resource"] if cells == "fullest" else list(instance.resources)
    table = plain_table(["node", *headings, "tasks"], right=["tasks"])
    # bytes need their unit to be short; what the others are is reported by the figures below
    units = [unit if is_bytes(unit) else "" for unit in map(instance.units.get, instance.resources)]
    for i in _nodes_shown(instance, evaluation):
        node = instance.nodes.ids[i]
        row: list[Text] = [_node_cell(instance, evaluation, i)]
        used = np.array([evaluation.node_loads[node][resource] for resource in instance.resources])
        room = instance.nodes.capacity[i]
        full = (used > room) & (used <= room + slack(room))  # by rounding alone
        loads = list(zip(np.where(full, room, used).tolist(), room.tolist(), strict=True))
        if cells == "fullest":
            most = max(range(len(loads)), key=lambda r: _share(*loads[r]))
            row.append(
                Text.assemble(
                    _load_cell(*loads[most], "figures", units[most]),
                    f"  {printable(instance.resources[most])}",
                )
            )
        else:
            row += [
                _load_cell(load, capacity, cells, unit)
                for (load, capacity), unit in zip(loads, units, strict=True)
            ]
        table.add_row(*row, f"{evaluation.node_tasks[node]:,}")
    return table


def _node_cell(instance: Instance, evaluation: Evaluation, index: int) -> Text:
    """Name a node; one that leaves is marked, and louder while there are tasks on it."""
    node = instance.nodes.ids[index]
    if not instance.nodes.leaving[index]:
        return name(node)
    full = bool(evaluation.node_tasks and evaluation.node_tasks[node])
    mark = (" leaving, not empty", "bold yellow") if full else (" leaving", "dim")
    return Text.assemble(name(node, "dim"), mark)


def _nodes_shown(instance: Instance, evaluation: Evaluation) -> list[int]:
    indices = list(range(instance.num_nodes))
    if len(indices) <= SHOWN_NODES:
        return indices
    shares = evaluation.utilisation or {}
    fullest = [max(shares.get(node, {}).values(), default=0.0) for node in instance.nodes.ids]
    return sorted(sorted(indices, key=lambda i: -fullest[i])[:SHOWN_NODES])


def _share(load: float, capacity: float) -> float:
    """Return load over capacity; nothing of a resource without one counts as used."""
    return load / capacity if capacity else (0.0 if load == 0 else math.inf)


def _load_cell(load: float, capacity: float, cells: Cells, unit: str = "") -> Text:
    """Show a load; the more resources share the line, the shorter."""
    # no bound: a share of it would be 0 %, and would say nothing
    if math.isinf(capacity):
        return Text(quantity(load, unit))
    share = _share(load, capacity)
    figures = f"{quantity(load, unit)} / {quantity(capacity, unit)}  "
    if cells == "bars":
        return _bar_cell(share, figures)
    return Text.assemble("" if cells == "shares" else figures, (percent(share, 0), _style(share)))


def _bar_cell(share: float, figures: str = "") -> Text:
    """Show a share as a bar, with figures before its percentage."""
    return Text.assemble((f"{bar(share):<10} ", _style(share)), f"{figures}{percent(share, 0)}")


def _style(share: float) -> str:
    return "red" if share > 1 + 1e-9 else "yellow" if share > 0.9 else "green"


def metric_table(
    instance: Instance, columns: Sequence[tuple[str, Evaluation]], objective: str | None = None
) -> Table:
    """Lay out the figures of one evaluation, or of several side by side, under headings.

    What was optimised is reported even where it is a figure that tables leave out; sums come first.
    """
    optimised = find_objective(objective) if objective and objective not in BY_NAME else None
    shown = {one.name for one in optimised.singles} if optimised else {objective}
    headings = [heading for heading, _ in columns]
    table = plain_table(["", *headings], right=headings)
    for level in optimised.levels if optimised else ():
        if level.parts:
            sums = (figure(instance, level.unit, level.read(judged)) for _, judged in columns)
            table.add_row(printable(level.label), *sums)
    for metric in FIGURES:
        values = [getattr(evaluation, metric.name) for _, evaluation in columns]
        left_out = not metric.single or (metric.quiet and metric.name not in shown)
        if left_out or all(value is None for value in values):
            continue
        table.add_row(metric.label, *(figure(instance, metric.unit, value) for value in values))
    for resource in instance.resources:
        values = [(evaluation.deviation or {}).get(resource) for _, evaluation in columns]
        if any(value is not None for value in values):
            table.add_row(f"deviation of {printable(resource)}", *(number(v) for v in values))
    return table


def carries_line(evaluation: Evaluation | None) -> Text | None:
    """Name the bottleneck as the input grows, and the next one; nothing where nothing is full."""
    bottlenecks = [] if evaluation is None else evaluation.saturation or []
    if not bottlenecks:
        return None
    first, *others = bottlenecks
    text = f"{_full(first)} at {number(first['rate'])} × current input{_way_out(first)}"
    if others:
        after = (f"{_full(e)}, {number(e['rate'])} ×{_way_out(e)}" for e in others)
        text += f" (next: {'; '.join(after)})"
    return Text.assemble(("bottleneck  ", "bold"), printable(text))


def _full(entry: Mapping[str, Any]) -> str:
    if "task" in entry:
        who = (
            f"threads of {entry['operator']}" if "operator" in entry else f"thread {entry['task']}"
        )
        return f"{who} ({entry['resource']})"
    return f"link {entry['link']}" if "link" in entry else f"{entry['resource']} of {entry['node']}"


def _way_out(entry: Mapping[str, Any]) -> str:
    """Say how many tasks it takes to carry twice the current input."""
    if "task" not in entry or entry["rate"] >= 2:
        return ""
    least = entry["tasks_at_twice"]
    if least is None:
        return " (no number of tasks carries 2 ×)"
    if least <= entry["tasks"]:
        return " (2 × needs its load shared more evenly)"
    return f" (2 × needs at least {least} tasks, it has {entry['tasks']})"


def print_undrained(console: Console, evaluation: Evaluation | None) -> None:
    """Print that leaving nodes keep tasks, how many and why; nothing where they do not.

    The first line of every answer: a plan that was asked to empty nodes and did not is no success.
    """
    undrained = None if evaluation is None else evaluation.undrained
    if undrained is None:
        return
    nodes = list(undrained["nodes"])
    shown = ", ".join(nodes[:SHOWN_LEAVING]) + (", …" if len(nodes) > SHOWN_LEAVING else "")
    text = f"{plural(undrained['count'], 'task')} on leaving {shown}"
    why = undrained["why"]
    reasons = [w if len(why) == 1 else f"{count:,}: {w}" for w, count in why.items()]
    line = printable(f"  {text} ({'; '.join(reasons)})")
    console.print(Text.assemble(("not drained", "bold yellow"), line), soft_wrap=True)


def print_carries(console: Console, evaluation: Evaluation | None) -> None:
    """Print the bottleneck."""
    line = carries_line(evaluation)
    if line is not None:
        console.print(line, soft_wrap=True)


def print_verdict(console: Console, evaluation: Evaluation) -> None:
    """Print what the referee found."""
    count = f": {plural(len(evaluation.violations), 'violation')}"
    verdict = ("feasible", "bold green") if evaluation.feasible else ("infeasible", "bold red")
    console.print(Text.assemble("referee  ", verdict, "" if evaluation.feasible else count))
    print_violations(console, evaluation.violations)


def print_measured(
    console: Console,
    instance: Instance,
    plan: Plan | None,
    columns: Sequence[tuple[str, Evaluation]],
    objective: str | None = None,
) -> None:
    """Print the figures of columns, as `metric_table`, and all of the plan's, which is `plan`."""
    evaluation = dict(columns)["plan"]
    console.print()
    console.print(metric_table(instance, columns, objective))
    print_carries(console, evaluation)
    print_nodes(console, instance, evaluation)
    print_threads(console, instance, plan, evaluation)
    console.print()


def print_violations(console: Console, violations: Sequence[Violation]) -> None:
    """Print what a plan breaks, where, and the figures."""
    if not violations:
        return
    figures = ["needed", "available", "off by"]
    table = plain_table(["rule", "where", *figures], right=figures)
    for violation in violations[:SHOWN_VIOLATIONS]:
        amounts = (violation.needed, violation.available, violation.amount)
        cells = (quantity(amount, digits=6) for amount in amounts)
        table.add_row(violation.rule, name(violation.place), *cells)
    console.print(table)
    print_rest(console, len(violations) - SHOWN_VIOLATIONS, "violation")


def print_reasons(console: Console, reasons: Sequence[Violation]) -> None:
    """Print why no plan can exist."""
    console.print("\ninfeasible: no plan can exist", style="bold red")
    print_violations(console, reasons)


def print_nodes(console: Console, instance: Instance, evaluation: Evaluation) -> None:
    """Print the load of the nodes."""
    table = node_table(instance, evaluation, console)
    if table is None:
        return
    console.print()
    console.print(table)
    hidden = instance.num_nodes - SHOWN_NODES
    if hidden > 0:
        rest = plural(hidden, "more node")
        console.print(f"… and {rest}; the {SHOWN_NODES} fullest are shown", style="dim")


def print_moves(console: Console, moves: Sequence[tuple[str, str, str, float]]) -> None:
    """Print the first moves: (task, from, to, cost)."""
    if not moves:
        return
    table = plain_table(["task", "from", "to", "cost"], right=["cost"])
    for *ends, cost in moves[:SHOWN_MOVES]:
        table.add_row(*map(name, ends), quantity(cost))
    console.print(table)
    print_rest(console, len(moves) - SHOWN_MOVES, "move")


def print_rest(console: Console, rest: int, noun: str, where: str = "--json lists all") -> None:
    """Say how many are not shown, and where they are."""
    if rest > 0:
        more = f" ({where})" if where else ""
        console.print(f"… and {plural(rest, f'more {noun}')}{more}", style="dim")


# --- model-driven plans: threads of each task, machines, what changed ---


def print_threads(
    console: Console, instance: Instance, plan: Plan | None, evaluation: Evaluation
) -> None:
    """Print threads by task and use by machine; nothing for a plan that holds no threads."""
    if plan is None or plan.threads is None:
        return
    console.print()
    console.print(_task_table(instance, plan))
    print_rest(console, instance.num_operators - SHOWN_NODES, "task", "")
    console.print()
    console.print(_machine_table(plan, evaluation))
    print_rest(console, len(plan.nodes) - SHOWN_NODES, "machine", "")


def print_thread_changes(console: Console, instance: Instance, before: Plan, after: Plan) -> None:
    """Print what becomes of the threads of each task from one plan to another."""
    console.print(f"machines: {_machines(before)} → {_machines(after)}")
    table = plain_table(
        ["task", "threads", "", "stay", "move", "added", "removed"],
        right=["threads", "", "stay", "move", "added", "removed"],
    )
    changes = thread_changes(instance, before, after)
    for operator, (old, new, stay, move) in list(changes.items())[:SHOWN_NODES]:
        figures = (old, new, stay, move, max(0, new - old), max(0, old - new))
        table.add_row(name(operator), *(f"{value:,}" for value in figures))
    console.print(table)
    print_rest(console, instance.num_operators - SHOWN_NODES, "task", "")


def thread_changes(
    instance: Instance, before: Plan, after: Plan
) -> dict[str, tuple[int, int, int, int]]:
    """Task to threads before and after, and how many of the common ones stay and move.

    Threads of a task are alike: as many stay in a slot as it holds before and after.
    """
    changes = {}
    old, new = _by_operator(before), _by_operator(after)
    for operator in instance.operators.ids:
        a, b = old.get(operator, Counter()), new.get(operator, Counter())
        # Σ over slots of min(before, after): threads of a task are alike
        stay = sum(min(count, b[place]) for place, count in a.items())
        common = min(a.total(), b.total())
        changes[operator] = (a.total(), b.total(), stay, common - stay)
    return changes


def _by_operator(plan: Plan) -> Mapping[str, Counter[tuple[str, int]]]:
    counts: dict[str, Counter[tuple[str, int]]] = {}
    slots = plan.slots or {}
    for thread, node in plan.assignment.items():
        operator = thread.rpartition("/")[0]
        counts.setdefault(operator, Counter())[node, slots.get(thread, -1)] += 1
    return counts


def _task_table(instance: Instance, plan: Plan) -> Table:
    unit = instance.units.get("rate", "tuples/s")
    heading = unit if len(unit) <= 24 else "rate"
    table = plain_table(
        ["task", "model", heading, "threads", "slots", "threads by slot"],
        right=[heading, "threads", "slots"],
    )
    counts = _by_operator(plan)
    for o, operator in enumerate(instance.operators.ids[:SHOWN_NODES]):
        places = counts.get(operator, Counter())
        sizes = Counter(places.values())
        spread = ", ".join(f"{n} × {k}" for k, n in sorted(sizes.items(), reverse=True)[:4])
        spread += ", …" if len(sizes) > 4 else ""
        rate, threads = instance.operators.tuple_rate[o], (plan.threads or {}).get(operator, 0)
        cells = (number(float(rate)), f"{threads:,}", f"{len(places):,}", spread)
        table.add_row(name(operator), name(instance.operators.model[o] or "–"), *cells)
    return table


def _machine_table(plan: Plan, evaluation: Evaluation) -> Table:
    table = plain_table(["machine", "type", "slots", "cpu", "memory", "threads"], right=["threads"])
    shares, threads = evaluation.utilisation or {}, evaluation.node_tasks or {}
    for node in plan.nodes[:SHOWN_NODES]:
        use = shares.get(node.id, {})
        where = f"{node.vm_type} in {node.rack}" if node.rack else node.vm_type
        bars = (_bar_cell(use.get(resource, 0.0)) for resource in ("cpu", "memory"))
        thread_count = f"{threads.get(node.id, 0):,}"
        table.add_row(name(node.id), name(where), f"{node.slots}", *bars, thread_count)
    return table


def _machines(plan: Plan) -> str:
    kinds = Counter(node.vm_type for node in plan.nodes)
    listed = " + ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    return f"{listed} ({plural(sum(node.slots for node in plan.nodes), 'slot')})"


# A line that says how far something is: rewritten on a terminal, now and then a new one in a log.
#
# `solve`, sweeps and replays report their progress by it, each with a text and a clock of its
# own.

LOG_SECONDS = 10.0
_LIVE_SECONDS = 0.2
_CLEAR = "\r\x1b[2K"
_WIDEST = 110


class StatusLine:
    """The line of one run, on standard error if no stream is given.

    In a log the first line comes at `first` at the earliest, on the clock of `due` and `show`, and
    the next when `later` says (by default ten seconds after).
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        first: float = 0.0,
        later: Callable[[float], float] = lambda now: now + LOG_SECONDS,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._next = 0.0 if self._live else first
        self._later = later
        self._shown = False

    @property
    def live(self) -> bool:
        """Whether it is rewritten, as on a terminal."""
        return self._live

    def due(self, now: float) -> bool:
        """Whether it is time for another text."""
        return now >= self._next

    def show(self, text: str, now: float) -> None:
        """Show a text in place of the last one, or below it in a log."""
        if self._live:
            self._next = now + _LIVE_SECONDS
            self._stream.write(_CLEAR + text[:_WIDEST])
        else:
            self._next = self._later(now)
            self._stream.write(text + "\n")
        self._shown = True
        self._stream.flush()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._stream.write((_CLEAR if self._live else "") + text + "\n")
        self._stream.flush()

    def close(self, *, keep: bool = False) -> None:
        """End the live line, so that what follows starts on a clean one; `keep` leaves it there."""
        if self._live and self._shown:
            self._stream.write("\n" if keep else _CLEAR)
            self._stream.flush()


class Steps:
    """Reports on standard error what is being done, with the seconds since the start.

    With `keep` each step is a line that stays, on terminals, too.
    """

    def __init__(self, *, quiet: bool, keep: bool = False) -> None:
        self._line = None if quiet else StatusLine()
        self._keep, self._started = keep, time.perf_counter()

    def __call__(self, text: str) -> None:
        """Report what begins now."""
        if self._line is not None:
            now = time.perf_counter() - self._started
            line = f"{now:6.1f} s  {text}"
            self._line.say(line) if self._keep else self._line.show(line, now)

    def close(self) -> None:
        """Leave a clean line."""
        if self._line is not None:
            self._line.close()


_FIRST_LINE = 2.0
_SPARSER = 1.5
_LONG = 20.0
_ZERO = 1e-9
"""A bound so small beside the incumbent is 0."""


class ProgressLine:
    """Shows incumbent, bound and gap of a running method; a callback for `optim.solve`.

    On a terminal one line is rewritten; elsewhere lines get sparser as time goes on, so that a
    log of an hour has some twenty.

    `objective`, `unit`: what is being found, and its unit with a space before it, or nothing.
    `reference`: what its gap is in percent of, where it is (`Figure.gap`).
    `hint`: said once when a run that has a plan takes long; nothing if empty.
    """

    def __init__(
        self,
        objective: Figure,
        unit: str = "",
        reference: float | None = None,
        stream: TextIO | None = None,
        hint: str = "",
    ) -> None:
        self._objective = objective
        self._unit = unit
        self._reference = reference
        self._line = StatusLine(stream, _FIRST_LINE, lambda seconds: seconds * _SPARSER)
        self._hint = hint

    def __call__(self, progress: Progress) -> None:
        """Show a moment of the run, if it is time to."""
        if not self._line.due(progress.seconds):
            return
        if self._hint and progress.seconds >= _LONG and progress.incumbent is not None:
            self._line.say(self._hint)
            self._hint = ""
        self._line.show(self._text(progress), progress.seconds)

    def close(self) -> None:
        """Take the live line away, so that what follows starts on a clean one."""
        self._line.close()

    def _text(self, progress: Progress) -> str:
        gap = self._objective.gap(progress.incumbent, progress.bound, self._reference)
        bound = progress.bound
        # a solver's bound of 1e-12 is 0 in any figure that is shown
        if bound is not None and abs(bound) <= _ZERO * abs(progress.incumbent or 0.0):
            bound = 0.0
        return (
            f"{duration(progress.seconds):>8}  {progress.phase}  {self._objective.name} "
            f"{quantity(progress.incumbent, self._unit.strip())}  bound {quantity(bound)}  "
            f"gap {gap_text(self._objective, gap)}"
        )
