"""All processes of a plan on this machine, from their start to their end, watched over by one loop.

It moves their output to the job's files, is the process manager of MPI's ranks, records each exit code, and
takes everything down when it is told to, or disappears itself. It sleeps while there is nothing to do.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks import rank as processes
from batchai_magics.backends.node.ranks.log_seals import LogSeal
from batchai_magics.backends.node.ranks.output_streams import LogWriter, Stream, Turns
from batchai_magics.backends.node.ranks.printed_secrets import forms
from batchai_magics.backends.node.ranks.process_guard import Guard
from batchai_magics.backends.node.ranks.rank import Pipe, Rank, Ticket
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import SignedRecord, exit_record
from batchai_magics.backends.node.ranks.telemetry_sampler import Sampler, sampler
from batchai_magics.launch.plan import Launcher, LogFile, Plan, Process, ProcessExit

if TYPE_CHECKING:
    from batchai_magics.backends.node.ranks.pmi import ProcessManager
    from batchai_magics.backends.node.ranks.pmi_connections import Connections


RETRY_S = 0.2  # between two tries to write to a full disk


class Ranks:
    """The processes of a plan. `ends` has those that have ended by now, with all of their output written.

    `unwritable` is why output could not be kept, once the grace for a full disk is over: such a process
    leaves no record.
    """

    def __init__(self, plan: Plan, bell: SignalPipe, *, env: Mapping[str, str]) -> None:
        self.ends: dict[int, ProcessExit] = {}
        self.unwritable: OSError | None = None
        self.plan, self._env, self._bell = plan, env, bell
        self._secrets = forms(env[name] for name in plan.secrets if name in env)
        self._selector = selectors.DefaultSelector()
        self._selector.register(bell, selectors.EVENT_READ, self._hear)
        self._heard: set[int] = set()
        self._writers: dict[LogFile, LogWriter] = {}
        self._turns = Turns()
        self._records: dict[int, SignedRecord] = {}
        self._running: dict[int, Rank] = {}
        self._stdout: dict[int, Stream] = {}
        self._connections: Connections | None = None
        self._guard: Guard | None = None
        self._outside = Ticket({})
        self._sampler: Sampler | None = None

    def start(self) -> None:
        """Starts all of them, and serves MPI's ranks as their process manager."""
        self._guard = Guard(self.plan.guid)
        if self.plan.launcher is Launcher.MPI:
            from batchai_magics.backends.node.ranks.pmi_connections import Connections  # it loads sockets

            self._connections = Connections(self.plan, self._selector)
        for process in self.plan.processes:
            self._start(process)
        self._sampler = sampler(self.plan, first_rank=0)

    def start_one(self, index: int) -> None:
        """Starts the one process that another launcher has started this program for.

        It inherits whatever this program has, so that it reaches that launcher.
        """
        self._guard = Guard(self.plan.guid)
        self._outside = Ticket({}, None)
        self._start(self.plan.processes[index])
        self._sampler = sampler(self.plan, first_rank=index)

    @property
    def is_running(self) -> bool:
        """Whether any has not ended yet."""
        return bool(self._running)

    @property
    def manager(self) -> ProcessManager | None:
        """What MPI's ranks have told; None where the plan has none."""
        return self._connections.manager if self._connections else None

    @property
    def have_printed_the_same(self) -> bool:
        """Whether two ranks or more wrote the very same to stdout, and not nothing."""
        printed = [stream.checksum for stream in self._stdout.values() if stream.checksum]
        return len(set(printed)) < len(printed)

    @property
    def missed(self) -> Set[int]:
        """MPI's ranks that have ended while the others wait for them."""
        return self.manager.missed(self.ends.keys()) if self.manager and self.is_running else set()

    @property
    def own(self) -> set[int]:
        """The processes that belong to this one by the way it works: no part of the job."""
        return {self._guard.pid} if self._guard else set()

    @property
    def seals(self) -> dict[str, LogSeal]:
        """The logs as they are now, by file name."""
        return {log.path.rpartition("/")[2]: writer.seal for log, writer in self._writers.items()}

    def poll(self, timeout_s: float | None) -> set[int]:
        """Waits for news, no longer than that, and deals with them; gives the signals that came."""
        for key, _ in self._selector.select(self._patience(timeout_s)):
            key.data()
        for rank in [*self._running.values()]:
            self._look_after(rank)
        if self._sampler:
            self._sampler.sample_if_due(
                {rank.number: rank.group for rank in self._running.values() if not rank.end}
            )
        self._write()
        heard, self._heard = self._heard, set()
        return heard

    def kill(self) -> None:
        """Kills all that run, with what is left of their groups."""
        for rank in self._running.values():
            rank.kill()

    def give_up(self) -> None:
        """Waits for no more output: who has ended has ended so, all others are killed and leave no record."""
        for rank in [*self._running.values()]:
            rank.kill()
            if rank.end:
                rank.lose()
                self._note_end(rank, rank.end)
            else:
                rank.wait()
                rank.lose()
                self._forget(rank)

    def close(self) -> None:
        """Lets go of everything; what still runs is killed."""
        self.kill()
        for rank in [*self._running.values()]:
            rank.wait()
            self._forget(rank)
        if self._connections:
            self._connections.close()
        for writer in self._writers.values():
            writer.close()
        for record in self._records.values():
            record.close()
        if self._sampler:
            self._sampler.close()
        if self._guard:
            self._guard.dismiss()
        self._selector.close()

    def _start(self, process: Process) -> None:
        """Starts one; the record of its end has its room on the disk before."""
        self._records[process.rank] = exit_record(self.plan.exits, process.rank)
        streams = [
            Stream(self._writer(log), process.rank, self._writer(own) if own else None)
            for log, own in zip(self.plan.output_of(process), process.own or (None, None), strict=True)
        ]
        self._stdout[process.rank] = streams[0]
        with self._ticket(process.rank) as ticket:
            child = processes.start(self.plan, process, self._env, ticket=ticket)
        rank = Rank(process.rank, self.plan.node_of(process).id, child, streams)
        self._running[process.rank] = rank
        assert self._guard
        self._guard.add(rank.group)
        for pipe in rank.pipes:
            self._watch(pipe)

    def _ticket(self, rank: int) -> AbstractContextManager[Ticket]:
        return self._connections.ticket(rank) if self._connections else nullcontext(self._outside)

    def _writer(self, log: LogFile) -> LogWriter:
        if log not in self._writers:
            self._writers[log] = LogWriter(log, self._secrets, self._turns)
        return self._writers[log]

    def _hear(self) -> None:
        self._heard |= self._bell.read()

    def _watch(self, pipe: Pipe) -> None:
        self._selector.register(pipe.file, selectors.EVENT_READ, partial(self._move, pipe))

    def _move(self, pipe: Pipe) -> None:
        """Passes on output; while the disk is full, the process waits as it would for its own disk."""
        if not pipe.move():
            self._unwatch(pipe)
            pipe.file.close()
        elif pipe.stream.is_stuck:
            self._unwatch(pipe)

    def _unwatch(self, pipe: Pipe) -> None:
        if not pipe.file.closed and pipe.file in self._selector.get_map():
            self._selector.unregister(pipe.file)

    def _look_after(self, rank: Rank) -> None:
        """Shows what a process has left unfinished, and sees to the end of one that has ended."""
        rank.show_unfinished()
        if rank.reap() and self._connections:
            self._connections.hear_out(rank.number)
        if not rank.end:
            return
        if rank.is_quiet and not rank.is_drained:
            rank.drain()
        if rank.is_written:
            self._note_end(rank, rank.end)

    def _note_end(self, rank: Rank, end: ProcessExit) -> None:
        self._records[rank.number].write(end._asdict())
        self.ends[rank.number] = end
        self._forget(rank)

    def _forget(self, rank: Rank) -> None:
        for pipe in rank.pipes:
            self._unwatch(pipe)
            pipe.file.close()
        del self._running[rank.number]
        if self._guard:
            self._guard.remove(rank.group)

    def _write(self) -> None:
        """Tries again what the disk had no room for; gives up on all when the grace for that is over."""
        for writer in self._writers.values():
            if writer.stuck_since is None:
                continue
            writer.flush()
            if writer.stuck_since is None:
                self._watch_again()
            elif time.monotonic() - writer.stuck_since > self.plan.limits.disk_grace_s:
                self.unwritable = writer.problem
                self.give_up()
                return

    def _watch_again(self) -> None:
        for pipe in (pipe for rank in self._running.values() for pipe in rank.pipes):
            if not (pipe.file.closed or pipe.stream.is_stuck or pipe.file in self._selector.get_map()):
                self._watch(pipe)

    def _patience(self, timeout_s: float | None) -> float | None:
        """How long to wait for news: until the next thing that is to be done whatever comes."""
        waits_s = [] if timeout_s is None else [timeout_s]
        if any(writer.stuck_since is not None for writer in self._writers.values()):
            waits_s.append(RETRY_S)
        else:
            now_s = time.monotonic()
            dues_s = (due_s for rank in self._running.values() for due_s in rank.dues_s)
            waits_s += [max(0.0, due_s - now_s) for due_s in dues_s]
        if self._sampler:
            waits_s.append(max(0.0, self._sampler.due_s - time.monotonic()))
        return min(waits_s, default=None)
