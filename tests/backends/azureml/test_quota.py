"""Quotas and prices of a workspace's location, over real connections to the stand-in."""

from __future__ import annotations

import contextlib

import pytest

from batchai_magics import cell
from batchai_magics.backends.azureml.clusters import Clusters, LocationFacts
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.quota import Quota
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import run
from batchai_magics.commands.output.dry_run import dry_run_text
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.errors import ServiceError
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.azureml.faults import refusal
from tests.backends.azureml.job_specs import job_spec

A100 = "Standard_NC24ads_A100_v4"
FAMILY = "StandardNCADSA100v4Family"


@pytest.fixture
def quota(connection: Connection) -> Quota:
    return Quota(Clusters(connection))


@pytest.fixture
def gpus(workspace: ResourceId) -> ResourceId:
    return workspace.child(Kind.CLUSTER, "gpus")


def test_a_limit_of_cost_is_by_the_size_that_a_job_asks_for(backend, settings, experiment):
    costs = JobCosts(backend, settings)
    dear = job_spec(experiment, cluster="serverless", nodes=2, batchaiSize=A100)
    assert costs.price_for_conditions(["cost > 20"], dear) == 3.673
    spot = job_spec(experiment, cluster="serverless", nodes=2, batchaiSize=A100, batchaiSpot="yes")
    assert costs.price_for_conditions(["cost > 20"], spot) == 0.735


@pytest.mark.parametrize(
    ("options", "forecast"),
    [
        ("--cluster gpus", "2 × NC24ads_A100_v4, 100 of 100 cores free; about 7.35 USD an hour"),
        ("", "2 × DS3_v2, 100 of 100 cores free; about 0.46 USD an hour"),
    ],
    ids=["cluster", "serverless"],
)
def test_a_dry_run_tells_the_forecast(azure, settings, options, forecast):
    azure.computes.add("gpus", size=A100)
    request = cell.parse(f"j --nodes 2 {options} --dry-run", "print(1)", settings=settings)
    assert forecast in dry_run_text(request, settings)


def test_queue_reason_is_given_without_permission_to_read_quotas(azure, connection, quota, gpus):
    azure.computes.add("gpus", maximum=1)
    azure.faults.add(refusal(403), "usages|vmSizes", count=9)
    assert quota.wait_reason(Clusters(connection).show(gpus), 2) == "it can have at most 1 node"


def test_the_usages_of_the_workspace_are_listed_unless_a_location_is_given(backend, settings):
    context = Context(settings)
    with contextlib.closing(context.backend):
        listed = run(parse(["list-usages"]), context).value
        assert FAMILY in [usage.name for usage in listed]
        with pytest.raises(ServiceError, match="mars"):
            run(parse(["list-usages", "-l", "mars"]), context)


def test_sizes_are_read_once_an_hour_and_usages_once_a_minute(azure, connection, gpus):
    now = [0.0]
    clusters = Clusters(connection, LocationFacts(connection, clock=lambda: now[0]))
    azure.computes.add("gpus")
    quota, shown = Quota(clusters), clusters.show(gpus)
    for now[0] in range(0, 120, 10):
        quota.estimate(shown, 1)
    paths = [exchange.request.path.rpartition("/")[2] for exchange in azure.exchanges]
    assert (paths.count("vmSizes"), paths.count("usages")) == (1, 2)
