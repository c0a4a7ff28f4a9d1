"""What takes seconds to start: shared by the tests of a process, and ended with its session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar


class Service(Protocol):
    """What runs until it is stopped."""

    def stop(self) -> None: ...


T = TypeVar("T", bound=Service)
_SHARED: list[SharedService[Any]] = []


class SharedService(Generic[T]):
    """A service that is started when a test first asks for it.

    Args:
        start: Starts one.
        is_whole: Whether one that other tests had is for the next. Else it is replaced, also if this raises.
    """

    def __init__(self, start: Callable[[], T], *, is_whole: Callable[[T], bool] = lambda _: True) -> None:
        self._start, self._is_whole = start, is_whole
        self._service: T | None = None
        _SHARED.append(self)

    def get(self) -> T:
        """The service."""
        service, self._service = self._service, None
        if service and not self._is_whole(service):
            service.stop()
            service = None
        self._service = service or self._start()
        return self._service

    def stop(self) -> None:
        """Ends it, if it was started."""
        if self._service:
            self._service.stop()
        self._service = None


def stop_all() -> None:
    """Ends what was started."""
    for shared in _SHARED:
        shared.stop()
