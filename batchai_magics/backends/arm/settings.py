"""The settings of the arm backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from batchai_magics.config import setting

NAME = "arm"


@dataclass(frozen=True)
class ArmSettings:
    """The settings of the arm backend."""

    endpoint: str = setting("", "address of the server, such as http://127.0.0.1:10000")
    token: str = setting("", "its token; without one, Azure's own credentials", is_secret=True)
    authority: str = setting("", "file of the authority that signed its certificate, if not a public one")
    connect_s: float = setting(5.0, "connection timeout in seconds")
    answer_s: float = setting(60.0, "response timeout in seconds")
    look_s: float = setting(2.0, "seconds between two polls of a server that is not `batchai serve`")

    # BATCHAI_ENDPOINT and BATCHAI_TOKEN, as `batchai serve` prints them.
    ALSO_GENERAL: ClassVar = ("endpoint", "token")
