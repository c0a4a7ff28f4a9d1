"""The `batchai` shell command: words in, text and an exit code out."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from batchai_magics.commands.output.refusal import refusal
from batchai_magics.commands.output.stream import Ended, Logged, Said, Stream
from batchai_magics.commands.parsing.parse import Invocation, parse
from batchai_magics.errors import BatchAIError, UsageError
from batchai_magics.options.help import Text

if TYPE_CHECKING:
    from batchai_magics.commands.output.result import Result
    from batchai_magics.commands.run import Pending

INTERRUPTED = 130
_PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (that of the process by default) and gives its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Who read our output has gone; the interpreter's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BatchAIError as error:
        return _fail(f"ERROR: {error}", error.exit_code, words)
    except Exception as error:  # noqa: BLE001  a defect of ours: told in a line, in full with --debug
        told = f"ERROR: unexpected {type(error).__name__}: {error}\nRun it again with --debug to see where."
        return _fail(told, 1, words)


def _fail(message: str, code: int, words: Sequence[str]) -> int:
    if "--debug" in words:
        traceback.print_exc()
    print(message, file=sys.stderr)
    return code


def _run(words: list[str]) -> int:
    if words == ["--version"]:
        from batchai_magics import __version__

        print(__version__)
        return 0
    invocation = parse(words)
    if isinstance(invocation, Text):
        print(invocation)
        return 0
    _confirm(invocation)
    return _carry_out(invocation)


def _confirm(invocation: Invocation) -> None:
    from batchai_magics.commands.run import CONFIRMATION_MISSING

    if not invocation.is_to_confirm:
        return
    if not sys.stdin.isatty():
        raise refusal(CONFIRMATION_MISSING)
    print("Are you sure you want to perform this operation? (y/n): ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise refusal("Operation cancelled.")


def _carry_out(invocation: Invocation) -> int:
    from batchai_magics import config
    from batchai_magics.backends.base.registry import load_settings
    from batchai_magics.commands.context import Context
    from batchai_magics.commands.handlers.use import is_choosing
    from batchai_magics.commands.run import run

    if invocation.command.words == "use" and is_choosing(invocation.arguments):
        hint = f"In the shell set BATCHAI_WORKSPACE or its like, or write it to {config.config_path()}."
        raise UsageError("`use` chooses for a notebook's session", hint=hint)
    return _shown(run(invocation, Context(load_settings())), invocation)


def _shown(result: Result | Stream | Pending, invocation: Invocation) -> int:
    from batchai_magics.commands.handlers.choice import Choice
    from batchai_magics.commands.output.colors import colored
    from batchai_magics.commands.output.progress import carry_out
    from batchai_magics.commands.run import Pending

    if isinstance(result, Stream):
        return _follow(result)
    _tell(result.notes)
    if isinstance(result, Pending):
        result = result.result(carry_out(result.work, is_shown=sys.stderr.isatty()))
        _tell(result.notes)
    if invocation.command.words == "configure":
        _keep(invocation)
    output = invocation.arguments.output or ("table" if isinstance(result.value, Choice) else "json")
    text = result.to_text(output)
    if text:
        print(colored(text) if output == "jsonc" and sys.stdout.isatty() else text)
    return 0


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        print(note, file=sys.stderr)


def _keep(invocation: Invocation) -> None:
    """Writes the defaults of `configure` to the configuration file, for the lines to come."""
    from batchai_magics.backends.base.registry import save_settings
    from batchai_magics.commands.azure.session import defaults_of

    chosen = defaults_of(invocation.arguments)
    if chosen:
        save_settings(chosen)


def _follow(stream: Stream) -> int:
    code = 0
    try:
        with contextlib.closing(stream.parts) as parts:
            for part in parts:
                if isinstance(part, Ended):
                    code = code or part.exit_code
                else:
                    _print(part)
    except KeyboardInterrupt:
        print(f"\n{stream.farewell}", file=sys.stderr)
        return INTERRUPTED
    return code


def _print(part: Said | Logged) -> None:
    if isinstance(part, Said):
        print(part.text, file=sys.stderr, flush=True)
        return
    target = (sys.stderr if part.is_error else sys.stdout).buffer
    target.write(part.data)
    target.flush()


if __name__ == "__main__":
    sys.exit(main())
