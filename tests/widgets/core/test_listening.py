from batchai_magics.widgets.core.listening import WINDOW, Listening


class Kernel:
    """A clock, and a loop that runs what it is asked to when it can."""

    def __init__(self):
        self.now, self.is_busy, self.asked = 0.0, False, []

    def ask(self, call):
        self.asked.append(call)

    def wait(self, listening, seconds):
        for _ in range(seconds):
            self.now += 1.0
            _ = listening.is_open
            if not self.is_busy:
                for call in self.asked:
                    call()
                self.asked.clear()
        return listening.is_open


def listening_to(kernel, *, sent):
    listening = Listening(kernel.ask, clock=lambda: kernel.now)
    listening.sent(sent)
    return listening


def test_a_page_that_confirms_gets_everything():
    kernel = Kernel()
    listening = listening_to(kernel, sent=WINDOW)
    assert kernel.wait(listening, 100)


def test_nothing_more_is_sent_when_nobody_listens_for_long():
    kernel = Kernel()
    listening = listening_to(kernel, sent=WINDOW + 1)
    assert kernel.wait(listening, 10)
    assert not kernel.wait(listening, 20)


def test_a_page_that_comes_back_is_sent_to_again():
    kernel = Kernel()
    listening = listening_to(kernel, sent=WINDOW + 1)
    assert not kernel.wait(listening, 30)
    listening.heard(WINDOW + 1)
    assert listening.is_open


def test_a_kernel_that_cannot_hear_goes_on_sending():
    kernel = Kernel()
    kernel.is_busy = True
    listening = listening_to(kernel, sent=WINDOW + 1)
    assert kernel.wait(listening, 100)


def test_a_kernel_is_asked_once_at_a_time():
    kernel = Kernel()
    kernel.is_busy = True
    listening = listening_to(kernel, sent=WINDOW + 1)
    kernel.wait(listening, 100)
    assert len(kernel.asked) == 1


def test_a_word_that_comes_late_takes_nothing_back():
    kernel = Kernel()
    listening = listening_to(kernel, sent=WINDOW + 10)
    listening.heard(WINDOW + 10)
    listening.heard(1)
    listening.sent(2 * WINDOW)
    kernel.wait(listening, 100)
    assert listening.is_open


def test_a_kernel_that_was_late_once_in_between_is_asked_anew():
    kernel = Kernel()
    listening = listening_to(kernel, sent=WINDOW + 1)
    kernel.wait(listening, 12)
    kernel.is_busy = True
    kernel.wait(listening, 10)
    kernel.is_busy = False
    assert kernel.wait(listening, 10)
    assert not kernel.wait(listening, 10)


def test_a_page_that_is_heard_again_gets_time_anew():
    kernel = Kernel()
    listening = listening_to(kernel, sent=WINDOW + 1)
    assert not kernel.wait(listening, 30)
    listening.heard()
    listening.sent(2 * WINDOW + 2)
    assert kernel.wait(listening, 8)
