"""The module that `import batchai_magics` loads in a job: `log`, `stopping`, `save`; standard library only.

A copy of this file is on the module path of a job's processes, after all other folders that the job names. If
the package itself is installed, the import loads the package.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

_RANKS = (
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "HOROVOD_RANK",
    "SLURM_PROCID",
    "RANK",
    "AZ_BATCHAI_TASK_INDEX",
)
_RESERVED = frozenset(
    ("step", "global_step", "iteration", "iter", "epoch", "time", "timestamp", "ts", "rank", "pid", "version")
)
_CALLS = itertools.count(1)


def log(
    values: Mapping[str, Any] = {},
    /,
    *,
    step: int | None = None,
    epoch: int | None = None,
    params: Mapping[str, Any] | Any = None,
    **metrics: Any,
) -> None:
    """Prints numbers as one line of JSON, which becomes a chart a number and a row of the job's metrics.

        log(step=step, loss=loss, images_per_sec=rate)
        log({"train/loss": loss}, epoch=epoch)
        log(params={"lr": 0.1, "optimizer": "sgd"})

    Without a step and an epoch, calls are counted from 1. A number is any value that `float` converts, such
    as a tensor with one element. Parameters of the run have a line of their own; a value that JSON cannot
    represent is written as text.

    Raises:
        TypeError: A value is not a number.
        ValueError: A name is reserved for a step, a time or a process.
    """
    line: dict[str, Any] = {"time": round(time.time(), 3), **_rank(os.getpid())}
    if isinstance(params, Mapping):
        masked = _without_secrets(params)
        _print_line({**line, "params": masked})
        _record_parameters(masked)
        if not values and not metrics:
            return
    elif params is not None:  # a metric of that name
        metrics["params"] = params
    if step is not None or epoch is None:
        line["step"] = next(_CALLS) if step is None else int(step)
    if epoch is not None:
        line["epoch"] = int(epoch)
    for name, value in {**values, **metrics}.items():
        if name in _RESERVED:
            raise ValueError(f"log(): no metric can be called {name!r}; call it for example '{name}_value'")
        line[name] = value if type(value) in (float, int) else _number(name, value)
    _print_line(line)


def _print_line(line: Mapping[str, Any]) -> None:
    """Prints JSON in the form that the live view reads (RECORD in widgets/frontend/job/log_rows.js)."""
    # text and newline in one write: lines of other processes cannot be interleaved
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


_PARAMETERS: dict[str, Any] = {}


def _record_parameters(params: Mapping[str, Any]) -> None:
    """Adds rank 0's parameters to the record of the run, from which lists and comparisons read them."""
    _PARAMETERS.update(params)
    run = os.path.dirname(os.environ.get("BATCHAI_ARTIFACT_DIR", ""))  # noqa: PTH120 as below
    if not run or _rank(os.getpid()).get("rank"):
        return
    part = f"{run}/records/parameters.json.{os.getpid()}.part"
    try:
        os.makedirs(f"{run}/records", mode=0o700, exist_ok=True)  # noqa: PTH103 as below
        with open(part, "w", encoding="utf-8", opener=_private) as file:
            file.write(json.dumps(_PARAMETERS))
        os.replace(part, part.rpartition(".json")[0] + ".json")  # noqa: PTH105 as below
    except OSError:  # they are printed all the same
        return


