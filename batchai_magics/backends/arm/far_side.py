"""What the far side can do: `batchai serve` says so itself; of any other endpoint the least is assumed."""

from __future__ import annotations

import threading

from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.paths import Question
from batchai_magics.backends.base import ACCOUNTS, GROUPS, STORAGE, USAGES, Capabilities, Pace
from batchai_magics.backends.service.dialect import capabilities
from batchai_magics.backends.service.dialect.capabilities import Offer
from batchai_magics.errors import ServiceError, UnreachableError
from batchai_magics.models.ids import PROVIDER

NAME = "arm"
_USUAL = (STORAGE, ACCOUNTS, GROUPS, USAGES)
_NOT_LET_IN = ("AuthenticationFailed", "InvalidAuthenticationToken", "NoCredentials", "AuthorizationFailed")


class FarSide:
    """What there is at the other end; asked once, when somebody wants to know."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._offer: Offer | None = None
        self._is_known = False

    @property
    def is_own(self) -> bool:
        """Whether it is our own server, which is spoken to in our own words."""
        return self._asked() is not None

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        offer = self._asked()
        look_s = self._connection.endpoint.settings.look_s
        return offer.capabilities if offer else Capabilities(name=NAME, pace=Pace(look_s=look_s))

    def has(self, facet: str) -> bool:
        """Whether it has a facet."""
        offer = self._asked()
        return facet in (offer.facets if offer else [usual.attribute for usual in _USUAL])

    def _asked(self) -> Offer | None:
        with self._lock:
            if not self._is_known:
                self._ask()
            return self._offer

    def _ask(self) -> None:
        """Asks; who cannot be reached, or lets nobody in, is asked again the next time."""
        try:
            data = self._connection.ask(Question("GET", f"/providers/{PROVIDER}/batchaiOffer"))
        except UnreachableError:
            return
        except ServiceError as error:
            self._is_known = error.code not in _NOT_LET_IN
            return
        self._offer, self._is_known = capabilities.from_wire(data, NAME), True
