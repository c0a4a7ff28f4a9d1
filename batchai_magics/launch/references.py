"""References in the texts of a Plan: to nodes, addresses and ports that are known only once a job has them.

A text with references is a `Template`: a sequence of literals and references. The program that knows the
values resolves it; nothing is ever searched for in text that a user wrote. Standard library only, like the
Plan, whose file names it travels with.
"""

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Subject(enum.Enum):
    """What a reference is to."""

    NODE = "node"  # its name
    ADDRESS = "address"  # where other nodes reach a node
    PORT = "port"  # a free TCP port
    SCRATCH = "scratch"  # the folder of the run on its nodes' own disks


class Reference(NamedTuple):
    """The name or address of one of the job's nodes, a port, or its scratch folder, by its number from 0."""

    subject: Subject
    number: int


Part = str | Reference


class Template(str):
    """Literals and references in their order.

    It is a `str` because every text of a plan may be one. Its characters are no text, though: they contain
    NUL, which no path, variable or argument accepts, so a template that nobody resolved is never used.
    """

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part]) -> "Template":
        """A template of these parts."""
        given = tuple(parts)
        made = super().__new__(cls, "".join(map(_marked, given)))
        made.parts = given
        return made

    def __format__(self, spec: str) -> str:
        """Refuses to become part of an f-string, which would lose the references: use `joined`."""
        raise TypeError(f"{self.parts} has references that are not resolved: use references.joined")


class Bindings(NamedTuple):
    """The values of references, by their numbers."""

    nodes: Sequence[str] = ()
    addresses: Sequence[str] = ()
    ports: Sequence[int] = ()
    scratch: str = ""

    def value(self, reference: Reference) -> str:
        """The value of a reference."""
        values: Sequence[object] = {
            Subject.NODE: self.nodes,
            Subject.ADDRESS: self.addresses,
            Subject.PORT: self.ports,
            Subject.SCRATCH: (self.scratch,),
        }[reference.subject]
        return str(values[reference.number])


def reference(subject: Subject, number: int) -> Template:
    """The template that consists of one reference."""
    return Template([Reference(subject, number)])


def joined(texts: Iterable[str], separator: str = "") -> str:
    """The texts as one, like `str.join`: a template if one of them is."""
    parts: list[Part] = []
    for number, text in enumerate(texts):
        parts += [separator] if number else []
        parts += text.parts if isinstance(text, Template) else [text]
    return Template(parts) if any(isinstance(part, Reference) for part in parts) else "".join(map(str, parts))


def json_text(value: Any) -> str:
    """The JSON of a value whose texts may be templates; what they stand for needs no escape in JSON."""
    if isinstance(value, Template):
        inner = [part if isinstance(part, Reference) else json.dumps(part)[1:-1] for part in value.parts]
        return Template(['"', *inner, '"'])
    if isinstance(value, dict):
        items = [joined([json.dumps(name), ": ", json_text(item)]) for name, item in value.items()]
        return joined(["{", joined(items, ", "), "}"])
    if isinstance(value, list):
        return joined(["[", joined(map(json_text, value), ", "), "]"])
    return json.dumps(value)


def resolved(value: Any, bindings: Bindings) -> Any:
    """A named tuple, tuple, mapping or text with each reference replaced by its value."""
    if isinstance(value, Template):
        return "".join(part if isinstance(part, str) else bindings.value(part) for part in value.parts)
    if hasattr(value, "_fields"):
        return type(value)(*[resolved(item, bindings) for item in value])
    if isinstance(value, tuple):
        return tuple(resolved(item, bindings) for item in value)
    if isinstance(value, Mapping):
        return {name: resolved(item, bindings) for name, item in value.items()}
    return value


def _marked(part: Part) -> str:
    return part if isinstance(part, str) else f"\0{part.subject.value} {part.number}\0"
