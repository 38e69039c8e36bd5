"""The command ``streamplace``: picks the subcommand and turns errors into exit codes.

Only the chosen subcommand's module is imported, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from optim.errors import ExitCode
from streamplace.packages import missing_extra
from streamplace.present.streams import (
    flushed_stdout,
    forgive_encoding,
    forgive_talk,
    interrupts_heard,
    leave,
    open_missing,
    quiet_stdout,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType


logger = logging.getLogger(__name__)


class Command(NamedTuple):
    """A subcommand; its module offers ``add_arguments(parser)`` and ``run(args) -> int``.

    The module may have ``EXAMPLES``, text for the end of its help, and ``RARE``, names of options
    that only ``--help-all`` shows. `group` is the heading under which ``streamplace --help`` lists
    the command. `warm` names, as ``module:function``, what ``streamplace warm`` calls, in a process
    of its own, to prepare the command's first use; it returns what was done, in words.
    """

    name: str
    module: str
    help: str
    group: str = "other"
    warm: str = ""


PLACE, EXPLAIN, CLUSTERS = "place", "explain and prove", "clusters"
EXPERIMENTS, STUDIES, INSTALLATION = "experiments", "studies", "installation"

OWN = (
    Command("solve", "streamplace.cli.solve", "find a plan for an instance", PLACE),
    Command("check", "streamplace.cli.check", "validate an instance, or check a plan", PLACE),
    Command("evaluate", "streamplace.cli.evaluate", "every figure of a plan", PLACE),
    Command("diff", "streamplace.cli.diff", "moves and figures between two placements", PLACE),
    Command("scale", "streamplace.cli.scale", "parallelism and nodes for an input rate", PLACE),
    Command("steps", "streamplace.cli.steps", "an order of moves within all limits", PLACE),
    Command("methods", "streamplace.cli.methods", "methods, their limits and options", PLACE),
    Command("explain", "streamplace.cli.explain", "why there is no plan, why these moves", EXPLAIN),
    Command("certify", "streamplace.cli.certify", "check a proof without a solver", EXPLAIN),
    Command("import", "streamplace.cli.import_system", "an instance from a system", CLUSTERS),
    Command("export", "streamplace.cli.export_plan", "a plan as a system's files", CLUSTERS),
    Command("submit", "streamplace.cli.submit", "carry a plan out on a cluster", CLUSTERS),
    Command("verify", "streamplace.cli.verify", "whether a cluster runs as planned", CLUSTERS),
    Command("revert", "streamplace.cli.revert", "undo the last submit", CLUSTERS),
    Command("decide", "streamplace.cli.decide", "one step of an adaptation policy", CLUSTERS),
    Command("watch", "streamplace.cli.watch", "a policy on a running cluster", CLUSTERS),
    Command("run-steps", "streamplace.cli.run_steps", "carry moves out in batches", CLUSTERS),
    Command("storm", "streamplace.cli.storm", "the plug-in for Storm's Nimbus", CLUSTERS),
    Command("flink", "streamplace.cli.flink", "older: submit flink, watch flink", CLUSTERS),
    Command("schema", "streamplace.cli.schema", "JSON Schemas of files and answers", INSTALLATION),
    Command("warm", "streamplace.cli.warm", "compile kernels before their first use", INSTALLATION),
    Command(
        "versions", "streamplace.cli.versions", "versions of streamplace and solvers", INSTALLATION
    ),
)

GROUPS = (PLACE, EXPLAIN, CLUSTERS, EXPERIMENTS, STUDIES, INSTALLATION)

GROUP = "streamplace.commands"
"""Entry point group: each entry names a tuple of `Command` that a distribution adds."""

ELSEWHERE = {"bench": "streamplace-studies", "paper": "streamplace-studies"}
"""Commands that another distribution brings."""

DESCRIPTION = (
    "Places the tasks of stream-processing jobs on nodes, and proves how good the plan is."
)

EPILOG = """\
examples:
  streamplace solve examples/capsys-q1.json -o plan.json
  streamplace check examples/capsys-q1.json plan.json

exit codes: 0 a feasible, checked plan, or the command did what it was asked; 1 internal error;
2 usage or invalid input; 3 infeasible: no plan can exist; 4 no feasible plan was found;
130, 143, 129 stopped by Ctrl-C, SIGTERM, SIGHUP: the best plan so far is returned

`streamplace COMMAND --help` explains each command."""


OURS = frozenset({"streamplace", "optim", "formulations", "heuristics", "experiments"})

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_WAY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP})
"""What the system refuses for a reason that lies with the user's disks and paths, not with us."""


MORE_MEMORY = "give it more (ulimit -v, the memory limit of a container), or a smaller input"


