"""Real jobs on the local backend, which the notebooks of a JupyterLab show."""

import contextlib
import os
from pathlib import Path

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.resource_ids import Kind
from tests.patience import PATIENCE_S
from tests.world import World, until

SCRIPT = """
import os, time
from pathlib import Path
rank = int(os.environ["PMI_RANK"])
step = 0
def is_wanted():
    try:
        os.kill({owner}, 0)
    except ProcessLookupError:
        return False  # nobody is left to end it
    return not Path("{flag}").exists()
while is_wanted():
    step += 1
    print(f"rank {{rank}} line {{step:06}}", flush=True)
    if step % 3 == 0:
        rate = f"{{100 + rank}}.0 +/- 0.0 (jitter = 0.0)"
        print(f"{{step}}\\timages/sec: {{rate}}\\t{{9 / step:.3f}}", flush=True)
    time.sleep(1)
print(f"rank {{rank}} is done", flush=True)
"""


class NotebookJob:
    """A job that writes until it is told to end, however long the tests take, or they are no more."""

    def __init__(self, world, name, line):
        self.name = name
        self.flag = Path(world.home) / f"{name}.end"
        self.job = world.submit(f"{name} {line}", SCRIPT.format(flag=self.flag, owner=os.getpid()))
        self._logs = f"shares/**/jobs/{name}/*/stdouterr/stdout.txt"
        self.log = until(lambda: next(world.home.glob(self._logs), None))
        self.waits_for(1)

    def waits_for(self, size):
        """Waits until the log has more bytes than this."""
        until(lambda: self.log.stat().st_size > size)

    def end(self):
        """Lets the job end, and waits for it."""
        self.flag.touch()
        return self.job.wait(PATIENCE_S)


@contextlib.contextmanager
def world_of(server):
    """The backend that the notebooks of a JupyterLab use; what still runs in it ends at last."""
    world = World(server.home)
    yield world
    for resource in world.backend.list(world.experiment, Kind.JOB):
        if not resource.state.is_final:
            world.backend.terminate(resource.id)
            Job(world.backend, resource.id).wait(PATIENCE_S)
    world.backend.close()


def pair_of_nodes(world, name):
    """The name of a new cluster of two nodes, which must not be another test's."""
    user = {"adminUserName": "user", "adminUserPassword": "secret"}
    scale = {"manual": {"targetNodeCount": 2}}
    properties = {"vmSize": "STANDARD_D1", "userAccountSettings": user, "scaleSettings": scale}
    id = world.workspace.child(Kind.CLUSTER, name)
    world.backend.create(id, ClusterSpec.from_wire({"properties": properties}))
    return id.name
