from datetime import timedelta
from html.parser import HTMLParser

from batchai_magics.jobs.card import Card, to_html, to_text
from batchai_magics.models.cluster import NodeStateCounts
from batchai_magics.models.job import ExecutionState
from tests.widgets.scripted import FAILURE, START, resource

NOW = START + timedelta(hours=1, minutes=2, seconds=3)


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.open = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_card_says_state_size_and_time():
    text = to_text(Card(resource(), NOW, processes=4))
    assert "[running] resnet   nc6 · 2 nodes × 2 processes" in text
    assert "1:02:03" in text


def test_a_failed_card_says_what_failed_first():
    card = Card(resource(ExecutionState.FAILED, **FAILURE), NOW, failure_lines=("boom",))
    for text in (to_html(card), to_text(card)):
        assert "rank 2 on node-1 failed first, with exit code 1" in text
        assert "JobFailed: Job exited with non-zero exit code." in text
        assert "boom" in text


def test_a_card_has_no_script_and_no_image_and_is_well_formed():
    card = Card(
        resource(),
        NOW,
        lines=("<script>x</script><img src=x>", "a & b"),
        way_back="<b>",
        numbers={"<i>": "<u>"},
    )
    tags = Tags(to_html(card))
    assert tags.names <= {"div", "span", "strong", "table", "tbody", "tr", "th", "td", "pre", "code"}
    assert tags.open == []


def test_lines_are_shown_as_a_terminal_leaves_them():
    card = Card(resource(), NOW, lines=("10%\r20%\r100%\r\n", "\x1b[31mred\x1b[0m", "x" * 5000))
    text = to_text(card)
    assert "100%\nred\n" in text
    assert "20%" not in text
    assert len(text) < 1000


def test_a_waiting_card_says_what_the_nodes_do():
    counts = NodeStateCounts(preparing_node_count=2)
    assert "2 preparing" in to_text(Card(resource(ExecutionState.QUEUED), NOW, counts=counts))


def test_an_odd_number_of_processes_is_not_divided():
    assert "2 nodes, 3 processes" in Card(resource(), NOW, processes=3).title
    assert Card(resource(), NOW, processes=1).title.endswith("2 nodes, 1 process")
