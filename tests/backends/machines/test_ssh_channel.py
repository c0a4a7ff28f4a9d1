"""The connection: what a login writes, what breaks it, and what each failure is called."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.machines import ssh_connection
from batchai_magics.backends.machines.machine import CommandLine
from batchai_magics.backends.machines.ssh_channel import SshChannel
from batchai_magics.backends.machines.ssh_machine import SshMachine
from batchai_magics.errors import ServiceError, UnreachableError, UsageError
from tests.backends.machines.real_sshd import RealSshd
from tests.patience import PATIENCE_S
from tests.world import is_alive, until

pytestmark = pytest.mark.slow
ASKING = "read -r answer; cat\n"
NOISE = """
echo "Welcome to the cluster!"; printf 'no end of line'
(for i in 1 2 3 4 5 6 7 8 9; do echo "news $i"; sleep 0.05; done) &
"""


def code_of(channel: SshChannel) -> tuple[str, str]:
    with pytest.raises(ServiceError) as caught:
        channel.request("hello")
    return caught.value.code, str(caught.value.hint)


def is_reconnected(machine: SshMachine) -> bool:
    """Whether a lost connection is there again."""
    try:
        return machine.has_program("sh")
    except UnreachableError:
        return False


def agents(sshd: RealSshd) -> list[psutil.Process]:
    """Our programs at the other end."""
    found = []
    for process in psutil.Process(sshd.sshd.pid).children(recursive=True) if sshd.sshd else []:
        with contextlib.suppress(psutil.NoSuchProcess):  # most are shells, which end at once
            if "b64decode" in " ".join(process.cmdline()) and process.name().startswith("python"):
                found.append(process)
    return found


def test_what_a_login_writes_and_reads_is_kept_apart(own_sshd):
    (own_sshd.home / ".bashrc").write_text(NOISE)
    (own_sshd.home / ".bash_profile").write_text(NOISE + ASKING)
    machine = SshMachine(own_sshd.channel())
    for number in range(50):
        done = machine.run(CommandLine(["echo", str(number)], machine.environ), timeout_s=PATIENCE_S)
        assert done.stdout == f"{number}\n".encode()
    machine.close()


def test_a_login_that_never_ends_is_named(own_sshd, monkeypatch):
    monkeypatch.setattr(ssh_connection, "LOGIN_TIMEOUT_S", 2.0)
    (own_sshd.home / ".bashrc").write_text(ASKING)
    with pytest.raises(UnreachableError, match="login shell is not done"):
        own_sshd.channel().request("hello")


def test_remote_environment_is_a_login_shells(own_sshd):
    (own_sshd.home / ".profile").write_text('export MODULES=loaded; PATH="$HOME/bin:$PATH"')
    machine = SshMachine(own_sshd.channel())
    assert machine.environ["MODULES"] == "loaded"
    assert (
        machine.run(CommandLine(["sh", "-c", "echo $MODULES"], machine.environ), timeout_s=PATIENCE_S).stdout
        == b"loaded\n"
    )
    machine.close()


def test_a_key_that_is_refused_or_has_a_passphrase_is_named_at_once(own_sshd):
    own_sshd.configure("PasswordAuthentication yes\nKbdInteractiveAuthentication yes\n")
    own_sshd.kill()
    own_sshd.start()
    own_sshd.use_key("stranger")
    code, hint = code_of(own_sshd.channel())
    assert (code, "ssh-copy-id" in hint, "ControlMaster=yes" in hint) == ("KeyRefused", True, True)
    own_sshd.use_key("user_key")
    key = own_sshd.folder / "user_key"
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key)], check=True)
    assert code_of(own_sshd.channel())[0] == "KeyRefused"


def test_an_unknown_or_changed_host_key_is_named(own_sshd):
    own_sshd.know(None)
    code, hint = code_of(own_sshd.channel())
    assert (code, "compare" in hint) == ("HostKeyUnknown", True)
    own_sshd.know(own_sshd.folder / "stranger.pub")
    code, hint = code_of(own_sshd.channel())
    assert code == "HostKeyChanged"
    line = shlex.split(hint.partition("if so: ")[2].partition(", then")[0])
    assert line[-1] == f"[127.0.0.1]:{own_sshd.port}"
    subprocess.run(line, check=True, capture_output=True)
    assert code_of(own_sshd.channel())[0] == "HostKeyUnknown", "the line has it forgotten"


def test_a_host_an_ssh_or_a_python_that_is_not_there_is_named(sshd, tmp_path):
    (tmp_path / "client").write_text("")
    nobody = SshChannel("no-such-host.invalid", ssh=f"ssh -F {tmp_path}/client")
    channels = (nobody, sshd.channel(python="python9"), SshChannel("host", ssh="no-such-ssh"))
    (host, host_hint), (python, python_hint), (ssh, _) = map(code_of, channels)
    assert (host, python, ssh) == ("HostUnknown", "NoPython", "NoSsh")
    assert "no-such-host.invalid" in host_hint
    assert "slurm.ssh_python" in python_hint


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "two words"])
def test_what_is_no_host_is_refused(host):
    with pytest.raises(UsageError, match="is not a host"):
        SshChannel(host)


def test_two_kernels_share_one_connection(own_sshd):
    first, second = SshMachine(own_sshd.channel()), SshMachine(own_sshd.channel())
    assert first.user == second.user == os.getuid()
    assert own_sshd.logins == 1
    sockets = Path(str(first._channel._control_path)).parent
    assert sockets.stat().st_mode & 0o077 == 0
    first.close()
    assert second.has_program("sh")
    second.close()


def test_slow_command_does_not_block_other_commands(machine, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(machine.run, waits_for(tmp_path / "go", machine), timeout_s=PATIENCE_S)
        assert machine.has_program("sh")
        assert not slow.done()
        (tmp_path / "go").touch()
        assert slow.result().stdout == b"done\n"


def test_a_command_that_takes_too_long_is_given_up(machine):
    with pytest.raises(TimeoutError):
        machine.run(CommandLine(["sleep", "1000"], machine.environ), timeout_s=1)


def test_a_program_there_that_is_killed_is_started_again(own_sshd):
    machine = SshMachine(own_sshd.channel())
    for _ in range(3):
        assert machine.has_program("sh")
        for process in agents(own_sshd):
            process.send_signal(signal.SIGKILL)
    until(lambda: is_reconnected(machine))
    machine.close()


def test_what_is_to_run_once_runs_once_however_often_it_is_asked(sshd, tmp_path):
    line = {"words": ["sh", "-c", f"sleep 1; echo x >> {tmp_path}/runs; echo done"], "env": dict(os.environ)}
    asked = {**line, "folder": "", "timeout_s": 60.0, "answer": str(tmp_path / "answer")}
    channel = sshd.channel()
    with contextlib.closing(channel), ThreadPoolExecutor(3) as pool:
        frames = list(pool.map(lambda _: channel.request("run", **asked), range(3)))
    assert [frame.data for frame in frames] == [b"done\n"] * 3
    assert (tmp_path / "runs").read_text() == "x\n"


def test_unreachable_host_is_not_retried_for_each_command(own_sshd):
    channel = own_sshd.channel()
    SshMachine(channel)
    own_sshd.kill()
    codes = {code_of(channel) for _ in range(100)}
    assert {code for code, _ in codes} == {"HostUnreachable"}
    assert channel._failed_attempts <= 4


def test_nothing_is_left_there_when_the_connection_ends(own_sshd):
    machine = SshMachine(own_sshd.channel())
    output = machine.stream(CommandLine(["sh", "-c", "echo up; exec cat"], machine.environ), tick_s=0.0)
    assert next(output).data == b"up\n"
    mine = [process for agent in agents(own_sshd) for process in (agent, *agent.children(recursive=True))]
    assert len(mine) >= 2
    own_sshd.kill()
    until(lambda: not any(map(is_alive, mine)))


def test_no_word_of_a_file_or_the_environment_is_on_a_command_line(machine, far, tmp_path):
    (far / "file").write_atomic(b"hunter2", 0o600)
    waits = waits_for(tmp_path / "go", machine)
    line = CommandLine(waits.arguments, {**machine.environ, "TOKEN": "hunter2"})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(machine.run, line, timeout_s=PATIENCE_S)
        until(lambda: any(f"{tmp_path}/go" in words for words in _lines()))
        assert not any("hunter2" in words for words in _lines())
        (tmp_path / "go").touch()
        assert running.result().stdout == b"done\n"


def waits_for(file: Path, machine: SshMachine) -> CommandLine:
    """A command that is over when there is a file."""
    return CommandLine(["sh", "-c", f"until [ -e {file} ]; do sleep 0.05; done; echo done"], machine.environ)


def _lines() -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_python_3_6_understands_what_is_sent(tmp_path):
    import ast

    for file in Path(ssh_connection.__file__).parent.glob("agent_*.py"):
        ast.parse(file.read_text(), feature_version=(3, 6))
