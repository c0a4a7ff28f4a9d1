"""`batchai notify test`."""

import pytest

from batchai_magics import cli
from tests.ports import deaf_port
from tests.webhook import webhook

__all__ = ["webhook"]


def run(*words):
    return cli.main(["notify", "test", *words])


def test_a_test_notification_is_delivered(webhook, capsys):
    assert run("--notify", webhook.url) == 0
    (body,) = webhook.received
    assert (body["kind"], body["title"]) == ("test", "batchai: a test notification")
    assert "delivered" in capsys.readouterr().out


def test_a_channel_that_fails_is_named_without_its_address(capsys):
    with deaf_port() as port:
        assert run("--notify", f"http://127.0.0.1:{port}/T0ken") == 1
    err = capsys.readouterr().err
    assert "webhook: the webhook did not respond: ConnectionRefusedError" in err
    assert "T0ken" not in err


def test_without_a_channel_the_setting_is_named(capsys):
    assert run() == 2
    assert "notify" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", " ", "a\nb"])
def test_what_is_no_channel_is_refused(text, capsys):
    assert run("--notify", text) == 2


def test_what_was_not_sent_is_not_called_delivered(webhook, capsys):
    assert run("--notify", webhook.url, "--notify", "batchai+mlflow:http://127.0.0.1:1") == 0
    out = capsys.readouterr().out
    assert "delivered" in out
    assert "not sent: an MLflow run is told of its end only" in out


def test_beside_a_channel_that_fails_the_others_are_named(webhook, capsys):
    with deaf_port() as port:
        assert run("--notify", webhook.url, "--notify", f"http://127.0.0.1:{port}/x") == 1
    assert "webhook: delivered; webhook: the webhook did not respond" in capsys.readouterr().err
