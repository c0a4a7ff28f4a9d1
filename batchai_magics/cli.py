"""The `batchai` shell command: arguments in, text and an exit code out.

An interrupt exits with one line and code 130 at any time. Hence the package is not imported while this module
loads.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.command_runner import PendingCommand
    from batchai_magics.commands.output.command_progress import Stream
    from batchai_magics.commands.output.command_result import Result
    from batchai_magics.commands.parsing.command_parser import Invocation
    from batchai_magics.jobs.job_handle import Job

INTERRUPTED = 130
GC_THRESHOLD = 100_000  # objects: garbage collection took a tenth of a command's time
_PIPE_CLOSED = 141
_STDERR = 2
_GRACE_S = 3.0  # a second interrupt within this time cancels the job of `run`


def program() -> NoReturn:
    """Entry point of the `batchai` process: runs its command line and exits."""
    signal.signal(signal.SIGINT, _stop)
    warnings.formatwarning = lambda message, *_: f"WARNING: {message}\n"
    import gc  # after the signal handler: an interrupt may occur during this import

    gc.set_threshold(GC_THRESHOLD)
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # done; only interpreter shutdown remains
    gc.freeze()  # a full collection at exit took a seventh of a short command's time
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default this process's; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run_safely(words)
    except KeyboardInterrupt:
        print("\nInterrupted; the command did not finish.", file=sys.stderr)
        return INTERRUPTED


def _stop(number: int, frame: Any) -> NoReturn:
    """Exits at once: an exception might get lost in the middle of an import."""
    os.write(_STDERR, b"\nInterrupted before anything was done.\n")
    os._exit(INTERRUPTED)


def _enable_interrupt_cleanup() -> None:
    """Let interrupts raise KeyboardInterrupt from here on, so that a started command can clean up."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run_safely(words: list[str]) -> int:
    """Run a command line; errors become a message and an exit code."""
    from batchai_magics.errors import BatchAIError, visible_lines

    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output is gone; the interpreter's flush at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except BatchAIError as error:
        return _fail(f"ERROR: {error}", error.exit_code, words)
    except Exception as error:  # noqa: BLE001    # a bug: one line, or a traceback with --debug
        message = visible_lines(f"ERROR: unexpected {type(error).__name__}: {error}")
        return _fail(f"{message}\nRun it again with --debug to see where.", 1, words)


def _fail(message: str, code: int, words: Sequence[str]) -> int:
    if "--debug" in words:
        import traceback

        traceback.print_exc()
    print(message, file=sys.stderr)
    return code


def _run(words: list[str]) -> int:
    from batchai_magics.commands.parsing.command_parser import SHELL_WORDS, parse
    from batchai_magics.options.option import DisplayText

    if words == ["--version"]:
        from batchai_magics.version import __version__

        print(__version__)
        return 0
    if words and words[0] in SHELL_WORDS:
        return _run_shell_word(words[0], words[1:])
    invocation = parse(words)
    if isinstance(invocation, DisplayText):
        if set(words) <= {"-h", "--help"}:  # `run` first: newcomers start with it
            head, _, rest = invocation.partition("\n\n")
            programs = sorted(SHELL_WORDS.items(), key=lambda program: program[0] != "run")
            lines = "\n".join(f"    {name:<11} : {text}" for name, text in programs)
            print(f"{head}\n\nStart with: batchai run train.py\n{lines}\n\n{rest}")
        else:
            print(invocation)
        return 0
    _confirm(invocation)
    return _execute(invocation)


def _run_shell_word(word: str, words: Sequence[str]) -> int:
    """Run a command that is a program of its own and not in the table; returns the exit code."""
    if word == "serve":
        from batchai_magics.server.serve_command import main as serve

        return serve(words)
    if word == "mcp":
        from batchai_magics.agents import main as agents

        return agents(words)
    if word == "agent-skill":
        from batchai_magics.agent_skill import main as agent_skill

        return agent_skill(words)
    if word == "completion":
        from batchai_magics.commands.parsing.command_completion import completion

        print(completion(words))
        return 0
    return _run_script(words)


def _run_script(words: Sequence[str]) -> int:
    """Run `batchai run`; the exit code is the job's."""
    from batchai_magics.commands.handlers.run_command import prepare
    from batchai_magics.options.option import DisplayText

    _enable_interrupt_cleanup()
    prepared = prepare(words)
    if isinstance(prepared, DisplayText):
        print(prepared)
        return 0
    _print_notes(prepared.notes)
    submitted, code = prepared.submit(), 0
    job, is_json = submitted.job, prepared.line.is_json
    _print_notes([submitted.note] if submitted.note else [])
    if not prepared.line.is_detached:
        stream = prepared.stream(submitted)
        if _is_live() and not is_json:
            return _watch_run(job, stream.interrupt_message)
        code = _follow(stream, on_interrupt=lambda: _cancel_if_interrupted(job))
    elif not is_json:
        print(job.name)
    if is_json:
        from batchai_magics.commands.output.command_result import Result

        print(Result(job, is_summary=True).to_text("json"))
    return code


