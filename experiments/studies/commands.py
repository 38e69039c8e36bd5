"""The commands of the studies, registered in the entry point group ``streamplace.commands``."""

from streamplace.cli.main import STUDIES, Command

BENCH, PAPER = (f"experiments.studies.{name}.command" for name in ("bench", "papers"))
COMMANDS = (
    Command("bench", BENCH, "measure a method on the open benchmark", STUDIES),
    Command("paper", PAPER, "reproduce the papers' figures and claims", STUDIES),
)
