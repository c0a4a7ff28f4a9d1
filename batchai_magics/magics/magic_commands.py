"""The magics `%%batchai_job`, `%batchai` and `%az`: parse, call, display."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.completer import CompletionContext, SimpleCompletion
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand

from batchai_magics.errors import visible_lines
from batchai_magics.models.resource_ids import as_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from batchai_magics.cell import Notebook
    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.output.command_result import LiveResult, Result
    from batchai_magics.commands.parsing.command_completion import NameLookup
    from batchai_magics.config import Settings
    from batchai_magics.jobs.job_handle import Job
    from batchai_magics.jobs.sweeps.sweep_handle import Sweep
    from batchai_magics.metrics import Comparison, Scaling
    from batchai_magics.options.option import DisplayText, Expected


NAMELESS = "job"  # used when the notebook is unknown
_SUFFIXES = (".ipynb", ".py", ".md")  # of session names that are files
_CELL_LENGTH = 6


def name_of_cell(shell: InteractiveShell) -> str:
    """The default name, `train-3f2a9c`: notebook name from the server or editor, and cell id.

    A cell keeps its name across kernel restarts.
    """
    notebook = str(shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or "")
    path = Path(notebook)
    name = as_name(path.stem) if path.suffix in _SUFFIXES else ""
    # the cell id sent by the front end; empty in a terminal or an older front end
    parent: Any = getattr(shell, "get_parent", dict)()
    metadata = parent.get("metadata") if isinstance(parent, Mapping) else None
    id = str(metadata.get("cellId") or "") if isinstance(metadata, Mapping) else ""
    cell = as_name(id)[:_CELL_LENGTH]
    cell = f"c{cell}" if cell.isdigit() else cell  # must not look like a run number
    return "-".join(part for part in (name or NAMELESS, cell) if part)


def waits_at_end(source: str) -> bool:
    """Whether the value of a cell comes from `job.wait()` or `await job`."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return False
    value = getattr(statements[-1], "value", None) if statements else None
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.Await) or (isinstance(function, ast.Attribute) and function.attr == "wait")


Magic = TypeVar("Magic", bound=Callable[..., Any])


def with_help(text: Callable[[], str]) -> Callable[[Magic], Magic]:
    """Attach a help text to a magic for `%%magic?`, built on request."""

    def with_text(magic: Magic) -> Magic:
        setattr(magic, "getdoc", text)  # noqa: B010  # IPython looks for `getdoc`, which functions lack
        return magic

    return with_text


def _job_help() -> str:
    from batchai_magics.backends.base.backend_registry import backend_options
    from batchai_magics.cell.cell_options import help_text

    return help_text(backend_options())


def _help() -> str:
    from batchai_magics.commands.parsing.command_parser import parse

    return str(parse(["--help"]))


