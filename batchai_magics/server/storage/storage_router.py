"""Authorizes storage requests and routes them to handlers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from urllib.parse import urlsplit

from starlette.requests import Request

from batchai_magics.backends.base import Backend, Storage
from batchai_magics.backends.service.extension_wire import OWN_CLIENT, SERVICE, UPLOAD, UploadStep
from batchai_magics.errors import NotFoundError
from batchai_magics.server.api_call import ApiCall, ApiResponse, parse_query
from batchai_magics.server.batchai.output_addresses import is_output_address
from batchai_magics.server.handler_context import HandlerContext, show_or_none
from batchai_magics.server.http.long_polling import LongPolling
from batchai_magics.server.http.request_bodies import RequestBodies, client_address
from batchai_magics.server.http.request_checks import parse_head
from batchai_magics.server.http.request_limits import ServerLimits, ThreadPool
from batchai_magics.server.http.response_encoder import response_or_error
from batchai_magics.server.storage import blobs, sas, share_files, shares, storage_extensions
from batchai_magics.server.storage.sas import RequestOrigin, SasRule
from batchai_magics.server.storage.storage_request import StorageHandler, StorageRequest, has_account_key
from batchai_magics.server.storage.storage_resource import (
    OUTPUTS,
    OWN_ACCOUNT,
    StorageApiError,
    StorageResource,
    authentication_failed,
    parse_resource,
    resource_of_url,
    storage_error_response,
    storage_of,
    without_extensions,
)
from batchai_magics.server.storage.unfinished_uploads import UnfinishedUploads


@dataclass(frozen=True)
class StorageAction:
    """A handler, and the authorization it requires.

    `source` is the header that names a second file, with the authorization required for that one.
    """

    handler: StorageHandler
    rule: SasRule
    source: tuple[str, SasRule] | None = None


# (resource type: s, c or o; method; `restype`; `comp`) → action.
_FILE_ACTIONS: Mapping[tuple[str, str, str, str], StorageAction] = {
    ("s", "GET", "", "list"): StorageAction(shares.list_shares, sas.LIST_SHARES),
    ("c", "PUT", "share", ""): StorageAction(shares.create, sas.CREATE_SHARE),
    ("c", "GET", "share", ""): StorageAction(shares.show_folder, sas.READ_SHARE),
    ("c", "DELETE", "share", ""): StorageAction(shares.delete, sas.DELETE_SHARE),
    ("c", "PUT", "share", "metadata"): StorageAction(shares.set_metadata, sas.CHANGE_SHARE),
    ("c", "GET", "share", "metadata"): StorageAction(shares.show_folder, sas.READ_SHARE),
    ("c", "GET", "directory", ""): StorageAction(shares.show_folder, sas.READ_FOLDER),
    ("c", "GET", "directory", "list"): StorageAction(shares.list_folder, sas.LIST_FILES),
    ("o", "PUT", "directory", ""): StorageAction(shares.create_folder, sas.CREATE_FOLDER),
    ("o", "GET", "directory", ""): StorageAction(shares.show_folder, sas.READ_FOLDER),
    ("o", "PUT", "directory", "metadata"): StorageAction(shares.set_metadata, sas.CHANGE_FOLDER),
    ("o", "GET", "directory", "metadata"): StorageAction(shares.show_folder, sas.READ_FOLDER),
    ("o", "DELETE", "directory", ""): StorageAction(shares.delete_folder, sas.DELETE_FOLDER),
    ("o", "GET", "directory", "list"): StorageAction(shares.list_folder, sas.LIST_FILES),
    ("o", "PUT", "directory", "rename"): StorageAction(
        share_files.rename, sas.RENAME_FOLDER, (share_files.RENAME_SOURCE, sas.DELETE_FOLDER)
    ),
    ("o", "PUT", "", "rename"): StorageAction(
        share_files.rename, sas.RENAME_FILE, (share_files.RENAME_SOURCE, sas.DELETE_FILE)
    ),
    ("o", "PUT", "", ""): StorageAction(share_files.create, sas.CREATE_FILE),
    ("o", "PUT", "", "range"): StorageAction(share_files.put_range, sas.CHANGE_FILE),
    ("o", "PUT", "", "properties"): StorageAction(share_files.set_properties, sas.CHANGE_FILE),
    ("o", "PUT", "", "metadata"): StorageAction(share_files.set_metadata, sas.CHANGE_FILE),
    ("o", "GET", "", "metadata"): StorageAction(share_files.show, sas.READ_FILE),
    ("o", "HEAD", "", "metadata"): StorageAction(share_files.show, sas.READ_FILE),
    ("o", "GET", "", "rangelist"): StorageAction(share_files.ranges, sas.READ_FILE),
    ("o", "GET", "", ""): StorageAction(share_files.read, sas.READ_FILE),
    ("o", "HEAD", "", ""): StorageAction(share_files.show, sas.READ_FILE),
    ("o", "DELETE", "", ""): StorageAction(share_files.delete, sas.DELETE_FILE),
}
_BLOB_ACTIONS: Mapping[tuple[str, str, str, str], StorageAction] = {
    ("s", "GET", "", "list"): StorageAction(shares.list_containers, sas.LIST_SHARES),
    ("c", "PUT", "container", ""): StorageAction(shares.create, sas.CREATE_SHARE),
    ("c", "GET", "container", ""): StorageAction(shares.show_folder, sas.READ_SHARE),
    ("c", "PUT", "container", "metadata"): StorageAction(shares.set_metadata, sas.CHANGE_SHARE),
    ("c", "GET", "container", "metadata"): StorageAction(shares.show_folder, sas.READ_SHARE),
    ("c", "DELETE", "container", ""): StorageAction(shares.delete, sas.DELETE_SHARE),
    ("c", "GET", "container", "list"): StorageAction(shares.list_blobs, sas.LIST_FILES),
    ("o", "PUT", "", ""): StorageAction(blobs.put, sas.CREATE_FILE),
    ("o", "PUT", "", "block"): StorageAction(blobs.put_block, sas.CHANGE_FILE),
    ("o", "PUT", "", "blocklist"): StorageAction(blobs.put_block_list, sas.CHANGE_FILE),
    ("o", "PUT", "", "metadata"): StorageAction(blobs.set_metadata, sas.CHANGE_FILE),
    ("o", "GET", "", "metadata"): StorageAction(blobs.show, sas.READ_FILE),
    ("o", "HEAD", "", "metadata"): StorageAction(blobs.show, sas.READ_FILE),
    ("o", "PUT", "", "properties"): StorageAction(blobs.set_properties, sas.CHANGE_FILE),
    ("o", "GET", "", ""): StorageAction(blobs.read, sas.READ_FILE),
    ("o", "HEAD", "", ""): StorageAction(blobs.show, sas.READ_FILE),
    ("o", "DELETE", "", ""): StorageAction(blobs.delete, sas.DELETE_FILE),
}
_LIST_ACCOUNT = StorageAction(shares.list_account, sas.LIST_SHARES)
_READ_OUTPUT = StorageAction(share_files.read_output, sas.READ_FILE)
_COPY = StorageAction(blobs.copy, sas.CREATE_FILE, (blobs.COPY_SOURCE, sas.READ_FILE))
# Chunked uploads of our own client: (method, `comp`, step) → action.
_UPLOAD_ACTIONS: Mapping[tuple[str, str, str], StorageAction] = {
    ("PUT", "", UploadStep.BEGIN.value): StorageAction(storage_extensions.begin_upload, sas.CHANGE_FILE),
    ("PUT", "range", UploadStep.WRITE.value): StorageAction(storage_extensions.write_upload, sas.CHANGE_FILE),
    ("PUT", "metadata", UploadStep.FINISH.value): StorageAction(
        storage_extensions.finish_upload, sas.CHANGE_FILE
    ),
}


@dataclass(frozen=True)
class AuthorizedRequest:
    """An authorized request: its action, and the credential that allows it."""

    action: StorageAction
    request: StorageRequest
    principal: str

    def respond(self, call: ApiCall) -> ApiResponse:
        """Runs the handler with the complete request."""
        request = replace(self.request, call=call)
        if self.action.rule is sas.LIST_FILES:
            request.uploads.drop_stale(request.resource.service)
        return self.action.handler(request)


@dataclass(frozen=True)
class StorageRouter:
    """Finds resource, handler and authorization of storage requests."""

    context: HandlerContext
    uploads: UnfinishedUploads

    def authorize(self, call: ApiCall, caller: RequestOrigin) -> AuthorizedRequest:
        """Authorizes a request by its headers and query, before its body is read."""
        resource = self._with_service(call, parse_resource(call, call.headers.get("host", "")))
        action = self._action(call, resource)
        principal = self._check(call, resource, action, caller)
        self._check_source(call, resource, action, caller)
        return AuthorizedRequest(
            action, StorageRequest(self.context, call, resource, self.uploads), principal
        )

    def _with_service(self, call: ApiCall, resource: StorageResource) -> StorageResource:
        """The resource with its service; if the request names none, the service that has such a share.

        A list of the account is for both services.
        """
        if has_account_key(call) and call.headers.get(SERVICE) == "blob":
            return replace(resource, service="blob")
        if OWN_CLIENT in call.headers and has_account_key(call):
            return replace(resource, service=resource.service or "file")
        if resource.service or not resource.share:
            return resource
        name, backend = resource.backend_share, self.context.backend
        if not _has_share(backend.containers, name):
            return replace(resource, service="file")
        if not _has_share(backend.storage, name):
            return replace(resource, service="blob")
        if call.method in ("GET", "HEAD") and resource.path:
            services = [service for service in ("file", "blob") if _has_file(backend, service, resource)]
            if len(services) < 2:
                return replace(resource, service="".join(services) or "file")
        text = (
            f"A share and a container are both called {resource.share}, and the request says neither."
            f" Ask at the host {resource.account}.file.localhost or {resource.account}.blob.localhost,"
            " or give one of them another name."
        )
        raise StorageApiError(409, "AmbiguousService", text)

    def _action(self, call: ApiCall, resource: StorageResource) -> StorageAction:
        if (resource.account, resource.share) == (OWN_ACCOUNT, OUTPUTS):
            if call.method in ("GET", "HEAD") and resource.path:
                return _READ_OUTPUT
            text = "What jobs wrote is read file by file."
            raise StorageApiError(403, "AuthorizationPermissionMismatch", text)
        if is_output_address(call, resource):
            return _READ_OUTPUT
        restype, comp = call.query.get("restype", "").lower(), call.query.get("comp", "").lower()
        method = "GET" if call.method == "HEAD" and restype else call.method
        action = _find_action(call, resource, (method, restype, comp))
        if action is None:
            message = (
                f"{call.method} of this resource with restype={restype} and comp={comp} is not offered here."
            )
            raise StorageApiError(400, "UnsupportedOperation", message)
        return action

    def _check(
        self, call: ApiCall, resource: StorageResource, action: StorageAction, caller: RequestOrigin
    ) -> str:
        """The credential that authorizes a request: the account's key, or a SAS with the required permission.

        Raises StorageApiError without a valid one.
        """
        keys = self._keys(OWN_ACCOUNT if action is _READ_OUTPUT else resource.account)
        authorization = call.headers.get("authorization", "")
        if "sig" in call.query:
            sas.check_sas(call.query, resource, keys, caller)
            sas.check_permission(call.query, resource.service, action.rule)
            return f"signature {call.query['sig']}"
        if authorization:
            if sas.authorized_account(authorization) != resource.account:
                raise authentication_failed("The key is another account's.")
            sas.check_shared_key(
                call.method, call.path, call.query, call.headers, keys=keys, now=datetime.now(timezone.utc)
            )
            return f"account {resource.account}"
        raise StorageApiError(401, "NoAuthenticationInformation", "The request has no Authorization header.")

    def _check_source(
        self, call: ApiCall, resource: StorageResource, action: StorageAction, caller: RequestOrigin
    ) -> None:
        """Raises StorageApiError unless the request may also use the file that it copies or renames.

        The account's key suffices. The source URL may have its own SAS; otherwise the SAS of the request must
        cover that file too.
        """
        if action.source is None:
            return
        header, rule = action.source
        url = call.headers.get(header, "")
        query = parse_query(urlsplit(url).query.encode())
        if "sig" not in query:
            if "sig" not in call.query:
                return
            query = dict(call.query)
        source = resource_of_url(url, resource.service)
        sas.check_sas(query, source, self._keys(source.account), caller)
        sas.check_permission(query, source.service, rule)

    def _keys(self, account: str) -> tuple[str, str]:
        try:
            return self.context.keys.of(account)
        except NotFoundError:
            raise authentication_failed("There is no such account.") from None


def _has_share(storage: Storage | None, name: str) -> bool:
    return storage is not None and storage.has(name)


def _has_file(backend: Backend, service: str, resource: StorageResource) -> bool:
    file = show_or_none(storage_of(backend, service).show, resource.backend_share, resource.path)
    return file is not None and file.is_file


def _find_action(
    call: ApiCall, resource: StorageResource, words: tuple[str, str, str]
) -> StorageAction | None:
    """The action for a method, `restype` and `comp`; some headers select other actions."""
    method, _, comp = words
    if resource.path and UPLOAD in call.headers and has_account_key(call):
        return _UPLOAD_ACTIONS.get((method, comp, call.headers[UPLOAD]))
    if blobs.COPY_SOURCE in call.headers:
        if resource.path and words == ("PUT", "", ""):
            return _COPY
        text = "Only whole files are copied here: download the source, and upload that part of it."
        raise StorageApiError(400, "UnsupportedHeader", text)
    if not resource.service and words == ("GET", "", "list"):
        return _LIST_ACCOUNT
    is_as_share = SERVICE in call.headers and has_account_key(call)  # our own client, for containers too
    actions = _BLOB_ACTIONS if resource.service == "blob" and not is_as_share else _FILE_ACTIONS
    return actions.get((resource.kind, *words))


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DEFAULT_VERSION = "2021-06-08"  # for requests without one


class StorageEndpoint:
    """Answers requests to storage."""

    def __init__(
        self, router: StorageRouter, limits: ServerLimits, *, bodies: RequestBodies, waiting: LongPolling
    ) -> None:
        self._router, self._limits, self._bodies, self._long_polling = router, limits, bodies, waiting
        self.threads = ThreadPool(limits.threads)

    async def respond(self, request: Request) -> ApiResponse:
        """The response with the version of the request; other clients get no extensions for our own."""
        respond = partial(self._respond, request)
        response = await response_or_error(request, respond, storage_error_response)
        if OWN_CLIENT not in request.headers:
            response = without_extensions(response)
        version = request.headers.get("x-ms-version") or request.query_params.get("sv", "")
        return response.with_headers(x_ms_version=version if _DATE.fullmatch(version) else _DEFAULT_VERSION)

    async def _respond(self, request: Request) -> ApiResponse:
        """The response to an authorized request; those without a valid key or SAS are rejected (401, 403)."""
        head, address = parse_head(request), client_address(request)
        origin = RequestOrigin(datetime.now(timezone.utc), address, request.url.scheme == "https")
        authorized = await self.threads.run(partial(self._router.authorize, head, origin))
        body = self._bodies.received(
            request,
            head,
            f"{authorized.principal} at {address}",
            max_bytes=self._limits.range_bytes,
            spooled_bytes=self._limits.blob_bytes,
        )
        async with body as call:
            handle = partial(self.threads.run, partial(authorized.respond, call))
            # errors are responses here: a call that waits for bytes continues to wait after a 416
            ask = partial(response_or_error, request, handle, storage_error_response)
            return await self._long_polling.wait_for_bytes(call, ask)
