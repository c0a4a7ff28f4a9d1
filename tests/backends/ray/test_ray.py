"""Jobs on a real Ray: what is lost with a process, an actor or a node, and what is refused at once."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.folders import installed_programs
from batchai_magics.backends.ray.node import queue
from batchai_magics.backends.ray.node.queue import QueueEntry, entry_file
from batchai_magics.backends.ray.node.run_files import RESTART_S, START_S, Session, SupervisedFiles
from batchai_magics.backends.ray.runner import PROGRAMS, RayBackend
from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.errors import CapabilityError, ServiceError, UsageError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from batchai_magics.untrusted_files import read_json
from tests.backends.ray import real_ray
from tests.contract.place import HOLD, MOUNTED, Place, PlaceOptions, manual
from tests.contract.places import ray_place
from tests.ports import deaf_port
from tests.small_disk import SmallDisk
from tests.world import FOLLOWED, files_containing, until

pytestmark = pytest.mark.slow
UNTIL_GO = f"echo up; until [ -e {MOUNTED}/go ]; do sleep 0.05; done; echo done"


@pytest.fixture
def place(ray: real_ray.RealRay, tmp_path: Path) -> Iterator[Place]:
    with ray_place(ray, tmp_path, PlaceOptions()) as place:
        yield place


def processes(text: str) -> list[psutil.Process]:
    """The processes below this one with this text in their command line."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if text in " ".join(command_line(process))]


def command_line(process: psutil.Process) -> list[str]:
    """The words of a process; none once it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def listening_addresses() -> Iterator[str]:
    """Where the processes below this one listen."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
            for connection in process.net_connections(kind="inet"):
                if connection.status == psutil.CONN_LISTEN:
                    yield connection.laddr.ip


def test_a_running_job_shows_no_secret_listens_on_loopback_alone_and_is_read_from_a_read_only_home(
    place, ray, tmp_path
):
    secret = os.urandom(8).hex()  # no text of this file: a cell's record of uncommitted changes has that
    job = place.start(f'test "$TOKEN" && {HOLD}', secrets=[{"name": "TOKEN", "value": secret}], nodeCount=2)
    place.is_up(job)
    for folder in (ray.folder, place.backend.runner.layout.home):
        assert files_containing(folder, secret) == []
    assert {address.removeprefix("::ffff:") for address in listening_addresses()} == {"127.0.0.1"}
    home = tmp_path / "read-only"
    home.mkdir()
    if subprocess.run(["mount", "--bind", place.backend.runner.layout.home, home], check=False).returncode:
        pytest.skip("this user may not mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", home], check=True)
        with contextlib.closing(RayBackend(replace(place.backend.runner._settings, home=home))) as reader:
            shown = reader.show(job)
    finally:
        subprocess.run(["umount", home], check=True)
    assert (shown.state, shown.execution.errors) == (ExecutionState.RUNNING, ())
    assert not [*place.backend.runner.layout.home.glob("*.log")]


def test_runs_go_on_and_start_when_the_program_that_submitted_them_is_killed(place):
    place.scale(place.cluster, manual(1))
    first = place.start(UNTIL_GO, "first")
    place.is_up(first)
    second = place.start("echo ran", "second")
    (driver,) = [each for each in processes("ray.node.driver") if each.ppid() == os.getpid()]
    FOLLOWED.discard(place.backend)  # `until` would start another
    driver.kill()
    driver.wait()
    place.backend.storage.upload(place.share, {"go": b""})
    ends = place.backend.runner.layout.jobs
    until(lambda: len([*ends.glob("*/end.json")]) == 2)
    assert [place.log(job) for job in (first, second)] == [b"up\ndone\n", b"ran\n"]


def node_programs() -> list[psutil.Process]:
    """The programs on nodes, without the watchdogs that they fork."""
    actors = [actor.pid for actor in processes("ray::NodePrograms")]
    return [program for program in processes("ray.node.run_node") if program.ppid() in actors]


def start_unmarked_ranks(place: Place) -> ResourceId:
    """Starts a rank on each of two nodes; the watchdog of another node cannot find it, as on two machines."""
    job = place.start_ranks("echo up; exec env -u BATCHAI_JOB_GUID sleep 1000", count=2)
    until(lambda: place.log(job) == b"up\nup\n")
    return job


def test_a_run_ends_when_the_program_on_one_of_its_nodes_is_killed(place):
    job = start_unmarked_ranks(place)
    node_programs()[0].kill()
    (error,) = place.wait(job).execution.errors
    assert (error.code, error.message) == ("JobFailed", "Processes disappeared before the job was done")