@magics_class
class BatchAIMagics(Magics):
    """The magics of one shell, and the selection of `%batchai use` in it."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self._namespace: dict[str, Any] = shell.user_ns
        self._selection_lock = threading.Lock()
        self._selected: Context | None = None
        self._lookup: NameLookup | None = None
        self.warm_up_timer = schedule_warm_up()

    @with_help(_job_help)
    @no_var_expand
    @line_cell_magic
    def batchai_job(self, line: str, cell: str = "") -> Job | Sweep | DisplayText | None:
        """Runs the cell as a distributed job. `%batchai_job --help` lists the options."""
        from batchai_magics.cell import Notebook
        from batchai_magics.cell.cell_options import HelpRequested, is_sweep
        from batchai_magics.options.option import DisplayText

        notebook = Notebook(names=self._namespace, job_name=name_of_cell(self._shell))
        try:
            if is_sweep(line):
                return self._run_sweep(line, cell, notebook)
            return self._run_job(line, cell, notebook)
        except HelpRequested as request:
            return DisplayText(request.message)

    def _run_job(self, line: str, cell: str, notebook: Notebook) -> Job | DisplayText | None:
        from batchai_magics.cell import parse

        settings = self.context.settings
        request = parse(line, cell, settings=settings, notebook=notebook)
        _print_notes(request.notes)
        if request.is_dry_run:
            from batchai_magics.commands.output.dry_run import dry_run_text

            return dry_run_text(request, settings)
        from batchai_magics.jobs.submit import submit

        submitted = submit(self.context.backend, request, settings)
        job = submitted.job
        if submitted.note:
            print(submitted.note, file=sys.stderr if submitted.has_ended else sys.stdout)
        self._bind(request.variable, job)
        if not request.is_waiting:
            return job
        from batchai_magics.magics.notebook_output import wait_for_job
        from batchai_magics.widgets import is_text

        wait_for_job(job, self.show, prints_log=is_text(settings.ui))
        return None

    def _run_sweep(self, line: str, cell: str, notebook: Notebook) -> Sweep | DisplayText:
        from batchai_magics.cell.sweep_request import parse_sweep

        settings = self.context.settings
        request = parse_sweep(line, cell, settings=settings, notebook=notebook)
        first = request.first
        _print_notes(first.notes)
        if first.is_dry_run:
            from batchai_magics.commands.output.dry_run import sweep_dry_run_text

            return sweep_dry_run_text(request, settings)
        from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep

        submitted = submit_sweep(self.context.backend, request, settings)
        if submitted.note:
            print(submitted.note)
        self._bind(request.variable, submitted.sweep)
        return submitted.sweep.wait() if first.is_waiting else submitted.sweep

    @with_help(_help)
    @no_var_expand
    @line_magic
    def batchai(self, line: str) -> Any:
        """Runs a command, as in `%batchai job list`. `%batchai -h` lists the commands."""
        return self._run(self._words(line))

    @no_var_expand
    @line_magic
    def az(self, line: str) -> Any:
        """Runs an unmodified line of a tutorial: `%az batchai job list`."""
        from batchai_magics.commands.parsing.command_parser import az_command_words
        from batchai_magics.options.option import DisplayText

        words = az_command_words(self._words(line))
        return words if isinstance(words, DisplayText) else self._run(words)

    @property
    def context(self) -> Context:
        """Settings and backend of this session."""
        with self._selection_lock:  # completion runs in its own thread
            if self._selected is None:
                from batchai_magics.backends.base.backend_registry import load_settings
                from batchai_magics.commands.command_context import Context

                self._selected = Context(load_settings())
            return self._selected

    def show(self, job: Job) -> None:
        """Display a job below the cell, live if possible; after `job.wait()`, which shows it, as one line."""
        if waits_at_end(self._source):
            print(repr(job))
            return
        from batchai_magics.errors import NotFoundError
        from batchai_magics.widgets import show

        names = [name for name, value in self._namespace.items() if value is job and name[:1] != "_"]
        try:
            show(job, ui=self.context.settings.ui, names=names)
        except NotFoundError:  # IPython would print it once per format
            print(repr(job))

    def show_sweep(self, sweep: Sweep) -> None:
        """Display a sweep below the cell, live if possible; after `sweep.wait()`, as one line."""
        if waits_at_end(self._source):
            print(repr(sweep))
            return
        from batchai_magics.widgets import show_sweep

        show_sweep(sweep, ui=self.context.settings.ui)

    def show_dashboard(self, result: LiveResult) -> None:
        """Display a cluster or a list of jobs below the cell, live if possible."""
        from batchai_magics.widgets import show_dashboard

        show_dashboard(result, ui=self.context.settings.ui)

    def show_runs(self, value: Comparison | Scaling) -> None:
        """Display a comparison of runs below the cell, live while a job is running."""
        from batchai_magics.widgets import show_comparison

        show_comparison(value, ui=self.context.settings.ui)

    def complete(self, context: CompletionContext) -> dict[str, Any]:
        """Complete a magic line; empty for any other line."""
        line = context.line_with_cursor[: context.cursor_position]
        settings = self._selected.settings if self._selected else None
        at_cursor = parse_line(line, is_first=context.cursor_line == 0, settings=settings)
        if at_cursor is None:
            return {"completions": []}
        from batchai_magics.commands.parsing.command_completion import NameLookup

        self._lookup = self._lookup or NameLookup(lambda: self.context)
        fragment = at_cursor[1]
        # Without a result, IPython would ask Python's completers.
        texts = completions_for(at_cursor, self._lookup, self._namespace) or [fragment]
        completions = [SimpleCompletion(text, type="magic") for text in texts]
        return {"completions": completions, "suppress": True, "matched_fragment": fragment, "ordered": True}

    @property
    def _source(self) -> str:
        """The source of the running cell; empty if it is not kept in the history."""
        history = self._shell.history_manager
        return history.input_hist_parsed[-1] if history else ""

    def _words(self, line: str) -> list[str]:
        from batchai_magics.options.option_parsing import split_line

        return split_line(line, self._namespace, literal=("--query",))

    def _run(self, words: list[str]) -> Any:
        from batchai_magics.commands.command_runner import (
            CONFIRMATION_MISSING,
            PendingCommand,
            confirmation_preview,
            run,
            with_live_source,
        )
        from batchai_magics.commands.output.command_progress import Stream, run_operation
        from batchai_magics.commands.parsing.command_parser import parse
        from batchai_magics.errors import command_error
        from batchai_magics.magics.notebook_output import print_stream
        from batchai_magics.options.option import DisplayText

        invocation = parse(words, self.context.settings)
        if isinstance(invocation, DisplayText):
            return invocation
        if invocation.needs_confirmation:
            raise command_error(
                "\n".join(
                    filter(None, (confirmation_preview(invocation, self.context), CONFIRMATION_MISSING))
                )
            )
        result = run(invocation, self.context)
        if isinstance(result, Stream):
            return result.in_notebook() if result.in_notebook else print_stream(result)
        if isinstance(result, PendingCommand):
            _print_notes(result.notes)
            result = result.result(run_operation(result.operation, is_shown=True))
        elif not _displays_itself(result, invocation.arguments.output):  # its view contains the notes
            _print_notes(result.notes)
        self._remember_selection(result)
        return _display_value(with_live_source(invocation, result, self.context), invocation.arguments.output)

    def _remember_selection(self, result: Result) -> None:
        from batchai_magics.backends.base.backend_registry import select_settings
        from batchai_magics.commands.command_context import Context
        from batchai_magics.commands.handlers.backend_commands import SettingsChoice

        if isinstance(result.value, SettingsChoice):
            self._selected = Context(result.value.settings)
            select_settings(result.value.settings)
            self._lookup = None  # caches names of the previous selection

    def _bind(self, variable: str, handle: Job | Sweep) -> None:
        """Bind the job or sweep to its variable unless the variable holds something else."""
        value = self._namespace.get(variable)
        if value is None or isinstance(value, type(handle)):
            self._namespace[variable] = handle
            return
        noun, kind = type(handle).__name__.lower(), type(value).__name__
        message = f"{variable} is left unchanged: it holds an object of type {kind}, not a {noun}."
        hint = f"Use --var to choose another variable, or `x = %batchai {noun} show -n {handle.name}`."
        print(message, hint, sep="\n")


def _print_notes(notes: Iterable[str]) -> None:
    """Print notes that accompany a result."""
    for note in notes:
        print(visible_lines(note))  # not to stderr, which notebooks show as an error


def _displays_itself(result: Result, output: str | None) -> bool:
    """Whether the value is displayed by its own view, not as a table or data."""
    from batchai_magics.commands.output.command_result import NotebookDisplay

    return not output and not result.query and isinstance(result.value, NotebookDisplay)


def _display_value(result: Result, output: str | None) -> Any:
    """The value of the line: text for `-o`, data for `--query`, else an object that displays itself."""
    from batchai_magics.commands.output.command_result import ResourceHandle

    if output:
        return result.to_text(output) or None
    if result.value is None or result.query:
        return result.data
    if _displays_itself(result, output):
        return result.value.in_notebook
    return result.value if isinstance(result.value, ResourceHandle) else result


_ON_CELL_LINE = re.compile(r"%%?batchai_job\s+(?P<rest>.*)")
_ON_LINE = re.compile(r"\s*(?:[\w\s,().\[\]]+=\s*)?%(?P<magic>az|batchai)\s+(?P<rest>.*)")


WARM_UP_S = 1.0  # after loading, when a notebook is probably idle
_WARM_UP_MODULES = (
    "cell.cell_options",
    "commands.parsing.command_completion",
    "jobs.submit",
)


def schedule_warm_up() -> threading.Timer:
    """Start a timer that imports in the background what the first completion needs."""
    timer = threading.Timer(WARM_UP_S, _import_warm_up_modules)
    timer.name, timer.daemon = "batchai-warm-up", True
    timer.start()
    return timer


def _import_warm_up_modules() -> None:
    with contextlib.suppress(Exception):  # any error will resurface at the line that needs the module
        for name in _WARM_UP_MODULES:
            importlib.import_module(f"batchai_magics.{name}")
        from batchai_magics.backends.base.backend_registry import import_backend

        import_backend()


def parse_line(line: str, *, is_first: bool, settings: Settings | None = None) -> tuple[Expected, str] | None:
    """Parse a line up to the cursor; the settings name the backends whose options are known.

    Returns:
        The candidates and the fragment being typed; None if it is not one of our lines.
    """
    in_cell = _ON_CELL_LINE.fullmatch(line) if is_first else None
    match = in_cell or _ON_LINE.fullmatch(line)
    if match is None:  # any other line must not import anything
        return None
    from batchai_magics.options.option import split_at_cursor

    parts = split_at_cursor(match["rest"])
    if parts is None:
        return None
    words, fragment = parts
    if in_cell:
        from batchai_magics.backends.base.backend_registry import backend_options
        from batchai_magics.cell.cell_options import expected_in_cell

        return expected_in_cell(words, backend_options(settings)), fragment
    return _expected(match["magic"], words, settings), fragment


def completions_for(
    at_cursor: tuple[Expected, str], lookup: NameLookup, variables: Iterable[str]
) -> list[str]:
    """The matching candidates: words, live names, files, `{variables}`."""
    from batchai_magics.commands.parsing.command_completion import candidates

    expected, fragment = at_cursor
    if fragment.startswith("{"):
        return [f"{{{name}}}" for name in sorted(variables) if f"{{{name}".startswith(fragment)]
    return candidates(expected, fragment, lookup.names(expected))


def _expected(magic: str, words: list[str], settings: Settings | None) -> Expected:
    from batchai_magics.commands.parsing.command_completion import expected_in_line

    if magic == "batchai":
        return expected_in_line(words, settings)
    from batchai_magics.commands.parsing.command_parser import AZ_WORDS
    from batchai_magics.commands.specs.shared_options import PROGRAM
    from batchai_magics.options.option import Expected

    if not words:
        return Expected(AZ_WORDS)
    first, *rest = words
    if first == PROGRAM:
        return expected_in_line(rest, settings)
    return expected_in_line(words, settings) if first in AZ_WORDS else Expected()
