"""Commands and ports on nodes."""

import http.server
import threading
import urllib.request

import pytest

from batchai_magics.commands.handlers.node_commands import open_forwards, parse_forwards
from batchai_magics.commands.output.command_progress import CommandExit, LogOutput
from batchai_magics.errors import NotFoundError, UsageError
from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.world import until


@pytest.fixture
def one(do):
    do("cluster create -n one -s Standard_D2 -t 1 --vm-priority lowpriority")


def output(parts, *, is_error=False):
    return b"".join(part.data for part in parts if isinstance(part, LogOutput) and part.is_error is is_error)


@pytest.mark.slow
@pytest.mark.usefixtures("one")
def test_a_command_runs_in_the_folder_of_its_node(do):
    node = do("cluster node list -c one").value[0].id
    parts = list(do(f"cluster node exec -c one -n {node} --exec 'pwd; echo oh >&2; exit 3'").parts)
    assert output(parts).decode().strip().endswith(f"nodes/{node}")
    assert output(parts, is_error=True) == b"oh\n"
    assert parts[-1] == CommandExit(3, "the command ended with exit code 3")


@pytest.mark.slow
@pytest.mark.usefixtures("one")
def test_a_command_sees_what_is_mounted(do):
    parts = list(do("cluster node exec -c one --exec 'ls $AZ_BATCHAI_MOUNT_ROOT'").parts)
    assert output(parts).split() == [b"autoafs", b"autobfs"]


@pytest.mark.usefixtures("one")
def test_node_exec_without_a_command_is_refused(do):
    with pytest.raises(UsageError, match="--exec"):
        do("cluster node exec -c one")


@pytest.mark.usefixtures("one")
def test_a_preempted_node_is_replaced(do):
    before = do("cluster node list -c one").value[0].id
    do(f"cluster node preempt -c one -n {before}")
    assert [node.id for node in do("cluster node list -c one")] != [before]
    with pytest.raises(NotFoundError, match="Cannot find a node"):
        do(f"cluster node preempt -c one -n {before}")


@pytest.mark.parametrize("text", ["80", "a:b:c", "1::2", "1:host:x"])
def test_an_address_is_port_host_port(text):
    with pytest.raises(UsageError, match="PORT:HOST:PORT"):
        parse_forwards([text])


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


def test_a_port_is_forwarded_while_it_is_wanted():
    with http.server.HTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = free_port()
        address = f"{here}:127.0.0.1:{server.server_port}"
        with (
            open_forwards(parse_forwards([address])),
            urllib.request.urlopen(f"http://127.0.0.1:{here}/") as answer,
        ):
            assert answer.read() == b"hello"
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"http://127.0.0.1:{here}/", timeout=PATIENCE_S)
        server.shutdown()


@pytest.mark.slow
def test_what_a_setup_task_wrote_is_listed(do):
    task = "--setup-task 'mkdir -p $AZ_BATCHAI_MOUNT_ROOT/autoafs; echo ready' --setup-task-output"
    do(f"cluster create -n set -s Standard_D2 -t 1 {task} '$AZ_BATCHAI_MOUNT_ROOT/autoafs/logs'")
    until(lambda: do("cluster show -n set").value.node_states.idle_node_count == 1)
    listed = do("cluster file list -c set")
    assert listed.table.titles == ("Name", "Is directory", "Size")
    node = do("cluster node list -c set").value[0].id
    assert (f"stdout-{node}.txt", "no", 6) in listed.table.rows
    assert list(listed.data[0]) == ["downloadUrl", "isDirectory", "name", "size"]
    urls = [file["downloadUrl"] for file in listed.data if file["name"] == f"stdout-{node}.txt"]
    assert urllib.request.urlopen(urls[0]).read() == b"ready\n"
    with pytest.raises(UsageError, match="is outside"):
        do("cluster file list -c set -p ../..")
