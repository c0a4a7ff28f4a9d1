"""What `batchai serve` itself takes, checked before anything is opened."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.base.registry import BACKENDS, choose, load_settings
from batchai_magics.errors import UsageError
from batchai_magics.options.option import LazyChoices, Option, ValueKind
from batchai_magics.server.access.gate import LOOPBACK
from batchai_magics.server.home import Home, read_token

PROGRAM = "batchai serve"
_NETWORK = "Network Arguments"
_EVERYWHERE = ("0.0.0.0", "::")  # addresses that nobody can call a server by
TOKEN_FILE = Option(("--token-file",), "File of the administrator's token; made when it is missing.", "FILE")
OPTIONS = (
    Option(("--host",), "Address to listen at.", "ADDRESS", default="127.0.0.1", section=_NETWORK),
    Option(
        ("--port",),
        "Port to listen at.",
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


@dataclass(frozen=True)
class Tls:
    """The files that TLS needs; all None without it. `authority` is the one of `--tls self`."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


def start(arguments: Namespace) -> int:
    """Serves until it is told to end; the exit code."""
    from batchai_magics.server.serving import Serving, serve

    _check_network(arguments)
    settings = load_settings()
    if arguments.backend:
        settings = choose(settings, arguments.backend)
    home = Home.of(settings)
    home.secure()
    tls = _tls(arguments, home)
    serving = Serving(
        host=arguments.host,
        port=arguments.port,
        token=token_of(arguments.token_file, home),
        token_file=_token_file(arguments.token_file),
        names=tuple(arguments.name or ()),
        certificate=tls.certificate,
        key=tls.key,
        authority=tls.authority,
        is_files_only=arguments.files_only,
    )
    return serve(serving, settings, home)


def token_of(file: str | None, home: Home) -> str:
    """The administrator's token: from the file that a line names, or from the home."""
    return read_token(_token_file(file) or home.token)


def _token_file(file: str | None) -> Path | None:
    return Path(file).expanduser().absolute() if file else None


def wrong(program: str, message: str, guess: str = "") -> UsageError:
    """The error for a line that was written wrongly."""
    return UsageError(f"{program}: {message}", hint=f"{guess} See '{program} --help'.".lstrip())


def _check_network(arguments: Namespace) -> None:
    """Raises for what would let others read a token, or nobody in at all."""
    _check_certificate(arguments)
    is_encrypted = bool(arguments.cert or arguments.tls)
    if arguments.host not in LOOPBACK and not is_encrypted:
        hint = "Give --cert and --key, or --tls self: a token in the clear is everybody's."
        raise wrong(PROGRAM, f"--host {arguments.host}: elsewhere than on the loopback it takes TLS", hint)
    if arguments.host in _EVERYWHERE and not arguments.name:
        hint = "Give --name HOST: requests for other names are refused."
        raise wrong(PROGRAM, f"--host {arguments.host}: nobody can call a server by that", hint)


def _check_certificate(arguments: Namespace) -> None:
    if bool(arguments.cert) != bool(arguments.key):
        raise wrong(PROGRAM, "--cert and --key belong together")
    if arguments.tls and arguments.cert:
        raise wrong(PROGRAM, "--tls self makes a certificate: leave --cert and --key out")


def _tls(arguments: Namespace, home: Home) -> Tls:
    if not arguments.tls:
        return Tls(_file(arguments.cert, "--cert"), _file(arguments.key, "--key"))
    from batchai_magics.server.access.certificates import authority_of, own_pair

    wanted = (*LOOPBACK, arguments.host, *(arguments.name or ()))
    names = [name for name in dict.fromkeys(wanted) if name not in _EVERYWHERE]
    pair = own_pair(home.certificates, names)
    return Tls(pair.certificate, pair.key, authority_of(home.certificates))


def _file(text: str | None, option: str) -> Path | None:
    if text is None:
        return None
    file = Path(text).expanduser()
    if not file.is_file():
        raise UsageError(f"{option}: there is no file {file}")
    return file
