"""Collects stacks of the ranks of a running job: once, or for some seconds to show where its time goes."""

from __future__ import annotations

import base64
import shlex
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TypeVar

from batchai_magics.backends.base import NODE_COMMANDS, Backend, CommandBytes
from batchai_magics.backends.node import stack_dumps
from batchai_magics.errors import BatchAIError, CapabilityError, ConflictError, UsageError
from batchai_magics.follow.job_errors import paths_of
from batchai_magics.models.job_execution import node_name
from batchai_magics.models.resources import JobResource, Node
from batchai_magics.models.secret_masking import SecretMask
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.flame_graph import flame_graph, speedscope
from batchai_magics.records.rank_profile import RunProfile
from batchai_magics.records.rank_stacks import RankStacks
from batchai_magics.untrusted_files import parse_json

PROFILE_S = 10.0  # by default
MIN_S, MAX_S = 1.0, 600.0
SIGNAL_HZ = 10.0  # how often ranks are sampled without py-spy
TIMEOUT_S = 60.0  # for a node to answer
FOLDER = "profiles"  # among the artifacts
_CONCURRENT, _TICK_S = 64, 1.0  # nodes that are asked concurrently, and how often a wait is interrupted
MAX_FILE = 4 << 20  # characters of a file of samples
_PIECE = 1 << 16  # characters of a file that one command can carry, compressed
_WRITER = """
import base64, os, sys, zlib
folder, name, data, final = sys.argv[1:]
os.makedirs(folder, mode=0o700, exist_ok=True)
part = os.path.join(folder, "." + name)
with open(os.open(part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "wb") as file:
    file.write(zlib.decompress(base64.b64decode(data)))
if final:
    os.rename(part, os.path.join(folder, name))
print(name)
"""

_Reply = TypeVar("_Reply")


def stacks_of(backend: Backend, job: JobResource) -> RankStacks:
    """Collects the stacks of all Python ranks of a running job; also appends them to the run's record.

    Raises:
        ConflictError: The job does not run.
        CapabilityError: The backend runs no commands on nodes.
    """
    nodes = _running_nodes(backend, job, "has stacks")

    def ask(node: Node, is_over: Event) -> list[bytes]:
        return list(_lines_of_node(backend, job, node, is_over=is_over))

    lines = chain.from_iterable(_ask_nodes(ask, nodes, _CONCURRENT))
    stacks = RankStacks.of_lines(job.id.name, lines, paths_of(job))
    named = (replace(rank, node=node_name(rank.node)) for rank in stacks.ranks)
    return replace(stacks, ranks=tuple(named))


def profile_of(
    backend: Backend,
    job: JobResource,
    seconds: float = PROFILE_S,
    *,
    rate_hz: float = SIGNAL_HZ,
    timeout_s: float = TIMEOUT_S,
    max_file: int = MAX_FILE,
) -> RunProfile:
    """Samples the stacks of all ranks of a running job, without interrupting it.

    If py-spy is installed on the nodes, it takes the samples; else the processes write their stacks on a
    signal, `rate_hz` times a second. The samples are saved among the run's artifacts.

    Raises:
        UsageError: `seconds` is too short or too long.
        ConflictError: The job does not run.
        CapabilityError: The backend runs no commands on nodes, or no node could be sampled.
    """
    if not MIN_S <= seconds <= MAX_S:
        raise UsageError(f"a profile takes {MIN_S:g} s to {MAX_S / 60:g} minutes, not {seconds:g} s")
    nodes = _running_nodes(backend, job, "can be profiled")
    lines, faults = {node.id: list[bytes]() for node in nodes}, list[BatchAIError]()

    def sample(node: Node, is_over: Event) -> None:
        sampled = _lines_of_node(
            backend, job, node, seconds, rate_hz, timeout_s=seconds + timeout_s, is_over=is_over
        )
        try:
            for line in sampled:
                lines[node.id].append(line)
        except BatchAIError as fault:  # the node is lost, or the job has ended there; all other lines count
            faults.append(fault)

    _ask_nodes(sample, nodes, len(nodes))  # all at the same time, as some ranks wait for others
    if faults and not any(lines.values()):
        now = backend.show(job.id)
        assert isinstance(now, JobResource)
        _running_nodes(backend, now, "can be profiled")
        raise faults[0]
    all_lines = chain.from_iterable(lines.values())
    profile = RunProfile.of_lines(job.id.name, all_lines, paths_of(job), mask=SecretMask())
    ranks = tuple(replace(rank, node=node_name(rank.node)) for rank in profile.ranks)
    notes = sorted({f"{fault.message[:1].upper()}{fault.message[1:]}." for fault in faults})
    profile = replace(profile, ranks=ranks, notes=tuple(notes))
    if not profile.sampled:
        return profile
    return _with_files(backend, job, profile, lines, timeout_s=timeout_s, max_file=max_file)


def _ask_nodes(ask: Callable[[Node, Event], _Reply], nodes: Sequence[Node], concurrent: int) -> list[_Reply]:
    """The replies of nodes; Ctrl-C or an error sets the event, on which running calls end."""
    is_over = Event()
    with ThreadPoolExecutor(max(1, min(concurrent, len(nodes)))) as threads:
        try:
            return list(threads.map(lambda node: ask(node, is_over), nodes))
        except BaseException:
            is_over.set()
            raise


