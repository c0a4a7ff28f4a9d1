"""Jobs on nodes of a real Ray that do not see the home: what they need, what they write, what may be lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_end, write_end
from batchai_magics.backends.node.output_records import writers
from batchai_magics.backends.ray.node.actor_target import COPY_MARK, ActorTarget
from batchai_magics.backends.ray.node.home_files import REPLY_BYTES, FileEntry, HomeFiles, home_id
from batchai_magics.backends.ray.node.run_copies import RunCopies, _CollectedLog, _NodeCopy
from batchai_magics.backends.ray.runner import RayBackend
from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.errors import StorageError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LogPaths
from batchai_magics.log_lines import LogBlock, Span
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.ray import real_ray
from tests.backends.ray.test_ray import command_line, processes
from tests.contract.place import MOUNTED, Place, PlaceOptions, manual
from tests.contract.places import ray_place
from tests.launch.test_plan import small
from tests.small_disk import SmallDisk
from tests.world import files_containing, until

BLIND = ("node2", "node3")


@pytest.fixture
def homes(ray: real_ray.RealRay) -> Path:
    """The folder of homes that node2 and node3 do not see, and node1 does."""
    if not ray.hidden:
        pytest.skip("this user has no mount namespaces")
    return ray.hidden


@pytest.fixture
def place(ray: real_ray.RealRay, homes: Path, tmp_path: Path) -> Iterator[Place]:
    """A place whose jobs run on all three nodes."""
    with ray_place(ray, homes / tmp_path.name, PlaceOptions()) as place:
        place.scale(place.cluster, manual(3))
        yield place


def start_ranks(place: Place, script: str, **fields: object) -> ResourceId:
    """Starts a shell script as an MPI rank on each of the three nodes."""
    return place.start_ranks(script, count=3, nodeCount=3, **fields)


def copy_on(place: Place, node: str) -> Path:
    """What a node has where the home is."""
    (program,) = [each for each in processes("ray_node.py") if command_line(each)[-1] == node]
    return Path(f"/proc/{program.pid}/root{place.backend.runner.layout.home}")


def left_on(place: Place, node: str) -> list[str]:
    """The files of a node's copy, but for the programs."""
    copy = copy_on(place, node)
    found = [file.relative_to(copy) for file in copy.rglob("*") if file.is_file()]
    return [str(file) for file in found if file.parts[0] != "programs" and file.name != COPY_MARK]


@pytest.mark.slow
def test_the_script_of_a_cell_is_sent_and_logs_come_home_with_their_ranks(place):
    prints = (
        "for number in range(300): print('line', number, 'of', rank)\nprint('err', rank, file=sys.stderr)"
    )
    script = f"import os, sys\nrank = os.environ['PMI_RANK']\n{prints}"
    job = place.run_cell("cell --nodes 3 --processes 3", script).id
    assert place.backend.show(job).state is ExecutionState.SUCCEEDED
    chunk = place.backend.read(FileRef(job, "stdout.txt"))
    lines = [b"line %d of %d" % (number, rank) for rank in range(3) for number in range(300)]
    assert sorted(chunk.data.splitlines()) == sorted(lines)
    assert (chunk.spans[0].start, chunk.spans[-1].end) == (0, len(chunk.data))
    for span in chunk.spans:
        own = chunk.data[span.start : span.end].splitlines()
        assert {line.rpartition(b" ")[2] for line in own} == {b"%d" % span.rank}
    assert chunk.seal
    assert (chunk.seal.size_bytes, chunk.times[0].start) == (len(chunk.data), 0)
    assert sorted(place.log(job, "stderr.txt").splitlines()) == [b"err %d" % rank for rank in range(3)]
    assert [left_on(place, node) for node in BLIND] == [[], []]


@pytest.mark.slow
def test_what_a_job_needs_is_sent_and_what_it_writes_comes_home(place):
    folder = place.put("given.txt", "given\n").rpartition("/")[0]
    writes = (
        "cat $AZ_BATCHAI_INPUT_DATA/given.txt; mkdir -p $AZ_BATCHAI_OUTPUT_MODEL/inner; echo here > here;"
        "echo model > $AZ_BATCHAI_OUTPUT_MODEL/inner/$PMI_RANK; ln -s here link;"
        "echo artifact > $BATCHAI_ARTIFACT_DIR/$PMI_RANK; exec sleep 1000"
    )
    job = start_ranks(
        place,
        writes,
        inputDirectories=[{"id": "DATA", "path": folder}],
        outputDirectories=[{"id": "MODEL", "pathPrefix": MOUNTED, "pathSuffix": "model"}],
        secrets=[{"name": "TOKEN", "value": "quite-a-secret-4711"}],
    )
    until(lambda: place.log(job) == 3 * b"given\n")
    until(lambda: len([*place.backend.files(job, "artifacts", "")]) == 3)
    assert all(left_on(place, node) for node in BLIND)
    assert [files_containing(copy_on(place, node), "quite-a-secret-4711") for node in BLIND] == [[], []]
    place.backend.terminate(job)
    assert [error.code for error in place.wait(job).execution.errors] == ["JobTerminated"]
    home = place.backend.runner.layout.home
    assert len([*home.glob("shares/**/model/inner/[012]")]) == 3
    folders = [*home.glob("jobs/*/workdir/*")]
    assert {folder.name for folder in folders} == {"node1", *BLIND}
    assert [(each / "here").read_text() for each in folders] == ["here\n"] * 3
    assert [str((each / "link").readlink()) for each in folders] == ["here"] * 3


