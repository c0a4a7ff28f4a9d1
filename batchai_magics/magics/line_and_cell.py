"""`%%batchai_job`, `%batchai` and `%az`: parse, call, display."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.completer import CompletionContext, SimpleCompletion
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand

from batchai_magics.magics.completion import offers, warming_up, written

Magic = TypeVar("Magic", bound=Callable[..., Any])

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from batchai_magics.commands.context import Context
    from batchai_magics.commands.output.result import LiveResult, Result
    from batchai_magics.commands.parsing.completion import Lookup
    from batchai_magics.jobs.handle import Job
    from batchai_magics.metrics import Comparison, Scaling
    from batchai_magics.options.option_help import DisplayText


def explained(text: Callable[[], str]) -> Callable[[Magic], Magic]:
    """Has `%%magic?` show a text, made when it is asked for."""

    def with_text(magic: Magic) -> Magic:
        setattr(magic, "getdoc", text)  # noqa: B010  # functions have no such attribute: IPython looks for it
        return magic

    return with_text


def _job_help() -> str:
    from batchai_magics.cell.options import help_text

    return help_text()


def _help() -> str:
    from batchai_magics.commands.parsing.parse import parse

    return str(parse(["--help"]))


@magics_class
class BatchAIMagics(Magics):
    """The magics of one shell, and what `%batchai use` has chosen in it."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self._namespace: dict[str, Any] = shell.user_ns
        self._choosing = threading.Lock()
        self._chosen: Context | None = None
        self._lookup: Lookup | None = None
        self.warming_up = warming_up()

    @explained(_job_help)
    @no_var_expand
    @line_cell_magic
    def batchai_job(self, line: str, cell: str = "") -> Job | DisplayText | None:
        """Runs the cell as a distributed job. `%batchai_job --help` lists the options."""
        from batchai_magics.cell import parse
        from batchai_magics.cell.options import HelpRequested
        from batchai_magics.magics.cell_name import name_of_cell
        from batchai_magics.magics.following import tell
        from batchai_magics.options.option_help import DisplayText

        settings = self.context.settings
        try:
            name = name_of_cell(self._shell)
            request = parse(line, cell, settings=settings, names=self._namespace, default_name=name)
        except HelpRequested as asked:
            return DisplayText(asked.message)
        tell(request.notes)
        if request.is_dry_run:
            from batchai_magics.commands.output.preview import preview

            return preview(request, settings)
        from batchai_magics.jobs.submit import submit

        submitted = submit(self.context.backend, request, settings)
        job = submitted.job
        if submitted.note:
            print(submitted.note)
        self._bind(request.variable, job)
        if not request.is_waiting:
            return job
        self._wait(job)
        return None

    @explained(_help)
    @no_var_expand
    @line_magic
    def batchai(self, line: str) -> Any:
        """Runs a command, as in `%batchai job list`. `%batchai -h` lists the commands."""
        return self._run(self._words(line))

    @no_var_expand
    @line_magic
    def az(self, line: str) -> Any:
        """Runs a tutorial's line as it stands: `%az batchai job list`."""
        from batchai_magics.commands.parsing.parse import of_az
        from batchai_magics.options.option_help import DisplayText

        words = of_az(self._words(line))
        return words if isinstance(words, DisplayText) else self._run(words)

    @property
    def context(self) -> Context:
        """The settings and the backend of this session."""
        with self._choosing:  # TAB asks from a thread of its own
            if self._chosen is None:
                from batchai_magics.backends.base.registry import load_settings
                from batchai_magics.commands.context import Context

                self._chosen = Context(load_settings())
            return self._chosen

    def show(self, job: Job) -> None:
        """Shows a job beneath the cell, live where that is possible."""
        from batchai_magics.widgets import show

        show(job, ui=self.context.settings.ui)

    def show_dashboard(self, result: LiveResult) -> None:
        """Shows a cluster or a list of jobs beneath the cell, live where that is possible."""
        from batchai_magics.widgets import show_dashboard

        show_dashboard(result, ui=self.context.settings.ui)

    def show_runs(self, value: Comparison | Scaling) -> None:
        """Shows runs side by side beneath the cell, live while a job of them runs."""
        from batchai_magics.widgets import show_comparison

        show_comparison(value, ui=self.context.settings.ui)

    def complete(self, context: CompletionContext) -> dict[str, Any]:
        """What TAB offers on a magic line; nothing anywhere else."""
        line = context.line_with_cursor[: context.cursor_position]
        at_cursor = written(line, is_first=context.cursor_line == 0)
        if at_cursor is None:
            return {"completions": []}
        from batchai_magics.commands.parsing.completion import Lookup

        self._lookup = self._lookup or Lookup(self)
        fragment = at_cursor[1]
        # Without any offer IPython would ask Python's completers, which know nothing of this line.
        texts = offers(at_cursor, self._lookup, self._namespace) or [fragment]
        completions = [SimpleCompletion(text, type="magic") for text in texts]
        return {"completions": completions, "suppress": True, "matched_fragment": fragment, "ordered": True}

    def _words(self, line: str) -> list[str]:
        from batchai_magics.options.option_parsing import split_line

        return split_line(line, self._namespace, literal=("--query",))

    def _run(self, words: list[str]) -> Any:
        from batchai_magics.commands.output.operation import carry_out
        from batchai_magics.commands.output.stream import Stream
        from batchai_magics.commands.parsing.parse import parse
        from batchai_magics.commands.run import CONFIRMATION_MISSING, Pending, preview, run, with_place
        from batchai_magics.errors import command_error
        from batchai_magics.magics.following import follow, tell
        from batchai_magics.options.option_help import DisplayText

        invocation = parse(words)
        if isinstance(invocation, DisplayText):
            return invocation
        if invocation.is_to_confirm:
            raise command_error(
                "\n".join(filter(None, (preview(invocation, self.context), CONFIRMATION_MISSING)))
            )
        result = run(invocation, self.context)
        if isinstance(result, Stream):
            return follow(result)
        if isinstance(result, Pending):
            tell(result.notes)
            result = result.result(carry_out(result.operation, is_shown=True))
        else:
            tell(result.notes)
        self._keep_choice(result)
        return _presented(with_place(invocation, result, self.context), invocation.arguments.output)

    def _keep_choice(self, result: Result) -> None:
        from batchai_magics.commands.context import Context
        from batchai_magics.commands.handlers.use import Choice

        if isinstance(result.value, Choice):
            self._chosen = Context(result.value.settings)
            self._lookup = None  # what it knows belongs to the last choice

    def _bind(self, variable: str, job: Job) -> None:
        """Gives the job its name in the notebook, unless the name holds something else."""
        held = self._namespace.get(variable)
        if held is None or isinstance(held, type(job)):
            self._namespace[variable] = job
            return
        message = f"{variable} stays as it is: it holds an object of type {type(held).__name__}, not a job."
        hint = f"Use --var to name the job otherwise, or `x = %batchai job show -n {job.name}`."
        print(message, hint, sep="\n")

    def _wait(self, job: Job) -> None:
        """Shows the job and blocks until it has ended; fails the cell if the job failed."""
        from batchai_magics.magics.following import wait
        from batchai_magics.widgets import is_text

        wait(job, self.show, is_told=is_text(self.context.settings.ui))


def _presented(result: Result, output: str | None) -> Any:
    """What the line gives in a notebook: text for `-o`, data for `--query`, else what shows itself."""
    from batchai_magics.commands.output.result import Handle, Shown

    if output:
        return result.to_text(output) or None
    if result.value is None or result.query:
        return result.data
    if isinstance(result.value, Shown):
        return result.value.in_notebook
    return result.value if isinstance(result.value, Handle) else result
