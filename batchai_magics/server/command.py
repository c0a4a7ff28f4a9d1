"""The words of `batchai serve …`: what they ask for, and who carries it out."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.base.registry import load_settings
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.options.option import Option
from batchai_magics.options.option_help import DisplayText, option_sections, section
from batchai_magics.options.option_parsing import parse_options
from batchai_magics.server import running
from batchai_magics.server.access.users import Users
from batchai_magics.server.home import Home
from batchai_magics.server.starting import OPTIONS, PROGRAM, TOKEN_FILE, start, token_of, wrong

SUMMARY = "Serve this machine's jobs to a team: the Batch AI protocol and Azure Files."
_HELP = ("--help", "-h")
_URL = Option(("--url",), "Address of the server, if it is not the one that runs here.", "URL")
_FOLDER = Option(("FOLDER",), "Folder to write to.", is_required=True)
_USER = Option(("NAME",), "Name of the user.", is_required=True)


@dataclass(frozen=True)
class Row:
    """A command: what it takes, who carries it out, and what it is for."""

    options: tuple[Option, ...]
    work: Callable[[Namespace], int]
    summary: str


def main(words: Sequence[str]) -> int:
    """Carries out the words after `batchai serve`; gives the exit code."""
    for beside, row in _BESIDE.items():
        count = len(beside.split())
        if " ".join(words[:count]) == beside:
            return _run(f"{PROGRAM} {beside}", row, words[count:])
    return _run(PROGRAM, Row(OPTIONS, start, SUMMARY), words)


def _run(program: str, row: Row, words: Sequence[str]) -> int:
    if set(_HELP).intersection(words):
        print(_help(program, row))
        return 0
    arguments, extra = parse_options(row.options, words, make_error=lambda text: wrong(program, text))
    if extra:
        raise _unrecognized(program, row, extra[0])
    for option in row.options:
        if option.is_required and getattr(arguments, option.name) is None:
            raise wrong(program, f"the following arguments are required: {option.flags[0]}")
    return row.work(arguments)


def _unrecognized(program: str, row: Row, word: str) -> UsageError:
    flags = [flag for option in row.options for flag in option.flags if flag.startswith("-")]
    guess = did_you_mean(word, [*flags, *_BESIDE])
    return wrong(program, f"unrecognized arguments: {word}", guess)


def _az_config(arguments: Namespace) -> int:
    from batchai_magics.server.az_config import write

    settings = load_settings()
    home = Home.of(settings)
    home.secure()
    server = running.chosen(home.running, arguments.url)
    token, folder = token_of(arguments.token_file, home), Path(arguments.folder)
    authority = server.authority
    if arguments.url and server.url.startswith("https:") and home.authority.exists():
        authority = home.authority
    lines = write(folder, server.url, token, settings, authority=authority)
    for line in lines if sys.stdout.isatty() else [f". {shlex.quote(str(folder.absolute() / 'env'))}"]:
        print(line)
    return 0


def _add_user(arguments: Namespace) -> int:
    token = _users().add(arguments.name)
    print(f"{arguments.name} comes in with this token, which is kept nowhere and not shown again:")
    print(f"  export BATCHAI_TOKEN={token}")
    return 0


def _remove_user(arguments: Namespace) -> int:
    _users().remove(arguments.name)
    print(f"{arguments.name} does not come in any more. What is theirs stays.")
    return 0


def _list_users(arguments: Namespace) -> int:
    for name, added in _users().added().items():
        print(f"{name}  since {added}")
    return 0


def _users() -> Users:
    home = Home.of(load_settings())
    home.secure()
    return Users(home.users)


_BESIDE: Mapping[str, Row] = {
    "az-config": Row(
        (_FOLDER, _URL, TOKEN_FILE),
        _az_config,
        "Write a configuration with which a genuine `az` works against this server.",
    ),
    "user add": Row((_USER,), _add_user, "Let somebody in, with a token of their own."),
    "user list": Row((), _list_users, "Show who may come in beside you."),
    "user remove": Row((_USER,), _remove_user, "Let somebody in no more."),
}


def _help(program: str, row: Row) -> DisplayText:
    beside = {word: other.summary for word, other in _BESIDE.items()} if program == PROGRAM else {}
    parts = [f"Command\n    {program} : {row.summary}\n", *option_sections(row.options)]
    return DisplayText("\n".join(filter(None, [*parts, section("Beside it:", beside)])).rstrip())