def _without_secrets(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as JSON values, without the job's secrets and anything named like or looking like one.

    Scalars of numpy and tensors become numbers, other objects text.
    """
    try:
        masking = importlib.import_module("batchai_secret_masking")  # beside the copy of this module
    except ImportError:
        masking = importlib.import_module("batchai_magics.models.secret_masking")
    names = os.environ.get("BATCHAI_SECRET_NAMES", "").split()
    mask = masking.SecretMask(os.environ.get(name, "") for name in names)
    values: dict[str, Any] = {}
    for name, raw_value in params.items():
        value = raw_value
        if hasattr(raw_value, "item") and not isinstance(raw_value, float):
            with contextlib.suppress(TypeError, ValueError, RuntimeError):  # not of one element
                value = raw_value.item()
        is_plain = value is None or isinstance(value, (bool, int, float))
        values[str(name)] = value if is_plain else str(value)
    return dict(masking.without_secrets(values, mask))


@functools.cache
def _rank(process: int) -> Mapping[str, int]:
    """The rank of this process, if a launcher set it; looked up again after a fork."""
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name, "").isdecimal()), None)
    return {} if rank is None else {"rank": int(rank)}


def _number(name: str, value: Any) -> float:
    """Converts other numeric types to float."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"log(): {name} is {value!r}, which is not a number; print it instead")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"log(): {name} is not a number: {error}") from error


CHECK_S = 0.2  # how often `stopping` looks for its file


def stopping() -> bool:
    """Whether this run is about to end: to be preempted, or to reach its time limit (`--signal-before`).

    A script asks it in its loop::

        for step in range(first, steps):
            train(step)
            if stopping():
                save_checkpoint(step)
                break

    Once True, it stays True. A process that then exits with 0 has not finished: with `--requeue` the run
    continues in another attempt. Outside a job it is False.
    """
    return _end_notice(os.getpid()).is_given()


class _EndNotice:
    """The warning of a process before its run ends: SIGUSR1, or a file."""

    def __init__(self) -> None:
        self._file = os.environ.get("BATCHAI_STOPPING_FILE", "")
        self._is_given, self._due = False, 0.0
        is_main = threading.current_thread() is threading.main_thread()
        if self._file and is_main and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR1, self._hurry)  # a handler of the script's own is not replaced

    def _hurry(self, *_: object) -> None:
        self._due = 0.0

    def is_given(self) -> bool:
        """Whether the run is about to end."""
        if self._is_given or not self._file or time.monotonic() < self._due:
            return self._is_given
        self._due = time.monotonic() + CHECK_S
        if os.path.exists(self._file):  # noqa: PTH110 pathlib slows the start
            self._is_given = True
            os.close(os.open(self._file + ".seen", os.O_WRONLY | os.O_CREAT, 0o600))
        return self._is_given


@functools.cache
def _end_notice(process: int) -> _EndNotice:
    """The notice of this process, which a fork does not share."""
    return _EndNotice()


def save(path: str | os.PathLike[str], name: str = "", *, step: int | None = None) -> str:
    """Keeps a copy of a file as an artifact of the job, with its step, size and SHA-256.

        torch.save(model.state_dict(), "model.pt")
        save("model.pt", step=step)

    A copy is complete or does not exist. One of the same name and step is replaced; those of other steps are
    kept. Outside a job, copies are in the folder `artifacts`.

    Args:
        path: The file.
        name: The name to keep it under, which may contain folders; by default the file's name.
        step: The step it belongs to.

    Returns:
        The path of the copy.
    """
    source = os.fspath(path)
    if os.path.isdir(source):  # noqa: PTH112 as above
        raise IsADirectoryError(f"save(): {source} is a folder; save its files, or an archive of it")
    name = name or os.path.basename(source)  # noqa: PTH119 as above
    return _artifact_store(os.getpid()).keep(source, name, None if step is None else int(step))


