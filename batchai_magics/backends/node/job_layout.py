"""The file names of a run, below its folder.

Programs on nodes import it, as do supervisors, which must start fast.
"""

from __future__ import annotations

from pathlib import Path


class RunEntry:
    """A file or folder of a run, by its name in the run's own folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, job: JobLayout, kind: type[JobLayout]) -> Path:
        return job.root / self._name


class JobLayout:
    """The paths of a run's private files, below its folder `root`."""

    plan = RunEntry("plan.json")  # the Plan of the job
    submitted = RunEntry("submitted.json")  # its Plan as it was submitted, before its nodes were known
    after = RunEntry("after.json")  # the runs after which it starts, if there are any
    stop_if = RunEntry("stop-if.json")  # the job's stop conditions, if it has any
    preflight = RunEntry("preflight.json")  # exists if its nodes are checked first; the Plans for fewer nodes
    preflight_exits = RunEntry("preflight-exits")  # an exit record for every node that was checked
    preparation_exits = RunEntry("preparation-exits")  # an exit record for every node that was prepared
    mounts = RunEntry("mounts")  # `$AZ_BATCHAI_JOB_MOUNT_ROOT`: links to shares
    shared_temp = RunEntry("shared")  # `$AZ_BATCHAI_SHARED_JOB_TEMP`
    workdir = RunEntry("workdir")  # the working directories of its processes, by node name
    checkpoints = RunEntry("checkpoints")  # `$BATCHAI_CHECKPOINT_DIR`: kept between its attempts
    artifacts = RunEntry("artifacts")  # `$BATCHAI_ARTIFACT_DIR`: the files that it saved under a name
    unmounted = RunEntry("unmounted")  # its logs, if they are not on a share
    host_file = RunEntry("hosts")  # `$AZ_BATCHAI_MPI_HOST_FILE`
    bin = RunEntry("bin")  # programs to put first on the job's PATH, if it needs any
    python = RunEntry("python")  # a folder on the module path of the job's processes
    registry = RunEntry("registry")  # credentials for docker and podman, while they pull the job's image
    # The output of the programs that pull its image or mount its file systems.
    tool_log = RunEntry("tool.log")
    exits = RunEntry("exits")  # an exit record for every process that has ended
    creation = RunEntry("job.json")  # the rows of the store with which the job was created
    # The variables that it inherits from its submitter, until it has ended.
    environment = RunEntry("environment.json")
    supervisor = RunEntry("supervisor")  # identifies the supervisor of the run
    end = RunEntry("end.json")  # the end of the run; exists only after it
    supervisor_log = RunEntry("supervisor.log")  # the supervisor's own output; empty if all is well
    seals = RunEntry("logs.json")  # the seals of its logs, taken when its processes had ended
    telemetry = RunEntry("telemetry")  # telemetry of its processes, a file per sampling program
    records = RunEntry("records")  # the files of its record; see `batchai_magics.records.record_files`
    # Which bytes of each log are secrets; missing if its processes have none.
    secret_spans = RunEntry("hidden")

    def __init__(self, root: Path) -> None:
        self.root = root

    def spans(self, stream: str) -> Path:
        """Which rank wrote which bytes of `stdout` or `stderr`."""
        return self.root / f"{stream}.spans"

    def times(self, stream: str) -> Path:
        """When which bytes of `stdout` or `stderr` were written."""
        return self.root / f"{stream}.times"
