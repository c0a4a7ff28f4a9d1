"""Loads a spec file, JSON or YAML, as canonical wire JSON with its storage placeholders filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from batchai_magics.errors import Problem, SpecError, UsageError, join_path, quoted
from batchai_magics.models.documents.spec_problems import surrogates_in
from batchai_magics.models.field_types import NO_URL, account_in, duplicates, ill_formed_url
from batchai_magics.models.mount_volumes import CONTAINERS, SHARES, AccountKey
from batchai_magics.models.resource_ids import as_name
from batchai_magics.models.wire_model import WireModel

_MAX_BYTES = 16 << 20


def read_file(path: Path) -> str:
    """Reads a spec file of at most 16 MiB.

    Raises:
        UsageError: It is missing, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)  # devices may be endless
        if len(data) > _MAX_BYTES:
            raise UsageError(f"{path} is larger than {_MAX_BYTES >> 20} MiB: it is not a description")
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise UsageError(f"{path.absolute()} does not exist") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file", hint="expected JSON or YAML in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def parse(text: str, *, source: str) -> dict[str, Any]:
    """Parses an object in JSON (it starts with a brace) or YAML; `source` names it in errors.

    Raises:
        SpecError: It has lone surrogates.
        UsageError: It is empty, invalid, no object, or has a key twice; with line and column where known.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise UsageError(f"{source} is empty", hint='expected a description such as {"properties": {…}}')
    try:
        if text.lstrip()[0] in "{[":
            data = json.loads(text, object_pairs_hook=lambda pairs: _unique_keys(pairs, source))
        else:
            data = _yaml(text, source)
        json.dumps(data)
    except RecursionError:
        raise UsageError(f"{source} is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{source} is not valid JSON: {error.msg} at {where}") from None
    except ValueError:
        raise UsageError(f"{source} is nested in itself, or holds a number that is too long") from None
    if not isinstance(data, Mapping):
        raise UsageError(
            f"{source} holds no object", hint='expected a description such as {"properties": {…}}'
        )
    unwritable = list(surrogates_in(data, ""))
    if unwritable:
        raise SpecError(unwritable, what=source)
    return dict(data)


def _unique_keys(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        key = duplicates(key for key, _ in pairs)[0]
        raise UsageError(f"{source} has the key {quoted(key)} twice in one object")
    return data


def _yaml(text: str, source: str) -> Any:
    from batchai_magics.models.documents.plain_yaml import YamlError, load

    try:
        return load(text)
    except YamlError as error:
        raise UsageError(f"{source} is not valid YAML: {error}") from None


ACCOUNT = "<AZURE_BATCHAI_STORAGE_ACCOUNT>"
KEY = "<AZURE_BATCHAI_STORAGE_KEY>"
_ANY_JOB = ("job", "config", "configuration")  # generic file names
_MISSING = (
    "Please configure Azure Storage account {noun} via AZURE_BATCHAI_STORAGE_{part} "
    "or provide storage_{setting} value in batchai section of your az configuration file."
)
_OPTION = "or give --storage-account-{noun}"
_BY_DEFAULT = "{source}: mounts without a storage account use the default one, {account}"

_NO_ACCOUNT = (
    "Ill-formed Azure Blob File System reference in the configuration file - no account name provided."
)

Model = TypeVar("Model", bound=WireModel)


@dataclass(frozen=True)
class Description:
    """A loaded spec file, not yet validated; options override its `body`, and `checked` validates the result.

    Attributes:
        source: Names the file or text in messages.
        wire: The JSON in canonical keys, without unknown ones.
        unknown: The unknown keys.
        default_account: The account given to mounts without one; empty if there are none.
    """

    source: str
    wire: dict[str, Any] = field(repr=False)
    unknown: tuple[Problem, ...] = ()
    default_account: str = ""

    @property
    def body(self) -> dict[str, Any]:
        """The `properties`."""
        body: dict[str, Any] = self.wire["properties"]
        return body

    @property
    def notes(self) -> tuple[str, ...]:
        """A message per unknown key, and one if mounts use the default account."""
        unknown = (
            f"{self.source}: {problem.path} is not used here and is ignored ({problem.fix})"
            for problem in self.unknown
        )
        account = _BY_DEFAULT.format(source=self.source, account=self.default_account)
        return (*unknown, account) if self.default_account else tuple(unknown)

    def checked(self, model: type[Model], body: Mapping[str, Any]) -> Model:
        """Validates these `properties`.

        Raises:
            SpecError: Lists every problem with its path, and the unknown keys.
        """
        try:
            return model.from_wire({**self.wire, "properties": body})
        except SpecError as error:
            raise SpecError([*error.problems, *self.unknown], what=model.what) from None


NOTHING = Description("the line", {"properties": {}})  # without a file


def load_file(
    model: type[WireModel], path: Path, *, source: str = "", account: AccountKey | None = None
) -> Description:
    """Loads a job or cluster file, ignoring unknown keys as the old clients did.

    Messages name it as `source`, by default its path; storage placeholders get the values of `account`.

    Raises:
        UsageError: The file cannot be read, or is neither JSON nor YAML.
        SpecError: A placeholder has no value.
    """
    source = source or str(path)
    wire, unknown = model.known(parse(read_file(path), source=source))
    return _fill_placeholders(Description(source, wire, tuple(unknown)), account or AccountKey())


def load_text(
    model: type[WireModel], text: str, *, source: str, account: AccountKey | None = None
) -> Description:
    """Loads text typed by the user; unlike `load_file` it keeps unknown keys, which validation rejects.

    Raises:
        UsageError: The text is neither JSON nor YAML, or no object.
        SpecError: A placeholder has no value.
    """
    wire = model.canonical(parse(text, source=source))
    return _fill_placeholders(Description(source, wire), account or AccountKey())


def name_after(path: Path) -> str:
    """The default name of a file's resource: the file's stem, or its folder for a generic `job.json`."""
    path = path.absolute()
    name = path.parent.name if path.stem.lower() in _ANY_JOB else path.stem
    return as_name(name)


def _fill_placeholders(description: Description, user_account: AccountKey) -> Description:
    """Fills in the storage placeholders; raises SpecError if one has no value."""
    volumes = list(_volumes(description.body))
    account = replace(user_account, name=user_account.name or user_account.default)
    problems = [problem for path, volume in volumes for problem in _problems(volume, path, account)]
    if problems:
        raise SpecError(problems, what=description.source)
    is_default = False
    for _, volume in volumes:
        is_named = volume.get("accountName") or volume.get("azureFileUrl")
        is_default |= not user_account.name and (not is_named or _has_placeholder(volume))
        _fill(volume, account)
    return replace(description, default_account=user_account.default) if is_default else description


def _volumes(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the file shares and containers mounted by a job or cluster, with their JSON paths."""
    setup = _object(body, "nodeSetup")
    owners = {"properties.mountVolumes": body, "properties.nodeSetup.mountVolumes": setup}
    for path, owner in owners.items():
        for key in (SHARES, CONTAINERS):
            volumes = _object(owner, "mountVolumes").get(key)
            for index, volume in enumerate(volumes if isinstance(volumes, list) else []):
                if isinstance(volume, dict):
                    yield join_path(join_path(path, key), index), volume


