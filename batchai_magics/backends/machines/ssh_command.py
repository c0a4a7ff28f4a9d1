"""What `ssh` is told, and what its last words mean. Pure but for one question to `ssh` about its settings."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from importlib import resources

from batchai_magics.errors import CapabilityError, ServiceError, UnreachableError, UsageError

CONNECT_S, ALIVE_S, ALIVE_COUNT = 15, 15, 3
LINGER_S = 60  # how long the connection stays for the next kernel when the last has closed
_PACKAGE = "batchai_magics.backends.machines"
_AGENT_MODULES = ("agent_frames", "agent_files", "agent_main")  # each may import those before it
_OPTIONS = {
    "BatchMode": "yes",  # nothing ever waits for a person
    "ConnectTimeout": CONNECT_S,
    "ServerAliveInterval": ALIVE_S,
    "ServerAliveCountMax": ALIVE_COUNT,
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "Compression": "yes",
    "LogLevel": "ERROR",
}
# What runs there first: it says that it is there, and then reads what it is to be.
_START = """
import os, sys
sys.version_info >= (3, 6) or sys.exit("batchai: too old: Python %d.%d" % sys.version_info[:2])
out, asking = sys.stdout.buffer, os.fdopen(0, "rb", 0)
out.write(b"\\n{ready}\\n")
out.flush()
size = int(asking.readline())
text = b""
while len(text) < size:
    text += asking.read(size - len(text)) or sys.exit("batchai: nothing came")
exec(compile(text, "batchai", "exec"))
"""
_PROGRAM = """
import types
for name, text in {modules!r}:
    module = types.ModuleType(name)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules[{main!r}].main(asking, {mark!r})
"""


def check_host(host: str) -> None:
    """Raises a UsageError for what is no host, but could be an option."""
    if host.startswith("-") or re.search(r"\s", host):
        hint = "Write a host of ~/.ssh/config, or user@host."
        raise UsageError(f"setting slurm.ssh: {host!r} is no host", hint=hint)


def ssh_arguments(ssh: Sequence[str], host: str, shared: str, *, python: str, ready: str) -> list[str]:
    """The line that starts our program there; connections are shared at `shared` (empty: as configured)."""
    options = {name: str(value) for name, value in _OPTIONS.items()}
    if shared:
        options |= {"ControlMaster": "auto", "ControlPath": shared, "ControlPersist": str(LINGER_S)}
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return [*ssh, *given, "--", host, _there(python, ready)]


def _there(python: str, ready: str) -> str:
    """What the login shell there is given: whatever shell it is, bash reads the profile and starts Python.

    What the profile writes goes to standard error, and it can read nothing of what is meant for us.
    """
    code = base64.b64encode(_START.format(ready=ready).encode()).decode()
    run = f'import base64; exec(base64.b64decode("{code}"))'
    start = f"exec {shlex.quote(python)} -I -u -c {shlex.quote(run)} <&3 >&4 3<&- 4>&-"
    shell = f"exec 3<&0 4>&1; exec bash -lc {shlex.quote(start)} </dev/null >&2"
    return f"exec sh -c {shlex.quote(shell)}"


def agent_program(mark: bytes) -> bytes:
    """What our program there is, behind its length."""
    modules = [(_PACKAGE.rsplit(".", count)[0], "") for count in (2, 1, 0)]
    for name in _AGENT_MODULES:
        source = resources.files(_PACKAGE).joinpath(f"{name}.py").read_text(encoding="utf-8")
        modules.append((f"{_PACKAGE}.{name}", source))
    text = _PROGRAM.format(modules=modules, main=f"{_PACKAGE}.agent_main", mark=mark).encode()
    return b"%d\n%s" % (len(text), text)


_CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_KEY = "Host key verification failed"
_REFUSED = re.compile(r"Permission denied|Too many authentication failures|no mutual signature")
_AWAY = re.compile(
    r"Could not resolve hostname|Connection (?:refused|timed out|closed|reset)|No route to host"
    r"|Network is unreachable|Operation timed out|Broken pipe|not responding|kex_exchange|Temporary failure"
)
_NO_PYTHON = re.compile(
    r"python\S*: (?:command )?not found|: (?:cannot execute|No such file)|too old: Python"
)


def connection_error(host: str, said: str, *, python: str, login: str, forget: str) -> ServiceError:
    """Why there is no connection, by what `ssh` said last.

    With the line `login` a person can log in, with `forget` the host's key is forgotten.
    """
    last = _last_line(said)
    if "Could not resolve hostname" in said:
        hint = f"Check slurm.ssh, or name it in ~/.ssh/config: `Host {host}` and its HostName."
        return UnreachableError(f"there is no host {host!r}: {last}", code="HostUnknown", hint=hint)
    if _CHANGED in said:
        text = f"{host} has another host key than before"
        hint = f"Ask its administrator whether it was changed; if so: {forget}, then {login} once."
        return ServiceError(text, code="HostKeyChanged", hint=hint)
    if _KEY in said:
        text = f"the host key of {host} is not known here"
        hint = f"Log in once in a terminal and compare it: {login}"
        return ServiceError(text, code="HostKeyUnknown", hint=hint)
    if _REFUSED.search(said):
        text = f"{host} lets nobody in without a question: {last}"
        hint = f"Give it a key (ssh-copy-id, ssh-add), or log in once, which is kept for us: {login}"
        return ServiceError(text, code="KeyRefused", hint=hint)
    if _AWAY.search(said):
        return UnreachableError(
            f"{host} cannot be reached: {last}", code="HostUnreachable", hint="Try it again."
        )
    if _NO_PYTHON.search(said):
        text = f"there is no Python 3.6 or later called {python!r} at {host}: {last}"
        return CapabilityError(
            text, code="NoPython", hint="Name one that is there: setting slurm.ssh_python."
        )
    hint = f"Look what it says in a terminal: {login}"
    return UnreachableError(
        f"ssh to {host} ended: {last or 'without a word'}", code="HostUnreachable", hint=hint
    )


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def has_control_path(configuration: str) -> bool:
    """Whether the user's own configuration shares connections, by what `ssh -G` says."""
    return _settings(configuration).get("controlpath", "none").lower() != "none"


def forget_key_command(host: str, configuration: str) -> str:
    """The line by which a host's key is forgotten: it is kept by name and port, which `ssh -G` tells."""
    found = _settings(configuration)
    name, port = found.get("hostname", host), found.get("port", "22")
    name = found.get("hostkeyalias") or (name if port == "22" else f"[{name}]:{port}")
    file = found.get("userknownhostsfile", "").partition(" ")[0]
    own = ["-f", file] if file and not file.endswith("/.ssh/known_hosts") else []
    return shlex.join(["ssh-keygen", *own, "-R", name])


def _settings(configuration: str) -> dict[str, str]:
    """What `ssh -G` says, by name."""
    return dict(line.partition(" ")[::2] for line in configuration.splitlines())
