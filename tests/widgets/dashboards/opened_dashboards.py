"""Dashboards over a scripted place, opened in a page that records what it is given."""

from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from batchai_magics.widgets.dashboards import dashboard_output
from batchai_magics.widgets.dashboards.cluster_dashboard import ClusterModel
from batchai_magics.widgets.dashboards.dashboard_output import LiveDashboard
from batchai_magics.widgets.dashboards.jobs_dashboard import JobsModel
from tests.widgets.scripted_cluster import CLUSTER, EXPERIMENT

SPEED = MetricPreferences(headline="images/sec")
WIDGET = "application/vnd.jupyter.widget-view+json"
KINDS = ("cluster", "jobs")


def cluster_model(place, clock):
    return ClusterModel(place, CLUSTER, clock=clock)


def jobs_model(place, clock):
    return JobsModel(place, EXPERIMENT, preferences=SPEED, clock=clock)


def subject(place, kind):
    return place.cluster_subject if kind == "cluster" else place.jobs_subject


def opened(publisher, place, page, kind, *, ui="auto"):
    """A dashboard of this kind, and what it sends is recorded."""
    publisher.run_in_background = lambda task: task()
    dashboard_output.show(
        subject(place, kind),
        publisher,
        lambda *jobs: f"model of {', '.join(job.name for job in jobs)}",
        ui=ui,
    )
    shown = publisher.outputs()[-1]
    if isinstance(shown, LiveDashboard):
        page.listen(shown)
    return shown


def sent(page, kind):
    return [content for content, _ in page.messages if content["kind"] == kind]
