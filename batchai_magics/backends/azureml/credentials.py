"""Signing in to Azure: what this machine knows of its user, else a device code."""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.azure.arm_protocol import sign_in_failure
from batchai_magics.backends.azure.bounded_transport import bounded_transport
from batchai_magics.user_ports import PROMPT

if TYPE_CHECKING:
    from datetime import datetime

    from azure.core.credentials import AccessToken, TokenCredential


class SignIn:
    """A credential of Azure's libraries: the first of their own that works, else a device code.

    The libraries renew tokens before they expire, without asking again. Thread-safe.
    """

    def __init__(self) -> None:
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
            prompt = PROMPT.get()
            if sign_in_failure(str(error)) or prompt is None:
                raise

            def ask(address: str, code: str, expires: datetime) -> None:
                prompt(f"To sign in to Azure, open {address} and enter the code {code}.")

            candidate = DeviceCodeCredential(prompt_callback=ask, transport=bounded_transport())
            token = candidate.get_token(*scopes, **options)
        self._chosen = candidate
        return token


@cache
def shared_sign_in() -> SignIn:
    """The sign-in of all backends of this process, so that nobody has to enter a second code."""
    return SignIn()
