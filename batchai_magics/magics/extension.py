"""Installs the extension in a shell and removes it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, context_matcher
from IPython.core.getipython import get_ipython

from batchai_magics import user_ports
from batchai_magics.magics.magic_commands import BatchAIMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from batchai_magics.commands.output.command_result import Result
    from batchai_magics.jobs.job_handle import Job
    from batchai_magics.jobs.run_diff import RunDiff


_WIDGETS = "batchai_magics.widgets"
_MATCHER = "batchai_magics"
_JOB_TYPE = ("batchai_magics.jobs.job_handle", "Job")
_RESULT_TYPE = ("batchai_magics.commands.output.command_result", "Result")
_DIFF_TYPE = ("batchai_magics.jobs.run_diff", "RunDiff")
_VIEWS = {  # by type, the method of the magics that displays it
    _JOB_TYPE: "show",
    ("batchai_magics.jobs.sweeps.sweep_handle", "Sweep"): "show_sweep",
    ("batchai_magics.commands.output.command_result", "LiveResult"): "show_dashboard",
    ("batchai_magics.metrics.runs.comparison", "Comparison"): "show_runs",
    ("batchai_magics.metrics.runs.scaling", "Scaling"): "show_runs",
}
_MAGIC_NAMES = {"line": ("batchai", "az", "batchai_job"), "cell": ("batchai_job",)}
_CELL = "%%batchai_job"


def load(ip: InteractiveShell) -> None:
    """Register magics, completion and display of jobs in a shell."""
    magics = BatchAIMagics(ip)
    _register_prompt(ip)
    ip.register_magics(magics)
    ip.input_transformers_cleanup.append(_add_cell_body)
    for type_name, method in _VIEWS.items():
        _displays(ip).for_type_by_name(*type_name, getattr(magics, method))
    _html(ip).for_type_by_name(*_RESULT_TYPE, result_html)
    _displays(ip).for_type_by_name(*_RESULT_TYPE, _hide_empty)
    _html(ip).for_type_by_name(*_DIFF_TYPE, _diff_html)

    def matcher(context: CompletionContext) -> dict[str, Any]:
        return magics.complete(context)

    ip.events.register("post_run_cell", _finalize_views)
    ip.Completer.custom_matchers.append(context_matcher(identifier=_MATCHER)(matcher))


def prepare_notebook() -> None:
    """Display jobs as cards in notebooks that use the package without loading the extension."""
    ip = get_ipython()
    _register_prompt(ip)
    if ip is not None and ip.display_formatter is not None:
        ip.display_formatter.formatters["text/html"].for_type_by_name(*_JOB_TYPE, _card)


def _register_prompt(ip: object) -> None:
    """Let prompts, such as that of a login, appear below the running cell of a notebook."""
    if hasattr(ip, "kernel"):
        user_ports.PROMPT.register(lambda: partial(print, flush=True))


def _card(job: Job) -> str:
    from batchai_magics.cards.job_card import job_html

    return job_html(job)


def _diff_html(diff: RunDiff) -> str:
    from batchai_magics.cards.job_card import run_diff_html

    return run_diff_html(diff)


def result_html(result: Result) -> str:
    """The HTML display of a command's result."""
    from batchai_magics.cards.card_parts import plain_table

    table = result.table
    footers = (footer._repr_html_() for footer in table.footers)
    return "".join((plain_table(table.shown_titles, table.texts), *footers))


def _hide_empty(result: Result) -> None:
    """Displays nothing for an empty result; any other is left to the other formatters."""
    if result.table.rows:
        raise NotImplementedError


def unload(ip: InteractiveShell) -> None:
    """Remove everything that `load` registered."""
    magics = ip.magics_manager.registry.pop(BatchAIMagics.__name__, None)
    if magics is not None:
        magics.warm_up_timer.cancel()
    for kind, names in _MAGIC_NAMES.items():
        for name in names:
            ip.magics_manager.magics[kind].pop(name, None)
    if _finalize_views in ip.events.callbacks["post_run_cell"]:
        ip.events.unregister("post_run_cell", _finalize_views)
    if _WIDGETS in sys.modules:
        sys.modules[_WIDGETS].close_all()
    if _add_cell_body in ip.input_transformers_cleanup:
        ip.input_transformers_cleanup.remove(_add_cell_body)
    for type_name in (*_VIEWS, _RESULT_TYPE):
        _displays(ip).pop(".".join(type_name), None)
    for type_name in (_RESULT_TYPE, _DIFF_TYPE):
        _html(ip).pop(".".join(type_name), None)
    matchers = ip.Completer.custom_matchers
    matchers[:] = [
        matcher for matcher in matchers if getattr(matcher, "matcher_identifier", "") != "batchai_magics"
    ]


def _finalize_views(result: object = None) -> None:
    """Without a page (nbclient), an ended job's card must reach the notebook while a cell runs."""
    if _WIDGETS in sys.modules:
        sys.modules[_WIDGETS].freeze_ended()


def _displays(ip: InteractiveShell) -> Any:
    assert ip.display_formatter is not None, "a shell has one from its start"
    return ip.display_formatter.ipython_display_formatter


def _html(ip: InteractiveShell) -> Any:
    assert ip.display_formatter is not None, "a shell has one from its start"
    return ip.display_formatter.formatters["text/html"]


def _add_cell_body(lines: list[str]) -> list[str]:
    """Add a body to a bare cell magic, which IPython rejects; `--file` and `--help` need none."""
    is_alone = len(lines) == 1 and lines[0].split()[:1] == [_CELL]
    return [lines[0].rstrip("\n") + "\n", "\n"] if is_alone else lines


# A terminal asks after each Enter whether the cell is complete, without such transformers: so it is not
# complete before its body.
setattr(_add_cell_body, "has_side_effects", True)  # noqa: B010  # IPython's attribute, which functions lack
