"""Renders a result as text: one function per format of `-o`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from batchai_magics.errors import visible

if TYPE_CHECKING:
    from batchai_magics.commands.output.text_table import Table


# Characters that are valid in JSON but invisible in a terminal.
_HIDDEN_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"(?P<name>{_STRING}(?=\s*:))|(?P<text>{_STRING})|(?P<value>\b(?:true|false|null)\b|-?\d[\d.eE+-]*)"
)
_COLORS = {"name": 34, "text": 32, "value": 35}  # blue, green, magenta


class RenderedResult(Protocol):
    """What can be rendered."""

    @property
    def query(self) -> str | None:
        """The line's `--query`."""

    @property
    def value(self) -> Any:
        """The value; None without output."""

    @property
    def data(self) -> Any:
        """JSON-ready data."""

    @property
    def table(self) -> Table:
        """The same for people."""


def _json(result: RenderedResult) -> str:
    if result.value is None:
        return ""
    return escaped_json(json.dumps(result.data, indent=2, ensure_ascii=False))


def escaped_json(text: str) -> str:
    """Escapes characters in JSON that a terminal would not show."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _HIDDEN_IN_JSON.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _table(result: RenderedResult) -> str:
    table = result.table.with_capitals() if result.query else result.table
    return "" if result.value is None else table.to_text()


def _tsv(result: RenderedResult) -> str:
    items = result.data if isinstance(result.data, list) else [result.data]
    return "" if result.value is None else "\n".join(_tsv_line(item) for item in items)


def _tsv_line(item: Any) -> str:
    if isinstance(item, dict):
        item = list(item.values())
    return "\t".join(_tsv_cell(cell) for cell in item) if isinstance(item, list) else _tsv_cell(item)


def _tsv_cell(value: Any) -> str:
    """A cell as `az` prints it: the length of a list, nothing for an object, `None` for null."""
    if isinstance(value, list):
        return str(len(value))
    if isinstance(value, dict):
        return ""
    return str(value).lower() if isinstance(value, bool) else visible(str(value))


def _yaml(result: RenderedResult) -> str:
    import yaml

    if result.value is None:
        return ""
    is_plain = not _HIDDEN_IN_JSON.search(json.dumps(result.data, ensure_ascii=False))
    text: str = yaml.safe_dump(result.data, default_flow_style=False, allow_unicode=is_plain, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _csv(result: RenderedResult) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(visible, result.table.titles))
    writer.writerows(
        [visible(cell) if isinstance(cell, str) else cell for cell in row] for row in result.table.rows
    )
    return text.getvalue().removesuffix("\n")


RENDERERS: dict[str, Callable[[RenderedResult], str]] = {
    "json": _json,
    "jsonc": _json,
    "none": lambda result: "",
    "table": _table,
    "tsv": _tsv,
    "yaml": _yaml,
    "csv": _csv,
}


def colored(json: str) -> str:
    """The JSON text with ANSI colors around names, strings and other values."""
    return _TOKEN.sub(lambda token: f"\x1b[{_COLORS[str(token.lastgroup)]}m{token[0]}\x1b[0m", json)
