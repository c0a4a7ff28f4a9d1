"""What jobs and setup tasks wrote: listed a level at a time, read by offset, never left."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest

from batchai_magics.backends.base import FileRef, Seal
from batchai_magics.errors import NotFoundError, ServiceError, SpecError, StorageError
from batchai_magics.models.job_execution import FileKind
from tests.contract.place import HOLD, MOUNTED, Place, manual
from tests.world import files_containing, until

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]
MODEL = {"id": "MODEL", "pathPrefix": MOUNTED, "pathSuffix": "files"}
BIND = 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
SPECIAL = f"echo aa > a; mkfifo pipe; ln -s me me; python3 -c '{BIND}'"
NO_FILES = {"me": "a link", "pipe": "a named pipe", "socket": "a socket"}
ESCAPES = ["../stdout.txt", "/../../x", "a/../../../x"]


def test_the_end_of_the_process_ends_the_job_whatever_writes_on_behind_it(place: Place) -> None:
    job = place.run("(while true; do echo x; sleep 0.1; done) & seq 20000 | sed s/^/n/; exit 7")
    own = place.log(job.id).replace(b"x\n", b"")  # which may stand between two pieces of a line
    assert job.execution.exit_code == 7
    assert own.decode().splitlines() == [f"n{number}" for number in range(1, 20_001)]


@pytest.mark.needs("sealed_logs")
def test_a_log_is_provably_what_was_written_although_its_process_was_killed(place: Place) -> None:
    job = place.run("echo out; echo err >&2; printf 'no end'", "ended")
    for name, data in (("stdout.txt", b"out\nno end"), ("stderr.txt", b"err\n")):
        seal = place.backend.read(FileRef(job.id, name)).seal
        assert seal == Seal(len(data), hashlib.sha256(data).hexdigest())
        assert place.log(job.id, name) == data
    job = place.run("seq 20000; echo last >&2; kill -9 $$", "killed")
    for name, end in (("stdout.txt", b"20000\n"), ("stderr.txt", b"last\n")):
        data, seal = place.log(job.id, name), place.backend.read(FileRef(job.id, name)).seal
        assert seal
        assert seal.fault(len(data), hashlib.sha256(data).hexdigest()) == ""
        assert data.endswith(end)


@pytest.mark.needs("sealed_logs")
def test_the_log_of_a_cancelled_job_is_provably_complete(place: Place) -> None:
    id = place.start_ranks("echo up; echo last >&2; exec sleep 1000", count=2)
    until(lambda: place.log(id).count(b"up") == 2)
    assert place.backend.read(FileRef(id, "stdout.txt")).seal is None
    place.backend.terminate(id)
    place.wait(id)
    chunk = place.backend.read(FileRef(id, "stdout.txt"))
    assert chunk.seal
    assert chunk.seal.fault(chunk.size, hashlib.sha256(chunk.data).hexdigest()) == ""


ODD_NAMES = (b"bad\xff", b"bad\xfe", rb"bad\xff", "bäd".encode(), b"a%20b")


@pytest.mark.needs("file_system")
def test_files_are_listed_by_name_a_level_at_a_time_as_what_they_are_and_never_waited_for(
    place: Place,
) -> None:
    script = f"import os\nfor name in {ODD_NAMES!r}: open(b'odd/' + name, 'wb').write(name)"
    command = f"{SPECIAL}; ln -s a b; mkdir odd; python3 -c {shlex.quote(script)}"
    job = place.run(f"cd $AZ_BATCHAI_OUTPUT_MODEL; {command}", outputDirectories=[MODEL])
    files = place.backend.files(job.id, "MODEL")
    assert [(file.path, file.kind.value, file.size_bytes) for file in files] == [
        ("a", "file", 3),
        ("b", "file", 3),
        ("me", "link", 0),
        ("odd", "directory", 0),
        ("pipe", "pipe", 0),
        ("socket", "socket", 0),
    ]
    assert [file.name for file in files if file.download_url] == ["a", "b"]
    assert all(file.modified for file in files if file.kind in (FileKind.FILE, FileKind.DIRECTORY))
    for name, words in NO_FILES.items():
        with pytest.raises(NotFoundError, match=f"{name} is {words}.*, not a file"):
            place.backend.read(FileRef(job.id, name, "MODEL"))
    with pytest.raises(NotFoundError, match="is a folder"):
        place.backend.read(FileRef(job.id, "odd", "MODEL"))
    assert place.backend.read(FileRef(job.id, "b", "MODEL")).data == b"aa\n"
    odd = place.backend.files(job.id, "MODEL", "odd", expiry_min=5)
    assert [file.path for file in odd] == [f"odd/{file.name}" for file in odd]
    read = {file.name: place.backend.read(FileRef(job.id, file.path, "MODEL")).data for file in odd}
    assert {"bäd", "a%20b", r"bad\xff", r"bad\xfe"} < read.keys()
    assert (sorted(read.values()), read[r"bad\xfe"]) == (sorted(ODD_NAMES), b"bad\xfe")
    storage, folder = place.backend.storage, f"{job.output_path_segment}/outputs/files/odd"
    on_share = [storage.download(place.share, file.path) for file in storage.list(place.share, folder)]
    assert sorted(on_share) == sorted(ODD_NAMES)
    logs = [file.path for file in place.backend.files(job.id)]
    assert logs == ["execution.log", "stderr.txt", "stdout.txt"]


@pytest.mark.needs("execution_log")
@pytest.mark.needs("log_prefix")
def test_logs_on_no_mount_are_kept_with_the_job_and_an_output_directory_may_be_there(place: Place) -> None:
    prefix = "${AZ_BATCHAI_MOUNT_ROOT}/external/logs"
    job = place.run(
        "echo hi > $AZ_BATCHAI_OUTPUT_MODEL/a && cat models/*/*/*/*/*/*/*/*/*/outputs/a",
        outputDirectories=[{"id": "MODEL", "pathPrefix": "models"}],
        stdOutErrPathPrefix=prefix,
    )
    assert place.log(job.id) == b"hi\n", place.log(job.id, "stderr.txt")
    assert f"{prefix} is on no mount" in place.log(job.id, "execution.log").decode()
    with pytest.raises(NotFoundError, match="outputDirectoryId MODEL is not present on a mount root"):
        place.backend.files(job.id, "MODEL")
    place.backend.delete(job.id)


LEAD_OUT = [f"{MOUNTED}/../other", f"{MOUNTED}/a/../../../other", f"{MOUNTED}/.."]


@pytest.mark.needs("log_prefix")
def test_logs_anywhere_else_are_refused(place: Place) -> None:
    for prefix in ("/tmp/logs", "../logs", "$AZ_BATCHAI_MOUNT_ROOT/../x", "$HOME/logs", *LEAD_OUT):
        with pytest.raises(SpecError, match=r"properties\.stdOutErrPathPrefix"):
            place.start(stdOutErrPathPrefix=prefix)
        with pytest.raises(NotFoundError):
            place.backend.show(place.job())
    if place.backend.capabilities.unmanaged_mounts:
        system = {"mountCommand": "mount -t nfs host:/", "relativeMountPath": "mine"}
        volumes, prefix = {"unmanagedFileSystems": [system]}, "$AZ_BATCHAI_JOB_MOUNT_ROOT/mine/logs"
        with pytest.raises(SpecError, match="is on no share, container or file server"):
            place.start(stdOutErrPathPrefix=prefix, mountVolumes=volumes)


def torch_job(place: Place, script: str) -> dict[str, object]:
    """The fields of a PyTorch job of two processes on two nodes, each of which runs a shell script."""
    settings = {
        "pythonScriptFilePath": "-c",
        "pythonInterpreterPath": "/bin/bash",
        "commandLineArgs": f"'{script}'",
    }
    cluster = place.make_cluster("two", scale=manual(2))
    return {
        **place.on(cluster),
        "nodeCount": 2,
        "customToolkitSettings": None,
        "pyTorchSettings": {**settings, "processCount": 2},
    }


@pytest.mark.needs("separate_stderr")
def test_each_process_outside_mpi_has_its_own_log_beside_the_common_one(place: Place) -> None:
    job = place.run(**torch_job(place, "echo this is $RANK; echo oops >&2"))
    names = {file.path for file in place.backend.files(job.id)}
    assert {f"std{name}-{rank}.txt" for name in ("out", "err") for rank in (0, 1)} < names
    assert [place.log(job.id, f"stdout-{rank}.txt") for rank in (0, 1)] == [b"this is 0\n", b"this is 1\n"]
    assert sorted(place.log(job.id).splitlines()) == [b"this is 0", b"this is 1"]
    assert {"stdout.txt", "stderr.txt"} < {*place.backend.tail(job.id, {})}
    assert not [name for name in place.backend.tail(job.id, {}) if name.endswith(("-0.txt", "-1.txt"))]


@pytest.mark.needs("worker_logs")
@pytest.mark.decided_by("nodes")
def test_a_lone_process_of_tensorflow_is_worker_0(place: Place) -> None:
    settings = {"pythonScriptFilePath": "-c", "pythonInterpreterPath": "/bin/bash"}
    fields = {"tensorFlowSettings": {**settings, "masterCommandLineArgs": "'echo hello'"}}
    job = place.run(**fields, customToolkitSettings=None)
    assert place.log(job.id, "stdout-wk-0.txt") == place.log(job.id) == b"hello\n"
    sizes = {file.path: file.size_bytes for file in place.backend.files(job.id)}
    assert sizes["stdout-wk-0.txt"] == 6


def test_no_path_leads_out_of_a_job_and_an_unknown_directory_is_named(place: Place) -> None:
    escape = {"id": "UP", "pathPrefix": f"{MOUNTED}/../other"}
    job = place.start(HOLD, outputDirectories=[escape])
    chunk = place.backend.read(FileRef(job, "later.txt"))  # it may still be written
    assert (chunk.data, chunk.size, chunk.is_complete) == (b"", 0, False)
    for directory in ("NOPE", "UP"):
        with pytest.raises(NotFoundError, match=f"outputDirectoryId {directory}"):
            place.backend.files(job, directory)
        with pytest.raises(NotFoundError, match=f"outputDirectoryId {directory}"):
            place.backend.read(FileRef(job, "x", directory))
    for path in ESCAPES:
        with pytest.raises(StorageError):
            place.backend.read(FileRef(job, path))
        with pytest.raises(StorageError):
            place.backend.files(job, path=path)
    for path in ("\ud800", "a\0b"):
        with pytest.raises((ServiceError, SpecError)):
            place.backend.read(FileRef(job, path))


ODD_LOG = (
    "import os; open(os.fsencode(os.environ['AZ_BATCHAI_STDOUTERR_DIR']) + b'/bad\\xff', 'w').write('x')"
)


@pytest.mark.needs("file_system")
def test_links_of_a_job_lead_nowhere_else_and_only_files_are_tailed(place: Place) -> None:
    links = "ln -s /etc etc; ln -s /etc/passwd passwd; ln -s no where"
    odd = f"python3 -c {shlex.quote(ODD_LOG)}"
    job = place.run(f"cd $AZ_BATCHAI_STDOUTERR_DIR; {SPECIAL}; {links}; {odd}; echo hello")
    told = place.backend.tail(job.id, {})
    assert {"a", "execution.log", "stdout.txt", r"bad\xff"} == set(told)
    assert (told["stdout.txt"].data, told[r"bad\xff"].data) == (b"hello\n", b"x")
    files = place.backend.files(job.id)
    links_there = [(f.name, f.size_bytes, f.download_url) for f in files if f.kind is FileKind.LINK]
    assert links_there == [(name, 0, None) for name in ("etc", "me", "passwd", "where")]
    for path in ("passwd", "etc/passwd"):
        with pytest.raises(StorageError):
            place.backend.read(FileRef(job.id, path))
    with pytest.raises(StorageError):
        place.backend.files(job.id, path="etc")


def test_no_mount_leads_out_of_the_mount_root(place: Place) -> None:
    share = {"accountName": "local", "azureFileUrl": "https://local.file.core.windows.net/s"}
    for path in ("../up", "a/../../up", "..", "a\\..\\..\\up", "/up"):
        volumes = {"azureFileShares": [{**share, "relativeMountPath": path}]}
        with pytest.raises(SpecError, match="relativeMountPath"):
            place.start(mountVolumes=volumes)
        with pytest.raises(SpecError, match="relativeMountPath"):
            place.make_cluster(nodeSetup={"mountVolumes": volumes})


# setup tasks


def setup(command: str, **fields: object) -> dict[str, object]:
    return {"setupTask": {"commandLine": command, "stdOutErrPathPrefix": MOUNTED, **fields}}


@pytest.mark.needs("early_setup")
def test_a_setup_task_runs_with_its_secrets_on_every_node_before_it_takes_jobs(
    place: Place, tmp_path: Path
) -> None:
    waits = f"until [ -e {MOUNTED}/go ]; do sleep 0.02; done"
    task = setup(
        f"{waits}; test ${{#TOKEN}} -eq 9 && echo set up by $WHO; touch {MOUNTED}/ready",
        environmentVariables=[{"name": "WHO", "value": "me"}],
        secrets=[{"name": "TOKEN", "value": "hush-hush"}],
    )
    cluster = place.make_cluster(scale={"manual": {"targetNodeCount": 2}}, nodeSetup=task)
    until(lambda: place.backend.show(cluster.id).node_states.preparing_node_count == 2)
    assert place.backend.show(cluster.id).allocation_state.value == "resizing"
    job = place.start(f"test -e {MOUNTED}/ready", **place.on(cluster))
    place.backend.storage.upload(place.share, {"go": b""})
    assert place.wait(job).execution.exit_code == 0
    place.has(cluster.id, idle=2)
    nodes = [node.id for node in place.backend.nodes(cluster.id)]
    files = place.backend.setup_logs.files(cluster.id)
    assert [f.name for f in files] == sorted(f"{s}-{n}.txt" for s in ("stdout", "stderr") for n in nodes)
    assert {f.size_bytes for f in files if f.name.startswith("stdout")} == {len("set up by me\n")}
    assert not files_containing(tmp_path, "hush-hush")


@pytest.mark.needs("early_setup")
def test_a_failed_setup_task_makes_the_node_unusable_with_the_reason(place: Place) -> None:
    cluster = place.make_cluster(nodeSetup=setup("echo broken >&2; exit 4"))
    until(lambda: place.backend.show(cluster.id).node_states.unusable_node_count == 1)
    (error,) = place.backend.show(cluster.id).errors
    assert error.code == "NodeSetupFailed"
    assert "broken (exit code 4)" in error.message


@pytest.mark.needs("setup_tasks")
@pytest.mark.needs("setup_logs")
def test_no_path_leads_out_of_what_a_setup_task_wrote_nor_its_prefix_out_of_a_mount(place: Place) -> None:
    with pytest.raises(ServiceError, match="startup task"):
        place.backend.setup_logs.files(place.cluster)
    cluster = place.make_cluster(nodeSetup=setup("true"))
    for path in ESCAPES:
        with pytest.raises(StorageError):
            place.backend.setup_logs.files(cluster.id, path)
    with pytest.raises(SpecError, match="stdOutErrPathPrefix"):
        place.make_cluster("other", nodeSetup=setup("true", stdOutErrPathPrefix=f"{MOUNTED}/../other"))