def _has_placeholder(volume: Mapping[str, Any]) -> bool:
    """Whether a placeholder stands for the name of a volume's storage account."""
    names = (volume.get("accountName"), volume.get("azureFileUrl"))
    return any(isinstance(name, str) and ACCOUNT in name for name in names)


def _problems(volume: Mapping[str, Any], path: str, account: AccountKey) -> Iterator[Problem]:
    """Placeholders without a value, and a share or container without an account, in the words of `az`."""
    is_needed = not account.default and not account.key
    missing = {
        ("name", "ACCOUNT"): not account.name and _has_placeholder(volume),
        ("key", "KEY"): is_needed and _object(volume, "credentials").get("accountKey") == KEY,
    }
    for (noun, part), is_missing in missing.items():
        if is_missing:
            message = _MISSING.format(noun=noun, part=part, setting=part.lower())
            yield Problem(path, message, _OPTION.format(noun=noun))
    if volume.get("accountName"):
        return
    url = volume.get("azureFileUrl")
    if path.rpartition(".")[2].startswith(CONTAINERS):
        if not account.default:
            yield Problem(path, _NO_ACCOUNT)
    elif not url:
        yield Problem(join_path(path, "azureFileUrl"), NO_URL)
    elif isinstance(url, str) and ACCOUNT not in url and not account_in(url):
        yield Problem(join_path(path, "azureFileUrl"), ill_formed_url(url))


def _fill(volume: dict[str, Any], account: AccountKey) -> None:
    """Fills in the account's name and key; a missing name is taken from the URL."""
    url = volume.get("azureFileUrl")
    if isinstance(url, str):
        volume["azureFileUrl"] = url = url.replace(ACCOUNT, account.name)
        volume.setdefault("accountName", account_in(url))
    elif account.default and not volume.get("accountName"):
        volume["accountName"] = account.name
    if volume.get("accountName") == ACCOUNT:
        volume["accountName"] = account.name
    is_own = bool(account.key) and volume.get("accountName") == account.name and not volume.get("credentials")
    has_placeholder = _object(volume, "credentials").get("accountKey") == KEY
    if is_own or (has_placeholder and account.key):
        volume["credentials"] = {"accountKey": account.key}
    elif has_placeholder:
        del volume["credentials"]


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}
