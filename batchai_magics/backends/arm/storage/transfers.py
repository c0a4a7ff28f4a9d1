"""Files between this machine and a share: several at once, small ones in a request or two."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from batchai_magics.backends.base import Copy, DefaultTransfers, ShareFile
from batchai_magics.backends.base.transfers import PIECE_BYTES, Unfinished, naming, spoiled
from batchai_magics.backends.service.dialect import packs
from batchai_magics.backends.service.dialect.packs import Packed

if TYPE_CHECKING:
    from batchai_magics.backends.arm.storage.backend import ArmStorage

_AT_ONCE = 4
T = TypeVar("T")
Steps = Generator[int, None, T]
Counts = queue.SimpleQueue["int | None"]  # None: a task is over


def send(storage: ArmStorage, share: str, copies: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    """Uploads files; each appears on the share when all of it is there and its digest is right."""
    sent = yield from together([partial(_sent, storage, share, group) for group in _groups(storage, copies)])
    return [file for group in sent for file in group]


def fetch(storage: ArmStorage, share: str, copies: Sequence[Copy]) -> Steps[None]:
    """Downloads files; each appears when all of it is there and its digest is right."""
    unfinished = Unfinished()
    groups = _groups(storage, copies)
    yield from together([partial(_fetched, storage, share, group, unfinished) for group in groups])


def _groups(storage: ArmStorage, copies: Sequence[Copy]) -> Iterator[list[Copy]]:
    """The files in their order: neighbours that are small together, where the far side takes them so."""
    group: list[Copy] = []
    room = 0
    for copy in copies:
        if group and (copy.size_bytes > room or len(group) == packs.MOST_FILES):
            yield group
            group = []
        room = (room if group else packs.MOST_BYTES if storage.packed else 0) - copy.size_bytes
        group.append(copy)
    if group:
        yield group


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


def _sent(storage: ArmStorage, share: str, group: Sequence[Copy]) -> Steps[Sequence[ShareFile]]:
    if storage.packed and len(group) > 1:
        files = {copy.there: _content(copy) for copy in group}
        if sum(map(len, files.values())) <= packs.MOST_BYTES:  # else one has grown
            sent = storage.packed.store(share, files)
            yield sum(copy.size_bytes for copy in group)
            return sent
    sent_alone = []
    for copy in group:
        sent_alone.append((yield from _sent_alone(storage, share, copy)))
    return sent_alone


def _sent_alone(storage: ArmStorage, share: str, copy: Copy) -> Steps[ShareFile]:
    if not 0 < copy.size_bytes <= PIECE_BYTES:
        (file,) = yield from DefaultTransfers.send(storage, share, [copy])
        return file
    data = _content(copy)
    sent = storage.put_whole(share, copy.there, data)
    yield len(data)
    return sent


def _content(copy: Copy) -> bytes:
    with naming(copy, "read"):
        return copy.here.read_bytes()


def _fetched(storage: ArmStorage, share: str, group: Sequence[Copy], unfinished: Unfinished) -> Steps[None]:
    found: Mapping[str, Packed] = {}
    if storage.packed and len(group) > 1:
        found = storage.packed.fetch(share, [copy.there for copy in group])
    for copy in group:
        file = found.get(copy.there)
        if file is None:
            yield from _fetched_alone(storage, share, copy, unfinished)
        elif not file.is_right:
            raise spoiled(copy, is_changed=False)
        else:
            yield _kept(copy, file.data, unfinished)


def _fetched_alone(storage: ArmStorage, share: str, copy: Copy, unfinished: Unfinished) -> Steps[None]:
    if not 0 < copy.size_bytes <= PIECE_BYTES:
        yield from DefaultTransfers.fetch(storage, share, [copy])
        return
    data, digest = storage.whole(share, copy.there)
    if digest not in ("", hashlib.sha256(data).hexdigest()):
        raise spoiled(copy, is_changed=False)
    yield _kept(copy, data, unfinished)


def _kept(copy: Copy, data: bytes, unfinished: Unfinished) -> int:
    """Puts a whole file in its place; gives how many bytes it has."""
    with naming(copy, "written"):
        part = Unfinished.name(copy.here, copy.there)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(copy.here)
        unfinished.drop(copy.here)
    return len(data)
