"""Brings generated parts of pages up to date: tables of options, settings and commands, example code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from batchai_magics.backends.azureml.job_creation import ALWAYS, ON_CLUSTERS, REQUIRED, SECRETS
from batchai_magics.backends.base.backend_registry import BACKENDS
from batchai_magics.cell.cell_options import cell_options
from batchai_magics.commands.parsing.command_parser import SHELL_WORDS
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.config import Settings, environment_variable, general_settings
from batchai_magics.models.backend_options import declared_by
from batchai_magics.options.option import Option

HERE = Path(__file__).parent
SCHEMAS = HERE / "output-schemas.json"
_NAMES = ("options", "commands", "settings", "add-a-runner", "json-output", "azureml")
PAGES = tuple(HERE / f"{name}.md" for name in _NAMES)

Schema = Mapping[str, Any]


def main() -> None:
    """Brings the tables up to date."""
    for page in PAGES:
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


def updated(text: str) -> str:
    """A page with its tables as they must be."""
    tables = {"options": options(), "commands": commands(), "settings": settings()}
    tables |= {"schemas": schemas(), "refused": refused()}
    for name, table in tables.items():
        part = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        text = part.sub(lambda match, table=table: match[1] + table + match[2], text)
    return re.sub(r"(# example: docs/(\S+)\n).*?(# end\n)", _with_example, text, flags=re.DOTALL)


def _with_example(match: re.Match[str]) -> str:
    return match[1] + (HERE / match[2]).read_text(encoding="utf-8") + match[3]


def refused() -> str:
    """The fields that Azure Machine Learning cannot honour, with what to do instead."""
    always, consent = (ALWAYS, ""), (SECRETS, ", without consent")
    when = (always, consent, (REQUIRED, " is missing"), (ON_CLUSTERS, ", on a cluster"))
    rows = ((f"`{field}`{note}", text) for fields, note in when for field, text in fields.items())
    return _table(("field of a job", "what to do"), rows)


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


def schemas() -> str:
    """What each command prints, then the fields of each result."""
    documented = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    rows = ((f"`{words}`", type_text(schema)) for words, schema in documented["commands"].items())
    parts = ["## Commands\n", _table(("command", "prints"), rows), "## Results\n"]
    for name, schema in documented["$defs"].items():
        parts += [f"### {name}\n", *_definition(schema)]
    return "\n".join(parts)


def _definition(schema: Schema) -> Iterator[str]:
    if "description" in schema:
        yield f"{schema['description']}\n"
    if rows := [row for one in schema.get("oneOf", (schema,)) for row in _fields(one)]:
        yield _table(("field", "is"), rows)
    elif schema["type"] != "null":
        yield f"{type_text(schema).capitalize()}.\n"


def _fields(schema: Schema, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The fields of an object, those of objects within it behind a dot."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        presence = "" if name in required else "; may be missing"
        yield f"`{prefix}{name}`", f"{type_text(field)}{presence}"
        yield from _fields(_inner_object(field), f"{prefix}{name}.")


def _inner_object(schema: Schema) -> Schema:
    """The object that is a value, one of its alternatives, or an item or value of it."""
    inner = next((one for one in schema.get("anyOf", ()) if "properties" in one), schema)
    further = inner.get("items") or inner.get("additionalProperties")
    return inner if "properties" in inner or not isinstance(further, dict) else _inner_object(further)


def type_text(schema: Schema) -> str:
    """A type in words, with links to the results it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(type_text, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ", ".join(f"`{json.dumps(value)}`" for value in values)
    types = schema.get("type", "any value")
    return " or ".join(_type_name(each, schema) for each in ([types] if isinstance(types, str) else types))


def _type_name(name: str, schema: Schema) -> str:
    items, values = schema.get("items"), schema.get("additionalProperties")
    if name == "array" and items:
        return f"list of {type_text(items)}"
    if name == "object" and isinstance(values, dict):
        return f"object whose values are {type_text(values)}"
    return "time" if schema.get("format") == "date-time" and name == "string" else name


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    escaped = (tuple(cell.replace("|", r"\|").replace("<", r"\<") for cell in row) for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *escaped))


if __name__ == "__main__":
    main()