def _with_files(
    backend: Backend,
    job: JobResource,
    profile: RunProfile,
    lines: Mapping[str, Sequence[bytes]],
    *,
    timeout_s: float,
    max_file: int,
) -> RunProfile:
    """The profile with its files, which one of its nodes writes to the ranks' folder of artifacts."""
    folders = ((node, parse_json(line)["folder"]) for node, printed in lines.items() for line in printed)
    node, artifacts = next(((node, folder) for node, folder in folders if folder), ("", ""))
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:4]}"
    texts = {
        f"{name}.svg": _text_within_limit(flame_graph, profile, max_file),
        f"{name}.speedscope.json": _text_within_limit(speedscope, profile, max_file),
    }
    deadline = time.monotonic() + timeout_s
    try:
        if not artifacts:
            raise CapabilityError("its ranks have no folder for artifacts")
        for file, text in texts.items():
            if not _write(backend, job, node, f"{artifacts}/{FOLDER}/{file}", text, deadline=deadline):
                raise CapabilityError(f"node {node} did not write them within {timeout_s:g} s")
    except BatchAIError as fault:
        note = f"The samples are not kept with the run: {fault.message}."
        return replace(profile, notes=(*profile.notes, note))
    return replace(profile, files=tuple(f"{FOLDER}/{file}" for file in texts))


def _text_within_limit(text_of: Callable[[RunProfile], str], profile: RunProfile, max_file: int) -> str:
    """The text of a file; if it is too large, with fewer stacks of each rank, the most frequent ones."""
    text, count = text_of(profile), stack_dumps.MAX_STACKS
    while len(text) > max_file and count > 1:
        count //= 4
        text = text_of(profile.of_most_frequent(count))
    return text


def _write(backend: Backend, job: JobResource, node: str, path: str, text: str, *, deadline: float) -> bool:
    """Writes a file on a node; returns False if it was not complete before the deadline."""
    folder, _, name = path.rpartition("/")
    pieces = [text[at : at + _PIECE].encode() for at in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces, 1):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return False
        data = base64.b64encode(zlib.compress(piece)).decode()
        final = "final" * (number == len(pieces))
        words = (folder, name, data, final)
        printed = b"".join(_output_of(backend, job, node, _WRITER, *words, timeout_s=left_s))
        if printed.decode().strip() != name:
            raise CapabilityError(f"{name} could not be written to {folder}")
    return True


def _running_nodes(backend: Backend, job: JobResource, action: str) -> Sequence[Node]:
    """The nodes of a job that runs.

    Raises:
        ConflictError: It does not run; `action` ends the message: `only a running job has stacks`.
        CapabilityError: The backend runs no commands on nodes.
    """
    NODE_COMMANDS.of(backend)
    if job.state is not ExecutionState.RUNNING:
        message = f"job {job.id.name} is not running ({job.word}); only a running job {action}"
        raise ConflictError(message, code="JobNotRunning")
    return backend.nodes(job.id)


def _lines_of_node(
    backend: Backend,
    job: JobResource,
    node: Node,
    *sampling: float,
    timeout_s: float = TIMEOUT_S,
    is_over: Event,
) -> Iterator[bytes]:
    """The output of `stack_dumps` about the ranks of a node, in complete lines.

    Raises:
        NotFoundError: The job has ended.
        CapabilityError: The node did not answer, or has no Python.
    """
    guid = job.output_path_segment.rpartition("/")[2]
    program = Path(stack_dumps.__file__).read_text(encoding="utf-8")
    words = [guid, node.id, *map(str, sampling)]
    incomplete = b""
    for part in _output_of(backend, job, node.id, program, *words, timeout_s=timeout_s, is_over=is_over):
        *complete, incomplete = (incomplete + part).split(b"\n")
        yield from (line for line in complete if line.startswith(b"{"))


def _output_of(
    backend: Backend,
    job: JobResource,
    node: str,
    program: str,
    *words: str,
    timeout_s: float = TIMEOUT_S,
    is_over: Event | None = None,
) -> Iterator[bytes]:
    """The output of a Python program on a node of a running job, with these arguments.

    Raises:
        NotFoundError: The job has ended.
        CapabilityError: The node did not answer, has no Python, or the program failed and printed nothing.
    """
    command = f"python3 - {shlex.join(words)} <<'BATCHAI'\n{program}\nBATCHAI\n"
    has_printed, errors = False, b""
    deadline = time.monotonic() + timeout_s
    with closing(NODE_COMMANDS.of(backend).execute(job.id, node, command, tick_s=_TICK_S)) as output:
        for part in output:
            if isinstance(part, CommandBytes) and part.is_error:
                errors += part.data
            elif isinstance(part, CommandBytes):
                has_printed = has_printed or bool(part.data)
                yield part.data
            elif part.exit_code and not has_printed:  # else it was ended, with the job
                last = errors.decode(errors="replace").strip().rpartition("\n")[2]
                raise CapabilityError(f"node {node} could not run the program: {last}")
            if is_over and is_over.is_set():
                return
            if time.monotonic() > deadline:
                raise CapabilityError(f"node {node} did not answer within {timeout_s:.0f} s")
