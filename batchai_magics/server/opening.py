"""A server is put together: what it keeps, in front of its backend."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.base import Backend
from batchai_magics.config import Settings
from batchai_magics.server.access.gate import Gate
from batchai_magics.server.access.log import AccessLog
from batchai_magics.server.access.owners import Owners
from batchai_magics.server.access.users import Users
from batchai_magics.server.home import Home
from batchai_magics.server.http.app import App
from batchai_magics.server.http.guard import Guard
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.metrics import Metrics
from batchai_magics.server.operations import Operations
from batchai_magics.server.service import Service
from batchai_magics.server.storage.keys import Keys
from batchai_magics.server.storage.metadata import Metadata
from batchai_magics.server.storage.part_files import PartFiles
from batchai_magics.server.storage.uploads import Uploads


def open_service(backend: Backend, settings: Settings, home: Home) -> Service:
    """The backend with what stands around it; goes on with the operations that another server has left."""
    home.make()
    operations = Operations(home.operations, backend)
    operations.resume()
    return Service(
        backend=backend,
        subscription=settings.subscription,
        location=settings.location,
        group=settings.resource_group,
        operations=operations,
        owners=Owners(home.owners, backend.ownership),
        keys=Keys(home.keys, backend),
        metadata=Metadata(home.metadata),
    )


def make_app(
    service: Service,
    limits: Limits,
    home: Home,
    *,
    token: str,
    names: Sequence[str],
    is_files_only: bool = False,
) -> Guard:
    """The application that answers for a service, with what stands before it.

    `token` is the administrator's, `names` are the host names that requests may be for. What a server before
    this one had begun to take, and not all of, is swept.
    """
    gate = Gate(token, names, Users(home.users).tokens)
    metrics = Metrics()
    parts = PartFiles(home.uploads)
    parts.sweep(service.backend)
    app = App(service, gate, limits, metrics, uploads=Uploads(parts), is_files_only=is_files_only)
    return Guard(app, limits, AccessLog(home.access_log), metrics)
