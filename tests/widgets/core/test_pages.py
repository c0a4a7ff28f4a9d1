from batchai_magics.widgets.core.pages import PAGE_TIMEOUT_S, Pages
from tests.clock import Clock


def one(turn, page="a"):
    return {"page": page, "turn": turn}


def test_goodbye_of_an_earlier_turn_does_not_close_a_page():
    pages = Pages(Clock())
    pages.hello(one(1))
    pages.hello(one(2))
    pages.bye(one(1))
    assert pages.is_any_open
    pages.bye(one(2))
    assert not pages.is_any_open


def test_hello_after_the_goodbye_of_the_same_turn_does_not_open_a_page():
    pages = Pages(Clock())
    pages.bye(one(1))
    assert not pages.hello(one(1))
    assert not pages.is_any_open
    assert pages.hello(one(2))


def test_hello_of_an_earlier_turn_does_not_undo_its_goodbye():
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
