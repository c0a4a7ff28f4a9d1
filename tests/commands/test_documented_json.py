"""What `-o json` prints is what docs/output-schemas.json says, for every command."""

import json
import shlex
import signal
import subprocess
from pathlib import Path

import jsonschema
import pytest

from batchai_magics.backends.base.backend_registry import current_settings, open_backend
from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.cli import main
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from tests.commands.job_json import write_job
from tests.patience import PATIENCE_S
from tests.pseudo_terminal import COMMAND
from tests.world import until

DOCUMENTED = json.loads((Path(__file__).parents[2] / "docs/output-schemas.json").read_text(encoding="utf-8"))
NAMES = ("run", *(command.words for command in COMMANDS))
TRAIN = "for i in range(1, 31): print(f'Step {i}: {100 + i % 3} images/sec loss {1 / i}', flush=True)\n"
SLOW = "import time\nprint(1, flush=True)\ntime.sleep(1000)\n"
ACCOUNT = "--account-name acc"
LINES = (
    f"""
group create -n g -l eastus
group show -n g
group list
group exists -n g
provider list
provider show -n Microsoft.BatchAI
provider register -n Microsoft.BatchAI
account show
account list
account set -s 1
account clear
account list-locations
role assignment create --role Reader --assignee me
role assignment list
role assignment delete
configure -l
login
logout
use
storage account create -n acc -g g -l eastus
storage account show -n acc
storage account list
storage account check-name -n acc
storage account check-name -n other
storage account show-connection-string -n acc
storage account keys list -n acc
storage account keys renew -n acc --key key1
storage share create -n data {ACCOUNT}
storage share list {ACCOUNT}
storage share exists -n data {ACCOUNT}
storage directory create -n d -s data {ACCOUNT}
storage directory list -s data {ACCOUNT}
storage directory exists -n d -s data {ACCOUNT}
storage directory delete -n d -s data {ACCOUNT}
storage file upload -s data --source tree/a {ACCOUNT}
storage file upload-batch -d data -s tree {ACCOUNT}
storage file upload-batch -d data -s tree --dryrun {ACCOUNT}
storage file list -s data {ACCOUNT}
storage file show -s data -p a {ACCOUNT}
storage file exists -s data -p a {ACCOUNT}
storage file download -s data -p a --dest a2 {ACCOUNT}
storage file download-batch -s data -d down {ACCOUNT}
storage file download-batch -s data -d down --dryrun {ACCOUNT}
storage file delete -s data -p a {ACCOUNT}
storage file delete-batch -s data --dryrun {ACCOUNT}
storage file delete-batch -s data {ACCOUNT}
storage share delete -n data {ACCOUNT}
storage container create -n blobs {ACCOUNT}
storage container list {ACCOUNT}
storage container exists -n blobs {ACCOUNT}
storage blob upload -c blobs -f tree/a -n a {ACCOUNT}
storage blob upload-batch -d blobs -s tree {ACCOUNT}
storage blob list -c blobs {ACCOUNT}
storage blob show -c blobs -n a {ACCOUNT}
storage blob exists -c blobs -n a {ACCOUNT}
storage blob download -c blobs -n a -f a3 {ACCOUNT}
storage blob download-batch -s blobs -d down2 {ACCOUNT}
storage blob delete -c blobs -n a {ACCOUNT}
storage blob delete-batch -s blobs {ACCOUNT}
storage container delete -n blobs {ACCOUNT}
workspace create -g g -n w
workspace show -g g -n w
workspace list
workspace delete -g g -n w -y
file-server create -n srv -s Standard_D2 --disk-count 1 --disk-size 10 --storage-sku Premium_LRS
file-server show -n srv
file-server list
experiment create -n e
experiment show -n e
experiment list
cluster create -n low -i UbuntuDSVM -s Standard_D2 --vm-priority lowpriority -t 1 --min 1 --max 2 \
    --storage-account-name acc --afs-name logs --bfs-name data --nfs srv --setup-task 'echo hi' \
    --setup-task-output $AZ_BATCHAI_MOUNT_ROOT/afs
cluster create -n default -s Standard_D2 -t 1
cluster show -n low
cluster check -n default
cluster list
cluster resize -n default -t 1
cluster auto-scale -n low --min 1 --max 1
cluster node exec -c low --exec 'echo hi; echo no >&2'
cluster node list -c low
cluster file list -c low
cluster node preempt -c low -n NODE
run train.py --name first --tag good
run train.py --name second --processes 2
job create -n third -f job.json
job create -n dry -f job.json --dry-run
job create -n many -f job.json train.json
job wait -n third
experiment wait -n default
job resubmit -n third
job show -n first
show first
job list
job list --metric loss --parameters
job update -n first --tag better
job provenance -n first
job provenance -n third
job diff first second
diff first second
logs first
files first
download first stdout.txt
job file list -j first
job file stream -j first -f stdout.txt
job file download -j first
record first
open first.batchai --html replay.html
bug-report first
compare first second
scaling first second
sweep list
sweep wait -n tried
sweep show -n tried
sweep cancel -n tried -y
run slow.py --name slow --detach
ps
watch
job node list -j slow
job node exec -j slow --exec 'echo hi'
stacks slow
profile slow --for 1s
cancel slow
ml job list --max-results 2
ml job show -n first
ml job stream -n first
ml job cancel -n first
job delete -n third -y
job terminate -n first -y
list-usages
metrics read log.txt
metrics read log.txt --tidy
metrics read log.txt train.py
metrics plot log.txt --out chart.svg
notify test --notify true
file-server delete -n srv -y
experiment delete -n e -y
cluster delete -n low -y
storage account delete -n acc -y
group delete -n g -y
clean --older-than 1h -y
clean -y
""".replace("\\\n", "")
    .strip()
    .splitlines()
)