def test_a_program_that_does_not_start_on_one_node_says_why(place, tmp_path):
    programs = installed_programs.install(place.backend.runner.layout.home, PROGRAMS)
    module = programs / "batchai_magics/backends/ray/node/run_node.py"
    with module.open("a") as file:  # the supervising actor, which has Ray, imports it too
        file.write(f"if 'ray' not in sys.modules: os.mkdir({str(tmp_path / 'started')!r})\n")
    job = place.start_ranks(HOLD, count=2)
    (error,) = place.wait(job).execution.errors
    assert (error.code, "FileExistsError" in error.message) == ("JobLaunchFailed", True)


def queued(place: Place, monkeypatch: pytest.MonkeyPatch, command: str = "echo ran") -> SupervisedFiles:
    """A job that was submitted by a program which then ended; its files."""
    runner = place.backend.runner
    with monkeypatch.context() as patch:
        patch.setattr(runner.gateway, "reconcile", lambda: None)
        place.start(command)
    (file,) = runner.layout.clusters.glob("*/queue/[0-9] *")
    return SupervisedFiles(runner.layout.job(file.name.split()[-1]).root)


def drive(place: Place, ray: real_ray.RealRay, code: str) -> None:
    """Runs statements in a process that is connected to Ray, with `home` and `programs`."""
    home = place.backend.runner.layout.home
    programs = installed_programs.install(home, PROGRAMS)
    start = (
        f"import os, sys; home, programs = {str(home)!r}, {str(programs)!r}; sys.path.insert(0, programs)\n"
    )
    connect = (
        f"from batchai_magics.backends.ray.node import cluster, queue; cluster.connect({ray.address!r})\n"
    )
    subprocess.run([real_ray.PYTHON, "-c", start + connect + code], check=False, capture_output=True)


DIES = """
start = cluster.supervising_actor
def dying(*arguments):
    import ray
    ray.get(start(*arguments).home.remote(""))  # Ray forgets an actor whose driver dies before that
    os.kill(os.getpid(), 9)
cluster.supervising_actor = dying
queue.reconcile(home, programs, cluster.current_node())
"""


def test_a_run_starts_whose_actor_was_never_called(place, ray, monkeypatch):
    files = queued(place, monkeypatch)
    drive(place, ray, DIES)
    assert files.claim.exists()
    os.utime(files.claim, (0, files.claim.stat().st_mtime - 2 * START_S))
    assert place.wait(place.job()).state is ExecutionState.SUCCEEDED
    assert place.log(place.job()) == b"ran\n"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_run_that_is_stopped_before_its_actor_was_called_leaves_none(place, ray, monkeypatch, is_deleted):
    files = queued(place, monkeypatch)
    drive(place, ray, DIES)
    files.claim.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(place.backend.runner.gateway, "reconcile", lambda: None)
        place.backend.terminate(place.job())
        if is_deleted:
            place.backend.delete(place.job())
        else:
            assert place.wait(place.job()).execution.errors[0].code == "JobTerminated"
    assert place.backend.runner.gateway.actors()
    place.backend.reconcile()
    until(lambda: not place.backend.runner.gateway.actors())


def test_a_node_that_cannot_have_the_home_is_named(place, ray, monkeypatch):
    queued(place, monkeypatch)
    reconciled = "queue.reconcile(home, '/no/where/at/all', cluster.current_node())"
    drive(place, ray, f"queue.unsettled({reconciled}, 60.0)")
    (error,) = place.wait(place.job()).execution.errors
    assert error.code == "HomeNotShared"
    assert "does not see /no/where: set ray.home" in error.message
    until(lambda: not place.backend.runner.gateway.actors())


def test_a_run_that_is_deleted_while_it_starts_does_not_stop_the_queue(place, ray, monkeypatch):
    files = queued(place, monkeypatch)
    files.environment.unlink()
    second = place.run("echo ran", "second")
    assert second.state is ExecutionState.SUCCEEDED
    assert place.log(second.id) == b"ran\n"


def test_runs_that_leave_the_queue_while_it_is_read_are_passed_over(tmp_path, monkeypatch):
    for number in range(3):
        file = entry_file(tmp_path, priority=1, created=number, guid=str(number))
        QueueEntry(file, str(number), 1).write()

    def read_late(file: Path) -> dict[str, object]:
        for leaving in tmp_path.glob("* 1"):
            leaving.unlink()
        return read_json(file)

    monkeypatch.setattr(queue, "read_json", read_late)
    assert [entry.guid for entry in queue.entries(tmp_path)] == ["0", "2"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "small")
    yield made
    made.close()


@pytest.fixture
def on_disk(needs_ray: None, disk: SmallDisk) -> Iterator[Place]:
    """A place whose home can be full, on a Ray all of whose nodes see it: it was mounted before."""
    ray = real_ray.RealRay(1)
    try:
        with ray_place(ray, disk.folder, PlaceOptions()) as place:
            yield place
            disk.free()
    finally:
        ray.stop()


