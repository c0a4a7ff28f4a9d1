"""A table and its plain-text form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from batchai_magics.errors import visible

_SKIPPED = ("id", "type", "etag")  # as in `az`, for commands without their own columns


@dataclass(frozen=True)
class Table:
    """Column titles and rows of cells."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_text(self) -> str:
        """The table as aligned text, with a line below the titles as in `az`."""
        return self.aligned(has_rule=True)

    def aligned(self, *, has_rule: bool = False) -> str:
        """The cells as aligned text, numbers right-aligned; `has_rule`: with a line below the titles."""
        if not self.titles:
            return ""
        titles, cells = self.shown_titles, self.texts
        widths = [max(len(line[i]) for line in [titles, *cells]) for i in range(len(titles))]
        rule = [["-" * width for width in widths]] if has_rule else []
        lines = []
        for line in [titles, *rule, *cells]:
            columns = zip(line, widths, self.numeric, strict=True)
            padded = [text.rjust(width) if right else text.ljust(width) for text, width, right in columns]
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    @cached_property
    def numeric(self) -> Sequence[bool]:
        """Whether a column has numbers alone, by column."""
        return [all(_is_number_or_none(row[i]) for row in self.rows) for i in range(len(self.titles))]

    def with_capitals(self) -> Table:
        """The same with capitalized titles, as `az` prints query results."""
        return Table(tuple(title[:1].upper() + title[1:] for title in self.titles), self.rows)

    @cached_property
    def shown_titles(self) -> tuple[str, ...]:
        """The titles as display text: some are names of metrics and parameters, which a job chooses."""
        return tuple(map(visible, self.titles))

    @cached_property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The cells as display text."""
        return tuple(
            tuple("" if value is None else visible(str(value)) for value in row) for row in self.rows
        )

    @property
    def footers(self) -> Sequence[Any]:
        """Objects that a notebook displays below the table."""
        return ()


@runtime_checkable
class Tabular(Protocol):
    """A value that provides its own data and table."""

    def to_data(self) -> Any:
        """JSON-ready data."""

    def to_table(self) -> Table:
        """The same for people."""


def table_of_data(data: Any, *, is_query: bool = False) -> Table:
    """A table of JSON data: an object's scalar fields, a list's items, or a single value."""
    items = data if isinstance(data, list) else [data]
    if not items:
        return Table((), ())
    if _are_all(items, Mapping):
        rows = [_scalars(item, is_query=is_query) for item in items]
        titles = tuple(dict.fromkeys(title for row in rows for title in row))
        return Table(titles, tuple(tuple(row.get(title, "") for title in titles) for row in rows))
    if _are_all(items, list):
        width = max(map(len, items))
        titles = tuple(f"Column{number + 1}" for number in range(width))
        return Table(titles, tuple((*row, *[""] * (width - len(row))) for row in items))
    return Table(("Result",), tuple((item,) for item in items))


def _are_all(items: Sequence[Any], kind: type) -> bool:
    return all(isinstance(item, kind) for item in items)


def _scalars(item: Mapping[str, Any], *, is_query: bool) -> dict[str, Any]:
    if is_query:  # keep keys and nulls; nested values have no cell
        return {key: value for key, value in item.items() if not isinstance(value, (dict, list))}
    scalars = {key: value for key, value in item.items() if not isinstance(value, (dict, list, type(None)))}
    return {key[:1].upper() + key[1:]: value for key, value in sorted(scalars.items()) if key not in _SKIPPED}


def _is_number_or_none(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
