"""Notifications of real jobs: who sends them, how often, and what they say and never say."""

import json
import signal
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.backends.folders.run_watch import TRACEBACK_S, RunWatch
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_model import read_model
from tests.webhook import SECRET, Webhook, webhook
from tests.world import World, files_containing, senders_in, until

__all__ = ["webhook"]
pytestmark = pytest.mark.slow
needs_apprise = pytest.mark.skipif(not find_spec("apprise"), reason="apprise is not installed")

WAITS = "import time\nprint('started', flush=True)\ntime.sleep(600)"


def sent(world: World) -> bool:
    """Whether nothing is left to deliver."""
    return not list((world.home / "outbox").glob("*/channels.json"))


def test_webhook_gets_one_end_notification_with_link_and_headline(world: World, webhook: Webhook) -> None:
    webhook.statuses = [503]
    world.settings = replace(world.settings, notify_link="https://hub.example/{experiment}/{name}")
    script = """
import os
for step in (1, 2):
    print(f"step {step}: loss={2 / step + int(os.environ['PMI_RANK'])}")
"""
    job = world.run(f"r --processes 2 --notify {webhook.url}", script)
    until(lambda: sent(world))
    (body,) = webhook.received
    assert body["key"] == body["id"] == f"{world.guid(job)}-ended"
    assert (body["job"], body["state"], body["exit_code"]) == ("r", "succeeded", 0)
    assert body["headline"] == {"name": "loss", "value": 1.5, "step": 2}
    assert read_model(job.backend, job.show()).metrics.headline.summary.headline_value == 1.5
    assert body["link"] == "https://hub.example/default/r"
    assert (body["title"], body["body"]) == (
        "r has succeeded",
        "loss: 1.5 at step 2\nhttps://hub.example/default/r",
    )


RAISES = "import sys\ndef load(batch):\n    return batch['labels']\nload({})"


def test_channel_of_the_settings_is_notified_of_every_job_with_headline_and_lines(
    world: World, webhook: Webhook
) -> None:
    world.settings = replace(
        world.settings, headline_metric="eval_accuracy", notify=webhook.url, notify_lines=True
    )
    world.run("r", f"print('step 1: loss=0.5 val_loss=0.7 val_accuracy=0.25')\n{RAISES}")
    until(lambda: sent(world))
    (body,) = webhook.received
    assert body["headline"] == {"name": "val_accuracy", "value": 0.25, "step": 1}
    assert "Traceback (most recent call last):" in body["body"]
    assert "lines" in body["first_failure"]


def test_a_warning_is_no_reason_of_a_failure(world: World, webhook: Webhook) -> None:
    job = world.run(f'r --stop-if "nope > 10" --notify {webhook.url}', "raise SystemExit(3)")
    assert [warning.code for warning in job.show().warnings] == ["StopConditionNotChecked"]
    until(lambda: sent(world))
    (body,) = webhook.received
    assert (body["state"], "nope" in body["reason"]) == ("failed", False)


def test_notification_says_that_a_job_was_stopped_for_its_loss(world: World, webhook: Webhook) -> None:
    headline = "os.environ['BATCHAI_ARTIFACT_DIR'] + '/../records/headline.json'"
    script = (
        "import os, time\nprint('step 0 loss 5', flush=True)\n"
        f"while not os.path.exists({headline}): time.sleep(0.05)\n"
        "print('step 1 loss 11', flush=True)\ntime.sleep(600)"
    )
    job = world.run(f'r --stop-if "loss > 10" --notify {webhook.url}', script)
    until(lambda: sent(world))
    assert [(body["kind"], body["state"]) for body in webhook.received] == [
        ("stopping", "running"),
        ("ended", "stopped"),
    ]
    assert [body["key"] for body in webhook.received] == [
        f"{world.guid(job)}-stopping-1",
        f"{world.guid(job)}-ended",
    ]
    assert all("loss was 11 at step 1" in body["reason"] for body in webhook.received)
    assert all(body["headline"]["step"] == 1 for body in webhook.received)
    assert not any(body["first_failure"] for body in webhook.received)
    told = [(each.kind.value, each.channel, each.state.value) for each in job.notifications()]
    assert told == [("stopping", "webhook", "delivered"), ("ended", "webhook", "delivered")]


