"""The `batchai serve` command: options, checks before anything is opened, the server process, subcommands."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from batchai_magics.backends.base.backend_registry import BACKENDS, choose, load_settings, open_backend
from batchai_magics.backends.folders.private_files import write
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, UsageError, did_you_mean
from batchai_magics.options.option import (
    DisplayText,
    LazyChoices,
    Option,
    ValueKind,
    option_sections,
    section,
)
from batchai_magics.options.option_parsing import parse_options
from batchai_magics.server import server_home
from batchai_magics.server.access.access_control import LOOPBACK, Users
from batchai_magics.server.server_home import ServerHome, TlsFiles, read_token
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT

if TYPE_CHECKING:
    import uvicorn

    from batchai_magics.server.http.asgi_app import App
    from batchai_magics.server.http.request_limits import ServerLimits

PROGRAM = "batchai serve"
_NETWORK = "Network Arguments"
_WILDCARD_ADDRESSES = ("0.0.0.0", "::")  # not usable by clients as an address
TOKEN_FILE = Option(("--token-file",), "File of the administrator's token; made when it is missing.", "FILE")
OPTIONS = (
    Option(("--host",), "Address to listen on.", "ADDRESS", default="127.0.0.1", section=_NETWORK),
    Option(
        ("--port",),
        "Port to listen on.",
        "PORT",
        ValueKind.NUMBER,
        default=10000,
        minimum=0,
        section=_NETWORK,
    ),
    Option(
        ("--name",),
        "Another name that clients call this server by.",
        "HOST",
        is_repeatable=True,
        section=_NETWORK,
    ),
    Option(("--cert",), "Certificate for TLS, as PEM.", "FILE", section=_NETWORK),
    Option(("--key",), "Its private key.", "FILE", section=_NETWORK),
    Option(
        ("--tls",),
        "Make a certificate, by an authority of this machine's own.",
        "self",
        choices=("self",),
        section=_NETWORK,
    ),
    Option(("--backend",), "Where jobs run.", "NAME", choices=LazyChoices(lambda: list(BACKENDS))),
    TOKEN_FILE,
    Option(("--files-only",), "Storage alone: an emulator of Azure Files.", value_kind=ValueKind.NOTHING),
)


def start(arguments: Namespace) -> int:
    """Serves until stopped; returns the exit code."""
    # reject options that would expose the token or make the server unreachable
    if bool(arguments.cert) != bool(arguments.key):
        raise usage_error(PROGRAM, "--cert and --key belong together")
    if arguments.tls and arguments.cert:
        raise usage_error(PROGRAM, "--tls self makes a certificate: leave --cert and --key out")
    is_encrypted = bool(arguments.cert or arguments.tls)
    if arguments.host not in LOOPBACK and not is_encrypted:
        hint = "Give --cert and --key, or --tls self: without TLS, others on the network can read the token."
        raise usage_error(
            PROGRAM, f"--host {arguments.host}: TLS is required except on a loopback address", hint
        )
    if arguments.host in _WILDCARD_ADDRESSES and not arguments.name:
        hint = "Give --name HOST: requests for other names are refused."
        raise usage_error(PROGRAM, f"--host {arguments.host}: nobody can call a server by that", hint)
    settings = load_settings()
    if arguments.backend:
        settings = choose(settings, arguments.backend)
    home = ServerHome.of(settings)
    home.secure()
    config = ServerConfig(
        host=arguments.host,
        port=arguments.port,
        token=token_of(arguments.token_file, home),
        token_file=_token_file(arguments.token_file),
        names=tuple(arguments.name or ()),
        tls=_tls_files(arguments, home),
        is_files_only=arguments.files_only,
    )
    return serve(config, settings, home)


def token_of(file: str | None, home: ServerHome) -> str:
    """The administrator's token, from the given file or the home."""
    return read_token(_token_file(file) or home.token)


def _token_file(file: str | None) -> Path | None:
    return Path(file).expanduser().absolute() if file else None


def usage_error(program: str, message: str, guess: str = "") -> UsageError:
    """The error for an invalid command line."""
    return UsageError(f"{program}: {message}", hint=f"{guess} See '{program} --help'.".lstrip())


def _tls_files(arguments: Namespace, home: ServerHome) -> TlsFiles:
    if not arguments.tls:
        return TlsFiles(_existing_file(arguments.cert, "--cert"), _existing_file(arguments.key, "--key"))
    from batchai_magics.server.access.certificates import server_certificate

    names = dict.fromkeys((*LOOPBACK, arguments.host, *(arguments.name or ())))
    usable_names = [name for name in names if name not in _WILDCARD_ADDRESSES]
    return server_certificate(home.certificates, usable_names)