@pytest.mark.slow
def test_nothing_is_lost_with_the_supervising_actor(place, tmp_path):
    wait = f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    job = start_ranks(place, f"{wait}; seq 1000; touch {tmp_path}/$PMI_RANK; exec sleep 1000")
    until(lambda: place.log(job) == 3 * b"up\n")
    (actor,) = processes("ray::RunSupervisor")
    actor.suspend()
    (tmp_path / "go").touch()
    until(lambda: all((tmp_path / rank).exists() for rank in "012"))
    actor.kill()
    with place.reopen() as other, ThreadPoolExecutor() as threads:
        for backend in (place.backend, other):
            threads.submit(backend.reconcile)
    shown = place.wait(job)
    assert [error.code for error in shown.execution.errors] == ["JobSupervisorLost"]
    lines = [b"up", *(b"%d" % number for number in range(1, 1001))]
    assert sorted(place.log(job).splitlines()) == sorted(3 * lines)
    assert [left_on(place, node) for node in BLIND] == [[], []]
    again = place.run("echo ran", "again", nodeCount=3)
    assert again.state is ExecutionState.SUCCEEDED  # the nodes were given back


@pytest.mark.slow
def test_a_full_home_gets_what_is_on_nodes_once_it_has_room(ray, homes, tmp_path):
    disk = SmallDisk(homes / "small")
    try:
        with ray_place(ray, disk.folder, PlaceOptions()) as place:
            place.scale(place.cluster, manual(3))
            wait = f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
            blind = f"test -e {place.backend.runner.layout.home}/{COPY_MARK}"
            job = start_ranks(place, f"{wait}; {blind} && seq 90000; touch {tmp_path}/$PMI_RANK")
            until(lambda: place.log(job) == 3 * b"up\n")
            disk.fill()
            (tmp_path / "go").touch()
            until(lambda: not processes("ray.node.run_node"))
            assert not place.backend.show(job).state.is_final
            disk.free()
            assert place.wait(job).state is ExecutionState.SUCCEEDED
            log = place.backend.read(FileRef(job, "stdout.txt"), limit=1 << 24).data
            assert len(log.splitlines()) == 180_003
    finally:
        disk.close()


@pytest.mark.slow
def test_a_node_with_another_folder_at_the_path_of_the_home_is_named(place):
    copy = copy_on(place, "node3")
    copy.mkdir(parents=True)
    (copy / "mine").touch()
    (error,) = place.run(nodeCount=3).execution.errors
    assert error.code == "HomeNotShared"
    assert f"has another folder at {place.backend.runner.layout.home}: set ray.home" in error.message


@pytest.mark.slow
def test_a_run_that_loses_a_node_continues_from_checkpoints(place, ray):
    save = "echo up; echo 7 > saved-$PMI_RANK; exec sleep 1000"
    resume = "cd $BATCHAI_CHECKPOINT_DIR; test -e saved-0 && cat saved-* && exit"
    job = start_ranks(place, f"{resume}; {save}", batchaiMaxRestarts=1)
    saved = place.backend.runner.layout.jobs
    until(lambda: len([*saved.glob("*/checkpoints/saved-[012]")]) == 3)
    ray.kill("node2")
    ray.add("node2")
    shown = place.wait(job)
    assert shown.state is ExecutionState.SUCCEEDED
    assert [attempt.reason for attempt in shown.attempts] == ["a node of it was lost", ""]
    assert place.log(job).count(b"7\n") == 9


def test_a_log_comes_home_whose_folder_only_the_node_has(tmp_path):
    log = LogPaths(str(tmp_path / "telemetry" / "0.jsonl"))
    _CollectedLog(log, 0, {0}).append(LogBlock(b"sample\n", 0))
    assert Path(log.path).read_bytes() == b"sample\n"


