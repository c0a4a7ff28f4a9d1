"""A process on its node: its rank and the other nodes, as the service tells them, and its private files."""

import json
import runpy
import sys
from functools import partial

import pytest

from batchai_magics.backends.azureml.job_requests import run_plan
from batchai_magics.backends.azureml.node.run_process import (
    CopiedFile,
    RankFiles,
    append,
    environment,
    hosts_of_tasks,
    identity_of,
)
from batchai_magics.backends.node.node_programs import PACKAGE
from batchai_magics.models.resource_ids import Kind
from tests.backends.azureml.job_specs import job_spec

SCRIPT = {"pythonScriptFilePath": "a.py"}


@pytest.fixture
def plan_of(experiment):
    def made(nodes=2, **properties):
        spec = job_spec(experiment, nodes=nodes, **properties)
        return run_plan(experiment.child(Kind.JOB, "one"), spec, gpus_per_node=0)

    return made


@pytest.fixture
def torch(plan_of):
    return plan_of(pyTorchSettings={**SCRIPT, "processCount": 4})


@pytest.mark.parametrize("name", ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_the_rank_is_the_launchers(torch, name):
    found = identity_of({name: "3", "AZ_BATCH_HOST_LIST": "10.0.0.4,10.0.0.5"}, torch, "here")
    assert (found.rank, found.node, found.addresses) == (3, 1, ["10.0.0.4", "10.0.0.5"])


def test_a_single_process_is_rank_0(plan_of):
    found = identity_of({"AZ_BATCH_NODE_ID": "tvm_1"}, plan_of(nodes=1), "here")
    assert (found.rank, found.node_name, found.addresses) == (0, "tvm_1", ["here"])


def test_without_a_list_of_hosts_the_master_and_this_node_are_known(torch):
    found = identity_of({"RANK": "2", "MASTER_ADDR": "10.0.0.4", "MASTER_PORT": "6105"}, torch, "10.0.0.9")
    assert (found.addresses, found.ports) == (["10.0.0.4", "10.0.0.9"], [6105])


CLUSTER = {"worker": ["10.0.0.4:2222", "10.0.0.5:2223"], "ps": ["10.0.0.4:2224"]}


@pytest.mark.parametrize(("kind", "index", "rank"), [("worker", 0, 0), ("worker", 1, 1), ("ps", 0, 2)])
def test_tensorflows_task_is_a_rank(plan_of, kind, index, rank):
    plan = plan_of(tensorFlowSettings={**SCRIPT, "workerCount": 2, "parameterServerCount": 1})
    env = {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": index}})}
    found = identity_of(env, plan, "here")
    assert (found.rank, found.ports) == (rank, [2222, 2223, 2224])
    assert hosts_of_tasks(env) == {
        "AZ_BATCHAI_WORKER_HOSTS": "10.0.0.4:2222,10.0.0.5:2223",
        "AZ_BATCHAI_PS_HOSTS": "10.0.0.4:2224",
    }


def test_what_the_service_says_of_its_nodes_stays():
    env = {"AZ_BATCHAI_JOB_MASTER_NODE_IP": "10.0.0.4", "RANK": "1", "AZ_BATCHAI_JOB_TEMP": "/theirs"}
    env |= {"MASTER_PORT": "6105"}
    of_node = {
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": "node-0",
        "AZ_BATCHAI_JOB_TEMP": "/wd/batchai/work",
        "AZ_BATCHAI_NUM_GPUS": "4",
        "LR": "0.1",
        "MASTER_PORT": "29511",  # which the job gives, or its process would have it
    }
    assert environment(env, of_node, {"RANK": "0"}, "/wd") == {
        "MASTER_PORT": "29511",
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": "10.0.0.4",
        "RANK": "1",
        "AZ_BATCHAI_JOB_TEMP": "/wd/batchai/work",
        "AZ_BATCHAI_NUM_GPUS": "4",
        "LR": "0.1",
    }


def test_an_image_with_an_old_python_says_which_one_is_needed(monkeypatch):
    start = runpy.run_path(str(PACKAGE / "backends/azureml/node/start.py"))
    monkeypatch.setattr(sys, "version_info", (3, 8, 0))
    with pytest.raises(SystemExit, match=r"the image has Python 3.8; jobs need 3.10 or later"):
        start["main"]()


def test_an_attempt_in_the_folder_of_an_earlier_one_begins_anew(plan_of, tmp_path):
    plan = plan_of(nodes=1)
    files, bundle = RankFiles(tmp_path / "1"), {"stop_if": ["loss is nan"], "patterns": {}, "records": {}}
    files.prepare(plan, 1, bundle)
    files.output.write_bytes(b"of the first attempt")
    files.prepare(plan, 1, bundle)
    assert files.stop_if.exists()
    assert not files.output.exists()


def test_what_a_full_disk_refuses_follows_once_there_is_room(tmp_path):
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
