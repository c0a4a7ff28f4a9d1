"""The result of a command: a value, with its data, table and text in each format of `-o`, or a chart."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from json.encoder import encode_basestring
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from batchai_magics.commands.output.text_table import Table, Tabular, table_of_data
from batchai_magics.errors import UsageError, visible
from batchai_magics.options.option import DisplayText

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from batchai_magics.backends.base import Backend
    from batchai_magics.models.resource_ids import ResourceId

# Characters that are valid in JSON but invisible in a terminal.
_HIDDEN_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, repr=False)
class ChartResult:
    """A chart and the file it was saved to, if any. Notebooks display it as an image."""

    axes: Axes
    path: Path | None = None

    @classmethod
    def of(cls, axes: Axes, path: Path | None) -> ChartResult:
        """The chart, saved to `path` if given."""
        from batchai_magics.metrics.charts.figure import save_figure  # only charts load metrics

        return cls(axes, save_figure(axes, path) if path else None)

    @property
    def in_notebook(self) -> ChartResult:
        """The chart itself."""
        return self

    def to_data(self) -> Any:
        """The file's path; raises UsageError for a chart without a file, which only a notebook can show."""
        if self.path is None:
            raise UsageError("the chart has no file to go to", hint="Name one: -o chart.svg (or .pdf, .png).")
        return {"file": str(self.path)}

    def to_table(self) -> Table:
        """The file's path."""
        return Table(("File",), ((self.to_data()["file"],),))

    def __repr__(self) -> str:
        return str(self.path or "a chart")

    def _repr_png_(self) -> bytes:
        from batchai_magics.metrics.charts.figure import figure_png

        return figure_png(self.axes)


@runtime_checkable
class ResourceHandle(Protocol):
    """A handle of a resource, such as a Job."""

    def show_with_cost(self) -> Any:
        """The current resource, with its cost."""


@runtime_checkable
class StreamedData(Protocol):
    """A value whose JSON may be too large to be in memory as a whole."""

    def streamed_data(self) -> Any:
        """JSON-ready data, in which iterators stand for long lists."""


@runtime_checkable
class Summarized(Protocol):
    """Jobs that are printed as their summaries unless the JSON of `az` is requested."""

    def to_summaries(self) -> Any:
        """JSON-ready data."""


@runtime_checkable
class NotebookDisplay(Protocol):
    """A value with its own notebook representation."""

    @property
    def in_notebook(self) -> Any:
        """The object that the cell returns in a notebook."""


@runtime_checkable
class TextResult(Protocol):
    """A value that a terminal shows as text, unless `-o` asks for a format."""

    @property
    def terminal_text(self) -> str:
        """The text, safe for a terminal."""


@dataclass(frozen=True, repr=False)
class Result:
    """A handler's value with the line's `--query`.

    Notebooks display it as a table. `value` is the resource or the list of them, `data` its JSON as the
    command prints it, `to_frame()` a DataFrame. Iterating goes over the list.
    """

    value: Any
    query: str | None = None
    notes: tuple[str, ...] = ()  # messages beside the value
    is_summary: bool = False  # jobs are printed as their summaries, not in the JSON of `az`

    @cached_property
    def resolved(self) -> Any:
        """The value; for handles, the current resources."""
        values = self.value if type(self.value) is list else [self.value]
        resources = [
            value.show_with_cost() if isinstance(value, ResourceHandle) else value for value in values
        ]
        return resources if values is self.value else resources[0]

    @cached_property
    def data(self) -> Any:
        """JSON-ready data, after the query."""
        from batchai_magics.commands.output.resource_json import as_json

        if not self.is_summary:
            data = as_json(self.resolved)
        elif isinstance(self.value, Summarized):
            data = self.value.to_summaries()
        else:
            from batchai_magics.commands.output.job_summary import summary_of

            data = summary_of(self.value)
        if not self.query:
            return data
        import jmespath

        with _translate_query_errors(jmespath):
            return jmespath.search(self.query, data)

    @cached_property
    def table(self) -> Table:
        """The table: the columns of the type, else the fields of the data."""
        if self.query:
            return table_of_data(self.data, is_query=True)
        if isinstance(self.resolved, Tabular):
            return self.resolved.to_table()
        from batchai_magics.commands.output.table_columns import (  # imports the resources
            columns_of,
            extra_columns,
            table_of,
        )

        items = list(self.resolved) if isinstance(self.resolved, (list, tuple)) else [self.resolved]
        columns = columns_of(items[0]) if items else ()
        return table_of(items, [*columns, *extra_columns(items)]) if columns else table_of_data(self.data)

    def text_pieces(self, output: str) -> Iterator[str]:
        """Yields the text of `to_text`, the JSON of streamed data piece by piece."""
        is_whole = not (self.query or self.is_summary)
        if output == "json" and is_whole and isinstance(self.value, StreamedData):
            yield from map(escaped_json, json_pieces(self.value.streamed_data()))
        else:
            yield self.to_text(output)

    def to_text(self, output: str) -> DisplayText:
        """The result in one of the formats of `-o`, without a trailing newline."""
        return DisplayText("" if self.value is None else RENDERERS[output](self))

    def to_frame(self) -> pandas.DataFrame:
        """The table as a DataFrame."""
        import pandas

        return pandas.DataFrame(list(self.table.rows), columns=list(self.table.titles))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value if isinstance(self.value, (list, tuple)) else [self.value])

    def __len__(self) -> int:
        return len(self.value) if isinstance(self.value, (list, tuple)) else 1

    def __getitem__(self, index: int) -> Any:
        return list(self)[index]

    def __repr__(self) -> str:
        return self.table.to_text() or "(nothing)"


