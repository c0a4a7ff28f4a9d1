"""Help texts: aligned rows of names and descriptions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from batchai_magics.options.option import Option, ValueKind

_WIDTH = 100


class DisplayText(str):
    """Text that a notebook displays verbatim instead of as a quoted string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def section(title: str, rows: Mapping[str, str]) -> str:
    """Rows under a heading in the layout of `az`; empty without rows."""
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [title]
    for name, text in rows.items():
        first = f"    {name.ljust(width)} : "
        lines += textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
    return "\n".join(lines) + "\n"


def option_sections(options: Sequence[Option]) -> list[str]:
    """The options under their headings."""
    sections: dict[str, dict[str, str]] = {}
    for option in options:
        sections.setdefault(option.section, {})[_flags(option)] = _meaning(option)
    return [section(title, rows) for title, rows in sections.items()]


def option_lines(options: Sequence[Option]) -> list[str]:
    """One line per option with the name of its value: `  --nodes N   number of nodes (1)`."""
    rows = {usage(option): option.help for option in options}
    width = max(map(len, rows))
    return [f"  {name:<{width}}  {meaning}" for name, meaning in rows.items()]


def usage(option: Option) -> str:
    """The syntax of an option: `--upload FILE …`."""
    many = " …" if option.value_kind is ValueKind.MANY or option.is_repeatable else ""
    return f"{option.flags[0]} {option.metavar}{many}".rstrip()


def _flags(option: Option) -> str:
    required = " [Required]" if option.is_required else ""
    return " ".join(option.flags) + required


def _meaning(option: Option) -> str:
    parts = [option.help]
    if option.choices:
        parts.append(f"Allowed values: {', '.join(option.choices)}.")
    if option.default is not None and option.value_kind is not ValueKind.NOTHING:
        parts.append(f"Default: {option.default}")
    return " ".join(parts)
