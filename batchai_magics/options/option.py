"""An option, as one row of a table."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any


class Takes(enum.Enum):
    """What follows an option."""

    TEXT = "text"  # one value
    NUMBER = "number"  # one whole number
    SOME = "some"  # one value or more
    NOTHING = "nothing"  # it is a switch


class Live(enum.Enum):
    """What TAB offers as an option's value."""

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
    OUTPUT = "output"  # a file that the job wrote
    PATH = "path"  # a file of this machine


class Later(Collection[str]):
    """Choices that are looked up whenever they are needed, not when the table of options is made."""

    def __init__(self, look_up: Callable[[], Collection[str]]) -> None:
        self._look_up = look_up

    def __contains__(self, item: object) -> bool:
        return item in self._look_up()

    def __iter__(self) -> Iterator[str]:
        return iter(self._look_up())

    def __len__(self) -> int:
        return len(self._look_up())

    def __bool__(self) -> bool:
        return True  # without looking up


@dataclass(frozen=True)
class Option:
    """One option, or (without dashes) one positional word. `metavar` is what a help text calls its value."""

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    takes: Takes = Takes.TEXT
    is_required: bool = False
    choices: Collection[str] = ()
    completes: Live = Live.NOTHING
    default: Any = None
    least: int | None = None  # the smallest number that makes sense
    section: str = "Arguments"  # the heading it stands under in the help text
    is_repeatable: bool = False  # each time with one value

    @property
    def name(self) -> str:
        """Where its value is found: `--storage-account-name` is `storage_account_name`."""
        return self.flags[0].lstrip("-").replace("-", "_").lower()

    @property
    def is_positional(self) -> bool:
        """Whether it is given without a flag."""
        return not self.flags[0].startswith("-")