def schema_of(name):
    return {"$defs": DOCUMENTED["$defs"], **DOCUMENTED["commands"][name]}


def command_of(line):
    return max((name for name in NAMES if f"{line} ".startswith(f"{name} ")), key=len)


def values_in(text):
    """What was printed: one JSON value, or one a line; None for nothing."""
    try:
        return [json.loads(text) if text else None]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def problems(line, text):
    """How the output of a line differs from what is documented of its command."""
    validator = jsonschema.Draft202012Validator(schema_of(command_of(line)))
    errors = (error for value in values_in(text) for error in validator.iter_errors(value))
    return [f"{line}: {error.json_path}: {error.message[:300]}" for error in errors]


def test_every_command_has_a_schema():
    assert sorted(DOCUMENTED["commands"]) == sorted(NAMES)
    every = {**DOCUMENTED["$defs"], **DOCUMENTED["commands"]}
    jsonschema.Draft202012Validator.check_schema({"$defs": every})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with the files that the lines name."""
    folder = tmp_path / "work"
    (folder / "tree").mkdir(parents=True)
    for name, text in {"train.py": TRAIN, "slow.py": SLOW, "tree/a": "a", "tree/b": "b"}.items():
        (folder / name).write_text(text)
    (folder / "log.txt").write_text("".join(f"step {i} loss {1 / i}\n" for i in range(1, 31)))
    (folder / "train.json").write_bytes(write_job(folder, "true").read_bytes())
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def output_of(capfd):
    """Carries out a line, and returns what it prints as JSON."""

    def carry_out(line):
        code = main([*shlex.split(line), "--output" if "--out " in line else "-o", "json"])
        text, errors = capfd.readouterr()
        assert code == 0, f"{line}: {errors}"
        return text

    return carry_out


def submit_a_sweep():
    settings = current_settings()
    request = parse_sweep('tried --sweep "lr=1,2"', TRAIN, settings=settings, notebook=Notebook())
    submit_sweep(open_backend(settings), request, settings)


@pytest.mark.slow
def test_every_command_prints_what_is_documented(folder, output_of):
    assert {command_of(line) for line in LINES} == set(NAMES)
    node, found = "", []
    for line in LINES:
        if line == "sweep list":
            submit_a_sweep()
        text = output_of(line.replace("NODE", node))
        found += problems(line, text)
        if line == "cluster node list -c low":
            node = json.loads(text)[0]["nodeId"]
        if "--detach" in line:
            until(lambda: output_of("logs slow"))
        if line == "cancel slow":
            until(lambda: json.loads(output_of("job show -n slow"))["executionState"] == "failed")
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_several_ids_make_a_list(output_of):
    ids = [json.loads(output_of(f"experiment create -n {name}"))["id"] for name in ("one", "two")]
    text = output_of(f"experiment show --ids {' '.join(ids)}")
    assert [each["name"] for each in json.loads(text)] == ["one", "two"]
    assert not problems("experiment show", text)


@pytest.mark.slow
def test_a_page_tells_its_address(folder, output_of):
    output_of("run train.py --name first")
    command = [*COMMAND, "open", "first", "--no-browser", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        text = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    assert json.loads(text)["url"].startswith("http://127.0.0.1:")
    assert not problems("open", text)


@pytest.mark.slow
def test_a_failed_job_and_what_a_command_writes_to_stderr(folder, capfd):
    (folder / "fails.py").write_text("import sys\nsys.exit(3)\n")
    assert main(["run", "fails.py", "--name", "it", "-o", "json"]) == 3
    text = capfd.readouterr().out
    assert json.loads(text)["exit_code"] == 3
    assert not problems("run", text)
    assert main(["job", "wait", "-n", "it", "-o", "json"]) == 3
    *_, last = values_in(capfd.readouterr().out)
    assert last["exitCode"] == 3
    assert last["outcome"].startswith("it failed after ")
    assert last["outcome"].endswith(": rank 0: exit code 3")
