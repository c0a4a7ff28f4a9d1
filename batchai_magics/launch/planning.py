"""Makes the Plan for a job, or for the setup of a cluster's nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from batchai_magics.launch.plan import (
    GRACE_S,
    Containers,
    Directory,
    Image,
    LaunchMode,
    Limits,
    LogPaths,
    Mount,
    Output,
    Plan,
    PlanNode,
    Process,
    Requirement,
    Role,
    thread_share,
)
from batchai_magics.launch.references import ReferenceKind, SharedTexts, Variables, expand, joined, reference
from batchai_magics.launch.toolkits import HOST_LISTS, NO_RECORDS, JobSite, topology
from batchai_magics.models.wire_times import duration

if TYPE_CHECKING:  # supervisors plan without the models
    from batchai_magics.models.cluster_spec import NodeSetup
    from batchai_magics.models.job_spec import ContainerSettings, JobSpec
    from batchai_magics.models.mount_volumes import MountVolumes


_SCRATCH = reference(ReferenceKind.SCRATCH, 0)
_MASTER_PORT = 6000  # the port in Azure Batch's address of the first node
OMP = "OMP_NUM_THREADS"
THREADS = (OMP, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def plan(job: JobSpec, nodes: Sequence[PlanNode], site: JobSite) -> Plan:
    """Plan a job: the commands, environments, logs and mounts of each of its nodes."""
    texts = SharedTexts()
    site = replace(site, hosts=tuple(map(texts.shared, host_lists(site.addresses))), texts=texts)
    launcher, processes = topology(job, site)
    output = _output(site, records=site.records)
    if len(processes) == 1:
        output = Output(output.stdout._replace(spans=""), output.stderr._replace(spans=""))
    job_variables, planned = set(job.variable_names), list[Process]()
    for process in processes:
        adjusted = process._replace(env=_without(process.env, job_variables))
        planned.append(_with_own_logs(job, adjusted, output, launcher))
    planned_nodes, execution_logs = list[PlanNode](), list[str]()
    for number, node in enumerate(nodes):
        planned_nodes.append(_node(job, node, number, site, len(processes)))
        suffix = ["-", node.id] if len(nodes) > 1 else []
        execution_logs.append(joined([site.stdouterr, "/execution", *suffix, ".log"]))
    return Plan(
        guid=site.guid,
        nodes=tuple(planned_nodes),
        processes=tuple(planned),
        output=output,
        exits=site.exits,
        python=site.rank_python,
        launcher=launcher,
        limits=limits(job)._replace(disk_grace_s=site.disk_grace_s),
        mounts=_mount_commands(job.mount_volumes) if job.mount_volumes else (),
        containers=Containers(_image(job.container_settings) if job.container_settings else None),
        secrets=job.secret_names,
        execution_logs=tuple(execution_logs),
        telemetry=site.telemetry,
        machines=site.machines,
        texts=tuple(texts),
        port_count=len(site.ports),
    )


def limits(job: JobSpec) -> Limits:
    """How long a job may run, and what happens at its end."""
    wall, notice, grace = job.constraints.max_wall_clock_time, job.batchai_signal_before, job.batchai_grace
    return Limits(
        wall,
        duration(wall).total_seconds(),
        max_restarts=job.batchai_max_restarts,
        warn_s=duration(notice).total_seconds() if notice else 0.0,
        grace_s=duration(grace).total_seconds() if grace else GRACE_S,
    )


def with_preparation(command: str, plan: Plan, site: JobSite) -> Plan:
    """Add the job preparation of this command: one process per node with logs of its own."""
    processes = []
    for index, node in enumerate(plan.nodes):
        suffix = ["-", node.id] if len(plan.nodes) > 1 else []
        processes.append(Process(index, index, command, output=_output(site, ["-job_prep", *suffix])))
    exits, mode = site.preparation_exits, LaunchMode.DIRECT
    preparation = plan._replace(
        processes=tuple(processes), launcher=mode, exits=exits, telemetry="", machines="", texts=()
    )
    return plan._replace(preparation=preparation)


def setup(
    node_setup: NodeSetup, node: PlanNode, *, mount_root: str, python: str, exits: str, logs: str = ""
) -> Plan:
    """Plan the mounts and the setup task of one node; `logs` is the folder for the task's output."""
    plan = Plan(
        guid=node.id,
        nodes=(node,),
        processes=(),
        output=Output(LogPaths(""), LogPaths("")),
        exits=exits,
        python=python,
        mounts=_mount_commands(node_setup.mount_volumes) if node_setup.mount_volumes else (),
    )
    task = node_setup.setup_task
    if task is None:
        return plan
    env = {"AZ_BATCHAI_MOUNT_ROOT": mount_root}
    env |= {item.name: expand(item.value, env) for item in task.environment_variables or ()}
    files = (joined([f"{logs}/{stream}-", node.id, ".txt"]) for stream in ("stdout", "stderr"))
    return plan._replace(
        nodes=tuple(item._replace(env=env) for item in plan.nodes),
        processes=(Process(0, 0, task.command_line),),
        output=Output(*map(LogPaths, files)),
        secrets=tuple(item.name for item in task.secrets or ()),
        is_elevated=bool(task.run_elevated),
    )


