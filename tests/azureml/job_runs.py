"""The runs of jobs: a thread each, which gets nodes, starts processes, uploads logs and reports the end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.azureml.computes import Computes, Node, seconds
from tests.azureml.jobs import Job, artifact
from tests.azureml.mounts import JobFolders, LogUploader
from tests.azureml.node_processes import NodeProcesses
from tests.azureml.workspace import Workspace

LOOK_S = 0.02


class JobRuns:
    """Starts and stops the runs of jobs."""

    def __init__(self, folder: Path, workspace: Workspace, computes: Computes) -> None:
        self.folder, self.workspace, self.computes = folder, workspace, computes
        self._runs: list[_JobRun] = []

    def start(self, job: Job) -> None:
        """Has a job run."""
        run = _JobRun(self, job)
        self._runs.append(run)
        run.start()

    def close(self) -> None:
        """Cancels what runs, and waits for its end."""
        for run in self._runs:
            run.job.is_cancelled.set()
        for run in self._runs:
            run.join()


class _JobRun(threading.Thread):
    def __init__(self, runs: JobRuns, job: Job) -> None:
        super().__init__(daemon=True, name=f"run of {job.name}")
        self.job, self._runs = job, runs
        timeout = (job.properties.get("limits") or {}).get("timeout")
        self._wall_s = seconds(timeout) if timeout else float("inf")
        self._storage = runs.workspace.storage

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.job.error = {"code": "ServiceError", "message": f"The stand-in has failed: {error!r}"}
            self.job.change("Failed")
            raise

    def _run(self) -> None:
        self.job.change("Queued")
        nodes = self._acquire()
        if not nodes:
            return self.job.change("Canceled")
        self.job.nodes = nodes
        try:
            self._run_on_nodes()
        finally:
            if compute := self.job.properties.get("computeId"):
                self._runs.computes.find(compute).release(nodes)
            else:
                self._runs.workspace.return_cores(self.job.size, len(nodes), is_spot=self.job.is_spot)

    def _acquire(self) -> list[Node]:
        job, compute = self.job, self.job.properties.get("computeId")
        if compute:
            cluster = self._runs.computes.find(compute)
            return cluster.acquire(job.name, job.node_count, lambda: not job.is_cancelled.is_set())
        while not self._runs.workspace.take_cores(job.size, job.node_count, is_spot=job.is_spot):
            if job.is_cancelled.wait(LOOK_S):
                return []
        nodes = self._runs.computes.serverless(job.node_count, job.name)
        while any(node.state == "preparing" for node in nodes) and not job.is_cancelled.is_set():
            time.sleep(LOOK_S)
        if not job.is_cancelled.is_set():
            return nodes
        self._runs.workspace.return_cores(job.size, job.node_count, is_spot=job.is_spot)
        return []

    def _run_on_nodes(self) -> None:
        self.job.change("Preparing")
        root = self._runs.folder / self.job.name
        folders = JobFolders(root, self.job, self._runs.workspace)
        folders.prepare()
        line = f"attempt 0: {self.job.node_count} node(s)\n".encode()
        self._storage.append(*artifact(self.job, "system_logs/lifecycler/lifecycler.log"), line)
        logs = LogUploader(self._storage, self.job, root / "user_logs")
        processes = NodeProcesses(self.job, folders, logs.folder)
        self.job.change("Running")
        processes.start()
        self._watch(processes, folders, logs)

    def _watch(self, processes: NodeProcesses, folders: JobFolders, logs: LogUploader) -> None:
        job, deadline = self.job, time.monotonic() + self._wall_s
        while (code := processes.exit_code) is None and not job.is_cancelled.is_set():
            if time.monotonic() > deadline:
                break
            logs.upload()
            folders.upload()
            time.sleep(LOOK_S)
        processes.kill()
        logs.upload()
        if code is not None:
            job.change("Finalizing")
        folders.upload()
        self._end(code, processes)

    def _end(self, code: int | None, processes: NodeProcesses) -> None:
        if code:
            log = f"user_logs/{processes.roles[0].log}"
            text = f"Execution failed. User process 'bash' exited with status code {code}."
            message = f"{text} Please check log file '{log}' for error details."
            self.job.error = {"code": "UserError", "message": message, "details": []}
        elif code is None and not self.job.is_cancelled.is_set():
            self.job.warnings.append("The run was canceled: it has reached its time limit.")
        self.job.change("Canceled" if code is None else "Failed" if code else "Completed")
