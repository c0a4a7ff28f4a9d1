import shlex

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import PendingCommand, run
from batchai_magics.commands.output.command_progress import run_operation
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.commands.folder_trees import TREE
from tests.commands.job_json import write_job
from tests.world import processes_of, until

ANYWHERE = ResourceId("0", "any", "any")


@pytest.fixture
def context(tmp_path):
    sections = {"local": LocalSettings(home=tmp_path / "home")}
    context = Context(Settings(sections=sections, cluster_vm_size="Standard_D2"))
    yield context
    if "backend" in vars(context):
        until(lambda: not processes_of(context.backend.layout.home))
        list(context.backend.list(ANYWHERE, Kind.WORKSPACE))  # reaps the supervisors
        context.backend.close()


@pytest.fixture
def do(context):
    """Carries out a line."""

    def do_it(line):
        found = run(parse(shlex.split(line)), context)
        if isinstance(found, PendingCommand):
            return found.result(run_operation(found.operation, is_shown=False))
        return found

    return do_it


@pytest.fixture
def cluster(do):
    do("cluster create -n default -s Standard_D2 -t 1")


@pytest.fixture
def job_file(tmp_path):
    """Writes a job.json that runs a shell command line."""

    return lambda command: write_job(tmp_path, command)


@pytest.fixture
def account(do):
    """The account acc, with the share data and the container blobs."""
    do("storage account create -n acc -g g -l eastus --sku Standard_LRS --kind Storage")
    do("storage share create -n data --account-name acc")
    do("storage container create -n blobs --account-name acc")


@pytest.fixture
def tree(tmp_path):
    """A folder with the files of TREE."""
    root = tmp_path / "tree"
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
