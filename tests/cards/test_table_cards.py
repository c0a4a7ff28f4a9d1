"""The still pictures of clusters and of lists of jobs."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from batchai_magics.cards import card_parts, cluster_card
from batchai_magics.cards import job_list_card as jobs_card
from batchai_magics.cards.card_parts import table_card_text
from batchai_magics.jobs.listed_job import ListedJob
from batchai_magics.metrics.runs.metric_summary import sparkline
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job_execution import ExecutionInfo
from batchai_magics.models.states import ExecutionState, NodeState
from tests.widgets.scripted_cluster import CLUSTER, START, ScriptedCluster


@pytest.fixture
def place(tmp_path):
    return ScriptedCluster(tmp_path)


def cluster(place, **changes):
    made = replace(place.show(CLUSTER), **changes)
    return cluster_card.cluster_card(made, place.nodes(CLUSTER), START + timedelta(minutes=2), "%again")


def listed(place, label="", **rates):
    return [ListedJob(job, rates.get(name, ()), label) for name, job in place.jobs.items()]


def jobs(place, now=START, **more):
    return jobs_card.job_list_card("default", listed(place, **more), now, "%again")


def html_of(place, **more):
    return jobs_card.to_html(jobs(place, **more), listed(place, **more))


def test_cluster_card_has_node_counts_and_the_age_of_each_state(place):
    text = table_card_text(cluster(place))
    assert "[steady] nc6   Standard_NC6 · 4 nodes · fixed size" in text
    assert "\n  1 preparing, 1 idle, 2 running\n" in text
    assert "idle       1:39" in text
    assert text.endswith("Show it again: %again")


def test_a_page_gets_the_nodes_by_the_names_of_the_live_view(place):
    assert re.findall("<strong>(node[^<]*)</strong>", cluster_card.to_html(cluster(place))) == [
        "node 1", "node 2", "node 3", "node 4",
    ]  # fmt: skip
    assert "tvm-1783593343_2-" in table_card_text(cluster(place))


def test_a_page_gets_a_column_of_rates_where_some_job_has_any(place):
    place.run("quiet")
    assert ">metric<" not in html_of(place)
    assert ">metric<" not in html_of(place, quiet=[])
    assert ">metric<" in html_of(place, quiet=[10.0])


def test_a_page_gets_a_column_of_rates_where_only_a_job_that_is_not_listed_has_any(place):
    for number in range(jobs_card.MAX_JOBS + 1):
        place.run(f"job-{number}", ExecutionState.QUEUED)
    assert ">metric<" in html_of(place, **{f"job-{jobs_card.MAX_JOBS}": [10.0]})


def test_a_value_in_the_list_of_jobs_has_the_name_of_its_metric(place):
    place.run("quiet")
    told = {"label": "val_loss", "quiet": [0.5, 0.412]}
    assert "val_loss 0.412" in table_card_text(jobs(place, **told))
    assert "val_loss 0.412" in html_of(place, **told)


def test_a_cluster_that_grows_tells_how_many_nodes_there_should_be(place):
    place.scale = {"manual": {"targetNodeCount": 6}}
    assert cluster(place).title == "Standard_NC6 · 4 of 6 nodes · fixed size"


def test_auto_scale_is_named_with_its_bounds(place):
    place.scale = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 8}}
    assert cluster(place).title.endswith("4 nodes · auto-scale 0 to 8")


def test_many_nodes_are_counted_not_listed(place):
    place.states = [NodeState.IDLE] * 500
    card = cluster(place)
    assert card.omitted == "and 436 more nodes"
    assert len(cluster_card.to_html(card)) < 60_000


@pytest.mark.parametrize(
    ("state", "colour"),
    [
        (NodeState.PREPARING, card_parts.AMBER),
        (NodeState.IDLE, card_parts.GREY),
        (NodeState.RUNNING, card_parts.BLUE),
        (NodeState.LEAVING, card_parts.PURPLE),
        (NodeState.UNUSABLE, card_parts.RED),
    ],
)
def test_a_node_has_the_colour_of_its_state(place, state, colour):
    place.states = [state]
    card = cluster(place)
    assert card.counts == f"1 {state.value}"
    assert card_parts.badge(state.value, colour) in cluster_card.to_html(card)


def test_target_of_auto_scale_is_the_node_count_within_its_bounds(place):
    place.scale = {"autoScale": {"minimumNodeCount": 5, "maximumNodeCount": 8}}
    assert " 4 of 5 nodes " in cluster(place).title
    place.scale = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 3}}
    assert " 4 of 3 nodes " in cluster(place).title


def test_as_many_nodes_as_fit_are_all_listed(place):
    place.states = [NodeState.IDLE] * cluster_card.MAX_NODES
    card = cluster(place)
    assert card.omitted == ""
    assert len(card.rows) == cluster_card.MAX_NODES


def test_errors_of_a_cluster_are_escaped_in_html(place):
    html = cluster_card.to_html(cluster(place, errors=(ErrorDetail(code="X", message="<script>1</script>"),)))
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_jobs_tell_their_state_and_images_per_sec(place):
    place.run("one")
    place.run("two", ExecutionState.FAILED, exit_code=3)
    text = table_card_text(jobs(place, one=[10.0, 20.0]))
    assert "1 running, 1 failed" in text
    assert "20      ▅█" in text
    assert [line.split()[6] for line in text.splitlines() if "two" in line] == ["3"]
    assert "<script" not in html_of(place)


def test_a_job_that_ended_ran_until_its_end(place):
    place.run("one", ExecutionState.SUCCEEDED)
    ran = ExecutionInfo(START, START + timedelta(seconds=75), 0)
    place.jobs["one"] = replace(place.jobs["one"], execution=ran)
    assert [row[5] for row in jobs(place, now=START + timedelta(days=1)).rows] == ["1:15"]


def test_as_many_jobs_as_fit_are_all_listed(place):
    for number in range(jobs_card.MAX_JOBS):
        place.run(f"job-{number}", ExecutionState.QUEUED)
    card = jobs(place)
    assert card.omitted == ""
    assert len(card.rows) == jobs_card.MAX_JOBS


def test_many_jobs_are_counted_not_listed(place):
    for number in range(1000):
        place.run(f"job-{number}", ExecutionState.QUEUED)
    card = jobs(place)
    assert card.omitted == "and 950 older jobs"
    assert len(html_of(place)) < 100_000


@pytest.mark.parametrize(
    ("values", "shown"), [([], ""), ([0.0], ""), ([1, 2, 4], "▃▅█"), (range(1, 100), "▁▂▃▄▅▆▇█")]
)
def test_bars_count_from_zero_and_cover_all_values(values, shown):
    assert sparkline(list(values)) == shown


def test_free_bars_count_from_the_least_value():
    assert sparkline([9.2, 9.1, 9.0], is_free=True) == "█▅▁"
    assert sparkline([9.0, 9.0], is_free=True) == ""


def test_a_page_gets_a_list_of_jobs_in_few_columns_with_what_matters_less_below(place):
    place.run("one", ExecutionState.FAILED, exit_code=3)
    html = html_of(place, one=[10.0, 20.0])
    assert re.findall("<th[^>]*>([^<]*)</th>", html) == ["job", "state", "ran for", "metric"]
    below = re.findall("<br><span[^>]*>([^<]*)</span>", html)
    assert below == ["2 nodes · python · nc6", "exit code 3", "▅█"]
