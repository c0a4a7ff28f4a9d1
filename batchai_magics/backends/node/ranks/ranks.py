"""All processes of a plan on this machine, from start to end, supervised by one event loop.

It writes their output to the job's files, is the process manager of MPI's ranks, records each exit code, and
ends everything on request or when it dies itself. It sleeps while there is nothing to do.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable, Mapping, Set
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks import machine_recording
from batchai_magics.backends.node.ranks import rank as processes
from batchai_magics.backends.node.ranks.leftovers import Guard
from batchai_magics.backends.node.ranks.output_streams import (
    LastWriter,
    LogWriter,
    ProcessStream,
    logins,
    search_patterns,
)
from batchai_magics.backends.node.ranks.rank import Pipe, PmiEnvironment, Rank
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import LogSeal, SignedRecord, exit_record
from batchai_magics.backends.node.ranks.telemetry_sampler import Sampler, sampler
from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder
from batchai_magics.backends.node.ranks.trainer_file_log import TrainerFileLog, trainer_file_log
from batchai_magics.errors import is_disk_full
from batchai_magics.launch.plan import LaunchMode, LogPaths, Plan, Process, ProcessExit

if TYPE_CHECKING:
    from batchai_magics.backends.node.ranks.pmi import Connections, ProcessManager, Reply


RETRY_S = 0.2  # interval for retrying to write to a full disk
FAILED_GRACE_S = 10.0  # the maximum time that the last output of a failed process waits for room


class Ranks:
    """The processes of a plan. `ends` has the exits of those that ended, with all their output written.

    `unwritable` is why output could not be written when the grace period for a full disk ended; a process
    with such output leaves no record. Without `temporary`, the attempt's folder, it creates one.
    """

    def __init__(
        self,
        plan: Plan,
        signal_pipe: SignalPipe,
        *,
        env: Mapping[str, str],
        temporary: TemporaryFolder | None = None,
    ) -> None:
        self.ends: dict[int, ProcessExit] = {}
        self.unwritable: OSError | None = None
        self.plan, self._env, self._signal_pipe = plan, env, signal_pipe
        self._secrets = search_patterns([*(env[name] for name in plan.secrets if name in env), *logins(env)])
        self._temporary, self._has_own_folder = temporary or TemporaryFolder(), temporary is None
        self._selector = selectors.DefaultSelector()
        self._selector.register(signal_pipe, selectors.EVENT_READ, self._read_signals)
        self._signals: set[int] = set()
        self._writers: dict[LogPaths, LogWriter] = {}
        self._last_writer = LastWriter()
        self._records: dict[int, SignedRecord] = {}
        self._running: dict[int, Rank] = {}
        self._stdout: dict[int, ProcessStream] = {}
        self._connections: Connections | None = None
        self._guard: Guard | None = None
        self._external = PmiEnvironment({})
        self._sampler: Sampler | None = None
        self._trainer_files: TrainerFileLog | None = None
        self._recording: int | None = None  # the pid of the program that records this machine

    def start(self, *, node: int | None = None, manager: type[ProcessManager] | None = None) -> None:
        """Starts all processes, or one node's, and serves MPI's ranks as their process manager.

        A `manager` of its own kind serves ranks that are on other nodes too.
        """
        selected = [process for process in self.plan.processes if node in (None, process.node)]
        first = selected[0].rank
        self._guard = Guard(self.plan.guid)
        if self.plan.launcher is LaunchMode.MPI:
            from batchai_magics.backends.node.ranks import pmi  # it loads sockets

            self._connections = pmi.Connections(self.plan, self._selector, manager or pmi.ProcessManager)
        self._trainer_files = None if first else trainer_file_log(self.plan)
        for process in selected:
            self._start(process)
        self._start_monitoring(first)

    def start_one(self, index: int) -> None:
        """Starts a single process, for another launcher that started this program.

        The process inherits all descriptors of this program, so that it can reach that launcher.
        """
        self._guard = Guard(self.plan.guid)
        self._external = PmiEnvironment({}, None)
        self._trainer_files = trainer_file_log(self.plan) if index == 0 else None
        self._start(self.plan.processes[index])
        self._start_monitoring(index)

    @property
    def is_running(self) -> bool:
        """Whether any process is still running."""
        return bool(self._running)

    @property
    def manager(self) -> ProcessManager | None:
        """The process manager of MPI's ranks; None if the plan has none."""
        return self._connections.manager if self._connections else None

    def reply(self, replies: Iterable[Reply]) -> None:
        """Passes replies of a process manager elsewhere on to MPI's ranks."""
        if self._connections:
            for reply in replies:
                self._connections.send(reply)

    @property
    def printed(self) -> list[int]:
        """The checksums of the stdout of the ranks that have printed something."""
        return [stream.checksum for stream in self._stdout.values() if stream.checksum]

    @property
    def missed(self) -> Set[int]:
        """MPI ranks that have ended while others wait for them."""
        return self.manager.missed(self.ends.keys()) if self.manager and self.is_running else set()

    @property
    def helper_pids(self) -> set[int]:
        """Helper processes of this one that are not part of the job."""
        return {pid for pid in (self._recording, self._guard and self._guard.pid) if pid}

    @property
    def seals(self) -> dict[str, LogSeal]:
        """The current seals of the logs, by file name."""
        return {log.path.rpartition("/")[2]: writer.seal for log, writer in self._writers.items()}

    def poll(self, timeout_s: float | None) -> set[int]:
        """Waits up to `timeout_s` for events and handles them; returns the signals received."""
        for key, _ in self._selector.select(self._select_timeout(timeout_s)):
            key.data()
        for rank in [*self._running.values()]:
            self._update(rank)
        if self._sampler:
            self._sampler.sample_if_due(
                {rank.number: rank.group for rank in self._running.values() if not rank.end}
            )
        self._write()
        is_over = any(end.exit_code for end in self.ends.values()) or self.plan.are_workers_done(self.ends)
        if self._trainer_files and (is_over or not self._running):
            self._trainer_files.close()
            self._trainer_files = None
        elif self._trainer_files:
            self._trainer_files.update_if_due()
        signals, self._signals = self._signals, set()
        return signals

    def kill(self) -> None:
        """Kills all running processes and their groups."""
        for rank in self._running.values():
            rank.kill()

    def abandon(self) -> None:
        """Stops waiting for output: records the exits of ended processes, and kills the others."""
        for rank in [*self._running.values()]:
            rank.kill()
            if rank.end:
                rank.discard()
                self._note_end(rank, rank.end)
            else:
                rank.wait()
                rank.discard()
                self._remove(rank)

    def close(self) -> None:
        """Releases everything; running processes are killed."""
        self.kill()
        for rank in [*self._running.values()]:
            rank.wait()
            self._remove(rank)
        if self._trainer_files:
            self._trainer_files.close()
        if self._connections:
            self._connections.close()
        files: list[LogWriter | SignedRecord] = [*self._writers.values(), *self._records.values()]
        for file in files:
            file.close()
        if self._sampler:
            self._sampler.close()
        if self._recording:
            machine_recording.finish(self._recording)
        if self._guard:
            self._guard.dismiss()
        if self._has_own_folder:
            self._temporary.remove()
        self._selector.close()

    def _start_monitoring(self, first_rank: int) -> None:
        """Starts the sampler and the record of the machine, while the processes load."""
        self._sampler = sampler(self.plan, first_rank=first_rank)
        self._recording = machine_recording.start(self.plan, rank=first_rank)

    def _start(self, process: Process) -> None:
        """Starts a process, after reserving disk space for its exit record."""
        self._records[process.rank] = exit_record(self.plan.exits, process.rank)
        streams = [
            ProcessStream(self._writer(log), process.rank, self._writer(own_log) if own_log else None)
            for log, own_log in zip(self.plan.output_of(process), process.own or (None, None), strict=True)
        ]
        self._stdout[process.rank] = streams[0]
        tmpdir = self._temporary.of_node(self.plan, self.plan.node_of(process))
        connections = self._connections
        environment = connections.environment(process.rank) if connections else nullcontext(self._external)
        with environment as pmi:
            child = processes.start(self.plan, process, self._env, pmi=pmi, tmpdir=tmpdir)
        rank = Rank(process.rank, self.plan.node_of(process).id, child, streams)
        self._running[process.rank] = rank
        assert self._guard
        self._guard.add(rank.group)
        for pipe in rank.pipes:
            self._watch(pipe)

    def _writer(self, log: LogPaths) -> LogWriter:
        if log not in self._writers:
            self._writers[log] = LogWriter(log, self._secrets, self._last_writer)
        return self._writers[log]

    def _read_signals(self) -> None:
        self._signals |= self._signal_pipe.read()

    def _watch(self, pipe: Pipe) -> None:
        self._selector.register(pipe.file, selectors.EVENT_READ, partial(self._forward_output, pipe))

    def _forward_output(self, pipe: Pipe) -> None:
        """Forwards output; while the disk is full, reading stops, so the process blocks."""
        if not pipe.forward():
            self._unwatch(pipe)
            pipe.file.close()
        elif pipe.stream.is_stuck:
            self._unwatch(pipe)

    def _unwatch(self, pipe: Pipe) -> None:
        if not pipe.file.closed and pipe.file in self._selector.get_map():
            self._selector.unregister(pipe.file)

    def _update(self, rank: Rank) -> None:
        """Writes a process's unfinished lines, and handles its exit."""
        rank.write_unfinished()
        if rank.reap() and self._connections:
            self._connections.drain(rank.number)
        if not rank.end:
            return
        if rank.is_quiet and not rank.is_drained:
            rank.drain()
        if rank.is_written:
            self._note_end(rank, rank.end)

    def _note_end(self, rank: Rank, end: ProcessExit) -> None:
        self._records[rank.number].write(end._asdict())
        self.ends[rank.number] = end
        self._remove(rank)

    def _remove(self, rank: Rank) -> None:
        for pipe in rank.pipes:
            self._unwatch(pipe)
            pipe.file.close()
        del self._running[rank.number]
        if self._guard:
            self._guard.remove(rank.group)

    def _write(self) -> None:
        """Retries queued writes; gives up on all processes when the grace period for a full disk is over."""
        for writer in self._writers.values():
            if writer.stuck_since is None:
                continue
            writer.flush()
            if writer.stuck_since is None:
                for pipe in (pipe for rank in self._running.values() for pipe in rank.pipes):
                    is_paused = not (pipe.file.closed or pipe.stream.is_stuck)
                    if is_paused and pipe.file not in self._selector.get_map():
                        self._watch(pipe)
            elif time.monotonic() - writer.stuck_since > self._disk_grace_s(writer):
                self.unwritable = writer.failure
                self.abandon()
                return

    def _disk_grace_s(self, writer: LogWriter) -> float:
        """How long queued data waits for room: on a full disk, shorter if a process has failed."""
        grace_s = self.plan.limits.disk_grace_s
        has_failed = any(rank.end and rank.end.exit_code for rank in self._running.values())
        is_full = writer.problem is not None and is_disk_full(writer.problem)
        return min(grace_s, FAILED_GRACE_S) if has_failed and is_full else grace_s

    def _select_timeout(self, timeout_s: float | None) -> float | None:
        """How long to wait for events: until the next scheduled action."""
        waits_s = [] if timeout_s is None else [timeout_s]
        if any(writer.stuck_since is not None for writer in self._writers.values()):
            waits_s.append(RETRY_S)
        else:
            now_s = time.monotonic()
            due_times_s = (due_s for rank in self._running.values() for due_s in rank.due_times_s)
            waits_s += [max(0.0, due_s - now_s) for due_s in due_times_s]
        scheduled = [timer for timer in (self._sampler, self._trainer_files) if timer]
        waits_s += [max(0.0, timer.due_s - time.monotonic()) for timer in scheduled]
        return min(waits_s, default=None)
