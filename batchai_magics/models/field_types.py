"""Validated field types: names, paths, counts. Validators return the value or raise ValueError."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from batchai_magics.errors import quoted
from batchai_magics.models.wire_times import duration

NO_URL = "Azure File URL cannot absent or be empty"
_INT32 = 2**31 - 1
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_URL = re.compile(r"https?://[^/\s]+/[^\s]+")


def duplicates(values: Iterable[str]) -> list[str]:
    """The values that occur more than once, in order."""
    return [value for value, count in Counter(values).items() if count > 1]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("this text must not be empty")
    return _no_null(text)


def _no_null(text: str) -> str:
    if "\0" in text:
        raise ValueError("this text contains a null character")
    return text


def _matching(pattern: str, problem: str) -> AfterValidator:
    """A validator of a form."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{quoted(text)} {problem}")
        return text

    return AfterValidator(check)


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        name = quoted(text.partition("=")[0])  # the rest may contain a secret
        raise ValueError(f"{name} is not a name for an environment variable; use letters, digits and '_'")
    return text


def _relative_path(text: str) -> str:
    path = PurePosixPath(_no_null(text).replace("\\", "/"))
    if path.is_absolute():
        raise ValueError(f"{quoted(text)} is absolute; give a path relative to the folder it is put in")
    if ".." in path.parts:
        raise ValueError(f"{quoted(text)} leaves its folder; remove '..'")
    return text


def _mount_path(text: str) -> str:
    if str(PurePosixPath(text.strip())) == ".":
        raise ValueError("the relative mount path cannot be empty")
    return _relative_path(text)


def _file_url(text: str) -> str:
    if not text.strip():
        raise ValueError(NO_URL)
    if not _FILE_URL.fullmatch(text):
        raise ValueError(ill_formed_url(text))
    return text


def ill_formed_url(url: str) -> str:
    """The message of `az` for an invalid URL of a file share."""
    address = url.partition("?")[0]  # the rest may be a signature
    return f'Ill-formed Azure File URL "{address}"'


def account_in(url: str) -> str:
    """The storage account in a share's URL; empty without one."""
    try:
        account, dot, _ = (urlsplit(url).hostname or "").partition(".")
    except ValueError:  # invalid IPv6 brackets
        return ""
    return account if dot else ""


def _one_of(*values: str) -> Callable[[str], str]:
    """A validator of one of these values, matched case-insensitively."""
    lowered = {value.lower() for value in values}

    def check(text: str) -> str:
        if text.lower() not in lowered:
            raise ValueError(f"{quoted(text)} is not one of {', '.join(values)}")
        return text

    return check


def _duration(text: str) -> str:
    if not duration(text):
        raise ValueError("expected more than zero")
    return text


Count = Annotated[int, Field(ge=0, le=_INT32)]
Positive = Annotated[int, Field(ge=1, le=_INT32)]
Text = Annotated[str, AfterValidator(_not_blank)]
AnyText = Annotated[str, AfterValidator(_no_null)]
IdSuffix = Annotated[
    str,
    _matching(r"[A-Za-z0-9_]+", "cannot end an environment variable's name; use letters, digits and '_'"),
]
VariableName = Annotated[str, AfterValidator(_variable)]
InsidePath = Annotated[str, AfterValidator(_relative_path)]
MountPath = Annotated[str, AfterValidator(_mount_path)]
FileUrl = Annotated[str, AfterValidator(_file_url)]
FileMode = Annotated[str, _matching(r"0?[0-7]{3,4}", "is not a file mode; write it as 0777")]
CommunicationBackend = Annotated[str, AfterValidator(_one_of("tcp", "gloo", "mpi", "nccl"))]
LanguageType = Annotated[str, AfterValidator(_one_of("BrainScript", "Python"))]
Duration = Annotated[str, AfterValidator(_duration)]
