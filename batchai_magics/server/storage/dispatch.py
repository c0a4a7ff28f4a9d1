"""Which handler answers a request to storage, and whether whoever sent it may have that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from urllib.parse import urlsplit

from batchai_magics.backends.base import Storage
from batchai_magics.backends.service.dialect.headers import OWN_CLIENT, SERVICE, UPLOAD, UploadStep
from batchai_magics.errors import NotFoundError
from batchai_magics.server.batchai.output import is_address
from batchai_magics.server.call import Answer, Call, query_of
from batchai_magics.server.service import Service
from batchai_magics.server.storage import (
    blobs,
    containers,
    copies,
    files,
    outputs,
    own_uploads,
    permissions,
    sas,
    shared_key,
    shares,
)
from batchai_magics.server.storage.context import Asked, StorageHandler, is_own
from batchai_magics.server.storage.errors import StorageRefusal, failed
from batchai_magics.server.storage.permissions import Rule
from batchai_magics.server.storage.request import (
    OUTPUTS,
    OWN_ACCOUNT,
    Resource,
    place_of_url,
    resource_of,
    share_of,
)
from batchai_magics.server.storage.sas import Caller
from batchai_magics.server.storage.uploads import Uploads


@dataclass(frozen=True)
class Action:
    """What answers, and what a shared access signature must have for it.

    `source` is the header that names a second file, with what a signature must have for that one.
    """

    handler: StorageHandler
    rule: Rule
    source: tuple[str, Rule] | None = None


# What it is about (account, share, path), the method, `restype` and `comp` → the action.
_FILE: Mapping[tuple[str, str, str, str], Action] = {
    ("s", "GET", "", "list"): Action(shares.list_shares, permissions.LIST_SHARES),
    ("c", "PUT", "share", ""): Action(shares.create_share, permissions.CREATE_SHARE),
    ("c", "GET", "share", ""): Action(shares.show_share, permissions.READ_SHARE),
    ("c", "DELETE", "share", ""): Action(shares.delete_share, permissions.DELETE_SHARE),
    ("c", "PUT", "share", "metadata"): Action(shares.keep_metadata, permissions.CHANGE_SHARE),
    ("c", "GET", "share", "metadata"): Action(shares.show_share, permissions.READ_SHARE),
    ("c", "GET", "directory", ""): Action(shares.show_folder, permissions.READ_FOLDER),
    ("c", "GET", "directory", "list"): Action(shares.list_folder, permissions.LIST_FILES),
    ("o", "PUT", "directory", ""): Action(shares.create_folder, permissions.CREATE_FOLDER),
    ("o", "GET", "directory", ""): Action(shares.show_folder, permissions.READ_FOLDER),
    ("o", "PUT", "directory", "metadata"): Action(shares.keep_metadata, permissions.CHANGE_FOLDER),
    ("o", "GET", "directory", "metadata"): Action(shares.show_folder, permissions.READ_FOLDER),
    ("o", "DELETE", "directory", ""): Action(shares.delete_folder, permissions.DELETE_FOLDER),
    ("o", "GET", "directory", "list"): Action(shares.list_folder, permissions.LIST_FILES),
    ("o", "PUT", "directory", "rename"): Action(
        files.rename, permissions.RENAME_FOLDER, (files.RENAME_SOURCE, permissions.DELETE_FOLDER)
    ),
    ("o", "PUT", "", "rename"): Action(
        files.rename, permissions.RENAME_FILE, (files.RENAME_SOURCE, permissions.DELETE_FILE)
    ),
    ("o", "PUT", "", ""): Action(files.create, permissions.CREATE_FILE),
    ("o", "PUT", "", "range"): Action(files.put_range, permissions.CHANGE_FILE),
    ("o", "PUT", "", "properties"): Action(files.set_properties, permissions.CHANGE_FILE),
    ("o", "PUT", "", "metadata"): Action(files.set_metadata, permissions.CHANGE_FILE),
    ("o", "GET", "", "metadata"): Action(files.show, permissions.READ_FILE),
    ("o", "HEAD", "", "metadata"): Action(files.show, permissions.READ_FILE),
    ("o", "GET", "", "rangelist"): Action(files.ranges, permissions.READ_FILE),
    ("o", "GET", "", ""): Action(files.read, permissions.READ_FILE),
    ("o", "HEAD", "", ""): Action(files.show, permissions.READ_FILE),
    ("o", "DELETE", "", ""): Action(files.delete, permissions.DELETE_FILE),
}
_BLOB: Mapping[tuple[str, str, str, str], Action] = {
    ("s", "GET", "", "list"): Action(containers.list_all, permissions.LIST_SHARES),
    ("c", "PUT", "container", ""): Action(containers.create, permissions.CREATE_SHARE),
    ("c", "GET", "container", ""): Action(containers.show, permissions.READ_SHARE),
    ("c", "PUT", "container", "metadata"): Action(containers.keep_metadata, permissions.CHANGE_SHARE),
    ("c", "GET", "container", "metadata"): Action(containers.show, permissions.READ_SHARE),
    ("c", "DELETE", "container", ""): Action(containers.delete, permissions.DELETE_SHARE),
    ("c", "GET", "container", "list"): Action(containers.list_blobs, permissions.LIST_FILES),
    ("o", "PUT", "", ""): Action(blobs.put, permissions.CREATE_FILE),
    ("o", "PUT", "", "block"): Action(blobs.put_block, permissions.CHANGE_FILE),
    ("o", "PUT", "", "blocklist"): Action(blobs.put_block_list, permissions.CHANGE_FILE),
    ("o", "PUT", "", "metadata"): Action(blobs.set_metadata, permissions.CHANGE_FILE),
    ("o", "GET", "", "metadata"): Action(blobs.show, permissions.READ_FILE),
    ("o", "HEAD", "", "metadata"): Action(blobs.show, permissions.READ_FILE),
    ("o", "PUT", "", "properties"): Action(blobs.set_properties, permissions.CHANGE_FILE),
    ("o", "GET", "", ""): Action(blobs.read, permissions.READ_FILE),
    ("o", "HEAD", "", ""): Action(blobs.show, permissions.READ_FILE),
    ("o", "DELETE", "", ""): Action(blobs.delete, permissions.DELETE_FILE),
}
_ACCOUNT = Action(containers.list_account, permissions.LIST_SHARES)
_OUTPUT = Action(outputs.read, permissions.READ_FILE)
_COPY = Action(copies.copy, permissions.CREATE_FILE, (copies.SOURCE, permissions.READ_FILE))
# Of our own client, a file in pieces: the method, `comp`, the step.
_UPLOAD: Mapping[tuple[str, str, str], Action] = {
    ("PUT", "", UploadStep.BEGIN.value): Action(own_uploads.begin, permissions.CHANGE_FILE),
    ("PUT", "range", UploadStep.WRITE.value): Action(own_uploads.write, permissions.CHANGE_FILE),
    ("PUT", "range", UploadStep.WHOLE.value): Action(own_uploads.put_whole, permissions.CHANGE_FILE),
    ("PUT", "metadata", UploadStep.FINISH.value): Action(own_uploads.finish, permissions.CHANGE_FILE),
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
        if self.action.rule is permissions.LIST_FILES:
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
        self._check_source(call, resource, action, caller)
        return Admitted(action, Asked(self.service, call, resource, self.uploads), principal)

    def _settled(self, call: Call, resource: Resource) -> Resource:
        """The resource with its service, where the request did not say it: that which has such a name.

        A list of the account is one of both services.
        """
        if is_own(call) and call.headers.get(SERVICE) == "blob":
            return replace(resource, service="blob")
        if OWN_CLIENT in call.headers and is_own(call):
            return replace(resource, service=resource.service or "file")
        if resource.service or not resource.share:
            return resource
        backend = self.service.backend
        name = share_of(resource)
        is_share = backend.storage is not None and name in backend.storage.shares()
        is_container = backend.containers is not None and name in backend.containers.shares()
        if is_share and is_container:
            return replace(resource, service=self._service_that_has(call, resource))
        return replace(resource, service="blob" if is_container else "file")

    def _service_that_has(self, call: Call, resource: Resource) -> str:
        """Where the file lies that a request reads; what changes files has to say which service it means."""
        backend, name = self.service.backend, share_of(resource)
        places = {"file": backend.storage, "blob": backend.containers}
        if call.method in ("GET", "HEAD") and resource.path:
            found = [service for service, place in places.items() if _has(place, name, resource.path)]
            if len(found) < 2:
                return next(iter(found), "file")
        text = (
            f"A share and a container are both called {resource.share}, and the request says neither."
            f" Ask at the host {resource.account}.file.localhost or {resource.account}.blob.localhost,"
            " or give one of them another name."
        )
        raise StorageRefusal(409, "AmbiguousService", text)

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
        keys = self._keys(OWN_ACCOUNT if action is _OUTPUT else resource.account)
        authorization = call.headers.get("authorization", "")
        if "sig" in call.query:
            sas.check(call.query, resource, keys, caller)
            permissions.check(call.query, resource.service, action.rule)
            return f"signature {call.query['sig']}"
        if authorization:
            if shared_key.account_of(authorization) != resource.account:
                raise failed("The key is another account's.")
            shared_key.check(
                call.method, call.path, call.query, call.headers, keys=keys, now=datetime.now(timezone.utc)
            )
            return f"account {resource.account}"
        raise StorageRefusal(401, "NoAuthenticationInformation", "The request has no Authorization header.")

    def _check_source(self, call: Call, resource: Resource, action: Action, caller: Caller) -> None:
        """Raises unless a request may also use the file that it copies or renames.

        The account's key is enough. The address of that file may have a signature of its own; without one,
        the signature of the request has to be made for that file too.
        """
        if action.source is None:
            return
        header, rule = action.source
        url = call.headers.get(header, "")
        query = query_of(urlsplit(url).query.encode())
        if "sig" not in query:
            if "sig" not in call.query:
                return
            query = dict(call.query)
        source = place_of_url(url, resource.service)
        try:
            sas.check(query, source, self._keys(source.account), caller)
            permissions.check(query, source.service, rule)
        except StorageRefusal:
            if action is _COPY:
                raise copies.no_source(call) from None
            raise

    def _keys(self, account: str) -> tuple[str, str]:
        try:
            return self.service.keys.of(account)
        except NotFoundError:
            raise failed("There is no such account.") from None


def _has(place: Storage | None, share: str, path: str) -> bool:
    try:
        return place is not None and place.show(share, path).is_file
    except NotFoundError:
        return False


def _of_output(call: Call, resource: Resource) -> Action:
    """What jobs wrote can be read, and nothing else."""
    if call.method in ("GET", "HEAD") and resource.path:
        return _OUTPUT
    raise StorageRefusal(403, "AuthorizationPermissionMismatch", "What jobs wrote is read file by file.")


def _found(call: Call, resource: Resource, words: tuple[str, str, str]) -> Action | None:
    """The action for a method, `restype` and `comp`; headers say of a file what else is meant."""
    method, _, comp = words
    if resource.path and UPLOAD in call.headers and is_own(call):
        return _UPLOAD.get((method, comp, call.headers[UPLOAD]))
    if resource.path and words == ("PUT", "", "") and copies.SOURCE in call.headers:
        return _COPY
    # Our own client speaks to containers as it does to shares.
    is_as_share = SERVICE in call.headers and is_own(call)
    table = _BLOB if resource.service == "blob" and not is_as_share else _FILE
    if not resource.service and words == ("GET", "", "list"):
        return _ACCOUNT
    return table.get((resource.kind, *words))