def _existing_file(text: str | None, option: str) -> Path | None:
    if text is None:
        return None
    file = Path(text).expanduser()
    if not file.is_file():
        raise UsageError(f"{option}: {file} does not exist")
    return file


_SHUTDOWN_TIMEOUT_S = 5  # for requests to finish at shutdown
_BACKLOG = 256


@dataclass(frozen=True)
class ServerConfig:
    """The configuration of a server process."""

    host: str
    port: int
    token: str = field(repr=False)
    token_file: Path | None  # file of the token; None: the one in the home
    names: tuple[str, ...]
    tls: TlsFiles
    is_files_only: bool

    def url(self, port: int) -> str:
        """The URL for clients."""
        host = self.names[0] if self.names else self.host
        name = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls.certificate else 'http'}://{name}:{port}"


def serve(config: ServerConfig, settings: Settings, home: ServerHome) -> int:
    """Runs until stopped and returns the exit code; jobs keep running."""
    try:
        import uvicorn

        from batchai_magics.server.http.asgi_app import make_app, open_context
        from batchai_magics.server.http.request_limits import ServerLimits
    except ImportError as error:
        hint = "pip install 'batchai-magics[server]'"
        raise CapabilityError(f"the server needs {error.name}", code="NotSupported", hint=hint) from error
    listener = _listen(config)
    backend = open_backend(settings)
    context = open_context(backend, settings, home)
    limits = ServerLimits()
    app = make_app(
        context,
        limits,
        home,
        token=config.token,
        names=(config.host, *config.names),
        is_files_only=config.is_files_only,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    server = uvicorn.Server(_uvicorn_config(app, config, limits))
    _stop_on_signals(server)
    key = context.keys.of(OWN_ACCOUNT)[0]
    port = listener.getsockname()[1]
    if os.geteuid() == 0:
        text = "Warning: serving as root: whoever has a token runs programs as root on this machine."
        print(text, file=sys.stderr, flush=True)
    with server_home.registered(
        home.running, server_home.RunningServer(config.url(port), config.tls.authority)
    ):
        for line in _greeting(config, home, port, key):
            print(line, flush=True)
        server.run(sockets=[listener])
    app.close()
    context.operations.close()
    backend.close()
    return 0


def _uvicorn_config(app: App, config: ServerConfig, limits: ServerLimits) -> uvicorn.Config:
    """The uvicorn configuration: our limits, no logging of its own."""
    import uvicorn

    from batchai_magics.server.http.request_limits import LimitedProtocol

    protocol = partial(
        LimitedProtocol,
        header_bytes=limits.header_bytes,
        header_s=limits.header_s,
        send_s=limits.send_s,
    )
    return uvicorn.Config(
        app,
        http=cast("Any", protocol),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # otherwise any local process could spoof client addresses
        lifespan="off",
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        ssl_certfile=config.tls.certificate,
        ssl_keyfile=config.tls.key,
    )


def _greeting(config: ServerConfig, home: ServerHome, port: int, key: str) -> Iterator[str]:
    """The lines printed at startup: the URL, and what a client needs to connect.

    Secrets are shown on a terminal; otherwise shell expressions read them, as printed output may end up in
    logs that others read.
    """
    url, is_terminal = config.url(port), sys.stdout.isatty()
    if config.is_files_only:
        parts = {
            "DefaultEndpointsProtocol": url.partition(":")[0],
            "AccountName": OWN_ACCOUNT,
            "AccountKey": key,
            "FileEndpoint": f"{url}/{OWN_ACCOUNT}",
            "BlobEndpoint": f"{url}/{OWN_ACCOUNT}",
        }
        connection_string = ";".join(f"{name}={value}" for name, value in parts.items())
        if not is_terminal:
            write(home.connection_string, connection_string + "\n")
        value = f"'{connection_string}'" if is_terminal else _cat_expression(home.connection_string)
        yield f"Serving files at {url}."
        yield f"  export AZURE_STORAGE_CONNECTION_STRING={value}"
        return
    token = shlex.quote(config.token) if is_terminal else _cat_expression(config.token_file or home.token)
    yield f"Serving at {url}. Its token is the right to run programs as you: keep it."
    yield f"  export BATCHAI_BACKEND=arm BATCHAI_ENDPOINT={url} BATCHAI_TOKEN={token}"
    yield f"  %batchai use --backend arm --endpoint {url}"
    yield "  batchai serve az-config FOLDER    # for a genuine az"
    if config.tls.authority:
        yield f"  export REQUESTS_CA_BUNDLE={config.tls.authority} SSL_CERT_FILE={config.tls.authority}"


def _cat_expression(file: Path) -> str:
    return f'"$(cat {shlex.quote(str(file))})"'


def _listen(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
    except OSError as error:
        listener.close()
        hint = "Give another one with --port, or --port 0 for any that is free."
        text = f"--port {config.port}: cannot listen on {config.host}: {error.strerror}"
        raise UsageError(text, hint=hint) from error
    listener.listen(_BACKLOG)
    return listener


def _stop_on_signals(server: uvicorn.Server) -> None:
    """Stops the server also for signals that arrive before uvicorn handles them.

    uvicorn raises the signal again after shutting down; by then it has no effect.
    """

    def request_exit(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_exit)


SUMMARY = "Serve this machine's jobs to a team: the Batch AI protocol and Azure Files."
_HELP = ("--help", "-h")
_URL = Option(("--url",), "Address of the server, if it is not the one that runs here.", "URL")
_FOLDER = Option(("FOLDER",), "Folder to write to.", is_required=True)
_USER = Option(("NAME",), "Name of the user.", is_required=True)


@dataclass(frozen=True)
class ServeCommand:
    """A command: its options, implementation and summary."""

    options: tuple[Option, ...]
    work: Callable[[Namespace], int]
    summary: str


def main(words: Sequence[str]) -> int:
    """Runs the arguments after `batchai serve`; returns the exit code."""
    for name, command in _SUBCOMMANDS.items():
        count = len(name.split())
        if " ".join(words[:count]) == name:
            return _run(f"{PROGRAM} {name}", command, words[count:])
    return _run(PROGRAM, ServeCommand(OPTIONS, start, SUMMARY), words)


def _run(program: str, command: ServeCommand, words: Sequence[str]) -> int:
    if set(_HELP).intersection(words):
        subcommands = (
            {name: item.summary for name, item in _SUBCOMMANDS.items()} if program == PROGRAM else {}
        )
        parts = [f"Command\n    {program} : {command.summary}\n", *option_sections(command.options)]
        print(DisplayText("\n".join(filter(None, [*parts, section("Beside it:", subcommands)])).rstrip()))
        return 0
    arguments, extra = parse_options(
        command.options, words, make_error=lambda text: usage_error(program, text)
    )
    if extra:
        flags = [flag for option in command.options for flag in option.flags if flag.startswith("-")]
        guess = did_you_mean(extra[0], [*flags, *_SUBCOMMANDS])
        raise usage_error(program, f"unrecognized arguments: {extra[0]}", guess)
    for option in command.options:
        if option.is_required and getattr(arguments, option.name) is None:
            raise usage_error(program, f"the following arguments are required: {option.flags[0]}")
    return command.work(arguments)


def _az_config(arguments: Namespace) -> int:
    from batchai_magics.server.az_config import write

    settings = load_settings()
    home = ServerHome.of(settings)
    home.secure()
    server = server_home.choose_server(home.running, arguments.url)
    token, folder = token_of(arguments.token_file, home), Path(arguments.folder)
    authority = server.authority
    if arguments.url and server.url.startswith("https:") and home.authority.exists():
        authority = home.authority
    lines = write(folder, server.url, token, settings, authority=authority)
    for line in lines if sys.stdout.isatty() else [f". {shlex.quote(str(folder.absolute() / 'env'))}"]:
        print(line)
    return 0


def _add_user(arguments: Namespace) -> int:
    token = _users().add(arguments.name)
    print(f"{arguments.name} signs in with this token, which is not stored and not shown again:")
    print(f"  export BATCHAI_TOKEN={token}")
    return 0


def _remove_user(arguments: Namespace) -> int:
    _users().remove(arguments.name)
    print(f"{arguments.name} can no longer sign in. Their resources remain.")
    return 0


def _list_users(arguments: Namespace) -> int:
    for name, added in _users().added().items():
        print(f"{name}  since {added}")
    return 0


def _users() -> Users:
    home = ServerHome.of(load_settings())
    home.secure()
    return Users(home.users)


_SUBCOMMANDS: Mapping[str, ServeCommand] = {
    "az-config": ServeCommand(
        (_FOLDER, _URL, TOKEN_FILE),
        _az_config,
        "Write a configuration with which a genuine `az` works against this server.",
    ),
    "user add": ServeCommand((_USER,), _add_user, "Add a user, who gets a token."),
    "user list": ServeCommand((), _list_users, "List the users."),
    "user remove": ServeCommand((_USER,), _remove_user, "Remove a user."),
}
