"""The commands of this package, registered in the entry point group ``streamplace.commands``."""

from streamplace.cli.main import EXPERIMENTS, Command

COMMANDS = tuple(
    Command(name, f"experiments.{room}.command", text, EXPERIMENTS, *warm)
    for name, room, text, *warm in (
        ("generate", "generators", "make an instance of a stated kind"),
        ("sweep", "sweep", "run a matrix of runs on Spark"),
        ("report", "report", "gaps, times and profiles of a sweep"),
        (
            "trace",
            "traces",
            "recorded events to instances, on Spark",
            "experiments.traces.class_archive:make",
        ),
        ("replay", "replay", "an adaptation policy over changing load"),
        ("model", "modelling", "performance models of tasks from trials"),
    )
)
