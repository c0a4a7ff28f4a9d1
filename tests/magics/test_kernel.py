"""The magics in a real kernel, over its own protocol: completion, and Ctrl-C."""

import os

import pytest
from jupyter_client.manager import KernelManager

from tests.patience import PATIENCE_S
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
LONG = "%%batchai_job {} --wait\nimport time\ntime.sleep(1000)"
ENDED = "job.cancel(); job.wait(); None"  # another test may never run in this kernel


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("kernel") / "home"


@pytest.fixture(scope="module")
def kernel(home):
    manager = KernelManager(kernel_name="python3")
    env = {**os.environ, "BATCHAI_HOME": str(home), "BATCHAI_UI": "text", "IPYTHONDIR": str(home.parent)}
    manager.start_kernel(env=env)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE_S)
    client.manager = manager
    assert execute(client, "%load_ext batchai_magics")[0] == "ok"
    yield client
    client.stop_channels()
    manager.shutdown_kernel()
    until(lambda: not processes_of(home))


def execute(client, code, *, on_output=None):
    """Runs a cell; gives the reply's status and all that it said."""
    said = []

    def hook(message):
        content = message["content"]
        if message["msg_type"] in _TEXTS:
            said.append(_TEXTS[message["msg_type"]](content))
            if on_output:
                on_output("".join(said))

    reply = client.execute_interactive(code, timeout=PATIENCE_S, output_hook=hook)
    return reply["content"]["status"], "".join(said)


_TEXTS = {
    "stream": lambda content: content["text"],
    "error": lambda content: "\n".join(content["traceback"]),
    "display_data": lambda content: content["data"]["text/plain"],
}


def offers(client, code):
    return client.complete(code, len(code), reply=True, timeout=PATIENCE_S)["content"]["matches"]


def interrupts(client, *cues):
    """Interrupts the kernel when it has said the first cue, then at the second."""
    left = list(cues)

    def watch(said):
        if left and left[0] in said:
            left.pop(0)
            client.manager.interrupt_kernel()

    return watch


def test_tab_offers_options_values_and_names(kernel):
    execute(kernel, "%batchai cluster create -n small -s Standard_D2 -t 0")
    assert offers(kernel, "%%batchai_job x --nod") == ["--nodes"]
    assert offers(kernel, "%%batchai_job x --toolkit ") != []
    until(lambda: "small" in offers(kernel, "%batchai cluster show -n "))
    assert offers(kernel, "%%batchai_job x\nimport o")[:1] != ["--nodes"]


@pytest.mark.parametrize("ui", ["text", "html", "widget"])
def test_a_deleted_job_is_shown_as_one_line(kernel, ui):
    execute(kernel, f"%%batchai_job gone-{ui}\nprint('hi')")
    execute(kernel, "job.wait(); None")
    execute(kernel, f"%batchai job delete -n gone-{ui} --yes")
    execute(kernel, f"import os; os.environ['BATCHAI_UI'] = '{ui}'")
    told = execute(kernel, "job")
    execute(kernel, "os.environ['BATCHAI_UI'] = 'text'")
    assert told == ("ok", f"<Job gone-{ui}: deleted>\n")


def test_one_interrupt_detaches_and_says_how_to_come_back(kernel):
    status, printed = execute(kernel, LONG.format("left"), on_output=interrupts(kernel, "left"))
    assert status == "error"
    assert "Detached: left keeps running." in printed
    assert "To see it again: %batchai job show -n left" in printed
    assert "Traceback" not in printed
    assert execute(kernel, f"print(job.is_done); {ENDED}")[1] == "False\n"


def test_a_second_interrupt_ends_the_job(kernel):
    execute(kernel, "from batchai_magics.magics import notebook_output\ngrace_s = notebook_output._GRACE_S")
    execute(kernel, f"notebook_output._GRACE_S = {PATIENCE_S}")
    status, printed = execute(kernel, LONG.format("long"), on_output=interrupts(kernel, "long", "Detached"))
    execute(kernel, "notebook_output._GRACE_S = grace_s")
    assert status == "error"
    assert "Cancelling long." in printed
    assert execute(kernel, "print(job.wait().state.value)")[1] == "failed\n"


def test_an_interrupt_stops_a_stream_and_not_the_job(kernel):
    execute(kernel, "%%batchai_job other\nimport time\nprint('begun', flush=True)\ntime.sleep(1000)")
    line = "%batchai job file stream -j other -f stdout.txt"
    status, printed = execute(kernel, line, on_output=interrupts(kernel, "begun"))
    assert status == "error"
    assert "To resume: %batchai job file stream -j other" in printed
    assert execute(kernel, f"print(job.is_done); {ENDED}")[1] == "False\n"


# Says that it waits once it does: an interrupt that comes earlier would end the cell's own `print`.
WAIT = """
import sys, threading, time, traceback

def announce(waiter):
    while "endings" not in [call.name for call in traceback.extract_stack(sys._current_frames()[waiter])]:
        time.sleep(0.01)
    print("waiting", flush=True)

threading.Thread(target=announce, args=[threading.get_ident()]).start()
job.wait()
"""


def test_an_interrupted_wait_is_one_line_and_not_a_traceback(kernel):
    execute(kernel, "%%batchai_job waited\nimport time\ntime.sleep(1000)")
    status, printed = execute(kernel, WAIT, on_output=interrupts(kernel, "waiting"))
    assert (status, printed) == ("error", "waiting\nStopped waiting for waited, which keeps running.")
    assert execute(kernel, f"print(job.is_done); {ENDED}")[1] == "False\n"


def test_a_job_that_was_waited_for_is_not_shown_again(kernel):
    execute(kernel, "%%batchai_job brief\nprint('hello')")
    for line in ("job.wait()", "await job"):
        assert execute(kernel, line) == ("ok", "<Job brief: succeeded>\n")
    assert "-- last lines --" in execute(kernel, "job.wait()\njob")[1]


def in_cell(client, cell_id, code):
    """Runs a cell as a front end does that tells which cell it is."""
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
    message = client.session.msg(
        "execute_request", {**content, "allow_stdin": False}, metadata={"cellId": cell_id}
    )
    client.shell_channel.send(message)
    reply = client._recv_reply(message["header"]["msg_id"], timeout=PATIENCE_S)
    assert reply["content"]["status"] == "ok", reply["content"]


def test_a_cell_without_a_name_is_known_again_by_the_kernel(kernel):
    names = []
    for script in ("print(1)", "print(1)", "print(2)"):
        in_cell(kernel, "ab12cd34", f"%%batchai_job\n{script}")
        names.append(execute(kernel, "print(job.wait().name)")[1])
    assert names == ["job-ab12cd\n", "job-ab12cd\n", "job-ab12cd-2\n"]
