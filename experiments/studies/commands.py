"""The commands of the studies, registered in the entry point group ``streamplace.commands``."""

from streamplace.cli.main import STUDIES, Command

COMMANDS = (
    Command(
        "bench",
        "experiments.studies.bench.command",
        "measure a method on the open benchmark",
        STUDIES,
    ),
    Command(
        "paper",
        "experiments.studies.papers.command",
        "reproduce the papers' figures and claims",
        STUDIES,
    ),
)