def _is_live() -> bool:
    """Whether lines can be drawn again: both streams are a terminal that moves its cursor."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _watch_run(job: Job, interrupt_message: str) -> int:
    from batchai_magics.commands.handlers.job_wait import job_exit
    from batchai_magics.commands.output.live_run import watch_run
    from batchai_magics.commands.output.shell_output import console_for

    try:
        return job_exit(watch_run(job, console_for(sys.stdout))).exit_code
    except KeyboardInterrupt:
        print(f"\n{interrupt_message}", file=sys.stderr, flush=True)
        return _cancel_if_interrupted(job)


def _cancel_if_interrupted(job: Job) -> int:
    """Cancel the job if a second interrupt follows soon; returns the exit code."""
    from batchai_magics.commands.handlers.job_wait import CANCELLED_CODE

    try:
        print(f"\nInterrupt again within {_GRACE_S:.0f} s to cancel the job.", file=sys.stderr, flush=True)
        time.sleep(_GRACE_S)
    except KeyboardInterrupt:
        job.cancel()
        print(f"\nCancelled {job.name}.", file=sys.stderr)
        return CANCELLED_CODE
    return INTERRUPTED


def _confirm(invocation: Invocation) -> None:
    from batchai_magics.backends.base.backend_registry import load_settings
    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.command_runner import CONFIRMATION_MISSING, confirmation_preview
    from batchai_magics.errors import command_error

    if not invocation.needs_confirmation:
        return
    if preview := confirmation_preview(invocation, Context(load_settings())):
        print(preview, file=sys.stderr)
    if not sys.stdin.isatty():
        raise command_error(CONFIRMATION_MISSING)
    print("Are you sure you want to perform this operation? (y/n): ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise command_error("Operation cancelled.")


def _execute(invocation: Invocation) -> int:
    import shlex

    from batchai_magics.backends.base.backend_registry import load_settings
    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.command_runner import run
    from batchai_magics.commands.handlers.backend_commands import chosen_variables
    from batchai_magics.config import config_path
    from batchai_magics.errors import UsageError

    context = Context(load_settings())
    if invocation.command.words == "use" and (words := chosen_variables(context, invocation.arguments)):
        result = cast("Result", run(invocation, context))  # also validates the choice
        if result.value.settings != context.settings:
            hint = f"In the shell, `export {shlex.join(words)}`, or edit {config_path()}."
            text = "`use` keeps a choice in a notebook's session only"
            raise UsageError(text, hint="\n".join((*result.notes, hint)))
        return _display(result, invocation)
    invocation.command.load()
    _enable_interrupt_cleanup()
    if invocation.command.words == "watch" and not (
        invocation.arguments.output or invocation.arguments.query
    ):
        return _watch_jobs(invocation, context)
    return _display(run(invocation, context), invocation)


def _watch_jobs(invocation: Invocation, context: Context) -> int:
    """Show the jobs until an interrupt: a table that changes, or in a pipe a line for each new state."""
    from batchai_magics.commands.handlers.job_commands import watched
    from batchai_magics.commands.output.live_run import print_new_states, watch_table
    from batchai_magics.commands.output.shell_output import compact, console_for
    from batchai_magics.follow import changes

    tables = changes(context.backend, lambda: compact(watched(context, invocation.arguments).to_table()))
    try:
        if _is_live():
            watch_table(tables, console_for(sys.stdout))
        else:
            print_new_states(tables, sys.stdout)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _display(result: Result | Stream | PendingCommand, invocation: Invocation) -> int:
    from batchai_magics.commands.command_runner import PendingCommand
    from batchai_magics.commands.output.command_progress import Stream, run_operation

    if isinstance(result, Stream):
        return _follow(result)
    _print_notes(result.notes)
    if isinstance(result, PendingCommand):
        result = result.result(run_operation(result.operation, is_shown=sys.stderr.isatty()))
        _print_notes(result.notes)
    if invocation.command.words == "configure":
        from batchai_magics.backends.base.backend_registry import save_settings
        from batchai_magics.commands.azure.session_commands import defaults_of

        if chosen := defaults_of(invocation.arguments):
            save_settings(chosen)
    _print_result(result, invocation)
    return 0


def _print_result(result: Result, invocation: Invocation) -> None:
    output = invocation.arguments.output
    if output is None and not (result.query or invocation.is_az):
        from batchai_magics.commands.output.shell_output import print_text

        return print_text(result, sys.stdout)
    output = output or "json"
    is_empty = True
    for piece in filter(None, result.text_pieces(output)):
        sys.stdout.write(piece)
        is_empty = False
    if not is_empty:
        print()


def _print_notes(notes: Sequence[str]) -> None:
    from batchai_magics.errors import visible_lines

    for note in notes:
        print(visible_lines(note), file=sys.stderr)


def _follow(stream: Stream, *, on_interrupt: Callable[[], int] = lambda: INTERRUPTED) -> int:
    from contextlib import closing

    from batchai_magics.commands.output.command_progress import CommandExit, Message
    from batchai_magics.commands.output.terminal_text import TerminalText
    from batchai_magics.errors import visible_lines

    code, filters = 0, {False: TerminalText(), True: TerminalText()}
    try:
        with closing(stream.parts) as parts:
            for part in parts:
                if isinstance(part, CommandExit):
                    code = code or part.exit_code
                elif isinstance(part, Message):
                    print(visible_lines(part.text), file=sys.stderr, flush=True)
                else:
                    target = sys.stderr if part.is_error else sys.stdout
                    data = filters[part.is_error].feed(part.data) if target.isatty() else part.data
                    target.buffer.write(data)  # pipes get raw bytes
                    target.flush()
    except KeyboardInterrupt:
        print(f"\n{stream.interrupt_message}", file=sys.stderr, flush=True)
        return on_interrupt()
    return code


if __name__ == "__main__":
    program()
