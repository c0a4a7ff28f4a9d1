"""Runs side by side over a scripted place, opened in a page that records what it is given."""

import dataclasses

from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics import compare, scaling
from batchai_magics.widgets.comparison import comparison_output as comparisons
from tests.widgets.core.recorded_page import say
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, Kind

WIDGET = "application/vnd.jupyter.widget-view+json"
WAYS = {"compare": compare, "scaling": scaling}


def jobs(place, *names):
    return [Job(place, EXPERIMENT.child(Kind.JOB, name)) for name in names or ("one", "two")]


def opened(publisher, place, page, kind="compare", *, ui="auto"):
    comparisons.show(WAYS[kind](jobs(place)), publisher, ui=ui)
    shown = publisher.outputs()[-1]
    if hasattr(shown, "view"):
        page.listen(shown)
        say(shown, kind="ready")
    return shown


def end(place, *names, state=ExecutionState.SUCCEEDED):
    for name in names or ("one", "two"):
        place.jobs[name] = dataclasses.replace(place.jobs[name], state=state)


def lines(page):
    """The lines of runs that the page has been given."""
    told = [content["runs"] for content, _ in page.messages if content["kind"] == "lines"]
    return [each for runs in told for each in runs]
