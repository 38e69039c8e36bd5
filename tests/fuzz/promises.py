"""What is known of methods beyond what they declare: whom they start from, what they look among."""

from __future__ import annotations

from typing import Any

from tests.fuzz.reading import Reading

#: look only for plans that take off leaving nodes all that may go elsewhere
EMPTIES = frozenset({
    "imc-exact", "imc-milp", "plan-milp", "imc-brute", "eoa-milp", "storm-milp",
    "throughput-exact", "throughput-milp", "throughput-search",
})  # fmt: skip
#: the same unless told otherwise
DRAINS = frozenset({"joint-milp", "joint-search", "albic"})
_TASK_ALLOCATION = ("naive", "task-level", "top-down", "partition", "imc-search")
#: leave as few tasks on leaving nodes as they can, before any objective but those of these, too
LEAVES_FEWEST = frozenset({"plan-search"})
OF_LEAVING = frozenset({"load_distance"})
#: heuristics that an exact method starts from, and never returns less than
FAMILY = {
    "imc-exact": _TASK_ALLOCATION,
    "imc-milp": _TASK_ALLOCATION,
    "plan-milp": ("plan-search",),
    "balance-milp": ("flux", "scale-in-first", "balance-search"),
    "joint-milp": ("albic", "cola", "joint-search"),
    "eoa-milp": ("gma",),
    "throughput-exact": ("throughput-search",),
    "throughput-milp": ("throughput-search",),
    "storm-milp": ("storm-online", "storm-offline", "storm-even"),
}
STARTS = ("random", "storm-even", "flux", "top-down", "partition", "imc-search", "balance-search")
MODEL_DRIVEN = "model-driven"

#: options that are left alone: they choose another objective than the one told, or need more tools
_LEFT = {("objective", "weighted"), ("engine", "mtkahypar"), ("start", "mtkahypar")}
_NUMBERS: dict[str, tuple[float, ...]] = {
    "tries": (1,), "margin": (0.5,), "max_load_distance": (5.0, 40.0), "pairs_per_round": (3,),
    "balance_gap": (0.001,), "score_factor": (0.5,), "alpha": (1.0,), "beta": (0.0,),
    "delta": (1.0,), "node_spread": (0.0,), "max_passes": (1,),
    "steps": (50,), "effort": (0.1,), "step": (2,),
}  # fmt: skip


def option_choices(declared: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the (option, value) that a method may be tried with, other than its defaults."""
    found: list[tuple[str, Any]] = []
    for option in declared["options"]:
        name, default = option["name"], option["default"]
        values: tuple[Any, ...] = tuple(option["choices"]) or _NUMBERS.get(name, ())
        if option["kind"] == "bool":
            values = (not default,)
        found += [(name, v) for v in values if v != default and (name, v) not in _LEFT]
    return found


def expected_drops(declared: dict[str, Any], keywords: dict[str, Any]) -> set[str]:
    """Return the limits that a call drops, by `ignore` or by an option."""
    own = {o["drops"] for o in declared["options"] if o.get("drops") and keywords.get(o["name"])}
    return own | set(keywords.get("ignore", ()))


def leaves_behind(method: str, keywords: dict[str, Any]) -> bool:
    """Whether a method also looks at plans that leave tasks on leaving nodes."""
    if keywords.get("drain") == "hard" or method in EMPTIES:
        return False
    return method not in DRAINS or keywords.get("drain") == "soft"


def reads_more(method: str, reading: Reading) -> bool:
    """Whether a Storm method has to read into the file what it does not say."""
    silent = not reading.workers or None in reading.workers or None in reading.slots
    return method.startswith("storm") and silent
