"""Samples of real processes: through py-spy or by signals, whatever the processes do."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.node import stack_dumps
from batchai_magics.backends.node.job_environment import JOB_MODULES
from tests.world import until

pytestmark = pytest.mark.slow

PYTHON = os.path.realpath(sys.executable)  # which has no py-spy beside it
SPY = shutil.which("py-spy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
LOOP = """
import time
def work():
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass
print("up", flush=True)
while True:
    work()
"""
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(1000)\n"
# No signal reaches Python code as long as this runs, and the interpreter is locked.
IN_C = "print('up', flush=True)\nimport re\nre.match(r'(a*)*$', 'a' * 60 + 'b')\n"
# One answer takes 300 kB.
DEEP = f"""
import threading
def {"f" * 400}(depth):
    {"f" * 400}(depth - 1) if depth else threading.Event().wait()
for _ in range(8):
    threading.Thread(target={"f" * 400}, args=(90,)).start()
print("up", flush=True)
"""


@pytest.fixture
def start(tmp_path):
    """Starts ranks of a run, with the hook of jobs or without, and waits until they have printed."""
    shutil.copy(JOB_MODULES["sitecustomize.py"], tmp_path / "sitecustomize.py")
    children = []

    def start(rank, command, *, has_hook=True, **env):
        own = {
            "BATCHAI_JOB_GUID": str(tmp_path),
            "AZ_BATCH_NODE_ID": "n0",
            "RANK": str(rank),
            "PATH": "/usr/bin:/bin",
        }
        own |= {"PYTHONPATH": str(tmp_path)} if has_hook else {}
        words = [PYTHON, "-c", command] if isinstance(command, str) else command
        child = subprocess.Popen(words, env={**own, **env}, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout.readline() == "up\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@contextlib.contextmanager
def begun(tmp_path, seconds=1.0, rate_hz=50.0, path="/usr/bin:/bin"):
    """The program as on a node, without this package."""
    words = [sys.executable, "-I", "-", str(tmp_path), "n0", str(seconds), str(rate_hz)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env={"PATH": path}, **pipes) as program:
        program.stdin.write(Path(stack_dumps.__file__).read_text())
        program.stdin.close()
        yield program
    assert program.returncode == 0


def sampled(tmp_path, path="/usr/bin:/bin"):
    """What the program tells of each rank."""
    with begun(tmp_path, path=path) as program:
        return [json.loads(line) for line in program.stdout]


def count(told):
    return sum(count for _, _, count in told["stacks"])


def test_the_hook_tells_stacks_states_and_lines_of_code_and_masks_secrets(start, tmp_path):
    folder = tmp_path / "s3cr3t-token"
    folder.mkdir()
    (folder / "loop.py").write_text(LOOP)
    env = {"BATCHAI_SECRET_NAMES": "TOKEN OTHER", "TOKEN": "s3cr3t-token", "BATCHAI_ARTIFACT_DIR": "/a/b"}
    start(0, [PYTHON, str(folder / "loop.py")], **env)
    start(1, SLEEP)
    loop, sleep = sampled(tmp_path)
    assert (loop["way"], loop["folder"], loop["rank"], sleep["rank"]) == ("signal", "/a/b", 0, 1)
    assert count(loop) > 3
    assert any("in work\n" in text and not is_idle for text, is_idle, _ in loop["stacks"])
    assert "while time.monotonic() < end:" in loop["code"].values()
    assert "s3cr3t" not in json.dumps(loop)
    assert "***/loop.py" in loop["stacks"][0][0]
    assert {is_idle for _, is_idle, _ in sleep["stacks"]} == {True}


def test_each_rank_that_cannot_answer_is_told_as_what_it_is(start, tmp_path):
    start(0, IN_C)
    start(1, "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [50])\n" + SLEEP)
    stopped = start(2, SLEEP)
    stopped.send_signal(signal.SIGSTOP)
    until(lambda: stack_dumps.is_stopped(stopped.pid))
    start(3, ["/bin/sh", "-c", "echo up; exec sleep 1000"])
    hangs, blocks, stops, lacks = sampled(tmp_path)
    assert count(hangs) > 3
    assert "re/__init__.py" in hangs["stacks"][0][0] or "re.py" in hangs["stacks"][0][0]
    assert (blocks["stacks"], blocks["silent_s"] > 0) == ([], True)
    assert stops["stopped_s"] == stops["seconds"] > 0
    assert (stops["stacks"], stops["unfinished"]) == ([], False)
    assert (lacks["stopped_s"], lacks["silent_s"], lacks["stacks"]) == (0.0, 0.0, [])
    stopped.send_signal(signal.SIGCONT)


@pytest.mark.skipif(SPY is None, reason="needs py-spy")
def test_py_spy_is_used_where_it_is_and_needs_no_hook(start, tmp_path):
    start(0, LOOP, has_hook=False)
    (told,) = sampled(tmp_path, path=f"{Path(SPY).parent}:/usr/bin:/bin")
    assert told["way"] == "py-spy"
    assert count(told) > 3
    assert all(text.startswith("Current thread\n  File ") for text, _, _ in told["stacks"])
    assert any(
        'line 5 in work\n  File "<string>", line 9 in <module>' in text for text, _, _ in told["stacks"]
    )


def with_spy(tmp_path, code):
    """The path with a py-spy of this code."""
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text(f"#!/bin/sh\n{code}\n")
    spy.chmod(0o755)
    return f"{spy.parent}:/usr/bin:/bin"


def test_the_hook_replaces_a_py_spy_that_is_refused(start, tmp_path):
    start(0, LOOP)
    (told,) = sampled(tmp_path, path=with_spy(tmp_path, "echo 'Error: Permission Denied' >&2; exit 1"))
    assert told["way"] == "signal"
    assert count(told) > 3


def test_the_most_frequent_stacks_are_told_and_others_counted(start, tmp_path):
    once, often = "seq 3000 | sed 's/.*/MainThread;f (a.py:&) 1/'", "echo 'MainThread;g (a.py:1) 10'"
    start(0, LOOP)
    (told,) = sampled(tmp_path, path=with_spy(tmp_path, f'for path; do :; done; ({once}; {often}) > "$path"'))
    assert (len(told["stacks"]), told["other"]) == (2000, 1001)
    assert 10 in [count for _, _, count in told["stacks"]]


def test_a_py_spy_that_never_ends_is_told_for_each_rank_though_the_job_ends(start, tmp_path):
    start(0, LOOP)
    start(1, LOOP)
    with begun(tmp_path, path=with_spy(tmp_path, "exec sleep 1000")) as sampler:
        status = Path(f"/proc/{sampler.pid}/status")
        ignored = re.compile(r"SigIgn:\s*(\w+)")
        until(lambda: int(ignored.search(status.read_text())[1], 16) >> (signal.SIGTERM - 1) & 1)
        sampler.terminate()
        told = [json.loads(line) for line in sampler.stdout]
    assert [(each["unfinished"], each["stacks"]) for each in told] == [(True, []), (True, [])]


def test_a_rank_that_goes_on_after_a_stop_is_sampled(start, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without py-spy
    rank = start(0, LOOP)
    rank.send_signal(signal.SIGSTOP)
    until(lambda: stack_dumps.is_stopped(rank.pid))
    with stack_dumps.StackSampler(0, [(rank.pid, {})], str(tmp_path), []) as sampler:
        sampler.sample()
        rank.send_signal(signal.SIGCONT)
        until(lambda: sampler.sample() and sampler.result(1.0, 0.0)["stacks"])
        assert 0 < sampler.result(1.0, 0.0)["stopped_s"] < 1.0


def test_samples_of_a_rank_that_ends_meanwhile_are_told(start, tmp_path):
    rank = start(0, LOOP)
    with begun(tmp_path, seconds=600) as sampler:
        until(lambda: Path(stack_dumps.dump_of(rank.pid)).read_bytes().count(b"in work") > 5)
        rank.kill()
        told = json.loads(sampler.stdout.read())
    assert count(told) > 2
    assert told["seconds"] < 600


def test_memory_of_a_rank_does_not_grow_with_its_samples(start, tmp_path):
    rank = start(0, DEEP)
    with Path(stack_dumps.dump_of(rank.pid)).open("rb") as answers, begun(tmp_path, seconds=600) as sampler:
        until(lambda: os.fstat(answers.fileno()).st_size > 8 * stack_dumps.MAX_KEPT)
        held = os.fstat(answers.fileno()).st_blocks * 512
        rank.kill()
        assert held < 2 * stack_dumps.MAX_KEPT
        assert count(json.loads(sampler.stdout.read())) > 2


def test_of_what_a_job_names_only_the_beginning_of_regular_files_is_read(tmp_path):
    code, pipe, endless, folder = (tmp_path / name for name in ("code.py", "pipe", "endless", "folder"))
    code.write_text("first\n  sécond\n")
    os.mkfifo(pipe)
    endless.touch()
    os.truncate(endless, 1 << 40)
    folder.mkdir()
    empty = [(code, 3), (pipe, 1), (folder, 1), (tmp_path / "missing", 1), ("/dev/zero", 1), ("<string>", 1)]
    places = [(code, 2), (endless, 1), *empty]
    stack = "\n".join(f'  File "{file}", line {line} in work' for file, line in places)
    assert stack_dumps.source_lines(os.getpid(), [stack]) == {
        f"{code}:2": "sécond",
        f"{endless}:1": "\0" * stack_dumps.MAX_LINE,
        **{f"{file}:{line}": "" for file, line in empty},
    }