def test_runs_that_end_or_are_stopped_on_a_full_disk_say_so_once_there_is_room(on_disk, disk, tmp_path):
    ends = on_disk.start(f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done", "ends")
    on_disk.is_up(ends)
    disk.fill()
    (tmp_path / "go").touch()
    until(lambda: [*on_disk.backend.runner.layout.jobs.glob("*/end.part")])
    disk.free()
    assert on_disk.wait(ends).state is ExecutionState.SUCCEEDED
    on_disk.backend.delete(ends)
    stopped = on_disk.start(HOLD, "stopped")
    on_disk.is_up(stopped)
    disk.fill_with_files()
    (disk.folder / "files" / "0").unlink()
    (root,) = on_disk.backend.runner.layout.jobs.iterdir()
    (root / "stop").write_text("terminate")  # takes the room of that one
    until(lambda: not processes("ray.node.run_node"))
    disk.free()
    assert [error.code for error in on_disk.wait(stopped).execution.errors] == ["JobTerminated"]


def test_run_that_does_not_fit_blocks_later_runs_except_failed_successors(place):
    failed = place.run("exit 3", "failed").id
    place.is_up(place.start(HOLD, "holds"))
    for name, count in (("large", 2), ("small", 1)):
        place.start("echo ran", name, nodeCount=count)
    behind = place.start("echo ran", "behind", batchaiAfter=[str(failed)])
    assert [error.code for error in place.wait(behind).execution.errors] == ["DependencyFailed"]
    runs = [SupervisedFiles(folder) for folder in place.backend.runner.layout.jobs.iterdir()]
    assert len([files for files in runs if files.claim.exists() and not files.outcome]) == 1
    assert place.backend.show(place.job("large")).state is ExecutionState.QUEUED


def test_a_silent_ray_is_a_warning_of_running_jobs(place):
    job = place.start(UNTIL_GO)
    place.is_up(job)
    FOLLOWED.discard(place.backend)  # `until` would ask Ray
    (store,) = processes("gcs_server")
    store.suspend()
    try:
        until(lambda: (place.backend.show(job)).execution.errors)
        shown = place.backend.show(job)
    finally:
        store.resume()
    assert shown.state is ExecutionState.RUNNING
    assert [error.code for error in shown.execution.errors] == ["RayUnavailable"]
    place.backend.runner.gateway.connect()
    place.backend.storage.upload(place.share, {"go": b""})
    assert place.wait(job).state is ExecutionState.SUCCEEDED


def test_a_run_on_another_cluster_is_lost_a_minute_after_that_cluster_has_ended(place):
    here = place.start(UNTIL_GO, "here")
    place.is_up(here)
    other = real_ray.RealRay(1)
    settings = replace(place.backend.runner._settings, address=other.address)
    with contextlib.closing(RayBackend(settings)) as elsewhere:
        elsewhere.reconcile()
        shown = elsewhere.show(here)
        assert shown.state is ExecutionState.RUNNING
        assert [error.code for error in shown.execution.errors] == ["RayClusterDiffers"]
        place.backend.storage.upload(place.share, {"go": b""})
        assert place.wait(here).state is ExecutionState.SUCCEEDED
        place.backend.delete(here)
        elsewhere.create(place.job(), place.spec(HOLD))
        elsewhere.reconcile()
        place.is_up(place.job())
    place.backend.reconcile()
    (files,) = map(SupervisedFiles, place.backend.runner.layout.jobs.iterdir())
    assert not files.unanswered.exists()
    other.stop()
    place.backend.reconcile()
    assert place.backend.show(place.job()).state is ExecutionState.RUNNING
    os.utime(files.unanswered, (0, files.unanswered.stat().st_mtime - 2 * RESTART_S))
    assert place.wait(place.job()).execution.errors[0].code == "JobSupervisorLost"


def test_whether_a_cluster_has_ended_is_known_from_its_own_host_alone():
    with deaf_port() as port:
        assert Session("session_1", f"127.0.0.1:{port}", socket.gethostname()).has_ended()
        assert not Session("session_1", f"127.0.0.1:{port}", "another").has_ended()


def test_a_cluster_is_another_one_until_it_has_the_name_or_the_address(tmp_path):
    files = SupervisedFiles(tmp_path)
    files.supervised.write_text("session_1 10.0.0.1:6379 head")
    assert not files.is_elsewhere(Session("session_1", "10.0.0.2:6379", "head"))
    assert not files.is_elsewhere(Session("session_2", "10.0.0.1:6379", "head"))
    there = Session("session_2", "10.0.0.2:6379", "head")
    assert files.is_elsewhere(there)
    files.stop.touch()
    assert files.is_elsewhere(there)
    os.utime(files.stop, (0, files.stop.stat().st_mtime - 2 * START_S))
    assert not files.is_elsewhere(there)


def test_a_run_is_stopped_while_actors_start_on_its_nodes(place):
    programs = installed_programs.install(place.backend.runner.layout.home, PROGRAMS)
    module = programs / "batchai_magics/backends/ray/node/node_actor.py"
    hang = f"open({str(module.with_suffix('.up'))!r}, 'w').close(); time.sleep(1000)"
    with module.open("a") as file:
        file.write(f"\nimport ray\nif not ray.get_runtime_context().get_actor_name(): {hang}\n")
    job = place.start()
    until(module.with_suffix(".up").exists)
    place.backend.terminate(job)
    assert place.wait(job).execution.errors[0].code == "JobTerminated"


def test_jobs_that_ask_for_some_gpus_share_a_node(place):
    show = f"echo $CUDA_VISIBLE_DEVICES >> {MOUNTED}/gpus; {UNTIL_GO}"
    jobs = [place.start(show, name, batchaiGpus=1, nodeCount=1) for name in "ab"]
    for job in jobs:
        place.is_up(job)
    devices = place.stored("gpus").split()
    assert len(devices) == 2
    assert {*devices} <= {"0", "1"}
    place.backend.storage.upload(place.share, {"go": b""})


# refused before anything is written


@pytest.fixture
def settings(needs_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RaySettings:
    for name, value in real_ray.ENV.items():
        monkeypatch.setenv(name, value)
    return RaySettings(home=tmp_path / "home", ray_python=str(real_ray.PYTHON))


def refusal(settings: RaySettings) -> CapabilityError:
    """Why there is no connection."""
    backend = RayBackend(settings)
    with pytest.raises(CapabilityError) as caught:
        backend.runner.gateway.connect()
    backend.close()
    assert caught.value.hint
    return caught.value


def test_a_python_without_ray_is_named_with_what_to_install(settings):
    error = refusal(replace(settings, ray_python=sys.executable))
    assert (error.code, sys.executable in error.message) == ("NoRay", True)
    assert "batchai-magics[ray]" in error.hint


def test_another_version_than_the_clusters_is_refused(settings, ray, tmp_path):
    older = tmp_path / "python"
    older.write_text(
        f"#!{real_ray.PYTHON} -I\n"
        "import sys, ray\n"
        "ray.__version__ = '1.2.3'\n"
        "code, *sys.argv[1:] = sys.argv[sys.argv.index('-c') + 1:]\n"
        "exec(code)\n"
    )
    older.chmod(0o700)
    error = refusal(replace(settings, ray_python=str(older), address=ray.address))
    assert error.code == "RayVersionDiffers"
    assert "1.2.3" in error.message


def test_what_cannot_be_run_as_rays_python_is_named(settings, tmp_path):
    for bad in (tmp_path, tmp_path / "none", Path(__file__)):
        error = refusal(replace(settings, ray_python=str(bad)))
        assert error.message.startswith(f"setting ray.ray_python: {bad} cannot be run")


def test_a_cluster_that_does_not_answer_is_named_and_asked_again_by_who_connects_alone(settings, monkeypatch):
    with deaf_port() as port:
        gateway = RayBackend(replace(settings, address=f"127.0.0.1:{port}")).runner.gateway
        starts: list[object] = []
        real = gateway._started
        monkeypatch.setattr(gateway, "_started", lambda: (starts.append(0), real())[1])
        for ask in (gateway.nodes, gateway.actors, gateway.reconcile, gateway.connect):
            with pytest.raises(ServiceError, match=str(port)) as caught:
                ask()
            assert (caught.value.code, bool(caught.value.hint)) == ("RayUnavailable", True)
    assert len(starts) == 2


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265", "local"])
def test_an_address_that_is_no_clusters_is_refused(address, monkeypatch):
    with pytest.raises(UsageError, match=r"ray\.address"):
        RaySettings(address=address).check()
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match="RAY_ADDRESS"):
        RaySettings().check()
    RaySettings(address="head:6379").check()


def test_a_lost_node_is_named_although_its_program_was_killed_first(place, ray):
    job = start_unmarked_ranks(place)
    name = next(node.id for node in place.backend.nodes(job) if node.id != "node1")
    (supervisor,) = processes("ray::RunSupervisor")
    supervisor.suspend()
    for program in node_programs():
        program.kill()
        program.wait()
    ray.kill(name)
    supervisor.resume()
    (error,) = place.wait(job).execution.errors
    assert (error.code, name in error.message) == ("JobNodeLost", True)
    ray.add(name)
