"""An assigned job becomes a plan on disk: folders, links, and what the supervisor starts."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import sqlite3
from pathlib import Path
from typing import Any

from batchai_magics import launch
from batchai_magics.backends.local import containers, devices, open_mpi
from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import CapabilityError
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import STDOUTERR, JobSpec
from batchai_magics.models.times import duration

DISK_GRACE_S = 60.0
RUN_SCRIPT = str(Path(__file__).parents[2] / "node" / "run_script.py")


def output_segment(id: ResourceId, guid: str) -> str:
    """The path below the output prefix that belongs to one run of a job, as the service wrote it."""
    scope = f"{id.subscription}/{id.group}/workspaces/{id.workspace}"
    return f"{scope}/experiments/{id.experiment}/jobs/{id.name}/{guid}"


def write(store: Store, layout: Layout, row: sqlite3.Row) -> None:
    """Makes the job's folders and writes its plan; the plan appears whole or not at all."""
    with store.read() as db:
        id, wire = db.execute("SELECT id, spec FROM resource WHERE key = ?", (row["key"],)).fetchone()
        nodes = db.execute(
            "SELECT node.id, cluster.guid, resource.spec,"
            " (SELECT count(*) FROM node AS mate WHERE mate.cluster = node.cluster) AS mates,"
            " (SELECT count(*) FROM node AS mate WHERE mate.cluster = node.cluster"
            " AND mate.ordinal < node.ordinal) AS position"
            " FROM node JOIN cluster ON cluster.key = node.cluster"
            " JOIN resource ON resource.key = node.cluster WHERE job = ? ORDER BY ordinal",
            (row["guid"],),
        ).fetchall()
    spec = JobSpec.from_wire(json.loads(wire))
    job = layout.job(row["guid"])
    segment = output_segment(ResourceId.parse(id), row["guid"])
    _make_folders(layout, job, spec)
    here = devices.machine()
    shares = [_node_share(layout, job, node, here) for node in nodes]
    place = _place(row, job, segment, spec)
    plan = launch.plan(spec, shares, place)
    body = _body(plan, spec, shares, place, row)
    seen = (layout.home, Path(RUN_SCRIPT))
    if plan.preparation:
        prepared = _preparation(body, plan.preparation, job)
        write_json(job.plan.with_name("preparation.json"), containers.boxed(prepared, spec, seen))
    write_json(job.plan, containers.boxed(body, spec, seen))


def _make_folders(layout: Layout, job: JobLayout, spec: JobSpec) -> None:
    for stale in (job.exits, job.root / "preparation-exits"):
        shutil.rmtree(stale, ignore_errors=True)
        stale.mkdir(parents=True, mode=0o700)
    job.shared_temp.mkdir(exist_ok=True)
    mounts.link(layout, job.mounts, spec.mount_volumes)


def _node_share(layout: Layout, job: JobLayout, node: sqlite3.Row, here: devices.Machine) -> launch.NodeShare:
    cluster_spec = json.loads(node["spec"])["properties"]
    folder = layout.node(node["guid"], node["id"])
    temp = folder / "jobs" / job.root.name
    for path in (folder / "tmp", temp):
        path.mkdir(parents=True, exist_ok=True)
    return launch.NodeShare(
        id=node["id"],
        gpu_count=devices.gpu_count(cluster_spec["vmSize"]),
        mount_root=str(layout.mounts(node["guid"])),
        job_mount_root=str(job.mounts),
        temp=str(temp),
        devices=here.gpu_share(node["position"], node["mates"]),
        core_count=here.core_share(node["mates"]),
    )


def _place(row: sqlite3.Row, job: JobLayout, segment: str, spec: JobSpec) -> launch.JobPlace:
    stdouterr = Path(row["output_root"]) / segment / STDOUTERR
    stdouterr.mkdir(parents=True, exist_ok=True)
    return launch.JobPlace(
        stdouterr=str(stdouterr),
        shared_temp=str(job.shared_temp),
        host_file=str(job.host_file),
        output_segment=segment,
        python="python" if json.loads(row["engine"]) else row["python"],
        python_wrapper=RUN_SCRIPT,
        ports=_free_ports(launch.port_count(spec)),
    )


