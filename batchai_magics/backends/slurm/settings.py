"""The settings of the Slurm backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from batchai_magics.backends.slurm.sbatch_options import OF_CLUSTERS, OWN, SBATCH, slurm_words
from batchai_magics.config import APP, setting
from batchai_magics.errors import UsageError, did_you_mean

if TYPE_CHECKING:  # settings are also read where another backend is used
    from batchai_magics.backends.machines.machine import Machine

ANY, FIXED = "any", "fixed"


def _default_home() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir(APP, appauthor=False)) / "slurm"


@dataclass(frozen=True)
class SlurmSettings:
    """The settings of the Slurm backend."""

    BACKEND_OPTIONS: ClassVar = (SBATCH,)
    home: Path = field(
        default_factory=_default_home,
        metadata={"help": "a folder that this machine and all nodes share: state, shares, logs"},
    )
    ssh: str = setting("", "a login node to reach with `ssh`, if this machine is not one")
    ssh_command: str = setting("ssh", "the program `ssh`, with options such as `ssh -F ~/cluster.conf`")
    ssh_python: str = setting("python3", "the Python on the login node, 3.6 or later")
    conf: str = setting("", "Slurm's configuration file (SLURM_CONF), where it is not the usual one")
    partition: str = setting("", "the partition that clusters are of; Slurm's default one when empty")
    placement: str = setting(
        "any", "`any`: Slurm chooses among all nodes of the partition; `fixed`: a cluster keeps to its own"
    )
    sizes: str = setting(
        "", "options of sbatch for VM sizes, such as `Standard_NC6=-p gpu --gres=gpu:1; Standard_D2=-p cpu`"
    )
    options: str = setting("--exclusive", "options of sbatch for every job, such as `--account=lab`")
    mpi: str = setting("pmi2", "how ranks on several nodes meet: what `srun --mpi=` takes")
    python: str = setting("", "the Python that runs on nodes; the one that submits when empty")
    container_command: str = setting(
        "", "what runs containers on nodes, such as `apptainer`; `host` runs jobs without their images"
    )
    look_s: float = setting(10.0, "seconds between two queries to Slurm, shared by all kernels of a user")
    lost_s: float = setting(
        30.0, "seconds after which a job that Slurm has ended, but that reported no status, counts as lost"
    )
    core_quota: int = setting(1000, "cores that all clusters may have together")
    disk_grace_s: float = setting(60.0, "seconds that a job on a full disk waits for room")
    scratch: str = setting(
        "",
        "a folder on the nodes' own disks that jobs run in, such as `$TMPDIR`; below `slurm.home` when empty",
    )
    scratch_limit_mib: int = setting(
        10_240, "MiB of each node's scratch folder that are copied to `slurm.home` when a run ends"
    )

    @property
    def machine(self) -> Machine:
        """The machine that these folders and commands belong to."""
        if not self.ssh:
            from batchai_magics.backends.machines.machine import LocalMachine

            return LocalMachine()
        from batchai_magics.backends.machines.ssh_channel import SshChannel
        from batchai_magics.backends.machines.ssh_machine import SshMachine

        return SshMachine(SshChannel(self.ssh, ssh=self.ssh_command, python=self.ssh_python))

    @property
    def usual_home(self) -> PurePath:
        """Its home; by default, on another machine, in the user's folder there."""
        if self.ssh and self.home == _default_home():
            return PurePosixPath("~/.local/share", APP, "slurm")
        return self.home

    def options_of_size(self, vm_size: str) -> list[str]:
        """The sbatch options of a VM size, from the table `sizes`; empty if it is not listed."""
        return self._sizes().get(vm_size.strip().lower(), [])

    def check(self) -> None:
        """Raises a UsageError for an invalid setting."""
        if self.placement not in (ANY, FIXED):
            guess = did_you_mean(self.placement, (ANY, FIXED)) or f"one of {ANY}, {FIXED}"
            raise UsageError(f"setting slurm.placement: there is no {self.placement!r}", hint=guess)
        if self.scratch and not self.scratch.startswith(("/", "$")):
            hint = "Write an absolute path, or one that begins with a variable of the nodes, such as $TMPDIR."
            raise UsageError(f"setting slurm.scratch: {self.scratch!r} is not an absolute path", hint=hint)
        _words("options", self.options, {**OWN, **OF_CLUSTERS})
        self._sizes()

    def _sizes(self) -> dict[str, list[str]]:
        entries = [entry.partition("=") for entry in self.sizes.split(";") if entry.strip()]
        for name, _, options in entries:
            if not (name.strip() and options.strip()):
                hint = "Write it as `Standard_NC6=--partition=gpu --gres=gpu:1; Standard_D2=--partition=cpu`."
                raise UsageError(f"setting slurm.sizes: {name.strip()!r} has no options", hint=hint)
        return {name.strip().lower(): _words("sizes", options, OWN) for name, _, options in entries}


def _words(setting: str, options: str, refused: Mapping[str, str]) -> list[str]:
    try:
        return slurm_words(options, refused)
    except ValueError as error:
        raise UsageError(f"setting slurm.{setting}: {error}", hint="`man sbatch` has them all.") from None
