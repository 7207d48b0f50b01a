"""The commands and options of ``oma``, and how it ends.

Not here: what a command does (``_agent``). Invariant: whatever happens, ``main`` returns one of the documented exit
codes, and a user's mistake, an interruption or a closed pipe never shows a traceback.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

from openmultiagent import ConfigurationError, __version__
from openmultiagent.adapters import provider_names

from ._agent import AgentOptions, run_agent
from ._console import Console, OutputError
from ._inputs import InputError

__all__ = ["main"]

OK, FAILED, USAGE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141

_EXIT_CODES = """
exit codes:
  0    the run succeeded
  1    the run failed, or its output could not be written; stderr says why
  2    wrong usage or input; nothing was run
  130  interrupted (Ctrl-C)
  141  whoever read the output has closed it (as in: oma ... | head -1)
"""
_AGENT_HELP = """
Run one agent: the answer goes to stdout as it is written; events, usage, the verdict of a small evaluation and the
tree of spans go to stderr.
"""
_AGENT_EPILOG = """
The API key is read from the provider's environment variable, such as OPENAI_API_KEY; it is never an option.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``oma`` and return its exit code.

    Args:
        argv: The arguments behind the program's name; those of the process unless given.
    """
    console = Console()
    try:
        code = _run(argv, console)
        console.flush()
    except KeyboardInterrupt:
        console.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    except OutputError as error:
        console.error(str(error))
        return FAILED
    return code


def _run(argv: Sequence[str] | None, console: Console) -> int:
    try:
        options = _parser().parse_args(argv)
    except SystemExit as done:  # argparse has written its help or its complaint
        return done.code if isinstance(done.code, int) else USAGE
    arguments = dict(vars(options))
    del arguments["command"]
    try:
        succeeded = run_agent(AgentOptions(**arguments), console)
    except (InputError, ConfigurationError) as error:
        console.error(str(error))
        return USAGE
    return OK if succeeded else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oma",
        description="Run LLM agents: bounded, isolated, and on record.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"oma {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_agent(
        commands.add_parser(
            "agent",
            help="run one agent on a prompt, files and images",
            description=_AGENT_HELP,
            epilog=_AGENT_EPILOG + _EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    )
    return parser


def _add_agent(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("prompt", metavar="PROMPT", help="what the agent is asked")
    add(
        "--file",
        dest="files",
        metavar="FILE",
        action="append",
        default=[],
        help="a UTF-8 text file to send along; - is stdin; may be repeated",
    )
    add(
        "--image",
        dest="images",
        metavar="FILE",
        action="append",
        default=[],
        help="an image file to send along; may be repeated",
    )
    add(
        "--provider",
        metavar="NAME",
        default="embedded",
        help=f"one of {', '.join(provider_names())}; unless given embedded, which needs neither key nor network "
        "and is no language model",
    )
    add("--base-url", metavar="URL", help="another server that speaks the provider's protocol")
    add("--model", metavar="NAME", help="the model, as the provider calls it")
    add("--system", metavar="TEXT", help="the system prompt")
    add("--max-tokens", metavar="N", type=_positive(int), help="the most tokens that the answer may have")
    add(
        "--max-token-budget", metavar="N", type=_positive(int), help="the most tokens, in and out, that the run may use"
    )
    add("--timeout", metavar="S", type=_positive(float), help="seconds for the whole run")
    add("--json", dest="as_json", action="store_true", help="write one JSON document instead of the answer to stdout")
    add("--quiet", action="store_true", help="write nothing but errors to stderr")


def _positive(kind: type[int | float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not (number > 0 and math.isfinite(number)):
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"must be a positive {what}, got {text!r}")
        return number

    return read