def _body(
    plan: launch.LaunchPlan,
    spec: JobSpec,
    shares: list[launch.NodeShare],
    place: launch.JobPlace,
    row: sqlite3.Row,
) -> dict[str, Any]:
    count = len(plan.processes)
    job = JobLayout(Path(place.host_file).parent)
    job.host_file.write_text("".join(f"{share.id}\n" for share in shares), encoding="utf-8")
    told = open_mpi.choose([p.command for p in plan.processes], job, [share.id for share in shares])
    max_wall = spec.constraints.max_wall_clock_time
    return {
        "guid": row["guid"],
        "launcher": plan.launcher.value,
        "mpiexec": mpiexec(row["python"]) if plan.launcher is launch.Launcher.MPI else "",
        "per_node": math.ceil(count / len(shares)),
        "python": row["python"],
        "preparation": plan.preparation,
        "engine": json.loads(row["engine"]),
        "notes": [*notes(spec, plan.launcher, row), *told],
        "removals": [],
        "pull": None,
        "mounts": mounts.commands(spec.mount_volumes),
        "max_wall": max_wall,
        "max_wall_s": duration(max_wall).total_seconds(),
        "disk_grace_s": float(os.environ.get("BATCHAI_DISK_GRACE_S", DISK_GRACE_S)),
        "exits": str(job.exits),
        "is_shared": count > 1,
        **_streams(Path(place.stdouterr), job),
        "execution_logs": execution_logs(Path(place.stdouterr), shares),
        "nodes": _nodes(plan, shares, open_mpi.environment(job, row["python"])),
        "processes": [
            {"node": p.node, "command": p.command, "env": dict(p.env), "role": p.role.value}
            for p in plan.processes
        ],
    }


def _streams(folder: Path, job: JobLayout) -> dict[str, str]:
    """Where stdout and stderr go, and who wrote what of them when; the files are there from the start."""
    streams = {name: folder / f"{name}.txt" for name in ("stdout", "stderr")}
    for path in streams.values():
        path.touch()
    spans = {f"{name}_spans": str(job.spans(name)) for name in streams}
    times = {f"{name}_times": str(job.times(name)) for name in streams}
    return {**{name: str(path) for name, path in streams.items()}, **spans, **times}


def _nodes(
    plan: launch.LaunchPlan, shares: list[launch.NodeShare], extra: dict[str, str]
) -> list[dict[str, Any]]:
    count = len(plan.processes)
    return [
        {
            "id": share.id,
            "env": _threads({**env, **extra}, shares, count),
            "cwd": share.temp,
            "tmp": _tmp(share),
            "directories": [
                {"variable": item.variable, "path": item.path, "need": item.need.value}
                for item in directories
                if item.need is not launch.Need.NOTHING
            ],
        }
        for share, env, directories in zip(shares, plan.node_env, plan.directories, strict=True)
    ]


def notes(spec: JobSpec, launcher: launch.Launcher, row: sqlite3.Row) -> list[str]:
    """What is said once, because it is not as the description asks for."""
    engine = json.loads(row["engine"])
    if spec.container_settings and not engine:
        image = spec.container_settings.image_source_registry.image
        return [
            f"no docker, podman or apptainer works here: image {image} is not used, the job runs on the host"
        ]
    return containers.notes(spec, launcher, engine)


def execution_logs(folder: Path, shares: list[launch.NodeShare]) -> list[str]:
    """`execution.log`, or one of each node when there are several."""
    if len(shares) == 1:
        return [str(folder / "execution.log")]
    return [str(folder / f"execution-{share.id}.log") for share in shares]


def _preparation(body: dict[str, Any], command: str, job: JobLayout) -> dict[str, Any]:
    """The plan of the preparation: one process a node, with log files of its own."""
    folder = Path(body["stdout"]).parent
    several = len(body["nodes"]) > 1
    processes = []
    for index, node in enumerate(body["nodes"]):
        suffix = f"-{node['id']}" if several else ""
        logs = {name: str(folder / f"{name}-job_prep{suffix}.txt") for name in ("stdout", "stderr")}
        processes.append({"node": index, "command": command, "env": {}, "role": "rank", **logs})
    return {**body, "processes": processes, "is_shared": False, "exits": str(job.root / "preparation-exits")}


def _threads(env: Any, shares: list[launch.NodeShare], count: int) -> dict[str, str]:
    """Each process gets its share of its node's cores, unless the job says otherwise."""
    share = max(1, shares[0].core_count // math.ceil(count / len(shares)))
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(share)), **env}


def _tmp(share: launch.NodeShare) -> str:
    return str(Path(share.temp).parents[1] / "tmp")


def mpiexec(python: str) -> str:
    """The MPI launcher: the one beside the interpreter, else the one on PATH."""
    beside = Path(python).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if not found:
        raise CapabilityError(
            "this job needs MPI, and no mpiexec was found",
            hint="Install it beside the kernel: pip install mpich",
        )
    return found


def _free_ports(count: int) -> tuple[int, ...]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return tuple(item.getsockname()[1] for item in sockets)
    finally:
        for item in sockets:
            item.close()


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Writes a plan that appears whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(body), encoding="utf-8")
    part.replace(path)
