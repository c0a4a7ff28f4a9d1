"""What the far side can do: asked once, as far as it was told, and again where nobody could tell."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict

import pytest

from batchai_magics.backends.arm.far_side import FarSide
from batchai_magics.backends.base import FACETS, Capabilities, Pace
from batchai_magics.errors import NotFoundError, ServiceError, UnreachableError
from tests.backends.arm.answering import Answering
from tests.patience import PATIENCE_S

OFFER = {"capabilities": {**asdict(Capabilities(name="x")), "pace": {"look_s": 0.25}}, "facets": ["storage"]}
ANY = ("accounts", "groups", "storage", "usages")


def facets_of(far: FarSide) -> list[str]:
    return sorted(facet.attribute for facet in FACETS if far.has(facet.attribute))


def test_our_own_server_says_what_it_can_do_and_is_asked_once() -> None:
    connection = Answering(OFFER)
    far = FarSide(connection)
    assert (far.is_own, far.capabilities.pace, facets_of(far)) == (True, Pace(look_s=0.25), ["storage"])
    assert len(connection.questions) == 1


@pytest.mark.parametrize("answer", [{}, {"capabilities": {}}, NotFoundError("no", code="NotFound")])
def test_of_any_other_endpoint_the_least_is_assumed_and_it_is_asked_once(answer: object) -> None:
    connection = Answering(answer)
    far = FarSide(connection)
    assert (far.is_own, facets_of(far)) == (False, sorted(ANY))
    assert far.capabilities == Capabilities(name="arm", pace=Pace(look_s=connection.endpoint.settings.look_s))
    assert len(connection.questions) == 1


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("nobody listens"),
        *(
            ServiceError("no", code=code)
            for code in (
                "AuthenticationFailed",
                "InvalidAuthenticationToken",
                "NoCredentials",
                "AuthorizationFailed",
            )
        ),
    ],
    ids=str,
)
def test_who_could_not_be_reached_or_let_nobody_in_is_asked_again(error: Exception) -> None:
    connection = Answering(error, error, OFFER)
    far = FarSide(connection)
    assert [far.is_own for _ in range(4)] == [False, False, True, True]
    assert len(connection.questions) == 3


def test_many_who_want_to_know_at_once_ask_once() -> None:
    begun, told = threading.Barrier(4), []

    class Slow(Answering):
        def ask(self, question: object) -> object:
            for _ in range(2000):  # so that the others come in too, if they can
                time.sleep(0)
            return super().ask(question)

    connection = Slow(*[OFFER] * 4)
    far = FarSide(connection)

    def want() -> None:
        begun.wait(PATIENCE_S)
        told.append(far.is_own)

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (told, len(connection.questions)) == ([True] * 4, 1)
