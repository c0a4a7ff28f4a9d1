"""Assembles a server: its state and its ASGI application in front of a backend."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.base import Backend
from batchai_magics.config import Settings
from batchai_magics.server.access.access_log import AccessLog
from batchai_magics.server.access.authentication import Authenticator, Users
from batchai_magics.server.access.owners import Owners
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.http.asgi_app import App
from batchai_magics.server.http.request_limits import ServerLimits
from batchai_magics.server.operations import Operations
from batchai_magics.server.server_home import ServerHome
from batchai_magics.server.storage.account_keys import AccountKeys
from batchai_magics.server.storage.storage_metadata import MetadataStore
from batchai_magics.server.storage.unfinished_uploads import PartFiles, UnfinishedUploads


def open_context(backend: Backend, settings: Settings, home: ServerHome) -> HandlerContext:
    """The backend with the server's state; resumes operations that an earlier server left unfinished."""
    home.make()
    operations = Operations(home.operations, backend)
    operations.resume()
    return HandlerContext(
        backend=backend,
        subscription=settings.subscription,
        location=settings.location,
        group=settings.resource_group,
        operations=operations,
        owners=Owners(home.owners, backend.ownership),
        keys=AccountKeys(home.keys, backend),
        metadata=MetadataStore(home.metadata),
    )


def make_app(
    context: HandlerContext,
    limits: ServerLimits,
    home: ServerHome,
    *,
    token: str,
    names: Sequence[str],
    is_files_only: bool = False,
) -> App:
    """The ASGI application of a server.

    `token` is the administrator's, `names` are the accepted hosts. Deletes part files of earlier servers.
    """
    gate = Authenticator(token, names, Users(home.users).tokens)
    parts = PartFiles(home.uploads)
    parts.sweep(context.backend)
    log, uploads = AccessLog(home.access_log), UnfinishedUploads(parts)
    return App(context, gate, limits, log, uploads=uploads, is_files_only=is_files_only)
