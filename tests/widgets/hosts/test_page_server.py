"""The server of a plain page: who gets in, and what it never says."""

import http.client
import json
import socket
from urllib.parse import quote, urlsplit

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.widgets.hosts import page_server
from tests.patience import PATIENCE_S
from tests.threads import join_all, package_threads
from tests.widgets.scripted_job import JOB, ScriptedBackend


@pytest.fixture
def page(tmp_path):
    opened = Job(ScriptedBackend(tmp_path / "job"), JOB).open(browser=False)
    yield opened
    opened.close()


def ask(page, path, *, method="GET", body=None, refused=False, **headers):
    """Status, headers and the first bytes of an answer."""
    port = urlsplit(page.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    content = b"" if path.startswith("/stream") and not refused else answer.read()
    connection.close()
    return answer.status, answer.headers, content


def origin(page):
    return page.url.partition("/#")[0]


def token(page):
    return page.url.partition("?token=")[2]


def sign_in(page, with_token, **headers):
    body = json.dumps({"token": with_token})
    return ask(page, "/session", method="POST", body=body, **{"Origin": origin(page), **headers})


def cookie(page):
    status, headers, _ = sign_in(page, token(page))
    assert status == 204
    return headers["Set-Cookie"].partition(";")[0]


def test_only_who_has_the_token_sees_a_job(page):
    stream = "/stream?page=x&view=/"
    assert sign_in(page, "wrong")[0] == 403
    for path in (stream, "/recording", "/../etc/passwd"):
        assert ask(page, path)[0] == 403
    assert ask(page, stream, Cookie=cookie(page) + "x")[0] == 403
    assert ask(page, stream, Cookie=cookie(page))[0] == 200
    assert ask(page, "/../etc/passwd", Cookie=cookie(page))[0] == 404


def test_the_token_is_in_the_fragment_which_no_request_contains(page):
    assert urlsplit(page.url).query == ""
    assert urlsplit(page.url).fragment == f"/job/{JOB.name}?token={token(page)}"
    assert ask(page, f"/stream?page=x&view=/&token={token(page)}")[0] == 403


def test_a_view_that_does_not_exist_is_refused_with_its_reason(page):
    own = cookie(page)
    for view in ("/job/other%2Fgone%00", "/nonsense", "/job", "/jobs/x/y"):
        status, _, content = ask(page, f"/stream?page=x&view={quote(view)}", Cookie=own, refused=True)
        assert status == 404
        assert content


def test_a_web_page_of_another_name_is_refused(page):
    port = urlsplit(page.url).port
    assert ask(page, "/", Cookie=cookie(page), Host=f"evil.example:{port}")[0] == 421
    origins = {"": 403, "http://evil.example": 403, f"http://127.0.0.1:{port}": 400}
    for origin, status in origins.items():
        own = {"Origin": origin} if origin else {}
        assert (
            ask(page, "/messages?page=x", method="POST", body="{}", Cookie=cookie(page), **own)[0] == status
        )
        assert sign_in(page, token(page), Origin=origin or "null")[0] == (204 if status == 400 else 403)


def test_the_token_is_in_no_log_and_the_cookie_not_for_scripts(page, capfd):
    _, headers, content = sign_in(page, token(page))
    sign_in(page, f"{token(page)}wrong")
    assert "; HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert token(page).encode() not in content + ask(page, "/")[2]
    assert capfd.readouterr() == ("", "")


def test_a_page_that_is_closed_leaves_no_thread(tmp_path):
    before = package_threads()
    opened = Job(ScriptedBackend(tmp_path / "job"), JOB).open(browser=False)
    started = package_threads() - before
    assert {thread.name for thread in started} == {"batchai-page", "batchai-publisher", "batchai-reader"}
    opened.close()
    assert not join_all(started)


def test_half_a_request_ends(page, monkeypatch):
    monkeypatch.setattr(page_server._Handler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", urlsplit(page.url).port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1) == b""
