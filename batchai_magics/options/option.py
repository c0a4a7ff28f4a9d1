"""The definition of an option."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
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
    FILE_SERVER = "fileservers"
    GROUP = "groups"
    ACCOUNT = "accounts"
    SHARE = "shares"
    CONTAINER = "containers"
    NODE = "nodes"  # a node of the cluster or of the job
    OUTPUT = "output"  # an output file of the job
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

    @property
    def name(self) -> str:
        """The attribute that holds its value: `--storage-account-name` gives `storage_account_name`."""
        return self.flags[0].lstrip("-").replace("-", "_").lower()

    @property
    def is_positional(self) -> bool:
        """Whether it is given without a flag."""
        return not self.flags[0].startswith("-")


def with_declared(options: tuple[Option, ...], declared: Iterable[Option]) -> tuple[Option, ...]:
    """Adds options that backends declare to a table; raises UsageError for a flag that the table has."""
    table = options
    for option in declared:
        if any(option.flags[0] in other.flags for other in table):
            text = f"a backend declares the option {option.flags[0]}, which exists already"
            raise UsageError(text, hint="Its package must give it another name.")
        table = (*table, option)
    return table
