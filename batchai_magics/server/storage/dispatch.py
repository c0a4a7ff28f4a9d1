"""Which handler answers a request to storage, and whether whoever sent it may have that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from batchai_magics.backends.service.dialect.headers import SERVICE, UPLOAD, UploadStep
from batchai_magics.errors import NotFoundError
from batchai_magics.server.batchai.output import is_address
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.service import Service
from batchai_magics.server.storage import (
    blobs,
    containers,
    copies,
    files,
    outputs,
    own_uploads,
    sas,
    shared_key,
    shares,
)
from batchai_magics.server.storage.context import Asked, StorageHandler
from batchai_magics.server.storage.errors import StorageRefusal, failed
from batchai_magics.server.storage.keys import OUTPUTS, OWN_ACCOUNT, share_of
from batchai_magics.server.storage.request import resource_of
from batchai_magics.server.storage.sas import Caller, Resource
from batchai_magics.server.storage.uploads import Uploads


@dataclass(frozen=True)
class Action:
    """What answers, and which permissions of a signature are enough for it, any one of them."""

    handler: StorageHandler
    permissions: str


# What it is about (account, share, path), the method, `restype` and `comp` → the action.
_FILE: Mapping[tuple[str, str, str, str], Action] = {
    ("s", "GET", "", "list"): Action(shares.list_shares, "l"),
    ("c", "PUT", "share", ""): Action(shares.create_share, "cw"),
    ("c", "GET", "share", ""): Action(shares.show_share, "r"),
    ("c", "DELETE", "share", ""): Action(shares.delete_share, "d"),
    ("c", "PUT", "share", "metadata"): Action(shares.keep_metadata, "w"),
    ("c", "GET", "share", "metadata"): Action(shares.show_share, "r"),
    ("c", "GET", "directory", ""): Action(shares.show_folder, "r"),
    ("c", "GET", "directory", "list"): Action(shares.list_folder, "l"),
    ("o", "PUT", "directory", ""): Action(shares.create_folder, "cw"),
    ("o", "GET", "directory", ""): Action(shares.show_folder, "r"),
    ("o", "PUT", "directory", "metadata"): Action(shares.keep_metadata, "w"),
    ("o", "GET", "directory", "metadata"): Action(shares.show_folder, "r"),
    ("o", "DELETE", "directory", ""): Action(shares.delete_folder, "d"),
    ("o", "GET", "directory", "list"): Action(shares.list_folder, "l"),
    ("o", "PUT", "directory", "rename"): Action(files.rename, "w"),
    ("o", "PUT", "", "rename"): Action(files.rename, "w"),
    ("o", "PUT", "", ""): Action(files.create, "cw"),
    ("o", "PUT", "", "range"): Action(files.put_range, "w"),
    ("o", "PUT", "", "properties"): Action(files.set_properties, "w"),
    ("o", "PUT", "", "metadata"): Action(files.set_metadata, "w"),
    ("o", "GET", "", "metadata"): Action(files.show, "r"),
    ("o", "HEAD", "", "metadata"): Action(files.show, "r"),
    ("o", "GET", "", "rangelist"): Action(files.ranges, "r"),
    ("o", "GET", "", ""): Action(files.read, "r"),
    ("o", "HEAD", "", ""): Action(files.show, "r"),
    ("o", "DELETE", "", ""): Action(files.delete, "d"),
}
_BLOB: Mapping[tuple[str, str, str, str], Action] = {
    ("s", "GET", "", "list"): Action(containers.list_all, "l"),
    ("c", "PUT", "container", ""): Action(containers.create, "cw"),
    ("c", "GET", "container", ""): Action(containers.show, "r"),
    ("c", "PUT", "container", "metadata"): Action(containers.keep_metadata, "w"),
    ("c", "GET", "container", "metadata"): Action(containers.show, "r"),
    ("c", "DELETE", "container", ""): Action(containers.delete, "d"),
    ("c", "GET", "container", "list"): Action(containers.list_blobs, "l"),
    ("o", "PUT", "", ""): Action(blobs.put, "cw"),
    ("o", "PUT", "", "block"): Action(blobs.put_block, "cw"),
    ("o", "PUT", "", "blocklist"): Action(blobs.put_block_list, "cw"),
    ("o", "PUT", "", "metadata"): Action(blobs.set_metadata, "w"),
    ("o", "GET", "", "metadata"): Action(blobs.show, "r"),
    ("o", "HEAD", "", "metadata"): Action(blobs.show, "r"),
    ("o", "PUT", "", "properties"): Action(blobs.set_properties, "w"),
    ("o", "GET", "", ""): Action(blobs.read, "r"),
    ("o", "HEAD", "", ""): Action(blobs.show, "r"),
    ("o", "DELETE", "", ""): Action(blobs.delete, "d"),
}
_LISTING = "l"
_OUTPUT = Action(outputs.read, "r")
_COPY = Action(copies.copy, "cw")
# Of our own client, a file in pieces: the method, `comp`, the step.
_UPLOAD: Mapping[tuple[str, str, str], Action] = {
    ("PUT", "", UploadStep.BEGIN.value): Action(own_uploads.begin, "w"),
    ("PUT", "range", UploadStep.WRITE.value): Action(own_uploads.write, "w"),
    ("PUT", "range", UploadStep.WHOLE.value): Action(own_uploads.put_whole, "w"),
    ("PUT", "metadata", UploadStep.FINISH.value): Action(own_uploads.finish, "w"),
}


@dataclass(frozen=True)
class Admitted:
    """A request that is authorized: what it may do, and by whose credential."""

    action: Action
    asked: Asked
    principal: str

    def answer(self, call: Call) -> Answer:
        """The answer to the request, whose body is there now; raises what is refused."""
        asked = replace(self.asked, call=call)
        if self.action.permissions == _LISTING:
            asked.uploads.drop_stale(asked.storage, asked.resource.service)
        return self.action.handler(asked)


@dataclass(frozen=True)
class Counter:
    """Where requests to storage are answered."""

    service: Service
    uploads: Uploads

    def admit(self, call: Call, host: str, caller: Caller) -> Admitted:
        """Authorizes a request by its headers and its query, without its body; raises what is refused."""
        resource = self._settled(call, resource_of(call, host))
        action = self._action(call, resource)
        principal = self._check(call, resource, action, caller)
        return Admitted(action, Asked(self.service, call, resource, self.uploads), principal)

    def _settled(self, call: Call, resource: Resource) -> Resource:
        """The resource with its service, where the request did not say it: that which has such a name."""
        if call.headers.get(SERVICE) == "blob":
            return replace(resource, service="blob")
        if resource.service:
            return resource
        backend = self.service.backend
        name = share_of(resource)
        is_share = backend.storage is not None and name in backend.storage.shares()
        is_container = backend.containers is not None and name in backend.containers.shares()
        return replace(resource, service="blob" if is_container and not is_share else "file")

    def _action(self, call: Call, resource: Resource) -> Action:
        if (resource.account, resource.share) == (OWN_ACCOUNT, OUTPUTS):
            return _of_output(call, resource)
        if is_address(call, resource):
            return _OUTPUT
        restype, comp = call.query.get("restype", "").lower(), call.query.get("comp", "").lower()
        method = "GET" if call.method == "HEAD" and restype else call.method
        action = _found(call, resource, (method, restype, comp))
        if action is None:
            message = (
                f"{call.method} of this resource with restype={restype} and comp={comp} is not offered here."
            )
            raise StorageRefusal(400, "UnsupportedOperation", message)
        return action

    def _check(self, call: Call, resource: Resource, action: Action, caller: Caller) -> str:
        """The credential that authorizes a request: the account's key, or an address that gives enough.

        Raises StorageRefusal where there is none.
        """
        try:
            keys = self.service.keys.of(OWN_ACCOUNT if action is _OUTPUT else resource.account)
        except NotFoundError:
            raise failed("There is no such account.") from None
        authorization = call.headers.get("authorization", "")
        if "sig" in call.query:
            given = sas.allowed(call.query, resource, keys, caller)
            if not set(given) & set(action.permissions):
                message = "This request is not authorized to perform this operation using this permission."
                raise StorageRefusal(403, "AuthorizationPermissionMismatch", message)
            return f"signature {call.query['sig']}"
        if authorization:
            if shared_key.account_of(authorization) != resource.account:
                raise failed("The key is another account's.")
            shared_key.check(
                call.method, call.path, call.query, call.headers, keys=keys, now=datetime.now(timezone.utc)
            )
            return f"account {resource.account}"
        raise StorageRefusal(401, "NoAuthenticationInformation", "The request has no Authorization header.")


def _of_output(call: Call, resource: Resource) -> Action:
    """What jobs wrote can be read, and nothing else."""
    if call.method in ("GET", "HEAD") and resource.path:
        return _OUTPUT
    raise StorageRefusal(403, "AuthorizationPermissionMismatch", "What jobs wrote is read file by file.")


def _found(call: Call, resource: Resource, words: tuple[str, str, str]) -> Action | None:
    """The action for a method, `restype` and `comp`; headers say of a file what else is meant."""
    method, _, comp = words
    if resource.path and UPLOAD in call.headers:
        return _UPLOAD.get((method, comp, call.headers[UPLOAD]))
    if resource.path and words == ("PUT", "", "") and copies.SOURCE in call.headers:
        return _COPY
    # Our own client speaks to containers as it does to shares.
    table = _BLOB if resource.service == "blob" and SERVICE not in call.headers else _FILE
    return table.get((resource.kind, *words))