def _mount_commands(volumes: MountVolumes) -> tuple[Mount, ...]:
    systems = volumes.unmanaged_file_systems or ()
    return tuple(Mount(system.mount_command, system.relative_mount_path) for system in systems)


def _image(settings: ContainerSettings) -> Image:
    """The image of a job's container; the password of its registry is a secret, which no plan has."""
    source = settings.image_source_registry
    username = source.credentials.username if source.credentials else ""
    return Image(source.image, source.server_url or "", username, settings.shm_size or "")


def _node(job: JobSpec, node: PlanNode, number: int, site: JobSite, process_count: int) -> PlanNode:
    """The node with the variables of each process, except secrets; later ones may refer to earlier ones."""
    variables = {
        "AZ_BATCHAI_MOUNT_ROOT": site.mount_root,
        "AZ_BATCHAI_JOB_MOUNT_ROOT": site.job_mount_root,
        "AZ_BATCHAI_STDOUTERR_DIR": site.stdouterr,
        "AZ_BATCHAI_JOB_TEMP": node.folder,
        "AZ_BATCHAI_JOB_TEMP_DIR": node.folder,
        "AZ_BATCHAI_SHARED_JOB_TEMP": site.shared_temp,
        "AZ_BATCHAI_MPI_HOST_FILE": site.host_file,
        **({"BATCHAI_CHECKPOINT_DIR": site.checkpoints} if site.checkpoints else {}),
        **({"BATCHAI_ARTIFACT_DIR": site.artifacts} if site.artifacts else {}),
        "AZ_BATCHAI_NUM_GPUS": str(site.gpu_count),
        **({"CUDA_VISIBLE_DEVICES": site.devices[number]} if site.devices else {}),
        **({"CUDA_DEVICE_ORDER": site.device_order} if site.devices or site.gpu_count else {}),
    }
    folders = tuple(_directories(job, variables, site.output_segment))
    known = Variables(
        {
            **batch_variables(node, number, site),
            **variables,
            **({"BATCHAI_SECRET_NAMES": " ".join(job.secret_names)} if job.secret_names else {}),
            **{folder.variable: folder.path for folder in folders},
        }
    )
    for item in job.environment_variables or ():
        known[item.name] = expand(item.value, known)
    if site.module_path:
        known["PYTHONPATH"] = joined(filter(None, [known.get("PYTHONPATH", ""), site.module_path]), ":")
    per_node = -(-process_count // job.node_count)
    env = _without({**thread_variables(site.core_count, per_node, known), **known}, set(job.secret_names))
    return node._replace(env=env, directories=folders)


def _without(env: Mapping[str, str], names: Set[str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}


def _with_own_logs(job: JobSpec, process: Process, output: Output, launcher: LaunchMode) -> Process:
    """The process with log files of its own, without spans and times, if the service gave it some.

    The tutorials of TensorFlow, PyTorch and Caffe2 stream `stdout-wk-0.txt`, `stdout-0.txt`, `stderr-1.txt`;
    toolkits under mpirun had one log for all processes.
    """
    if job.tensor_flow_settings:
        kind = "ps" if process.role is Role.PARAMETER_SERVER else "wk"
        label = f"{kind}-{process.env['AZ_BATCHAI_TASK_INDEX']}"
    elif (job.py_torch_settings or job.caffe2_settings) and launcher is LaunchMode.DIRECT:
        label = str(process.rank)
    else:
        return process
    files = []
    for log in output:
        path, hidden = (re.sub(r"(?=\.txt$)", f"-{label}", text) for text in (log.path, log.hidden))
        files.append(LogPaths(path, hidden=hidden))
    return process._replace(own=Output(*files))


def _output(site: JobSite, suffix: Sequence[str] = (), *, records: Output = NO_RECORDS) -> Output:
    """The logs with this suffix of their names, and what is recorded beside them."""
    logs = []
    for stream, record in zip(("/stdout", "/stderr"), records, strict=True):
        name = joined([stream, *suffix, ".txt"])
        hidden = joined([site.hidden, name]) if site.hidden else ""
        logs.append(record._replace(path=joined([site.stdouterr, name]), hidden=hidden))
    return Output(*logs)


def _directories(job: JobSpec, variables: Mapping[str, str], segment: str) -> Iterator[Directory]:
    """The directories of the job on a node with these variables; `segment` is the path of its run.

    The path of a directory may contain variables of earlier ones.
    """
    known = Variables(variables)
    working_directory = known.get("AZ_BATCHAI_JOB_TEMP", "")
    needs = {None: Requirement.NOTHING, True: Requirement.CREATE, False: Requirement.EXIST}
    declared = [
        Directory(f"AZ_BATCHAI_INPUT_{item.id}", item.path, needs[item.create_new])
        for item in job.input_directories or ()
    ]
    for item in job.output_directories or ():
        need = Requirement.CREATE if item.is_own else Requirement.EXIST
        path = item.path_below(item.path_prefix, segment)
        declared.append(Directory(f"AZ_BATCHAI_OUTPUT_{item.id}", path, need))
    for directory in declared:
        path = expand(directory.path, known)
        if working_directory and not path.startswith(("/", "$", _SCRATCH)):
            path = joined([working_directory, "/", path])
        known[directory.variable] = path
        yield directory._replace(path=path)


def batch_variables(node: PlanNode, number: int, site: JobSite) -> dict[str, str]:
    """The variables that describe the job's nodes and their folders to a process on one of them."""
    first = site.addresses[0]
    return {
        **dict(zip(HOST_LISTS, site.hosts or host_lists(site.addresses), strict=True)),
        "AZ_BATCH_MASTER_NODE": joined([first, f":{_MASTER_PORT}"]),
        "AZ_BATCH_IS_CURRENT_NODE_MASTER": "false" if number else "true",
        "AZ_BATCH_NODE_ID": node.id,
        "AZ_BATCH_TASK_WORKING_DIR": node.folder,
        "AZ_BATCH_TASK_SHARED_DIR": site.shared_temp,
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": first,
        "AZ_BATCHAI_NUM_GPUS_PER_NODE": str(site.gpu_count),
    }


def host_lists(hosts: Sequence[str]) -> tuple[str, ...]:
    """The values of the variables that name all nodes."""
    counted = joined([str(len(hosts)), *(joined([host, " 1"]) for host in hosts)], " ")
    return joined(hosts, ","), joined(hosts, ";"), counted


def thread_variables(
    core_count: int | None, processes_per_node: int, variables: Mapping[str, str]
) -> dict[str, str]:
    """The thread count variables of a process; a given OMP_NUM_THREADS applies to the other libraries too.

    Without a number of cores the count is a reference.
    """
    if OMP in variables:
        count = variables[OMP].partition(",")[0]  # counts of nested loops follow a comma
    elif core_count is None:
        count = reference(ReferenceKind.THREADS, 0)
    else:
        count = str(thread_share(core_count, processes_per_node))
    return dict.fromkeys(THREADS, count) | {name: variables[name] for name in THREADS if name in variables}
