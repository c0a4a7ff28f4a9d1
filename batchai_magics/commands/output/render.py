"""A result as text: one function a format of `-o`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any, Protocol

from batchai_magics.commands.output.table import Table


class Result(Protocol):
    """What can be rendered."""

    @property
    def query(self) -> str | None:
        """The line's `--query`."""

    @property
    def value(self) -> Any:
        """None when there is nothing to tell."""

    @property
    def data(self) -> Any:
        """JSON-ready data."""

    @property
    def table(self) -> Table:
        """The same for people."""


def _json(result: Result) -> str:
    return "" if result.value is None else json.dumps(result.data, indent=2, ensure_ascii=False)


def _table(result: Result) -> str:
    table = result.table.with_capitals() if result.query else result.table
    return "" if result.value is None else table.to_text()


def _tsv(result: Result) -> str:
    items = result.data if isinstance(result.data, list) else [result.data]
    return "" if result.value is None else "\n".join(_tsv_line(item) for item in items)


def _tsv_line(item: Any) -> str:
    if isinstance(item, dict):
        item = list(item.values())
    return "\t".join(_tsv_cell(cell) for cell in item) if isinstance(item, list) else _tsv_cell(item)


def _tsv_cell(value: Any) -> str:
    """A cell as az writes it: a list is its length, an object is nothing, null is `None`."""
    if isinstance(value, list):
        return str(len(value))
    if isinstance(value, dict):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _yaml(result: Result) -> str:
    import yaml

    if result.value is None:
        return ""
    text: str = yaml.safe_dump(result.data, default_flow_style=False, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _csv(result: Result) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.table.titles)
    writer.writerows(result.table.rows)
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
