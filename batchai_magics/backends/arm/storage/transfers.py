"""Files between this machine and a share: several at once, small ones in a request or two."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from batchai_magics.backends.base import Copy, PlainTransfers, ShareFile
from batchai_magics.backends.base.transfers import PIECE_BYTES, Unfinished, naming, spoiled

if TYPE_CHECKING:
    from batchai_magics.backends.arm.storage.backend import ArmStorage

_AT_ONCE = 4
T = TypeVar("T")
Steps = Generator[int, None, T]
Counts = queue.SimpleQueue["int | None"]  # None: a task is over


def send(storage: ArmStorage, share: str, copies: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    """Uploads files; each appears on the share when all of it is there and its digest is right."""
    return (yield from together([partial(_sent, storage, share, copy) for copy in copies]))


def fetch(storage: ArmStorage, share: str, copies: Sequence[Copy]) -> Steps[None]:
    """Downloads files; each appears when all of it is there and its digest is right."""
    unfinished = Unfinished()
    yield from together([partial(_fetched, storage, share, copy, unfinished) for copy in copies])


def together(tasks: Sequence[Callable[[], Steps[T]]]) -> Steps[list[T]]:
    """Some of the tasks at once, in threads; gives what each counts, and at last what each gave.

    The first that fails ends the others at their next step; so does who wants no more.
    """
    counts: Counts = queue.SimpleQueue()
    stop = threading.Event()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="transfer") as pool:
        try:
            futures = [pool.submit(_run, task, counts, stop) for task in tasks]
            for future in futures:
                future.add_done_callback(partial(_end, counts, stop))
            left = len(futures)
            while left:
                count = counts.get()
                if count is None:
                    left -= 1
                else:
                    yield count
        finally:
            stop.set()
    return _results(futures)


def _run(task: Callable[[], Steps[T]], counts: Counts, stop: threading.Event) -> T | None:
    steps = task()
    while not stop.is_set():
        try:
            counts.put(next(steps))
        except StopIteration as end:
            result: T = end.value
            return result
    steps.close()
    return None


def _end(counts: Counts, stop: threading.Event, future: Future[T | None]) -> None:
    if future.exception():
        stop.set()
    counts.put(None)


def _results(futures: Sequence[Future[T | None]]) -> list[T]:
    """What all gave; raises the first error."""
    for future in futures:
        future.result()
    return [result for future in futures if (result := future.result()) is not None]


def _sent(storage: ArmStorage, share: str, copy: Copy) -> Steps[ShareFile]:
    if not 0 < copy.size_bytes <= PIECE_BYTES:
        (file,) = yield from PlainTransfers.send(storage, share, [copy])
        return file
    with naming(copy, "read"):
        data = copy.here.read_bytes()
    sent = storage.put_whole(share, copy.there, data)
    yield len(data)
    return sent


def _fetched(storage: ArmStorage, share: str, copy: Copy, unfinished: Unfinished) -> Steps[None]:
    if not 0 < copy.size_bytes <= PIECE_BYTES:
        yield from PlainTransfers.fetch(storage, share, [copy])
        return
    data, digest = storage.whole(share, copy.there)
    if digest not in ("", hashlib.sha256(data).hexdigest()):
        raise spoiled(copy, is_changed=False)
    with naming(copy, "written"):
        part = Unfinished.name(copy.here, digest)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(copy.here)
        unfinished.drop(copy.here)
    yield len(data)
