from batchai_magics.widgets.core.pages import PAGE_TIMEOUT_S, Pages
from tests.clock import Clock


def one(turn, page="a"):
    return {"page": page, "turn": turn}


def test_a_bye_that_comes_late_does_not_count():
    pages = Pages(Clock())
    pages.hello(one(1))
    pages.hello(one(2))
    pages.bye(one(1))
    assert pages.is_any_open
    pages.bye(one(2))
    assert not pages.is_any_open


def test_a_hello_that_comes_late_does_not_count():
    pages = Pages(Clock())
    pages.bye(one(1))
    assert not pages.hello(one(1))
    assert not pages.is_any_open
    assert pages.hello(one(2))


def test_an_older_hello_does_not_bring_an_older_bye_back():
    pages = Pages(Clock())
    pages.hello(one(2))
    assert not pages.hello(one(1))
    pages.bye(one(1))
    assert pages.is_any_open


def test_a_page_that_leaves_does_not_take_the_view_from_the_others():
    clock = Clock()
    pages = Pages(clock)
    pages.hello(one(1, "a"))
    pages.hello(one(1, "b"))
    pages.bye(one(1, "b"))
    assert pages.is_any_open
    clock.now = PAGE_TIMEOUT_S - 1
    pages.alive({"page": "a"})
    clock.now += 2
    assert pages.is_any_open
    clock.now += PAGE_TIMEOUT_S
    assert not pages.is_any_open


def test_last_message_counts_without_turn_numbers():
    pages = Pages(Clock())
    pages.hello({})
    pages.bye({})
    assert not pages.is_any_open
    assert pages.hello({})
    assert pages.is_any_open
