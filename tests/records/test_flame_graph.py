"""The samples of a run as files."""

import json
from xml.etree import ElementTree

import pytest

from batchai_magics.records.flame_graph import flame_graph, speedscope
from batchai_magics.records.rank_profile import RunProfile
from tests.records.test_rank_profile import LOAD, MAIN, STEP, told

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run():
    ranks = (told(n, ([MAIN, LOAD], True, 60), ([MAIN, STEP], False, 40), way="signal") for n in range(2))
    return RunProfile.of_lines("a <train> & co", ranks)


def test_speedscope_has_a_profile_for_each_rank_whose_weights_are_seconds(run):
    data = json.loads(speedscope(run))
    frames = data["shared"]["frames"]
    assert [each["name"] for each in data["profiles"]] == ["rank 0 (n0)", "rank 1 (n0)"]
    (first, _) = data["profiles"]
    assert first["weights"] == [6.0, 4.0]
    assert first["endValue"] == sum(first["weights"])
    assert [[frames[at]["name"] for at in stack] for stack in first["samples"]] == [
        ["<module>", "load_batch"],
        ["<module>", "step"],
    ]
    assert frames[0] == {"name": "<module>", "file": "/job/train.py", "line": 40}


def test_the_flame_graph_is_as_wide_as_the_time_and_has_no_script(run):
    text = flame_graph(run)
    root = ElementTree.fromstring(text)
    boxes = {
        group.find(f"{SVG}title").text: float(group.find(f"{SVG}rect").get("width"))
        for group in root.iter(f"{SVG}g")
    }
    whole = boxes["a <train> & co: 100.0% of the time, 20.00 s"]
    loads = [width for title, width in boxes.items() if title.startswith("load_batch (train.py:33): 30.0%")]
    assert loads == [pytest.approx(0.3 * whole, abs=1)]  # titles are equal in both ranks
    assert "script" not in text
    assert "href" not in text


def test_a_profile_of_nothing_is_a_picture_too():
    assert ElementTree.fromstring(flame_graph(RunProfile("train", ()))).tag == f"{SVG}svg"
