"""Native options of an engine that go with a job, such as `--slurm "--qos=long"`: declaration and keys.

A backend declares them in `BACKEND_OPTIONS` of its settings type. An option NAME is `--NAME` of a line and
`batchaiName` of a job.json; only its engine knows what its text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from batchai_magics.errors import Problem, SpecError, UsageError

PREFIX = "batchai"
_NAME = re.compile(r"[a-z][a-z0-9]*")
_KEY = re.compile(rf"{PREFIX}([a-z][a-z0-9]*)", re.IGNORECASE)


@dataclass(frozen=True)
class BackendOption:
    """The declaration of a native option of jobs.

    `check`: raises ValueError that names what is wrong with a text, before anything is written.
    """

    name: str  # one lower-case word: `slurm` is `--slurm` of a line and `batchaiSlurm` of a job.json
    help: str  # what the option is, for help and documentation: a phrase without a final stop
    metavar: str = "OPTIONS"  # names the option's text in help
    check: Callable[[str], object] = str
    is_switch: bool = False  # it takes no text on a line; its text is then `yes`
    elsewhere: tuple[str, ...] = ()  # flags of the engine's commands that belong in its text: `--mem`

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"the option of a backend is one lower-case word, not {self.name!r}")

    @property
    def flag(self) -> str:
        """The option of command lines."""
        return f"--{self.name}"

    @property
    def field(self) -> str:
        """The path of the option in a job.json, for errors."""
        return f"properties.{option_key(self.name)}"


def declared_by(sections: Iterable[object]) -> tuple[BackendOption, ...]:
    """The options that the settings of backends, or their types, declare."""
    return tuple(
        dict.fromkeys(option for section in sections for option in getattr(section, "BACKEND_OPTIONS", ()))
    )


def given_options(arguments: Mapping[str, Any], declared: Iterable[BackendOption]) -> dict[str, str]:
    """The texts of native options on a line: name → text.

    Raises:
        UsageError: The engine does not accept a text; the message names the option.
    """
    texts: dict[str, str] = {}
    for option in declared:
        if value := arguments.get(option.name):
            texts[option.name] = "yes" if option.is_switch else value
            try:
                option.check(texts[option.name])
            except ValueError as error:
                hint = "Nothing was written or submitted."
                raise UsageError(f"{option.flag}: {error}", hint=hint) from None
    return texts


def with_backend_options(body: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """A job's wire fields with these options (name → text) appended to those that the fields have."""
    merged = dict(body)
    for name, text in texts.items():
        key = option_key(name)
        present = merged.get(key)
        merged[key] = f"{present} {text}" if present and isinstance(present, str) else text
    return merged


def check_texts(texts: Mapping[str, str], declared: Iterable[BackendOption], *, what: str) -> None:
    """Checks native options (name → text) as their engine does.

    Raises:
        SpecError: The engine does not accept some texts; lists them. `what` names the description.
    """
    problems = []
    for option in declared:
        if option.name not in texts:
            continue
        try:
            option.check(texts[option.name])
        except ValueError as error:
            problems.append(Problem(option.field, str(error)))
    if problems:
        raise SpecError(problems, what=what)


def option_key(name: str) -> str:
    """The key of an option in a job.json: `batchaiSlurm`."""
    return PREFIX + name.capitalize()


def option_name(key: str) -> str:
    """The name of the option with a key of job.json, matched case-insensitively; empty for any other key."""
    match = _KEY.fullmatch(key)
    return match[1].lower() if match else ""
