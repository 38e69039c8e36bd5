"""Log handlers: the command line is the only place that attaches any."""

from __future__ import annotations

import logging
import sys

_OURS = ("optim", "formulations", "heuristics", "experiments")


def configure_logging(*, quiet: bool, verbose: bool, debug: bool) -> None:
    """Send the log of our packages to standard error.

    Parameters
    ----------
    quiet
        Errors only.
    verbose
        Also what is being done.
    debug
        Everything.
    """
    level = logging.WARNING
    if debug:
        level = logging.DEBUG
    elif verbose:
        level = logging.INFO
    elif quiet:
        level = logging.ERROR
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False
