"""What the service lists for a location: VM sizes with their prices, and the usage of quotas."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.quota_messages import SizeFacts
from batchai_magics.errors import NotFoundError, ServiceError, UnreachableError, did_you_mean
from batchai_magics.models import vm_sizes

_SIZES_S, _USAGES_S = 3600.0, 60.0  # how long what was read is used


class LocationFacts:
    """The sizes and quotas of the workspace's location, read again once they are old."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection, self._clock = connection, clock
        self._read: dict[str, tuple[float, Sequence[Mapping[str, Any]]]] = {}

    def size(self, name: str) -> SizeFacts | None:
        """A VM size; None if the location does not have it."""
        return next((size for size in self._sizes() if size.name.lower() == name.lower()), None)

    def known_size(self, name: str) -> SizeFacts:
        """A VM size; of those that Batch AI knew, for somebody who may not read the service's list.

        Raises:
            NotFoundError: The location does not have it.
        """
        try:
            found = self.size(name)
        except UnreachableError:
            raise
        except ServiceError as error:
            return _size_of_batch_ai(name, error)
        if found is None:
            text = f"there is no VM size {name} in {self._connection.workspace.location}"
            guess = did_you_mean(name, [size.name for size in self._sizes()])
            hint = guess or "Choose one of `az vm list-sizes`, with --size or -s."
            raise NotFoundError(text, code="SizeNotFound", hint=f"{hint} Nothing was sent.")
        return found

    def usages(self, location: str = "") -> Sequence[Mapping[str, Any]]:
        """The usage of each quota, as it is now; by default of the workspace's location."""
        return [*self._connection.items(self._connection.location_request("usages", location))]

    def recent_usages(self) -> Sequence[Mapping[str, Any]]:
        """The usage of each quota in the workspace's location within the last minute."""
        return self._items("usages", _USAGES_S)

    def _sizes(self) -> Sequence[SizeFacts]:
        return [SizeFacts.from_wire(item) for item in self._items("vmSizes", _SIZES_S)]

    def _items(self, kind: str, life_s: float) -> Sequence[Mapping[str, Any]]:
        read_at, items = self._read.get(kind, (float("-inf"), ()))
        if self._clock() - read_at >= life_s:
            items = [*self._connection.items(self._connection.location_request(kind))]
            self._read[kind] = self._clock(), items
        return items


def _size_of_batch_ai(name: str, error: ServiceError) -> SizeFacts:
    """A size that Batch AI knew; else raises the error of the service."""
    try:
        size = vm_sizes.lookup(name)
    except ServiceError:
        raise error from None
    return SizeFacts(size.name, "", size.vcpus, size.gpus)
