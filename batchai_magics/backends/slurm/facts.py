"""What is known of Slurm as an engine."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.base import Capabilities, Pace
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.machines.machine import CommandLine, Machine
from batchai_magics.backends.service.runner import ClusterRef, ClusterWarning, EngineFacts, Site
from batchai_magics.backends.slurm import bundle_writer, client, programs
from batchai_magics.backends.slurm.clusters import SlurmClusters
from batchai_magics.backends.slurm.settings import SBATCH, SlurmSettings


class SlurmFacts(EngineFacts):
    """What a Slurm cluster offers to jobs."""

    capabilities = Capabilities(
        name="slurm",
        unmanaged_mounts=False,
        key_vault=False,
        logins=False,
        stop_conditions=True,
        notifications=True,
        restarts=True,
        shared_gpus=True,
        preflight=True,
        custom_processes=True,
        backend_options=(SBATCH.name,),
        known_sizes=True,
        # Each poll reads some small files of each job: a file system that many share.
        pace=Pace(poll_interval_s=0.5),
    )
    has_node_commands = True

    def __init__(
        self, layout: Layout, machine: Machine, settings: SlurmSettings, clusters: SlurmClusters
    ) -> None:
        self._layout, self._machine, self._settings = layout, machine, settings
        self._clusters = clusters
        self.host_runs = bundle_writer.host_runs(settings)

    @property
    def python(self) -> str:
        """The interpreter used on nodes."""
        return self._settings.python or self._machine.python

    @property
    def site(self) -> Site:
        """What the Plans of runs depend on; installs the programs of nodes in the home."""
        folder = programs.installed(self._layout.home)
        return Site(
            python=self.python,
            script_wrapper=str(folder / programs.RUN_SCRIPT),
            environ=self._machine.environ,
            core_count=None,
            disk_grace_s=self._settings.disk_grace_s,
            has_scratch=bool(self._settings.scratch),
        )

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs a job's containers on nodes."""
        command = self._settings.container_command
        return bundle_writer.container_engine(
            command, has_credentials=has_credentials, has=self._machine.has_program
        )

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """Warnings if the settings now name another partition, and if Slurm does not answer."""
        return self._clusters.warnings(cluster)

    def has_uv(self) -> bool:
        """Whether jobs would find `uv`, or the module of their Python, where they are submitted."""
        env = client.command_environment(self._machine, self.python, self._settings.conf)
        line = CommandLine(["sh", "-c", "command -v uv || python -c 'import uv'"], env)
        return self._machine.run(line, timeout_s=client.TIMEOUT_S).code == 0
