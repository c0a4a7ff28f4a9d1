"""The send budget over all views, and the window of unacknowledged messages."""

import asyncio

from batchai_magics.widgets.core.flow_control import MAX_UNACKED, AckWindow, Budget, main_loop_scheduler
from tests.clock import Clock


def test_no_second_has_more_messages_than_allowed():
    clock = Clock(100.0)
    budget = Budget(clock, messages_per_s=10)
    sent = []
    for _ in range(500):
        clock.now += 0.01
        if budget.left_bytes:
            budget.spend(1)
            sent.append(clock.now)
    assert max(sum(1 for t in sent if start <= t < start + 1) for start in sent) <= 10
    assert len(sent) >= 45


def test_no_second_has_more_bytes_than_allowed():
    clock = Clock(100.0)
    budget = Budget(clock, bytes_per_s=1000)
    budget.spend(900)
    assert budget.left_bytes == 100
    clock.now += 0.9
    assert budget.left_bytes == 100
    clock.now = 101.0
    assert budget.left_bytes == 1000


def test_budget_never_falls_below_zero():
    clock = Clock(100.0)
    budget = Budget(clock, bytes_per_s=1000)
    budget.spend(1900)
    assert budget.left_bytes == 0


class Kernel:
    """A clock, and a loop that runs what it is asked to when it can."""

    def __init__(self):
        self.now, self.is_busy, self.asked = 0.0, False, []

    def ask(self, call):
        self.asked.append(call)

    def wait(self, window, seconds):
        for _ in range(seconds):
            self.now += 1.0
            _ = window.is_open
            if not self.is_busy:
                for call in self.asked:
                    call()
                self.asked.clear()
        return window.is_open


def window_of(kernel, *, sent):
    window = AckWindow(kernel.ask, clock=lambda: kernel.now)
    window.sent(sent)
    return window


def test_a_page_that_confirms_gets_everything():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED)
    assert kernel.wait(window, 100)


def test_sending_stops_when_acknowledgements_stay_away():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED + 1)
    assert kernel.wait(window, 10)
    assert not kernel.wait(window, 20)


def test_a_page_that_comes_back_is_sent_to_again():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED + 1)
    assert not kernel.wait(window, 30)
    window.acknowledge(MAX_UNACKED + 1)
    assert window.is_open


def test_messages_are_sent_while_the_kernel_cannot_receive_acks():
    kernel = Kernel()
    kernel.is_busy = True
    window = window_of(kernel, sent=MAX_UNACKED + 1)
    assert kernel.wait(window, 100)


def test_only_one_probe_is_pending():
    kernel = Kernel()
    kernel.is_busy = True
    window = window_of(kernel, sent=MAX_UNACKED + 1)
    kernel.wait(window, 100)
    assert len(kernel.asked) == 1


def test_late_acknowledgement_of_an_older_message_is_ignored():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED + 10)
    window.acknowledge(MAX_UNACKED + 10)
    window.acknowledge(1)
    window.sent(2 * MAX_UNACKED)
    kernel.wait(window, 100)
    assert window.is_open


def test_late_probe_resets_the_count_of_silent_probes():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED + 1)
    kernel.wait(window, 12)
    kernel.is_busy = True
    kernel.wait(window, 10)
    kernel.is_busy = False
    assert kernel.wait(window, 10)
    assert not kernel.wait(window, 10)


def test_ack_resets_the_count_of_silent_probes():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED + 1)
    assert not kernel.wait(window, 30)
    window.acknowledge()
    window.sent(2 * MAX_UNACKED + 2)
    assert kernel.wait(window, 8)


def test_partial_ack_resets_the_count_of_silent_probes():
    kernel = Kernel()
    window = window_of(kernel, sent=MAX_UNACKED + 10)
    assert not kernel.wait(window, 30)
    window.acknowledge(1)
    assert kernel.wait(window, 10)
    assert not kernel.wait(window, 20)


def test_a_function_is_scheduled_on_the_running_loop_until_that_is_closed():
    async def scheduled():
        calls = []
        schedule = main_loop_scheduler()
        schedule(lambda: calls.append("soon"))
        before = list(calls)
        await asyncio.sleep(0)
        return schedule, before, calls

    schedule, before, calls = asyncio.run(scheduled())
    schedule(lambda: calls.append("closed"))
    assert (before, calls) == ([], ["soon"])


def test_without_a_loop_a_function_is_called_immediately():
    calls = []
    main_loop_scheduler()(lambda: calls.append("now"))
    assert calls == ["now"]
