"""The launchers whose command lines are translated: what becomes of each option, and what they count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from batchai_magics.errors import UsageError


@dataclass(frozen=True)
class LauncherSyntax:
    """A launcher's options, without their dashes and with `-` for `_`.

    Attributes:
        toolkit: The toolkit that starts the same processes.
        counts: Options with a number, and which one of `LauncherCounts` it is.
        modules: Switches that say that a module follows.
        variables: Options with a variable of the job, as MPI has them.
        hosts: Options with a list of hosts (`a:2,b:2`).
        host_files: Options with a file that lists hosts and their slots.
        dropped: Other options with a value, which the job's launcher replaces.
        pairs: The same with a name and a value.
        switches: The same without a value.
        environment: Options with a value that the script's library reads from this variable.
        flags: Options without a value, as variables that the script's library reads.
        prefixes: Options with a value whose variables begin with this, by the beginning of their names.
        refused: Options that cannot be translated, and what to write instead.
        rank_option: The option with which the script is told its local rank; empty: only by a variable.
        default_processes: Processes on each node without an option; None: one per GPU.
        is_total: Whether the number of processes counts all nodes, not each one.
        needs_count: Whether the number of processes must be given.
    """

    toolkit: str
    counts: Mapping[str, str]
    modules: tuple[str, ...] = ("m", "module")
    variables: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    host_files: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    rank_option: str = ""
    default_processes: int | None = None
    is_total: bool = False
    needs_count: bool = False


_NOT_PYTHON = "a job runs Python: name the .py file, or the module with -m"
_ELASTIC = {
    "no-python": _NOT_PYTHON,
    "run-path": "leave it out: the script runs in a Python of its own",
    "virtual-local-rank": "use LOCAL_RANK as the number of the GPU",
    "numa-binding": "leave it out",
    "logs-specs": "leave it out: the log of each rank is kept",
}
TORCHRUN = LauncherSyntax(
    "pytorch",
    counts={"nproc-per-node": "processes", "nnodes": "nodes"},
    dropped=(
        *("rdzv-backend", "rdzv-endpoint", "rdzv-conf", "node-rank", "master-addr", "master-port"),
        *("local-addr", "max-restarts", "monitor-interval", "start-method", "log-dir", "tee", "t"),
        *("redirects", "r", "local-ranks-filter", "event-log-handler", "signals-to-handle"),
        *("shutdown-timeout", "duplicate-stdout-filters", "duplicate-stderr-filters"),
    ),
    switches=("standalone", "use-env"),
    environment={"rdzv-id": "TORCHELASTIC_RUN_ID", "role": "ROLE_NAME"},
    refused=_ELASTIC,
    default_processes=1,
)
# The old module passes the local rank as an option, unless `--use-env` is given.
TORCH_LAUNCH = replace(TORCHRUN, rank_option="--local-rank")
_DEEPSPEED_BY_OWN_LAUNCHER = "write the line of `deepspeed`, which is translated too"
ACCELERATE = LauncherSyntax(
    "pytorch",
    counts={"num-processes": "processes", "num-machines": "nodes"},
    dropped=(
        *("machine-rank", "main-process-ip", "main-process-port", "rdzv-backend", "rdzv-conf", "tee", "t"),
        *("max-restarts", "monitor-interval", "log-dir", "main-training-function", "mpirun-hostfile"),
        *("deepspeed-multinode-launcher", "deepspeed-hostfile"),
        "config-file",  # whose settings become options
    ),
    switches=("multi-gpu", "same-network", "quiet", "q", "no-tpu-cluster"),
    environment={
        "mixed-precision": "ACCELERATE_MIXED_PRECISION",
        "gradient-accumulation-steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
        "gradient-clipping": "ACCELERATE_GRADIENT_CLIPPING",
        "num-cpu-threads-per-process": "OMP_NUM_THREADS",
        "role": "ROLE_NAME",
        "dynamo-backend": "ACCELERATE_DYNAMO_BACKEND",
        "dynamo-mode": "ACCELERATE_DYNAMO_MODE",
        "zero-stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
        "offload-optimizer-device": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
        "offload-param-device": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
        "zero3-init-flag": "ACCELERATE_DEEPSPEED_ZERO3_INIT",
        "zero3-save-16bit-model": "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
        "deepspeed-config-file": "ACCELERATE_DEEPSPEED_CONFIG_FILE",
        "deepspeed-fields-from-accelerate-config": "ACCELERATE_CONFIG_DS_FIELDS",  # of its settings
        "deepspeed-moe-layer-cls-names": "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES",
        "fsdp-transformer-layer-cls-to-wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP",
    },
    flags={
        "cpu": {"ACCELERATE_USE_CPU": "true"},
        "use-cpu": {"ACCELERATE_USE_CPU": "true"},
        "multi-cpu": {"ACCELERATE_USE_CPU": "true"},
        "debug": {"ACCELERATE_DEBUG_MODE": "true"},
        "enable-cpu-affinity": {"ACCELERATE_CPU_AFFINITY": "1"},
        "dynamo-use-fullgraph": {"ACCELERATE_DYNAMO_USE_FULLGRAPH": "True"},
        "dynamo-use-dynamic": {"ACCELERATE_DYNAMO_USE_DYNAMIC": "True"},
        "dynamo-use-regional-compilation": {"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "True"},
        "use-deepspeed": {"ACCELERATE_USE_DEEPSPEED": "true"},
        "use-fsdp": {  # with the launcher's own defaults, which differ from the library's
            "ACCELERATE_USE_FSDP": "true",
            "FSDP_VERSION": "1",
            "FSDP_SHARDING_STRATEGY": "FULL_SHARD",
            "FSDP_RESHARD_AFTER_FORWARD": "true",
            "FSDP_OFFLOAD_PARAMS": "false",
            "FSDP_MIN_NUM_PARAMS": "100000000",
            "FSDP_FORWARD_PREFETCH": "false",
            "FSDP_USE_ORIG_PARAMS": "true",
            "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
            "FSDP_SYNC_MODULE_STATES": "true",
            "FSDP_ACTIVATION_CHECKPOINTING": "false",
            "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "false",
        },
    },
    prefixes={"fsdp-": "FSDP_"},
    refused={
        **_ELASTIC,
        "gpu-ids": "write --gpus N of `batchai run`: the backend chooses the GPUs of a node",
        "tpu": "jobs have no TPUs",
        "use-megatron-lm": "pass a MegatronLMPlugin to Accelerator() in the script",
        "use-parallelism-config": "pass a ParallelismConfig to Accelerator() in the script",
        "deepspeed-inclusion-filter": _DEEPSPEED_BY_OWN_LAUNCHER,
        "deepspeed-exclusion-filter": _DEEPSPEED_BY_OWN_LAUNCHER,
    },
    is_total=True,
)
DEEPSPEED = LauncherSyntax(
    "pytorch",
    counts={"num-gpus": "processes", "num-accelerators": "processes", "num-nodes": "nodes"},
    hosts=("include", "i"),
    host_files=("hostfile", "H"),
    dropped=(
        *("master-addr", "master-port", "launcher", "launcher-args", "node-rank", "log-level", "ssh-port"),
        *("enable-each-rank-log", "bind-core-list"),
    ),
    switches=("no-ssh", "no-ssh-check", "force-multi", "save-pid", "quiet", "q"),
    refused={
        "exclude": "write --num_nodes and --num_gpus: the backend chooses the nodes",
        "e": "write --num_nodes and --num_gpus: the backend chooses the nodes",
        "no-python": _NOT_PYTHON,
        "autotuning": "leave it out: a sweep tries settings (batchai sweep)",
        "elastic-training": "leave it out: a job's nodes do not change while it runs",
        "bind-cores-to-rank": "leave it out: each process has its share of the threads",
    },
    rank_option="--local_rank",
)
MPIRUN = LauncherSyntax(
    "horovod",
    counts={
        **dict.fromkeys(("np", "n", "c"), "processes"),
        **dict.fromkeys(("ppn", "npernode", "N", "perhost"), "per_node"),
    },
    modules=(),
    variables=("x", "genv", "env"),
    hosts=("host", "H", "hosts"),
    host_files=("hostfile", "machinefile", "f"),
    dropped=(
        *("bind-to", "rank-by", "iface", "launcher", "bootstrap", "start-timeout", "network-interface"),
        "map-by",  # but for ppr:N:node, a count
    ),
    pairs=("mca", "gmca"),
    switches=(
        *("oversubscribe", "allow-run-as-root", "verbose", "v", "tag-output", "prepend-rank", "gloo", "mpi"),
        *("l", "display-map", "report-bindings"),
    ),
    is_total=True,
    needs_count=True,
)
LAUNCHERS = {
    ("torchrun",): TORCHRUN,
    ("python", "-m", "torch.distributed.run"): TORCHRUN,
    ("python", "-m", "torch.distributed.launch"): TORCH_LAUNCH,
    ("accelerate", "launch"): ACCELERATE,
    ("accelerate-launch",): ACCELERATE,
    ("python", "-m", "accelerate.commands.launch"): ACCELERATE,
    ("deepspeed",): DEEPSPEED,
    ("mpirun",): MPIRUN,
    ("mpiexec",): MPIRUN,
    ("horovodrun",): MPIRUN,
}
NAMES = "python, torchrun, accelerate launch, deepspeed, mpirun, mpiexec, horovodrun and uv run"


@dataclass(frozen=True)
class JobCounts:
    """The numbers of a job; 0: not given. `gpus` of a node are None if unknown."""

    nodes: int = 0
    processes: int = 0
    gpus: int | None = None


@dataclass
class LauncherCounts:
    """The numbers that a launcher's options give; 0: not given.

    `chosen`: the hosts that are chosen among them, with the number of chosen slots; 0: all.
    """

    nodes: int = 0
    processes: int | None = 0  # processes on each node, or of all nodes; None: one per GPU
    per_node: int = 0  # processes on each node beside a total number
    hosts: Mapping[str, int] = field(default_factory=dict)  # the hosts, with their slots; 0: unknown
    chosen: Mapping[str, int] = field(default_factory=dict)

    def for_job(self, launcher: LauncherSyntax, requested: JobCounts) -> JobCounts:
        """The job's numbers; those requested for the job replace the launcher's.

        Raises:
            UsageError: The hosts have different numbers of slots, or the line leaves the number open.
        """
        slots = self._slots()
        nodes = self.nodes or len(self._used_hosts)
        if launcher.is_total:
            total = self.processes or (self.per_node or slots) * len(self.hosts)
            nodes = self._nodes_for(total, slots) or nodes
        else:
            total = self._on_each_node(launcher, slots) * (requested.nodes or nodes or 1)
        counts = JobCounts(requested.nodes or nodes, requested.processes or total)
        if launcher.needs_count and not counts.processes:
            raise UsageError("the number of processes is missing", hint="Write -np N.")
        return counts

    @property
    def _used_hosts(self) -> Mapping[str, int]:
        """The hosts that are chosen, or else all, with their slots."""
        return {name: count or self.hosts.get(name, 0) for name, count in self.chosen.items()} or self.hosts

    def _on_each_node(self, launcher: LauncherSyntax, slots: int) -> int:
        """The processes of a node; 0: one per GPU."""
        if self.processes is None:
            return 0
        return self.processes or slots or launcher.default_processes or 0

    def _nodes_for(self, total: int, slots: int) -> int:
        """The nodes that take a total number of processes, if the line says how many each takes."""
        per_node = self.per_node or slots
        if per_node and not self.nodes:
            return math.ceil(total / per_node)
        return min(self.nodes or len(self.hosts), total) if self.hosts else 0

    def _slots(self) -> int:
        """The slots of each host; 0 if unknown."""
        hosts = self._used_hosts
        slots = set(list(hosts.values())[: self.nodes or None])
        if len(slots) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in hosts.items())
            hint = "All nodes of a job have the same number: write --nodes and --processes of `batchai run`."
            raise UsageError(f"the hosts have different numbers of slots: {listed}", hint=hint)
        return slots.pop() if slots else 0
