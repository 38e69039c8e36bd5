"""The commands of the studies, registered in the entry point group ``streamplace.commands``."""

from streamplace.cli.main import Command

COMMANDS = (
    Command("bench", "experiments.studies.bench.command", "a method of your own, by proven bounds"),
    Command("paper", "experiments.studies.papers.command", "make the figures of the papers again"),
)