def test_first_failure_is_reported_with_its_exception_while_other_ranks_run(
    world: World, webhook: Webhook
) -> None:
    script = f"import os, time\nif os.environ['PMI_RANK'] == '0': time.sleep(600)\n{RAISES}"
    webhook.may_answer.clear()
    job = world.submit(f"r --processes 2 --notify {webhook.url}", script)
    until(lambda: webhook.received)
    assert not job.is_done
    webhook.may_answer.set()
    until(lambda: sent(world))
    first, body = webhook.received
    assert (first["kind"], first["title"], body["kind"]) == ("failure", "r: a process has failed", "ended")
    failure, error = body["first_failure"], ("cell line 6", "KeyError: 'labels'")
    assert first["first_failure"]["rank"] == failure["rank"] == 1
    assert (body["state"], body["exit_code"]) == ("failed", 1)
    assert (failure["place"], failure["exception"]) == error
    assert f"First failure: rank 1 on {failure['node']}, exit code 1: {': '.join(error)}" in body["body"]
    assert "Traceback" not in str(webhook.received)
    assert "lines" not in failure


def test_undelivered_notifications_are_delivered_once_at_the_end(
    world: World, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    is_shown = threading.Event()

    def refuse_until_the_end_was_refused(body: dict[str, Any]) -> int:
        if "ended" in refused:
            return 200
        refused.append(body["kind"])
        if body["kind"] == "ended":
            is_shown.wait()
        return 503

    script = 'import time\nprint(\'{"step": 1, "loss": 11}\', flush=True)\ntime.sleep(600)'
    monkeypatch.setattr(webhook, "status_of", refuse_until_the_end_was_refused)
    job = world.submit(f'r --stop-if "loss > 10" --notify {webhook.url}', script)
    until(lambda: [each for each in job.notifications() if each.state.value == "retrying"])
    assert "the webhook answered 503" in str(job.provenance())
    is_shown.set()
    until(lambda: sent(world))
    assert [body["kind"] for body in webhook.received] == ["stopping", "ended"]


def test_an_address_that_is_refused_is_given_up_and_shown_without_it(world: World, webhook: Webhook) -> None:
    webhook.statuses = [403]
    job = world.run(f"r --notify {webhook.url}")
    until(lambda: sent(world))
    (delivery,) = job.notifications()
    assert (delivery.state.value, delivery.problem) == ("failed", "the webhook answered 403")
    assert SECRET not in repr(delivery)
    assert ("notified", str(delivery)) in list(job.provenance().facts())


def test_an_address_is_in_no_record_listing_or_log(world: World, webhook: Webhook) -> None:
    job = world.submit(f"r --notify {webhook.url}", WAITS)
    until(lambda: "started" in job.log())
    assert [path for path in files_containing(world.home, SECRET) if "/outbox/" not in path] == []
    assert SECRET not in json.dumps(job.show().to_wire()) + repr(job.show())
    names = ["submission.json", "watch.json", "notify.json", "deliveries/"]
    assert SECRET not in str(world.backend.records.read(job.id, names))
    job.cancel()
    job.wait()
    until(lambda: sent(world))
    assert webhook.received[0]["state"] == "cancelled"
    assert files_containing(world.home, SECRET) == []


def test_a_command_gets_the_notification_and_its_failure_fails_nothing(world: World, tmp_path: Path) -> None:
    file = tmp_path / "told.json"
    writes = f"cat > {file}; echo $BATCHAI_NOTIFY_STATE >> {file}"
    fails_once = f"test -e {file}.failed || {{{{ touch {file}.failed; exit 1; }}}}"
    job = world.run(f'r --notify "{writes}" --notify "{fails_once}"')
    until(lambda: file.exists() and file.read_text().endswith("succeeded\n"))
    assert json.loads(file.read_text().splitlines()[0])["job"] == "r"
    assert job.state.value == "succeeded"
    until(lambda: sent(world))


def test_when_the_supervisor_dies_recovery_sends_it(world: World, webhook: Webhook) -> None:
    job = world.submit(f"r --notify {webhook.url}", WAITS)
    until(lambda: "started" in job.log())
    world.supervisor(job).send_signal(signal.SIGKILL)
    until(lambda: job.is_done and webhook.received)
    (body,) = webhook.received
    assert (body["state"], body["kind"]) == ("failed", "ended")
    assert "disappeared" in body["reason"]


def test_next_sender_delivers_the_rest_if_a_sender_dies(world: World, tmp_path: Path) -> None:
    told, may_end = tmp_path / "told", tmp_path / "may-end"
    job = world.run(f"r --notify 'echo told >> {told}; until test -e {may_end}; do sleep 0.1; done'")
    until(told.exists)  # it was delivered, but not marked yet
    (sender,) = senders_in(world.home)
    sender.send_signal(signal.SIGKILL)
    may_end.touch()
    until(lambda: job.is_done and sent(world))
    assert told.read_text() == "told\n" * 2


def test_traceback_of_a_running_job_is_reported_once(world: World, webhook: Webhook) -> None:
    script = """
import time, traceback
try:
    {}["labels"]
except KeyError:
    traceback.print_exc()
print("goes on", flush=True)
time.sleep(600)
"""
    job = world.submit(f"r --notify {webhook.url}", script)
    until(lambda: "goes on" in job.log())
    watch = RunWatch(world.backend.layout.job(world.guid(job)))
    for now_s in (0, TRACEBACK_S, 2 * TRACEBACK_S):
        assert not watch.check(now_s)
    (body,) = until(lambda: webhook.received)
    assert (body["kind"], body["state"], body["title"]) == (
        "traceback",
        "running",
        "r has printed a traceback",
    )
    sign = "stderr has a traceback, and the job goes on: cell line 5: KeyError: 'labels'"
    assert body["reason"] == sign
    watch.finish()
    job.cancel()
    job.wait()
    until(lambda: sent(world))
    assert [body["kind"] for body in webhook.received] == ["traceback", "ended"]


@needs_apprise
@pytest.mark.parametrize("source", ["--notify", "setting notify"])
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("slakc://T0ken/x/y", 'apprise has no slakc://. Did you mean "slack"?'),
        ("slack://T0ken", "apprise cannot read this address of slack://"),
    ],
)
def test_an_address_that_apprise_does_not_know_is_refused(
    world: World, source: str, address: str, problem: str
) -> None:
    option = f" --notify {address}" if source == "--notify" else ""
    world.settings = replace(world.settings, notify="" if option else address)
    with pytest.raises(UsageError, match="Nothing was submitted") as caught:
        world.run(f"r{option}")
    assert caught.value.message == f"{source}: {problem}"
    assert not list(world.home.glob("jobs/*"))


@needs_apprise
def test_several_addresses_of_apprise_between_commas_are_a_channel(world: World, webhook: Webhook) -> None:
    url = webhook.url.replace("http://", "json://")
    world.run(f"r --notify {url},{url}?emojis=yes")
    until(lambda: len(webhook.received) == 2)


@needs_apprise
def test_any_other_url_is_delivered_by_apprise(world: World, webhook: Webhook) -> None:
    world.run(f"r --notify {webhook.url.replace('http://', 'json://')}")
    until(lambda: webhook.received)
    assert (webhook.received[0]["title"], webhook.received[0]["message"]) == (
        "r has succeeded",
        "r has succeeded.",
    )
