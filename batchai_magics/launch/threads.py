"""How many threads the libraries of a process start: its share of its node's cores, unless told. Pure.

A library that is told nothing starts a thread a core of the machine in every process: eight processes on
eight cores are sixty-four threads, each of which waits for the others.
"""

from __future__ import annotations

from collections.abc import Mapping

OMP = "OMP_NUM_THREADS"
THREADS = (OMP, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def thread_variables(core_count: int, processes_per_node: int, said: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process; `said` are those that are set already: OMP's is for the others too."""
    share = str(max(1, core_count // max(1, processes_per_node)))
    count = said.get(OMP, share).partition(",")[0]  # those of nested loops follow a comma
    return {**dict.fromkeys(THREADS, count), **{name: said[name] for name in THREADS if name in said}}


def words(said: Mapping[str, str], processes_per_node: int) -> str:
    """What a dry run says of it."""
    own = [f"{name}={said[name]}" for name in THREADS if name in said]
    if own:
        return f"threads of a process: {', '.join(own)}, as the job says"
    among = f", shared by {processes_per_node} processes" if processes_per_node > 1 else ""
    return f"threads of a process: its node's cores{among} (OMP_NUM_THREADS and its like; --env sets another)"
