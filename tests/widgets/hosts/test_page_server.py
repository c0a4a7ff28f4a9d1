"""The server of a plain page: who gets in, and what it never says."""

import http.client
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


def token(page):
    return page.url.partition("?token=")[2]


def signed(text):
    return {"Authorization": f"Bearer {text}"}


def test_only_who_has_the_token_sees_a_job(page):
    stream = "/stream?page=x&view=/"
    for path in (stream, "/recording", "/../etc/passwd"):
        assert ask(page, path)[0] == 403
    for wrong in (f"Bearer {token(page)}x", f"Basic {token(page)}", token(page)):
        assert ask(page, stream, Authorization=wrong)[0] == 403
    assert ask(page, stream, **signed(token(page)))[0] == 200
    assert ask(page, "/../etc/passwd", **signed(token(page)))[0] == 404


def test_the_token_is_in_the_fragment_which_no_request_contains(page):
    assert urlsplit(page.url).query == ""
    assert urlsplit(page.url).fragment == f"/job/{JOB.name}?token={token(page)}"
    assert ask(page, f"/stream?page=x&view=/&token={token(page)}")[0] == 403


def test_a_view_that_does_not_exist_is_refused_with_its_reason(page):
    own = signed(token(page))
    for view in ("/job/other%2Fgone%00", "/nonsense", "/job", "/jobs/x/y"):
        status, _, content = ask(page, f"/stream?page=x&view={quote(view)}", refused=True, **own)
        assert status == 404
        assert content


def test_a_web_page_of_another_name_is_refused(page):
    port = urlsplit(page.url).port
    own = signed(token(page))
    assert ask(page, "/", Host=f"evil.example:{port}", **own)[0] == 421
    origins = {"": 403, "http://evil.example": 403, f"http://127.0.0.1:{port}": 400}
    for origin, status in origins.items():
        headers = {**own, "Origin": origin} if origin else own
        assert ask(page, "/messages?page=x", method="POST", body="{}", **headers)[0] == status


def test_the_token_is_in_no_answer_no_log_and_no_cookie(page, capfd):
    status, headers, content = ask(page, "/stream?page=x&view=/nonsense", refused=True, **signed(token(page)))
    assert status == 404
    assert "Set-Cookie" not in headers  # it would go to every port of this machine
    assert headers["Referrer-Policy"] == "no-referrer"
    assert token(page).encode() not in content + ask(page, "/")[2]
    assert capfd.readouterr() == ("", "")


def test_a_request_for_an_ill_formed_address_is_refused_without_a_word(page, capfd):
    with socket.create_connection(("127.0.0.1", urlsplit(page.url).port)) as connection:
        host = page.url.partition("://")[2].partition("/")[0]
        connection.sendall(f"GET http://[ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        connection.settimeout(PATIENCE_S)
        assert b" 403 " in connection.recv(100)
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