def check_query(query: str | None) -> None:
    """Raises UsageError for an invalid JMESPath query, before the command runs."""
    if query is not None:
        import jmespath

        with _translate_query_errors(jmespath):
            jmespath.compile(query)


@contextlib.contextmanager
def _translate_query_errors(jmespath: Any) -> Iterator[None]:
    try:
        yield
    except (jmespath.exceptions.JMESPathError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"--query: {error}", hint="It is written in JMESPath, such as [].name.") from None


@dataclass(frozen=True)
class TableResult:
    """Data, and the table of it for people."""

    data: Any
    table: Table

    def to_data(self) -> Any:
        """JSON-ready data."""
        return self.data

    def to_table(self) -> Table:
        """The same for people."""
        return self.table


@dataclass(frozen=True)
class ReportResult(TableResult):
    """Data, table and text of a value that displays itself in a notebook."""

    in_notebook: Any
    terminal_text: str


@dataclass(frozen=True)
class ValueWithNotes:
    """A handler's value with messages for the user."""

    value: Any
    notes: tuple[str, ...]


class SelectedJobs(NamedTuple):
    """The names of the jobs that a line selects, and the options that select them."""

    names: frozenset[str]
    options: str


@dataclass(frozen=True, repr=False)
class LiveResult(Result):
    """A result with the backend and the id of the cluster or experiment that a live view polls.

    For an experiment, `selected` are the jobs that the view shows; None for all.
    """

    backend: Backend = field(kw_only=True)
    id: ResourceId = field(kw_only=True)
    selected: SelectedJobs | None = field(default=None, kw_only=True)


def _json(result: Result) -> str:
    return escaped_json(indented_json(result.data))


def indented_json(data: Any, line: str = "\n") -> str:
    """The text of `json.dumps(data, indent=2, ensure_ascii=False)`, which takes almost twice as long.

    Args:
        data: JSON-ready data.
        line: What begins a line: a line break and the indentation of the data.
    """
    if isinstance(data, str):
        return encode_basestring(data)
    if not (data and isinstance(data, (dict, list, tuple))):
        return json.dumps(data)
    inner = f"{line}  "
    if isinstance(data, dict):
        pairs = [
            f"{encode_basestring(name if isinstance(name, str) else json.dumps(name))}:"
            f" {'null' if value is None else indented_json(value, inner)}"
            for name, value in data.items()
        ]
        return f"{{{inner}{f',{inner}'.join(pairs)}{line}}}"
    return f"[{inner}{f',{inner}'.join([indented_json(item, inner) for item in data])}{line}]"


def json_pieces(data: Any, line: str = "\n") -> Iterator[str]:
    """Yields the JSON of data; an iterator in it, or in its objects, is an array and read item by item.

    Args:
        data: JSON-ready data, with iterators.
        line: What begins a line: a line break and the indentation of the data.
    """
    items: Iterator[tuple[str, Any]]
    if isinstance(data, Iterator):
        brackets, items = "[]", (("", item) for item in data)
    elif isinstance(data, dict) and any(isinstance(value, Iterator) for value in data.values()):
        brackets = "{}"
        items = ((f"{json.dumps(key, ensure_ascii=False)}: ", value) for key, value in data.items())
    else:
        yield indented_json(data, line)
        return
    begin = brackets[0]
    for name, value in items:
        yield f"{begin}{line}  {name}"
        yield from json_pieces(value, f"{line}  ")
        begin = ","
    yield f"{line}{brackets[1]}" if begin == "," else brackets


def escaped_json(text: str) -> str:
    """Escapes characters in JSON that a terminal would not show."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _HIDDEN_IN_JSON.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _table(result: Result) -> str:
    return (result.table.with_capitals() if result.query else result.table).to_text()


def _tsv(result: Result) -> str:
    lines = []
    for item in result.data if isinstance(result.data, list) else [result.data]:
        cells = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else [item]
        lines.append("\t".join(map(_tsv_cell, cells)))
    return "\n".join(lines)


def _tsv_cell(value: Any) -> str:
    """A cell as `az` prints it: the length of a list, nothing for an object, `None` for null."""
    if isinstance(value, list):
        return str(len(value))
    if isinstance(value, dict):
        return ""
    return str(value).lower() if isinstance(value, bool) else visible(str(value))


def _yaml(result: Result) -> str:
    import yaml

    is_plain = not _HIDDEN_IN_JSON.search(json.dumps(result.data, ensure_ascii=False))
    text: str = yaml.safe_dump(result.data, default_flow_style=False, allow_unicode=is_plain, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _csv(result: Result) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(visible, result.table.titles))
    writer.writerows(
        [visible(cell) if isinstance(cell, str) else cell for cell in row] for row in result.table.rows
    )
    return text.getvalue().removesuffix("\n")


RENDERERS: dict[str, Callable[[Result], str]] = {
    "json": _json,
    "jsonc": _json,
    "none": lambda result: "",
    "table": _table,
    "tsv": _tsv,
    "yaml": _yaml,
    "csv": _csv,
}
