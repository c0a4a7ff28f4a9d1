"""References in the texts of a Plan: to nodes, ports and devices that are not known yet, and to variables.

A text with references is a `Template`: a sequence of literals and references, resolved by the program that
knows the values. User text is never searched for placeholders, only for `$NAME` and `${NAME}`. Standard
library only, because it is copied with the Plan.
"""

import bisect
import enum
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")
_VARIABLE = r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))"


class ReferenceKind(enum.Enum):
    """What a reference refers to."""

    NODE = "node"
    ADDRESS = "address"  # where other nodes reach it
    PORT = "port"  # a free TCP port
    SCRATCH = "scratch"  # the run's folder on the disks of its nodes
    DEVICES = "devices"  # its GPUs, as CUDA_VISIBLE_DEVICES names them
    THREADS = "threads"  # the threads of each process
    TEXT = "text"  # a text of the plan that many of its variables contain


class Reference(NamedTuple):
    """A node's name, address or GPUs, a port, a shared text, or what all nodes have; by number from 0."""

    subject: ReferenceKind
    number: int


Part = str | Reference


class Template(str):
    """A sequence of literals and references.

    It is a `str` because any text of a plan may be one. Its characters contain NUL, which no path, variable
    or argument accepts, so an unresolved template cannot be used by accident.
    """

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part]) -> "Template":
        """Make a template of these parts."""
        content = tuple(parts)
        marked = (
            part if isinstance(part, str) else f"\0{part.subject.value} {part.number}\0" for part in content
        )
        template = super().__new__(cls, "".join(marked))
        template.parts = content
        return template

    def __format__(self, spec: str) -> str:
        """Reject f-strings, which would lose the references: use `joined`."""
        raise TypeError(f"{self.parts} has references that are not resolved: use references.joined")


class Bindings(NamedTuple):
    """The values of references, by number."""

    nodes: Sequence[str] = ()
    addresses: Sequence[str] = ()
    ports: Sequence[int] = ()
    scratch: str = ""
    devices: Sequence[str] = ()
    threads: int = 1
    texts: Sequence[str] = ()

    def of_nodes(self, numbers: Sequence[int]) -> "Bindings":
        """The same for some of the nodes."""
        nodes, addresses, devices = (
            [values[number] for number in numbers if number < len(values)]
            for values in (self.nodes, self.addresses, self.devices)
        )
        return self._replace(nodes=nodes, addresses=addresses, devices=devices)

    def value(self, reference: Reference) -> str:
        """The value of a reference."""
        values: Sequence[object] = {
            ReferenceKind.NODE: self.nodes,
            ReferenceKind.ADDRESS: self.addresses,
            ReferenceKind.PORT: self.ports,
            ReferenceKind.SCRATCH: (self.scratch,),
            ReferenceKind.DEVICES: self.devices,
            ReferenceKind.THREADS: (self.threads,),
            ReferenceKind.TEXT: self.texts,
        }[reference.subject]
        return str(values[reference.number])


def reference(subject: ReferenceKind, number: int) -> Template:
    """A template with a single reference."""
    return Template([Reference(subject, number)])


def references(subject: ReferenceKind, count: int) -> tuple[Template, ...]:
    """The first references of a kind, each a template."""
    return tuple(reference(subject, number) for number in range(count))


class SharedTexts(list[str]):
    """The texts of a plan that many variables contain, such as the addresses of all nodes."""

    def shared(self, text: str) -> str:
        """A reference to a text, which is kept once; a text without references stays as it is."""
        if not isinstance(text, Template):
            return text
        self.append(text)
        return reference(ReferenceKind.TEXT, len(self) - 1)


def joined(texts: Iterable[str], separator: str = "") -> str:
    """Join texts like `str.join`; the result is a template if any of them is."""
    parts: list[Part] = []
    for number, text in enumerate(texts):
        parts += [separator] if number else []
        parts += text.parts if isinstance(text, Template) else [text]
    return Template(parts) if any(isinstance(part, Reference) for part in parts) else "".join(map(str, parts))


def json_text(value: Any) -> str:
    """The JSON of a value that may contain templates; their values must not need escaping in JSON."""
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
    """Replace the references in a named tuple, tuple, mapping or text by their values."""
    if isinstance(value, Template):
        return "".join(part if isinstance(part, str) else bindings.value(part) for part in value.parts)
    if hasattr(value, "_fields"):
        return type(value)(*[resolved(item, bindings) for item in value])
    if isinstance(value, tuple):
        return tuple(resolved(item, bindings) for item in value)
    if isinstance(value, Mapping):
        return {name: resolved(item, bindings) for name, item in value.items()}
    return value


class Variables(dict[str, Value]):
    """Values by the name of their variable; a reference without braces is to the longest name that fits.

    The time to read a text grows with its length alone, whatever the number of variables.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self._lengths = sorted({len(name) for name in values})

    def __setitem__(self, name: str, value: Value) -> None:
        super().__setitem__(name, value)
        index = bisect.bisect_left(self._lengths, len(name))
        if self._lengths[index : index + 1] != [len(name)]:
            self._lengths.insert(index, len(name))

    def split_references(self, text: str) -> Iterator[tuple[str, str]]:
        """Split a text at references to known variables: pairs of a literal and the name behind it."""
        begin = 0
        for match in re.finditer(_VARIABLE, text):
            braced, bare = match.groups()
            if braced:
                name = braced if braced in self else ""
            else:  # the longest known name that it begins with
                fitting = self._lengths[: bisect.bisect_right(self._lengths, len(bare))]
                known = (bare[:length] for length in reversed(fitting) if bare[:length] in self)
                name = next(known, "")
            if name:
                yield text[begin : match.start()], name
                begin = match.end() if braced else match.start() + 1 + len(name)
        yield text[begin:], ""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand `$NAME` and `${NAME}` of known variables; others stay unchanged."""
    if "$" not in text or not variables:
        return text
    known = variables if isinstance(variables, Variables) else Variables(variables)
    return joined(
        part
        for text, name in known.split_references(text)
        for part in (text, known[name] if name else "")
        if part
    )
