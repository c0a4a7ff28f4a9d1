"""What goes wrong on demand: refusals, cut connections and slow bodies."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.azureml.http_messages import Request, Response, json_response


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: the status of a refusal, else how the response is spoilt.

    A fault with a status happens before the request has had any effect, as does `cut_request`.
    `cut_body` and `slow_body` happen to the response.
    """

    name: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """The refusal."""
        codes = {429: "TooManyRequests", 500: "InternalServerError", 503: "ServerTimeout"}
        error = {"code": codes.get(self.status, "ServiceError"), "message": "It goes wrong on demand."}
        return json_response({"error": error}, self.status, self.headers)


CUT_REQUEST = Fault("cut_request")
CUT_BODY = Fault("cut_body")
SLOW_BODY = Fault("slow_body")


def refusal(status: int, *, retry_after: str = "") -> Fault:
    """A refusal with this status."""
    return Fault(str(status), status, {"Retry-After": retry_after} if retry_after else {})


RANDOM = (
    refusal(429, retry_after="0"),
    refusal(500),
    refusal(502),
    refusal(503),
    CUT_REQUEST,
    CUT_BODY,
    SLOW_BODY,
)


@dataclass
class _Rule:
    fault: Fault
    method: str
    url: re.Pattern[str]
    count: int


class Faults:
    """Which requests meet which fault."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._random: tuple[random.Random, float] | None = None
        self._left = 0
        self.happened: list[tuple[str, str]] = []

    def add(self, fault: Fault, url: str = "", *, method: str = "", count: int = 1) -> None:
        """The next `count` requests whose host and path match `url` (a regular expression) meet a fault."""
        with self._lock:
            self._rules.append(_Rule(fault, method, re.compile(url), count))

    def scatter(self, count: int, *, seed: int, share: float = 0.3, method: str = "GET") -> None:
        """Random requests of a method meet random faults, until `count` have."""
        with self._lock:
            self._random, self._left, self._method = (random.Random(seed), share), count, method

    def take(self, request: Request) -> Fault | None:
        """The fault that a request meets."""
        with self._lock:
            fault = self._of_rule(request) or self._by_chance(request)
            if fault:
                self.happened.append((fault.name, request.host + request.path))
            return fault

    def _of_rule(self, request: Request) -> Fault | None:
        for rule in self._rules:
            fits = rule.method in ("", request.method) and rule.url.search(request.host + request.path)
            if rule.count and fits:
                rule.count -= 1
                return rule.fault
        return None

    def _by_chance(self, request: Request) -> Fault | None:
        if self._random and self._left and request.method == self._method:
            dice, share = self._random
            if dice.random() < share:
                self._left -= 1
                return dice.choice(RANDOM)
        return None
