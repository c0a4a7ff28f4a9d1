"""Messages of pages to a view's models in a real kernel, over subshells that come and go with the pages."""

import os

import pytest
from jupyter_client.manager import KernelManager

from tests.patience import PATIENCE_S

pytest.importorskip("ipykernel", minversion="7", reason="older kernels have no subshells")
pytestmark = pytest.mark.slow


@pytest.fixture
def client(tmp_path):
    manager = KernelManager(kernel_name="python3")
    env = {"BATCHAI_HOME": str(tmp_path / "home"), "BATCHAI_UI": "widget", "IPYTHONDIR": str(tmp_path)}
    manager.start_kernel(env={**os.environ, **env})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)
    yield client
    client.stop_channels()
    manager.shutdown_kernel()


def control(client, kind, **content):
    """The content of the reply to a request on the control channel."""
    request = client.session.msg(kind, content)
    client.control_channel.send(request)
    while True:
        reply = client.get_control_msg(timeout=PATIENCE_S)
        if reply["parent_header"]["msg_id"] == request["msg_id"]:
            return reply["content"]


def models(client):
    """The ids of all models of widgets."""
    request = client.comm_info("jupyter.widget")
    while True:
        reply = client.get_shell_msg(timeout=PATIENCE_S)
        if reply["parent_header"]["msg_id"] == request:
            return list(reply["content"]["comms"])


def read_state(client, model, subshell):
    """Asks for a model's state as a page does that was loaded again, and waits for the kernel to be done."""
    request = client.session.msg("comm_msg", {"comm_id": model, "data": {"method": "request_state"}})
    request["header"]["subshell_id"] = subshell
    client.shell_channel.send(request)
    said = []
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE_S)
        if message["parent_header"].get("msg_id") == request["msg_id"]:
            said.append(message["content"].get("data", message["content"]))
            if said[-1].get("execution_state") == "idle":
                return [data for data in said if data.get("method") == "update"]


def test_a_page_reaches_a_view_whose_earlier_page_took_its_subshell_away(client):
    client.execute_interactive("%load_ext batchai_magics", timeout=PATIENCE_S)
    client.execute_interactive("%batchai job list", timeout=PATIENCE_S)
    view_and_layout = models(client)
    assert len(view_and_layout) == 2
    for _ in range(2):
        page = control(client, "create_subshell_request")["subshell_id"]
        for model in view_and_layout:
            assert len(read_state(client, model, page)) == 1
        control(client, "delete_subshell_request", subshell_id=page)
