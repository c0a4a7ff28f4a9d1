"""Signing in to Azure: what this machine knows of its user, else a device code."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.azure.arm_protocol import sign_in_failure
from batchai_magics.backends.azure.bounded_transport import bounded_transport

if TYPE_CHECKING:
    from datetime import datetime

    from azure.core.credentials import AccessToken, TokenCredential


def has_person() -> bool:
    """Whether somebody can follow a link: in a notebook or at a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or (sys.stdin is not None and sys.stdin.isatty())


class SignIn:
    """A credential of Azure's libraries: the first of their own that works, else a device code.

    The libraries renew tokens before they expire, without asking again. Thread-safe.
    """

    def __init__(self, is_interactive: Callable[[], bool] = has_person) -> None:
        self._is_interactive = is_interactive
        self._lock = threading.Lock()
        self._chosen: TokenCredential | None = None

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """A token for these scopes; the library's error if it refuses, or without credentials or a person."""
        with self._lock:
            if self._chosen is None:
                return self._first_token(*scopes, **options)
        return self._chosen.get_token(*scopes, **options)

    def _first_token(self, *scopes: str, **options: Any) -> AccessToken:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import DefaultAzureCredential, DeviceCodeCredential

        logging.getLogger("azure.identity").setLevel(logging.ERROR)  # its warning has eleven lines
        candidate: TokenCredential = DefaultAzureCredential(transport=bounded_transport())
        try:
            token = candidate.get_token(*scopes, **options)
        except ClientAuthenticationError as error:
            if sign_in_failure(str(error)) or not self._is_interactive():
                raise
            candidate = DeviceCodeCredential(prompt_callback=_ask, transport=bounded_transport())
            token = candidate.get_token(*scopes, **options)
        self._chosen = candidate
        return token


@cache
def shared_sign_in() -> SignIn:
    """The sign-in of all backends of this process, so that nobody has to enter a second code."""
    return SignIn()


def _ask(address: str, code: str, expires: datetime) -> None:
    """Shows the one sentence by which a person signs in."""
    print(f"To sign in to Azure, open {address} and enter the code {code}.", flush=True)
