"""Brings generated parts of pages up to date: tables of options, settings and commands, example code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from batchai_magics.backends.base.backend_registry import BACKENDS
from batchai_magics.cell.cell_options import cell_options
from batchai_magics.commands.parsing.command_parser import SHELL_WORDS
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.config import Settings, environment_variable, general_settings
from batchai_magics.models.backend_options import declared_by
from batchai_magics.options.option import Option

HERE = Path(__file__).parent
PAGES = tuple(HERE / f"{name}.md" for name in ("options", "commands", "settings", "add-a-runner"))


def main() -> None:
    """Brings the tables up to date."""
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


def updated(text: str) -> str:
    """A page with its tables as they must be."""
    for name, table in {"options": options(), "commands": commands(), "settings": settings()}.items():
        part = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        text = part.sub(lambda match, table=table: match[1] + table + match[2], text)
    return re.sub(r"(# example: docs/(\S+)\n).*?(# end\n)", _with_example, text, flags=re.DOTALL)


def _with_example(match: re.Match[str]) -> str:
    return match[1] + (HERE / match[2]).read_text(encoding="utf-8") + match[3]


def options() -> str:
    """The options of `%%batchai_job` that work now."""
    declared = declared_by(map(BACKENDS.settings_type, BACKENDS.builtin))
    shown = ((f"`{f'{o.flags[0]} {o.metavar}'.strip()}`", _meaning(o)) for o in cell_options(declared))
    return _table(("option", "gives"), shown)


def commands() -> str:
    """Every command; those of the shell alone come first."""
    rows = {f"batchai {name}": text for name, text in SHELL_WORDS.items()}
    rows |= {command.words: command.summary for command in COMMANDS}
    return _table(("command", "does"), ((f"`{words}`", text) for words, text in rows.items()))


def settings() -> str:
    """Every setting: the general ones, then each backend's own."""
    rows = [_setting(item, "") for item in general_settings()]
    for name in BACKENDS.builtin:
        rows += [_setting(item, name) for item in fields(BACKENDS.settings_type(name) or Settings)]
    return _table(("setting", "variable", "default", "is"), rows)


def _setting(item: Field[Any], backend: str) -> tuple[str, ...]:
    default = "" if item.default in ("", MISSING) else f"`{item.default}`"
    full_name = f"{backend}.{item.name}" if backend else item.name
    return f"`{full_name}`", f"`{environment_variable(item.name, backend)}`", default, item.metadata["help"]


def _meaning(option: Option) -> str:
    return f"{option.help}: {', '.join(option.choices)}" if option.choices else option.help


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    escaped = (tuple(cell.replace("|", r"\|").replace("<", r"\<") for cell in row) for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *escaped))


if __name__ == "__main__":
    main()