def test_a_block_whose_writing_was_interrupted_is_not_repeated(tmp_path):
    log = LogPaths(str(tmp_path / "log"), str(tmp_path / "spans"))
    _CollectedLog(log, 0, {1}).append(LogBlock(b"of 1\n", 0, [Span(0, 5, 1)]))
    with Path(log.path).open("ab") as file:
        file.write(b"of ")  # killed before the rest
    continued = _CollectedLog(log, 0, {2})
    continued.append(LogBlock(b"of 2\n", continued.position, [Span(0, 5, 2)]))
    assert Path(log.path).read_bytes() == b"of 1\nof 2\n"
    assert writers(Path(log.spans), 0, 10) == [Span(0, 5, 1), Span(5, 10, 2)]
    assert [_CollectedLog(log, 0, {rank}).position for rank in (1, 2)] == [5, 5]


def copied(home: Path, owner: str) -> str:
    """Has an actor make a copy of a home there; returns what is wrong."""
    actor = ActorTarget("sent.Sent", f"{home}/programs/1")
    return actor.install({"sent.py": b"class Sent: pass"}, owner)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The path of a home, on a node."""
    return tmp_path / "home"


def test_a_home_made_where_a_copy_was_keeps_its_files(home):
    assert not copied(home, "sender")
    copy = HomeFiles(str(home), "run", "sender")
    copy.claim(str(home / "shares" / "run"), "1")
    (home / "other").mkdir()
    with pytest.raises(StorageError, match=f"{home} is a copy") as refusal:
        RayBackend(RaySettings(home=home))
    assert "with ray.home" in refusal.value.hint
    copy.forget(str(home / "shares" / "run"))
    assert {each.name for each in home.iterdir()} == {COPY_MARK, "programs", "other"}
    (home / "other").rmdir()
    (home / "clusters").mkdir()  # of a command on the node
    RayBackend(RaySettings(home=home)).close()
    assert not [*home.iterdir()]
    kept = home / "jobs" / "run" / "plan.json"
    kept.parent.mkdir(parents=True)
    kept.touch()
    (home / "resources").mkdir()
    (home / COPY_MARK).write_text("sender")
    with pytest.raises(PermissionError):
        copy.claim(str(home / "shares"), "2")
    copy.forget(str(home / "shares"))
    assert "has another folder" in copied(home, "sender")
    assert kept.exists()
    assert not copy.is_claimed()


def test_a_copy_serves_the_home_that_it_is_of(home, tmp_path):
    assert not copied(home, "first")
    actor = ActorTarget("sent.Sent", f"{home}/programs/1")
    assert (actor.home("first"), actor.home("second")) == ("copied", "")
    first = HomeFiles(str(home), "run", "first")
    first.claim(str(tmp_path / "logs"), "1")
    assert "has another folder" in copied(home, "second")
    first.forget(str(tmp_path / "logs"))
    assert not copied(home, "second")
    with pytest.raises(PermissionError):
        first.claim(str(tmp_path / "logs"), "2")
    (home / COPY_MARK).unlink()
    assert actor.home(home_id(home)) == "seen"


def test_files_come_home_while_ranks_print_steadily(home, monkeypatch):
    files = Layout(home).job("g")
    files.root.mkdir(parents=True)
    copies, rounds = RunCopies(Layout(home), small(), {}), count()
    collected = []

    def of_each(do: object) -> list[bool]:
        if do is not _NodeCopy.collect_logs:
            collected.append(next(rounds))
        return [next(rounds) < 100]

    monkeypatch.setattr(copies, "_of_each", of_each)
    assert copies._collect(is_last=False)
    assert collected == [1]
    assert copies._collect(is_last=True)
    assert collected[1] > 100


def test_an_end_with_a_name_that_is_no_text_is_read(tmp_path):
    name = b"out-\xff".decode("utf-8", "surrogateescape")
    write_end(tmp_path / "end.json", Outcome(0).warned("FilesLeftBehind", f"näme {name}"))
    end = read_end(tmp_path / "end.json")
    assert end
    assert end.is_success
    assert end.warnings[0]["message"].startswith("näme out-")


def test_a_path_that_leads_out_of_the_home_makes_no_folder(home, tmp_path):
    home.mkdir()
    (home / "link").symlink_to(tmp_path)
    for path in ("../made/x", "link/made/x", f"{tmp_path}/made/x"):
        with pytest.raises(PermissionError):
            HomeFiles(str(home), "run").write(path, FileEntry.of(home), 0, b"")
    assert {each.name for each in tmp_path.iterdir()} == {"home"}


def test_a_reply_with_many_logs_is_bounded(tmp_path):
    logs = [LogPaths(str(tmp_path / str(number))) for number in range(8)]
    for log in logs:
        with Path(log.path).open("wb") as file:
            file.truncate(4 << 20)
    blocks = HomeFiles(str(tmp_path), "run").log_blocks([(log, 0) for log in logs])
    assert sum(len(block.data) for block in blocks) == REPLY_BYTES
    assert all(block.data for block in blocks)
