"""What TAB offers on a line of commands: words of the tree, files, and names that exist now."""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from batchai_magics.commands.parsing.arguments import options_of
from batchai_magics.commands.parsing.catalog import COMMANDS
from batchai_magics.commands.parsing.dialect import modern, old_flags, old_words
from batchai_magics.commands.parsing.tree import below, leading
from batchai_magics.errors import visible
from batchai_magics.models.ids import Kind
from batchai_magics.options.option import NameKind
from batchai_magics.options.option_completion import Expected, candidates_after

if TYPE_CHECKING:
    from batchai_magics.backends.base import Storage
    from batchai_magics.commands.context import Context

_PATIENCE_S = 0.03  # TAB has to answer within 50 ms


class Session(Protocol):
    """Who knows the context; it may take its time to make one."""

    @property
    def context(self) -> Context:
        """The settings and the backend as they are now."""


def expected_in_line(words: Sequence[str]) -> Expected:
    """What may follow these words of a `batchai` line."""
    flags = old_flags(words)
    words = modern(words).words
    path = leading(words, COMMANDS)
    command = next((c for c in COMMANDS if c.parts == path), None)
    if command:
        expected = candidates_after(words[len(path) :], options_of(command))
        left = [old for old, now in flags.items() if old.startswith("--") and now not in words]
        return replace(expected, legacy_words=tuple(left))
    return (
        Expected(below(path, COMMANDS), legacy_words=old_words(path))
        if len(path) == len(words)
        else Expected()
    )


def candidates(expected: Expected, fragment: str, live_names: Sequence[str]) -> list[str]:
    """What TAB offers: all that fits and begins with what is written."""
    old = expected.legacy_words if fragment.strip("-") else ()
    words = [*expected.words, *live_names, *(paths(fragment) if expected.live is NameKind.PATH else ()), *old]
    fit = (word for word in dict.fromkeys(words) if word.startswith(fragment))
    return [word for word in fit if visible(word) == word]  # nobody could type what steers a terminal


def names(context: Context, live: NameKind, arguments: Namespace) -> Sequence[str]:
    """The names of this kind, in what the line says so far; asks the backend."""
    if live in _ASKED:
        return _ASKED[live](context, arguments)
    workspace = context.workspace(arguments)
    parent = context.experiment(arguments) if live is NameKind.JOB else workspace
    return [resource.id.name for resource in context.backend.list(parent, Kind(live.value))]


def _outputs(context: Context, arguments: Namespace) -> list[str]:
    return [file.path for file in context.backend.files(context.target(arguments, Kind.JOB))]


def _nodes(context: Context, arguments: Namespace) -> list[str]:
    is_of_job = getattr(arguments, "cluster", None) is None
    id = context.target(arguments, Kind.JOB) if is_of_job else context.cluster(arguments)
    return [node.id for node in context.backend.nodes(id)]


def _stored(context: Context, arguments: Namespace, storage: Storage) -> list[str]:
    from batchai_magics.commands.azure.bucket import names as names_of

    return names_of(context, arguments, storage)


_ASKED: dict[NameKind, Callable[[Context, Namespace], Sequence[str]]] = {
    NameKind.OUTPUT: _outputs,
    NameKind.NODE: _nodes,
    NameKind.GROUP: lambda context, arguments: [group.name for group in context.groups.list()],
    NameKind.ACCOUNT: lambda context, arguments: [account.name for account in context.accounts.list()],
    NameKind.SHARE: lambda context, arguments: _stored(context, arguments, context.storage),
    NameKind.CONTAINER: lambda context, arguments: _stored(context, arguments, context.containers),
}


def paths(fragment: str) -> list[str]:
    """The files and folders of this machine whose path begins with `fragment`."""
    folder, _, start = fragment.rpartition("/")
    parent = Path(folder or ("/" if fragment.startswith("/") else ".")).expanduser()
    if not parent.is_dir():
        return []
    base = fragment.removesuffix(start)
    items = sorted(item for item in parent.iterdir() if item.name.startswith(start))
    return [f"{base}{item.name}{'/' if item.is_dir() else ''}" for item in items]


class Lookup:
    """Asks in the background, so that a slow answer (or a slow import) never keeps the keyboard waiting."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, Sequence[str]] = {}

    def names(self, expected: Expected) -> Sequence[str]:
        """The names if they come in time, else those of the last time; the next TAB has the rest."""
        if expected.live in (NameKind.NOTHING, NameKind.PATH):
            return ()
        key = f"{expected.live} {expected.arguments}"
        asking = threading.Thread(
            target=self._ask, args=(key, expected), name="batchai-completion", daemon=True
        )
        asking.start()
        asking.join(_PATIENCE_S)
        return self._known.get(key, ())

    def _ask(self, key: str, expected: Expected) -> None:
        try:
            self._known[key] = list(names(self._session.context, expected.live, expected.arguments))
        except Exception:  # noqa: BLE001  whatever is wrong, TAB offers nothing; running the line tells
            self._known[key] = ()
