"""ARM resource ids and names: parsing, validation and formatting."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from batchai_magics.errors import Problem, SpecError, UsageError, quoted

PROVIDER = "Microsoft.BatchAI"
NAME = re.compile(r"[-\w]{1,64}", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^-\w]+", re.ASCII)
_MAX_GENERATED = 56
_GROUP = re.compile(r"[-\w.()]{1,90}", re.ASCII)
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_SHARE = re.compile(r"(?:[a-z0-9]{3,24}/)?[a-z0-9](?:-?[a-z0-9]){2,62}")
_PART = r"[^/\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+"
_SUBSCRIPTION = re.compile(_PART)
# An example of the published specification says `workspace` for `workspaces`.
_ID = re.compile(
    rf"/?subscriptions/(?P<subscription>{_PART})/resourceGroups/(?P<group>{_PART})/providers/Microsoft\.BatchAI"
    rf"/workspaces?/(?P<workspace>{_PART})"
    rf"(?:/experiments/(?P<experiment>{_PART})(?:/jobs/(?P<job>{_PART}))?"
    rf"|/(?P<kind>clusters|fileservers)/(?P<name>{_PART}))?/?",
    re.IGNORECASE,
)


class Kind(enum.Enum):
    """The kinds of resource, by the collection that their ids name."""

    WORKSPACE = "workspaces"
    CLUSTER = "clusters"
    FILE_SERVER = "fileservers"
    EXPERIMENT = "experiments"
    JOB = "jobs"

    @property
    def noun(self) -> str:
        """The kind in a sentence: `file server`."""
        return "file server" if self is Kind.FILE_SERVER else self.value[:-1]

    @property
    def with_article(self) -> str:
        """The kind after its article: `an experiment`, `a job`."""
        return f"{'an' if self is Kind.EXPERIMENT else 'a'} {self.noun}"

    @property
    def code(self) -> str:
        """The kind in an error code: `FileServer` of `FileServerNotFound`."""
        return "".join(word.capitalize() for word in self.noun.split())

    @property
    def wire_type(self) -> str:
        """The resource type as the service writes it: `Microsoft.BatchAI/workspaces/clusters`."""
        parents = {Kind.WORKSPACE: "", Kind.JOB: "workspaces/experiments/"}
        return f"{PROVIDER}/{parents.get(self, 'workspaces/')}{self.value}"


@dataclass(frozen=True)
class ResourceId:
    """An ARM id. Compare by `key`, since ids are case-insensitive.

    `/subscriptions/S/resourceGroups/G/providers/Microsoft.BatchAI/workspaces/W[/experiments/E]/jobs/J`
    """

    subscription: str
    group: str
    workspace: str
    kind: Kind = Kind.WORKSPACE  # the kind of the resource
    name: str = ""  # the name of the resource; for a workspace its own name
    experiment: str = ""  # the experiment of a job; else empty

    @classmethod
    def parse(cls, text: str) -> ResourceId:
        """Parses an id case-insensitively.

        Raises:
            SpecError: The text is not the id of a Batch AI resource.
        """
        match = _ID.fullmatch(text.strip())
        if not match:
            fix = "expected /subscriptions/S/resourceGroups/G/providers/Microsoft.BatchAI/workspaces/W/…"
            problem = Problem("id", f"{quoted(text)} is not a Batch AI resource id", fix)
            raise SpecError([problem], what="the resource id")
        part = match.groupdict()
        workspace = part["subscription"], part["group"], part["workspace"]
        if part["job"]:
            return cls(*workspace, Kind.JOB, part["job"], part["experiment"])
        if part["experiment"]:
            return cls(*workspace, Kind.EXPERIMENT, part["experiment"])
        if part["kind"]:
            return cls(*workspace, Kind(part["kind"].lower()), part["name"])
        return cls(*workspace, Kind.WORKSPACE, part["workspace"])

    def child(self, kind: Kind, name: str) -> ResourceId:
        """The id of a resource inside this one: a job in an experiment, a cluster in a workspace."""
        experiment = self.name if self.kind is Kind.EXPERIMENT else ""
        return ResourceId(self.subscription, self.group, self.workspace, kind, name, experiment)

    @property
    def workspace_id(self) -> ResourceId:
        """The id of the resource's workspace."""
        return replace(self, kind=Kind.WORKSPACE, name=self.workspace, experiment="")

    @property
    def parent(self) -> ResourceId:
        """The parent: the experiment of a job, the workspace of everything else."""
        if self.kind is Kind.JOB:
            return replace(self, kind=Kind.EXPERIMENT, name=self.experiment, experiment="")
        return self.workspace_id

    @cached_property
    def key(self) -> str:
        """The id in lower case, for comparison."""
        return str(self).lower()

    def __str__(self) -> str:
        base = (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/{PROVIDER}/workspaces/{self.workspace}"
        )
        if self.kind is Kind.WORKSPACE:
            return base
        if self.kind is Kind.JOB:
            base += f"/experiments/{self.experiment}"
        return f"{base}/{self.kind.value}/{self.name}"


