from batchai_magics.widgets.core.budget import Budget


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_no_second_has_more_messages_than_allowed():
    clock = Clock()
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
    clock = Clock()
    budget = Budget(clock, bytes_per_s=1000)
    budget.spend(900)
    assert budget.left_bytes == 100
    clock.now += 0.9
    assert budget.left_bytes == 100
    clock.now = 101.0
    assert budget.left_bytes == 1000


def test_a_message_longer_than_was_left_leaves_nothing():
    clock = Clock()
    budget = Budget(clock, bytes_per_s=1000)
    budget.spend(1900)
    assert budget.left_bytes == 0