TALK = (
    (("-q", "--quiet"), "errors only: no progress, no notes"),
    (("-v", "--verbose"), "log what is being done"),
    (
        ("--debug",),
        "log everything, and show the traceback of an internal error (or STREAMPLACE_DEBUG=1)",
    ),
)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and a pointer, not the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with the exit code for usage errors."""
        text = f"{self.prog}: error: {message}{_near_choice(message)}\nsee `{self.prog} --help`\n"
        self.exit(int(ExitCode.USAGE), text)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; what is not known is refused here, where the options that there are, are known."""
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            wrong = next((word for word in rest if word.startswith("-")), "").partition("=")[0]
            hint = _close(wrong, list(self._option_string_actions))
            self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return parsed, rest


@cache
def commands() -> tuple[Command, ...]:
    """Return our own commands, and those that installed distributions register.

    What cannot be loaded is left out: a broken distribution does not stop the other commands.
    """
    from optim.plugins import entries

    loaded = list(OWN)
    for name, entry in entries(GROUP).items():
        try:
            loaded += entry.point.load()
        except Exception as error:  # whatever the other distribution's module does
            logger.info("commands of %s (%s) cannot be loaded: %s", name, entry.package, error)
    return tuple(loaded)


def build_parser(chosen: str | None = None, offered: Sequence[Command] | None = None) -> Parser:
    """Build the parser; only of the chosen subcommand the module is imported, for its arguments.

    `offered` are the commands that it knows; all (`commands`) if left out.
    """
    offered = commands() if offered is None else offered
    form: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = Parser(
        prog="streamplace",
        usage="%(prog)s [-h] [--version] COMMAND …",
        description=_listed(offered),
        epilog=EPILOG,
        **form,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", prog=parser.prog)
    choices.help = argparse.SUPPRESS  # the description lists them by group
    for command in offered:
        described = command.help[0].upper() + command.help[1:] + "."
        sub = choices.add_parser(command.name, description=described, **form)
        if command.name == chosen:
            module = importlib.import_module(command.module)
            module.add_arguments(sub)
            sub.epilog = getattr(module, "EXAMPLES", None)
            sub.set_defaults(run=module.run)
            _hide(sub, getattr(module, "RARE", ()))
            sub.usage = _short_usage(sub)
        group = sub.add_argument_group("messages (stderr)")
        for flags, what in TALK:
            group.add_argument(*flags, action="store_true", help=what)
    return parser


def _listed(shown: Sequence[Command]) -> str:
    """Return the commands under the headings of their groups."""
    headings = dict.fromkeys((*GROUPS, *(command.group for command in shown)))
    lines = [DESCRIPTION]
    for heading in headings:
        of_group = [command for command in shown if command.group == heading]
        lines += ["", f"{heading}:"] if of_group else []
        lines += [f"  {command.name:10} {command.help}" for command in of_group]
    return "\n".join(lines)


def _short_usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage with ``[options]`` in the place of all that the help lists anyway."""
    # argparse has no public way to a usage of positional arguments alone
    formatter = parser._get_formatter()
    formatter.add_usage(None, parser._get_positional_actions(), [], prefix="")
    words = formatter.format_help().removeprefix(parser.prog).split()
    return " ".join(["%(prog)s [options]", *words])


class _HelpAll(argparse.Action):
    """``--help-all``: the help with the options that ``--help`` leaves out."""

    def __init__(self, texts: dict[argparse.Action, str | None], **rest: Any) -> None:
        super().__init__(nargs=0, **{**rest, "dest": argparse.SUPPRESS})
        self._texts = texts

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        # only now: `--help` must not show them
        for action, text in self._texts.items():
            action.help = text
        parser.print_help()
        parser.exit()


def _hide(parser: argparse.ArgumentParser, rare: Collection[str]) -> None:
    """Leave options out of ``--help``, and add ``--help-all`` where some are."""
    texts = {one: one.help for one in parser._actions if set(one.option_strings) & set(rare)}
    if not texts:
        return
    for action in texts:
        action.help = argparse.SUPPRESS
    parser.add_argument(
        "--help-all",
        action=_HelpAll,
        texts=texts,
        help=f"show {len(texts)} further options",
        default=argparse.SUPPRESS,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (by default the process's own); returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or bool(os.environ.get("STREAMPLACE_DEBUG"))
    if not debug:
        # what nobody catches is a fault of ours: a few lines, the traceback with --debug
        sys.excepthook = _short_excepthook
    open_missing()
    forgive_encoding()
    forgive_talk()
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    try:
        with interrupts_heard(), flushed_stdout():
            return _dispatch(arguments, debug)
    except KeyboardInterrupt:
        _say("interrupted")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        quiet_stdout()
        return int(ExitCode.OK)
    except MemoryError as error:
        if debug:
            raise
        _say(f"not enough memory{f': {error}' if str(error) else ''}; {MORE_MEMORY}")
        return int(ExitCode.USAGE)
    except OSError as error:
        # a full disk and a forbidden path are the user's to mend, and no fault of ours
        if error.errno not in NO_ROOM | NO_WAY or debug:
            raise
        if error.errno in NO_ROOM:
            quiet_stdout()
            _say(f"nothing more can be written: {error.strerror}")
        else:
            where = "" if error.filename is None else f"{error.filename!r}: "
            _say(f"{where}{error.strerror}")
        return int(ExitCode.USAGE)


def _complete() -> None:
    """Answer a shell that asks how the line goes on, and leave."""
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()[1:]
    names = {command.name for command in commands()}
    chosen = next((word for word in words if word in names), None)
    argcomplete.autocomplete(build_parser(chosen))


def _with_signs(arguments: list[str]) -> list[str]:
    """Join ``--objective`` with a sum that begins with a minus: argparse takes it for an option."""
    words: list[str] = []
    for word in arguments:
        if words and words[-1] == "--objective" and word[:1] == "-" and word[1:2] != "-":
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _dispatch(arguments: list[str], debug: bool) -> int:
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    # A command of our own that stands first needs no look at what other distributions register.
    offered = [command for command in OWN if [command.name] == arguments[:1]] or commands()
    parser = build_parser(chosen, offered)
    names = {command.name for command in offered}
    if chosen is not None and chosen not in names:
        parser.error(_unknown_command(chosen, sorted(names)))
    args = parser.parse_args(_with_signs(arguments))
    if args.version:
        from streamplace.cli.versions import own_version

        print(f"streamplace {own_version()}")
        return int(ExitCode.OK)
    if args.command is None:
        parser.print_help(sys.stderr)
        return int(ExitCode.USAGE)
    return _run(args, debug)


def _run(args: argparse.Namespace, debug: bool) -> int:
    from optim.errors import StreamplaceError

    configure_logging(quiet=args.quiet, verbose=args.verbose, debug=debug)
    try:
        if (
            getattr(args, "method", None) is not None
        ):  # a file or module:NAME has its name from here
            from optim.methods.registry import name_of

            args.method = name_of(args.method)
        return int(args.run(args))
    except StreamplaceError as error:
        from streamplace.present.streams import describe

        if debug:
            import traceback

            traceback.print_exc()
        _say(describe(error))
        return int(error.exit_code)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None or debug:
            raise
        _say(f"{args.command}: {missing}")
        return int(ExitCode.USAGE)


def _unknown_command(word: str, names: list[str]) -> str:
    if word in ELSEWHERE:
        home = ELSEWHERE[word]
        return (
            f"the command {word!r} comes with {home}, which is not installed: "
            f"pip install {home}, or pip install ./experiments/studies in a checkout"
        )
    hint = _close(word, names) or f"; commands: {', '.join(names)}"
    return f"unknown command {word!r}{hint}"


def _near_choice(message: str) -> str:
    """Return the choice that is meant by argparse's message about another one, if any."""
    match = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
    return "" if match is None else _close(match[1], re.findall(r"[\w.-]+", match[2]))


def _close(word: str, names: list[str]) -> str:
    import difflib

    # 0.7: one or two letters of a short word, no other word
    close = difflib.get_close_matches(word, names, 1, cutoff=0.7)
    return f"; did you mean `{close[0]}`?" if close else ""


def _say(text: str) -> None:
    sys.stderr.write(f"streamplace: {text}\n")


def _short_excepthook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Report an internal error in a few lines; the interpreter then leaves with status 1."""
    foreign_module, where = _foreign_method(trace), ""
    while trace is not None:
        where = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    _say(f"internal error: {kind.__name__}: {error}{where}")
    if foreign_module is None:
        sys.stderr.write(
            "This is a fault of streamplace, not of your input. Please report it with the output "
            "of\nthe same command and --debug, and of `streamplace versions`.\n"
        )
    else:
        sys.stderr.write(
            f"The method is not streamplace's own: its module {foreign_module} raised this.\n"
            "--debug shows the traceback.\n"
        )


def _foreign_method(trace: TracebackType | None) -> str | None:
    """Return the module of another package's method that was running, if one was."""
    while trace is not None and trace.tb_next is not None:
        caller, trace = trace.tb_frame, trace.tb_next
        module = str(trace.tb_frame.f_globals.get("__name__"))
        # called by `run`, and not from one of our packages: a method of somebody else
        is_method_call = caller.f_globals.get("__name__") == "optim.methods.run"
        if is_method_call and module.partition(".")[0] not in OURS:
            return module
    return None


def configure_logging(*, quiet: bool, verbose: bool, debug: bool) -> None:
    """Send the log of our packages to standard error; of warnings, if nothing else is said."""
    levels = ((debug, logging.DEBUG), (verbose, logging.INFO), (quiet, logging.ERROR))
    level = next((level for is_set, level in levels if is_set), logging.WARNING)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    for name in OURS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False


if __name__ == "__main__":
    leave(main())
