"""Finds out whether the endpoint is `batchai serve`: the one place that decides which API is used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from batchai_magics.backends.arm.arm_requests import ArmRequest
from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.settings import NAME
from batchai_magics.backends.service.extensions import server_info
from batchai_magics.backends.service.extensions.server_info import ServerInfo
from batchai_magics.errors import ServiceError, UnreachableError
from batchai_magics.models.resource_ids import PROVIDER

_ACCESS_DENIED = (
    "AuthenticationFailed",
    "InvalidAuthenticationToken",
    "NoCredentials",
    "AuthorizationFailed",
)
Api = TypeVar("Api")


class ServerDiscovery(Generic[Api]):
    """The API to use with an endpoint: `extended`, made from its offer, for our own server, else `published`.

    The endpoint is queried on first use. While it is unreachable or denies access, the published API is
    used and each use queries again. Thread-safe.
    """

    def __init__(self, connection: Connection, published: Api, extended: Callable[[ServerInfo], Api]) -> None:
        self._connection, self._extended = connection, extended
        self._lock = threading.Lock()
        self._api = published
        self._is_settled = False

    @property
    def api(self) -> Api:
        """The API that the endpoint understands; may send one request."""
        with self._lock:
            if not self._is_settled:
                self._query()
            return self._api

    def _query(self) -> None:
        try:
            data = self._connection.request_json(ArmRequest("GET", f"/providers/{PROVIDER}/batchaiOffer"))
        except UnreachableError:
            return
        except ServiceError as error:
            self._is_settled = error.code not in _ACCESS_DENIED
            return
        info = server_info.from_wire(data, NAME)
        if info is not None:
            self._api = self._extended(info)
        self._is_settled = True
