"""``plan-search``: annealing of any objective made of figures, under every rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.task_allocation.common import check_known
from heuristics.annealing import FORMS, Annealing, placed_whole, warm_up_walk
from optim.figures.catalogue import find_objective
from optim.figures.figure import in_units
from optim.kernels.first_fit import packings
from optim.kernels.plan_state import SEARCHED
from optim.methods.choose import is_suitable
from optim.methods.registry import Method, Option, Outcome, get_method
from optim.methods.run import one_start
from optim.referee import Termination, evaluate_indices
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request

_FIRST, _EACH, _MOST = 10_000, 300, 400_000
"""Steps of a round: for any instance, for each task, and at most."""
_CYCLES, _PATIENCE = 12, 3
"""Times that the rounds are walked at most, and without any gain before the search ends."""
_OTHERS = ("partition", "storm-even")
"""Methods whose plans are walked from, too: traffic inside nodes, tasks spread evenly."""
_OWN = {
    "imc_gain": "imc-search",
    "internode_traffic": "imc-search",
    "collocation_factor": "imc-search",
    "load_distance": "balance-search",
    "sustainable_rate": "throughput-search",
}
"""Figures that have a search of their own: its plan is walked from, too. With `local_first` streams
`imc-search` is this walk."""
_SHARE, _SHARE_OWN = 0.1, 0.6
"""Of the time that is left, for a method to start from; for the figure's own search."""
_MANY = 20_000


def run(instance: Instance, request: Request) -> Outcome:
    """Search; the method's entry point."""
    request, compiled = request.warmed(warm_up_walk)
    figure = find_objective(request.objective or METHOD.objective)
    objective = in_units(figure, request.scale.of)
    recorder = ProgressRecorder(str(objective.sense), request.progress, request.started)
    search = Annealing(instance, objective, request, recorder.note)
    outcome = Outcome(Termination.ITERATION_LIMIT, times={"compile": compiled})
    effort, tasks = float(request.options["effort"]), instance.num_tasks
    cycles, patience = (max(1, round(x * effort)) for x in (_CYCLES, _PATIENCE))
    try:
        starts = []
        for node in _starts(search):
            search.take(node)
            starts.append(node)
        check_known(instance, objective, starts[0])
        search.search(starts, min(_MOST, _FIRST + _EACH * tasks), cycles, patience)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    else:
        if search.out_of_time:
            outcome.termination = Termination.TIME_LIMIT
    recorder.finish()
    outcome.trace, outcome.node = recorder.trace, search.best
    if search.best is None:
        outcome.notes.append("found no plan that keeps the limits")
    return outcome


def _starts(search: Annealing) -> Iterator[Ints]:
    """Yield placements of all tasks, feasible or not."""
    instance, binding, request = search.instance, search.binding, search.request
    start_nodes = [] if request.warm_start is None else [np.asarray(request.warm_start)]
    if instance.has_current:
        start_nodes.append(instance.tasks.node)
    for node in start_nodes:
        at = np.asarray(node, dtype=np.int32)
        if evaluate_indices(binding, at).feasible:
            yield at
    others = _OTHERS if instance.has_traffic and instance.num_tasks <= _MANY else ()
    figures = [figure.name for figure in search.objective.singles]
    methods = [_OWN[x] for x in figures if x in _OWN]
    if instance.flows.local:
        methods = [name for name in methods if name != "imc-search"]
    for name in dict.fromkeys([*methods, *others]):
        method = get_method(name)
        if is_suitable(method, binding, repair=True):
            share = _SHARE if name in _OTHERS else _SHARE_OWN / len(figures)
            start = one_start(method, binding, request, share)
            if start is not None:
                yield start.node
    for node in [*start_nodes, next(packings(binding))]:
        yield placed_whole(binding, node)


METHOD = Method(
    name="plan-search",
    family="task allocation",
    kind="search",
    objective="imc_gain",
    objectives=SEARCHED,
    combines=True,
    why_not={
        "rate_after_loss": "each node that may be lost would be reckoned anew at every move",
        "interslot_traffic": "it is of slots, which the search does not decide",
        "slots_used": "it is of slots, which the search does not decide",
    },
    run=run,
    summary="Annealing of any figure, weighted sum or list of levels, under every rule",
    needs=("tasks", "nodes", "bounded_rate"),
    forms=FORMS,
    options=(
        Option(
            "effort", "float", 1.0, "times the usual number of rounds", minimum=0.01, maximum=1e6
        ),
    ),
    takes_warm_start=True,
)
