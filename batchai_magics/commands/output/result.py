"""What a command gave: a value of the package, and its data, table and text, made when asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from batchai_magics.commands.output.table import Table, Tabular, of_data
from batchai_magics.errors import UsageError
from batchai_magics.options.option_help import DisplayText

if TYPE_CHECKING:
    import pandas

    from batchai_magics.backends.base import Backend
    from batchai_magics.models.ids import ResourceId


@runtime_checkable
class Handle(Protocol):
    """Something that stands for a resource, such as a job's handle."""

    def show(self) -> Any:
        """The resource as it stands."""


@runtime_checkable
class Written(Protocol):
    """A value that may be too big for a text in one piece."""

    def json_pieces(self) -> Iterator[str]:
        """Its text as `-o json` prints it."""


@runtime_checkable
class Shown(Protocol):
    """Something that a notebook shows and keeps in a way of its own."""

    @property
    def in_notebook(self) -> Any:
        """What the line gives in a notebook."""


@dataclass(frozen=True, repr=False)
class Result:
    """A handler's value with the line's `--query`.

    In a notebook it shows as a table; `value` is the resource or the list of them, `data` what the
    service would have said, `to_frame()` a DataFrame. A list of resources can be iterated as it is.
    """

    value: Any
    query: str | None = None
    notes: tuple[str, ...] = ()  # what people should know, beside the value

    @cached_property
    def shown(self) -> Any:
        """The value, or for a handle of a job the job as it stands."""
        return self.value.show() if isinstance(self.value, Handle) else self.value

    @cached_property
    def data(self) -> Any:
        """JSON-ready data, after the query."""
        from batchai_magics.commands.output.as_json import as_json

        data = as_json(self.shown)
        return _search(self.query, data) if self.query else data

    @cached_property
    def table(self) -> Table:
        """Its table: the kind's own columns, or the data's fields."""
        if self.query:
            return of_data(self.data, is_query=True)
        if isinstance(self.shown, Tabular):
            return self.shown.to_table()
        from batchai_magics.commands.output.columns import (
            columns_of,
            table_of,
            telling,
        )  # loads the resources

        items = list(self.shown) if isinstance(self.shown, (list, tuple)) else [self.shown]
        columns = columns_of(items[0]) if items else ()
        return table_of(items, [*columns, *telling(items)]) if columns else of_data(self.data)

    def pieces(self, output: str) -> Iterator[str]:
        """The text of `to_text` in pieces, made one after the other where the value can do that."""
        if output == "json" and not self.query and isinstance(self.value, Written):
            yield from self.value.json_pieces()
        else:
            yield self.to_text(output)

    def to_text(self, output: str) -> DisplayText:
        """The result in one of the formats of `-o`, without a newline at the end."""
        from batchai_magics.commands.output.render import RENDERERS

        return DisplayText(RENDERERS[output](self))

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
    """Raises UsageError for what is no JMESPath, before anything is done."""
    if query is not None:
        import jmespath

        with _in_our_words(jmespath):
            jmespath.compile(query)


def _search(query: str, data: Any) -> Any:
    import jmespath

    with _in_our_words(jmespath):
        return jmespath.search(query, data)


@contextlib.contextmanager
def _in_our_words(jmespath: Any) -> Iterator[None]:
    try:
        yield
    except (jmespath.exceptions.JMESPathError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"--query: {error}", hint="It is written in JMESPath, such as [].name.") from None


@dataclass(frozen=True)
class Noted:
    """What a handler gives when it has something to say beside its value."""

    value: Any
    notes: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class LiveResult(Result):
    """A result that also knows where to look again: in a backend, at a cluster or an experiment."""

    backend: Backend = field(kw_only=True)
    id: ResourceId = field(kw_only=True)
