"""The definition of an option, its help text, and completion candidates for a line with options."""

from __future__ import annotations

import enum
import shlex
import textwrap
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from batchai_magics.errors import UsageError


class ValueKind(enum.Enum):
    """The kind of value an option takes."""

    TEXT = "text"  # one value
    NUMBER = "number"  # one integer
    MANY = "some"  # one or more values
    NOTHING = "nothing"  # none: a switch


class NameKind(enum.Enum):
    """The kind of completion candidates for an option's value."""

    NOTHING = "nothing"
    WORKSPACE = "workspaces"
    EXPERIMENT = "experiments"
    CLUSTER = "clusters"
    JOB = "jobs"
    SWEEP = "sweeps"
    FILE_SERVER = "fileservers"
    GROUP = "groups"
    ACCOUNT = "accounts"
    SHARE = "shares"
    CONTAINER = "containers"
    NODE = "nodes"  # a node of the cluster or of the job
    OUTPUT = "output"  # an output file of the job
    RESULT = "result"  # a file that the job wrote anywhere, with its directory
    PATH = "path"  # a local file


class LazyChoices(Collection[str]):
    """Choices that are looked up on use rather than when the option is defined."""

    def __init__(self, look_up: Callable[[], Collection[str]]) -> None:
        self._look_up = look_up

    def __contains__(self, item: object) -> bool:
        return item in self._look_up()

    def __iter__(self) -> Iterator[str]:
        return iter(self._look_up())

    def __len__(self) -> int:
        return len(self._look_up())

    def __bool__(self) -> bool:
        return True  # without a lookup


@dataclass(frozen=True)
class Option:
    """One option, or (without dashes) one positional argument. `metavar` names its value in help texts."""

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    value_kind: ValueKind = ValueKind.TEXT
    is_required: bool = False
    choices: Collection[str] = ()
    completes: NameKind = NameKind.NOTHING
    default: Any = None
    minimum: int | None = None  # smallest valid number
    section: str = "Arguments"  # heading in the help text
    is_repeatable: bool = False  # one value each time
    elsewhere: tuple[str, ...] = ()  # what mpirun, torchrun, Slurm and others call it

    @property
    def name(self) -> str:
        """The attribute that holds its value: `--storage-account-name` gives `storage_account_name`."""
        return self.flags[0].lstrip("-").replace("-", "_").lower()

    @property
    def is_positional(self) -> bool:
        """Whether it is given without a flag."""
        return not self.flags[0].startswith("-")


def switch(*flags: str, help: str) -> Option:
    """An option without a value."""
    return Option(flags, help, value_kind=ValueKind.NOTHING)


def in_section(section: str, *options: Option) -> tuple[Option, ...]:
    """The options under this heading of the help text."""
    return tuple(replace(option, section=section) for option in options)


def with_declared(options: tuple[Option, ...], declared: Iterable[Option]) -> tuple[Option, ...]:
    """Adds options that backends declare to a table; raises UsageError for a flag that the table has."""
    table = options
    for option in declared:
        if any(option.flags[0] in other.flags for other in table):
            text = f"a backend declares the option {option.flags[0]}, which exists already"
            raise UsageError(text, hint="Its package must give it another name.")
        table = (*table, option)
    return table


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
        flags = " ".join(option.flags) + (" [Required]" if option.is_required else "")
        sentences = [option.help]
        if option.choices:
            sentences.append(f"Allowed values: {', '.join(option.choices)}.")
        if option.default is not None and option.value_kind is not ValueKind.NOTHING:
            sentences.append(f"Default: {option.default}")
        sections.setdefault(option.section, {})[flags] = " ".join(sentences)
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


@dataclass(frozen=True)
class Expected:
    """The candidates at the cursor: `words`, and names of the kind `live`.

    `arguments` are those parsed from the line so far; `legacy_words` are spellings of 2017, offered once one
    is started.
    """

    words: tuple[str, ...] = ()
    live: NameKind = NameKind.NOTHING
    arguments: Namespace = field(default_factory=Namespace)
    legacy_words: tuple[str, ...] = ()


def candidates_after(words: Sequence[str], options: Sequence[Option]) -> Expected:
    """The candidates after these words of a line with these options."""
    arguments = _arguments_so_far(words, options)
    positional = next((option for option in options if option.is_positional), None)
    by_flag = {flag: option for option in options for flag in option.flags if not option.is_positional}
    current = next((by_flag[word] for word in reversed(words) if word in by_flag), None)
    if current is None or not _takes_more(current, is_first=words[-1] in current.flags):
        current = positional if positional and _takes_more(positional, is_first=not words) else None
    if current is None:
        return Expected(_unused_flags(words, options), arguments=arguments)
    needs_value = bool(words) and words[-1] in current.flags
    flags = () if needs_value else _unused_flags(words, options)
    return Expected((*current.choices, *flags), current.completes, arguments)


def split_at_cursor(text: str) -> tuple[list[str], str] | None:
    """Split the text before the cursor into complete words and the word being typed; None inside quotes."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if not text or text[-1].isspace():
        return words, ""
    if not words or not text.endswith(words[-1]):
        return None
    return words[:-1], words[-1]


def _takes_more(option: Option, *, is_first: bool) -> bool:
    return option.value_kind is ValueKind.MANY or (is_first and option.value_kind is not ValueKind.NOTHING)


def _unused_flags(words: Sequence[str], options: Sequence[Option]) -> tuple[str, ...]:
    """The long flags that are not on the line yet."""
    unused = [
        option for option in options if not option.is_positional and not set(option.flags).intersection(words)
    ]
    return tuple(option.flags[0] for option in unused)


def _arguments_so_far(words: Sequence[str], options: Sequence[Option]) -> Namespace:
    """The arguments on the line so far; None for missing ones."""
    values: dict[str, str | None] = {"job": None, "subscription": None}
    for option in options:
        values[option.name] = None
        for word, value in pairwise(words):
            if word in option.flags and option.value_kind is ValueKind.TEXT:
                values[option.name] = value
    return Namespace(**values)
