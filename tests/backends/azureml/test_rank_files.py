"""The private files of a rank on its node, and what is copied from them into logs of the run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from batchai_magics.backends.azureml.job_requests import run_plan
from batchai_magics.backends.azureml.node.run_process import CopiedFile, RankFiles, append
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.azureml.job_specs import job_spec


def test_an_attempt_in_the_folder_of_an_earlier_one_begins_anew(tmp_path: Path) -> None:
    experiment = ResourceId.parse(
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/experiments/e"
    )
    plan = run_plan(experiment.child(Kind.JOB, "one"), job_spec(experiment), gpus_per_node=0)
    files, bundle = RankFiles(tmp_path / "1"), {"stop_if": ["loss is nan"], "patterns": {}, "records": {}}
    files.prepare(plan, 1, bundle)
    files.output.write_bytes(b"of the first attempt")
    files.prepare(plan, 1, bundle)
    assert files.stop_if.exists()
    assert not files.output.exists()


def test_what_a_full_disk_refuses_follows_once_there_is_room(tmp_path: Path) -> None:
    source, log = tmp_path / "numbers", tmp_path / "logs/batchai/stdouterr/log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/full")
    copied = CopiedFile(source, partial(append, tmp_path, "log"))
    source.write_bytes(b"one\n")
    copied.copy()
    log.unlink()
    source.write_bytes(b"one\ntwo\n")
    copied.copy()
    assert log.read_bytes() == b"one\ntwo\n"
