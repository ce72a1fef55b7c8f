"""The command line as a whole. Exit codes: 0 done, 2 the user's input, 1 ours, 128 + signal where it was stopped."""

from __future__ import annotations

import codecs
import errno
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup, TyperOption

from ..errors import InputError, MatchedByRow, Notice
from ..scan.signals import Stopped
from .inspection import check, diff
from .output import Terminal, name_options
from .preparation import convert, demo, snapshots
from .questions import blame, explain, report, scan, story, undo, watch
from .service import serve

app = typer.Typer(
    help="Explain why a graph neural network's predictions changed between two snapshots of a graph.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    demo, watch, snapshots, check, diff, blame, undo, explain, story, report, scan, serve, convert,
):  # fmt: skip
    app.command()(command)

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)  # what a device says that takes no more
NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
ALIKE = str.maketrans("→–—−·…“”‘’≥≤×", ">---..\"\"''><x")


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False) -> None:
    """Options of every command."""
    if debug:
        os.environ["AXIOMPATH_DEBUG"] = "1"


def report_moved(context: typer.Context) -> None:
    """Report that a command has moved."""
    name = context.info_name
    raise InputError(
        f"`axiompath {name}` has moved to the source repository; run `python -m research {name} ...` in a clone of it."
    )


for moved in ("benchmark", "reproduce"):
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(moved, hidden=True, context_settings=anything)(report_moved)


def main() -> None:
    """Entry point."""
    run_app(app, sys.argv[1:], "axiompath")


def run_app(program: typer.Typer, arguments: list[str], name: str) -> None:
    """Run a command line. An error prints a sentence or two and sets the exit code; --debug adds the traceback."""
    codecs.register_error("axiompath.plain", _to_plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="axiompath.plain")
    try:
        with _warnings_as_sentences(program, arguments):
            program(args=arguments, prog_name=name)
    except SystemExit as left:
        _finish_output(left.__context__)
        raise
    except (KeyboardInterrupt, Stopped) as stopped:
        Terminal(stderr=True).print("Stopped.")
        _silence_output()
        sys.exit(128 + (stopped.number if isinstance(stopped, Stopped) else signal.SIGINT))
    except Exception as error:
        if os.environ.get("AXIOMPATH_DEBUG"):
            raise
        console = Terminal(stderr=True)
        if isinstance(error, OSError) and error.errno in FULL:
            _refuse_device(error)
        if isinstance(error, OSError) and error.errno in NO_NAME:
            error = InputError(f"Expected a name that a file can have (got {error.filename}: {error.strerror}).")
        if isinstance(error, InputError | MemoryError):
            words = str(error) or "Expected enough memory (there is none left); close other programs, or ask for less."
            words = name_options(words, _options_of(program, arguments))
            console.complain("Error", words)
            sys.exit(2)
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        console.complain("An internal error, not your mistake", message)
        console.print(f"Please report it with the traceback, which `{name} --debug ...` shows.", soft_wrap=True)
        sys.exit(1)


def _options_of(program: typer.Typer, arguments: list[str]) -> dict[str, TyperOption]:
    """The options of the command that was called, by their Python names."""
    command: Any = typer.main.get_command(program)
    for word in arguments:
        if isinstance(command, TyperGroup) and word in command.commands:
            command = command.commands[word]
    return {str(option.name): option for option in command.params if isinstance(option, TyperOption)}


def _finish_output(met: BaseException | None) -> None:
    """Flush all output, or report why that failed. A closed pipe is not an error; a full device is."""
    try:
        if isinstance(met, BrokenPipeError):
            raise met
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # As every other tool ends whose reader has gone.
        _silence_output()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError as error:
        _refuse_device(error)


def _refuse_device(error: OSError) -> NoReturn:
    _silence_output()
    words = f"Expected a device with room for the output (got {error.filename or 'standard output'}: {error.strerror})."
    Terminal(stderr=True).complain("Error", words)
    sys.exit(2)


def _silence_output() -> None:
    """Discard the buffer, which would raise once more when the interpreter ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _to_plain(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the terminal cannot show by similar ones of the same width, so that tables stay
    aligned."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(ALIKE)
    return text.encode("ascii", "replace").decode(), error.end


@contextmanager
def _warnings_as_sentences(program: typer.Typer, arguments: list[str]) -> Iterator[None]:
    """Print AxiomPath's warnings on stderr as one sentence, each once; other warnings as Python does."""
    console, shown = Terminal(stderr=True), set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_warning(
            message: Warning | str, category: type[Warning], filename: str, lineno: int,
            file: TextIO | None = None, line: str | None = None,
        ) -> None:  # fmt: skip
            if not issubclass(category, MatchedByRow | Notice):
                show(message, category, filename, lineno, file, line)
            elif str(message) not in shown:
                shown.add(str(message))
                words = name_options(str(message), _options_of(program, arguments))
                console.complain("Warning", words, "bold yellow")

        warnings.showwarning = print_warning
        warnings.simplefilter("always", MatchedByRow)
        warnings.simplefilter("always", Notice)
        yield