class _ArtifactStore:
    """Copies files to the artifacts of the run, and records them in a file of its rank or machine.

    An artifact is replaced by the rename of a complete copy, and by nothing else, whenever the process is
    killed: its record is written before, and counts from then on (see `batchai_magics.records.artifacts`).
    """

    def __init__(self) -> None:
        import platform

        artifact_folder = os.environ.get("BATCHAI_ARTIFACT_DIR", "")
        self._folder = artifact_folder or os.path.abspath("artifacts")  # noqa: PTH100 as above
        run = os.path.dirname(artifact_folder)  # noqa: PTH120 as above
        self._records = f"{run}/records/artifacts" if artifact_folder else f"{self._folder}/.records"
        self._rank = _rank(os.getpid()).get("rank")
        self._writer_id = platform.node() if self._rank is None else self._rank

    def keep(self, source: str, name: str, step: int | None) -> str:
        """Copies a file and records it; returns the path of the copy."""
        if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
            raise ValueError(
                f"save(): {name!r} is no name for an artifact, such as model.pt or best/model.pt"
            )
        relative_path = name if step is None else f"step-{step}/{name}"
        target = f"{self._folder}/{relative_path}"
        os.makedirs(self._records, mode=0o700, exist_ok=True)  # noqa: PTH103 as above
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 as above
        with open(source, "rb") as file, self._new_part() as part:  # noqa: PTH123 as above
            try:
                size, digest = _copy(file, part)
            except BaseException:
                os.unlink(part.name)  # noqa: PTH108 as above
                raise
            with self._locked():
                origin = {"rank": self._rank, "attempt": int(os.environ.get("BATCHAI_ATTEMPT", "1"))}
                copy = {"path": relative_path, "name": name, "step": step, "size": size, "sha256": digest}
                facts = {**copy, "time": time.time(), **origin}
                self._record({**facts, "part": os.path.basename(part.name)})  # noqa: PTH119 as above
                os.replace(part.name, target)  # noqa: PTH105 as above
                self._record(facts)
        return target

    def _new_part(self) -> IO[bytes]:
        """A new file to copy to, locked as long as this process has it open."""
        import tempfile  # loads much that most jobs do not need

        with self._locked():
            for name in os.listdir(self._records):  # noqa: PTH208 as above
                if name.startswith(f"{self._writer_id}.") and name.endswith(".part"):
                    # The part of a killed process, whose record is never to count.
                    with open(f"{self._records}/{name}", "rb") as part:  # noqa: PTH123 as above
                        if _lock(part.fileno(), wait=False):
                            self._record({"part": name, "discarded": True})
                            os.unlink(part.name)  # noqa: PTH108 as above
            handle, path = tempfile.mkstemp(".part", f"{self._writer_id}.", self._records)
            _lock(handle)
        return open(path, "wb", opener=lambda *_: handle)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Within the context, no other process of the run starts or ends a copy."""
        with open(f"{self._records}/lock", "ab", opener=_private) as file:
            _lock(file.fileno())
            yield

    def _record(self, facts: Mapping[str, Any]) -> None:
        """Appends a line, after a line break: a killed process may have left part of a line."""
        line = b"\n" + json.dumps(facts).encode() + b"\n"
        with open(f"{self._records}/{self._writer_id}.jsonl", "ab", opener=_private) as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _lock(handle: int, *, wait: bool = True) -> bool:
    """Locks a file until it is closed; False where another process has the lock, or files have none."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


@functools.cache
def _artifact_store(process: int) -> _ArtifactStore:
    """The store of this process, which a fork does not share."""
    return _ArtifactStore()


def _copy(source: IO[bytes], part: IO[bytes]) -> tuple[int, str]:
    """Copies a file to the disk; returns its size and SHA-256."""
    import hashlib  # loads OpenSSL, which most jobs do not need

    digest, size = hashlib.sha256(), 0
    while block := source.read(1 << 20):
        digest.update(block)
        size += part.write(block)
    part.flush()
    os.fsync(part.fileno())
    return size, digest.hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _defer_to_package() -> None:
    """Replaces this module by the installed package, if there is one."""
    spec = _installed(__name__)
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = package
    spec.loader.exec_module(package)
    for function in (log, stopping, save):
        if not hasattr(package, function.__name__):  # an older version
            setattr(package, function.__name__, function)


def _installed(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of an installed module of that name; a namespace folder does not count."""
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib slows the start
    folders = [folder for folder in sys.path if os.path.abspath(folder) != own_folder]  # noqa: PTH100 as above
    for finder in sys.meta_path:
        path = folders if finder is importlib.machinery.PathFinder else None
        spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
        if spec and spec.origin:
            return spec
    return None


if __name__ == "batchai_magics":
    _defer_to_package()