class Names(Protocol):
    """The default names of an id; implemented by the settings."""

    @property
    def subscription(self) -> str:
        """The subscription's id."""

    @property
    def resource_group(self) -> str:
        """The resource group's name."""

    @property
    def workspace(self) -> str:
        """The workspace's name."""


def workspace_id(names: Names, workspace: str = "") -> ResourceId:
    """The id of a workspace in the subscription and resource group of `names`; by default also its workspace.

    Raises:
        SpecError: A name is invalid.
    """
    name = check_name(workspace or names.workspace, Kind.WORKSPACE)
    group = check_group_name(names.resource_group)
    if not _SUBSCRIPTION.fullmatch(names.subscription):
        text = f"{quoted(names.subscription)} is not a subscription"
        problem = Problem("subscription", text, "leave --subscription out")
        raise SpecError([problem], what="the subscription")
    return ResourceId(names.subscription, group, name, Kind.WORKSPACE, name)


def cluster_id(text: str, workspace: ResourceId) -> ResourceId:
    """The id of a cluster given as ARM id or as name in the workspace.

    An id of 2017, before there were workspaces, means the cluster of that name in `workspace`.

    Raises:
        SpecError: The text is not a valid id or name.
        UsageError: The id is of another kind of resource.
    """
    *before, name = text.strip("/").split("/")
    is_of_2017 = [part.lower() for part in before[-3:]] == ["providers", PROVIDER.lower(), Kind.CLUSTER.value]
    if not before or is_of_2017:
        return workspace.child(Kind.CLUSTER, check_name(name, Kind.CLUSTER))
    return of_kind(ResourceId.parse(text), Kind.CLUSTER)


def cluster_named_in(properties: Mapping[str, Any]) -> str | None:
    """The cluster reference among a job's wire fields, unparsed; None without one.

    Raises:
        SpecError: The reference is not text.
    """
    reference = properties.get("cluster")
    text = reference.get("id") if isinstance(reference, Mapping) else None
    if text is not None and not isinstance(text, str):
        problem = Problem("properties.cluster.id", f"expected text, got {text!r}", "put it in quotes")
        raise SpecError([problem], what="the job description")
    return text


def of_kind(id: ResourceId, kind: Kind) -> ResourceId:
    """Returns the id if it is of that kind; raises UsageError if it is of another kind."""
    if id.kind is not kind:
        raise UsageError(f"{id} is the id of {id.kind.with_article}, not of {kind.with_article}")
    return id


def as_name(text: str) -> str:
    """The text as a valid name with room for a suffix like `-2`; invalid characters become `-`."""
    return _NOT_IN_NAMES.sub("-", text).strip("-")[:_MAX_GENERATED]


def check_name(name: str, kind: Kind) -> str:
    """Returns the name if it is valid for a resource of that kind; raises SpecError if it is not."""
    if not NAME.fullmatch(name):
        fix = "use 1 to 64 letters, digits, '-' and '_'"
        problem = Problem("name", f"{quoted(name)} is not a valid {kind.noun} name", fix)
        raise SpecError([problem], what=f"the {kind.noun} name")
    return name


def check_group_name(name: str) -> str:
    """Returns the name if it is valid for a resource group; raises SpecError if it is not."""
    if not _GROUP.fullmatch(name):
        fix = "use 1 to 90 letters, digits and -_.()"
        problem = Problem("name", f"{quoted(name)} is not a resource group name", fix)
        raise SpecError([problem], what="the group")
    return name


def check_account_name(name: str) -> str:
    """Returns the name if it is valid for a storage account; raises SpecError if it is not."""
    if not _ACCOUNT.fullmatch(name):
        fix = "use 3 to 24 small letters and digits"
        problem = Problem("name", f"{quoted(name)} is not an account name", fix)
        raise SpecError([problem], what="the account")
    return name


def check_share_name(share: str) -> str:
    """Returns `NAME` or `ACCOUNT/NAME` if it is valid for a share or container; else raises SpecError."""
    if not _SHARE.fullmatch(share):
        fix = "use 3 to 63 small letters, digits and single '-'"
        problem = Problem("share", f"{quoted(share)} is not a valid share name", fix)
        raise SpecError([problem], what="the share")
    return share
