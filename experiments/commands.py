"""The commands of this package, registered in the entry point group ``streamplace.commands``."""

from streamplace.cli.main import EXPERIMENTS, Command

COMMANDS = (
    Command(
        "generate",
        "experiments.generators.command",
        "make an instance of a stated kind",
        EXPERIMENTS,
    ),
    Command("sweep", "experiments.sweep.command", "run a matrix of runs on Spark", EXPERIMENTS),
    Command(
        "report", "experiments.report.command", "gaps, times and profiles of a sweep", EXPERIMENTS
    ),
    Command(
        "trace", "experiments.traces.command", "recorded events to instances, on Spark", EXPERIMENTS
    ),
    Command(
        "replay",
        "experiments.replay.command",
        "an adaptation policy over changing load",
        EXPERIMENTS,
    ),
    Command(
        "model",
        "experiments.modelling.command",
        "performance models of tasks from trials",
        EXPERIMENTS,
    ),
)
