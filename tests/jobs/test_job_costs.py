"""What jobs cost, by the user's prices and by those of a paid backend."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from batchai_magics.backends.base.backend_registry import default_vm_size
from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.models.cluster_spec import AutoScale, NodeStateCounts, ScaleSettings
from batchai_magics.models.job_execution import Attempt
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import ResourceRef
from batchai_magics.models.prices import Cost, Price
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import ExecutionState
from tests.default_resources import ensure_defaults
from tests.widgets.scripted_job import cluster, resource


class Priced:
    """A backend with one cluster and no logs, and prices of its own if it is to have any."""

    records = None

    def __init__(self, *clusters: Cluster, price: Price | None = None) -> None:
        self._clusters, self._price = {each.id.key: each for each in clusters}, price
        self.prices = self if price else None
        self.shows, self.needs = 0, None

    def node_price(self, _: Cluster) -> Price | None:
        return self._price

    def nodes_of(self, _: JobSpec, cluster: Cluster) -> Cluster:
        return cluster

    def show(self, id):
        self.shows += 1
        if id.key not in self._clusters:
            raise NotFoundError(f"there is no cluster {id.name}")
        return self._clusters[id.key]

    def read(self, *_):
        raise NotFoundError("the job has no logs")

    def ensure(self, needs):
        self.needs = needs


def ended(nodes: int = 2, hours: float = 1.5) -> JobResource:
    """A job that ran on nodes of the cluster for some hours."""
    job = resource(ExecutionState.SUCCEEDED, exit_code=0)
    execution = replace(job.execution, ended=job.execution.started + timedelta(hours=hours))
    spec = job.spec.model_copy(update={"node_count": nodes})
    return replace(job, execution=execution, spec=spec)


def machines(size: str = "Standard_NC6", idle: int = 0, **fields: object) -> Cluster:
    """The cluster of the jobs."""
    id = ResourceId.parse(resource().spec.cluster.id)
    found = cluster(id, NodeStateCounts(idle_node_count=idle, running_node_count=1))
    return replace(found, spec=found.spec.model_copy(update={"vm_size": size}), **fields)


def scaled(found: Cluster, *, least: int) -> Cluster:
    """The cluster with automatic scale."""
    scale = ScaleSettings(auto_scale=AutoScale(minimum_node_count=least, maximum_node_count=4))
    return replace(found, spec=found.spec.model_copy(update={"scale_settings": scale}))


def costs(backend: Priced, **settings: object) -> JobCosts:
    return JobCosts(backend, Settings(**settings))


def test_a_job_that_has_not_started_costs_nothing_whatever_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BATCHAI_PRICES", "standard_nc6=much")
    costs_of_process = JobCosts(Priced(machines()))
    assert costs_of_process.of_job(resource(ExecutionState.QUEUED)) is None
    with pytest.raises(UsageError, match="BATCHAI_PRICES"):
        costs_of_process.of_job(ended())


def test_a_job_costs_its_node_time() -> None:
    found = costs(Priced(machines()), prices="standard_nc6=2").of_job(ended(nodes=2, hours=1.5))
    assert found == Cost(6.0, "USD")
    assert found.text == "6.00 USD"
    partition = Priced(machines(partition="GPU"))
    assert costs(partition, prices="gpu=1", currency="EUR").of_job(ended()) == Cost(3.0, "EUR")
    assert costs(partition, prices="gpu=1").of_jobs([ended()] * 50) == Cost(150.0, "USD")
    assert partition.shows == 2  # one look is for many jobs


def test_without_a_price_there_is_no_cost_and_no_request() -> None:
    backend = Priced(machines())
    assert costs(backend).of_job(ended()) is None
    assert backend.shows == 0
    assert costs(backend, prices="Standard_NC12=1").of_job(ended()) is None


def test_only_the_default_cluster_has_a_price_before_it_exists() -> None:
    prices = f"{default_vm_size(Settings())}=2"
    cluster = workspace_id(Settings()).child(Kind.CLUSTER, Settings().cluster)
    for id, price in ((cluster, Price(2.0, "USD")), (cluster.parent.child(Kind.CLUSTER, "mine"), None)):
        spec = ended().spec.model_copy(update={"cluster": ResourceRef(id=str(id))})
        assert costs(Priced(), prices=prices).node_price(spec) == price


def test_all_attempts_count_and_the_time_between_them_does_not() -> None:
    job = ended(hours=10)
    start, hour = job.execution.started, timedelta(hours=1)
    attempts = (
        Attempt(1, ("a", "b"), start, start + hour),
        Attempt(2, ("c",), start + 3 * hour, start + 4 * hour),
    )
    found = costs(Priced(machines()), prices="Standard_NC6=2").of_job(replace(job, attempts=attempts))
    assert found.amount == pytest.approx(6.0)


def test_the_price_of_the_user_replaces_that_of_the_backend() -> None:
    paid = Priced(machines(), price=Price(5.0, "CHF"))
    assert costs(paid).of_job(ended()) == Cost(15.0, "CHF")
    assert costs(paid, prices="Standard_NC6=1").of_job(ended()) == Cost(3.0, "USD")


def test_lists_and_json_show_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHAI_PRICES", "Standard_NC6=2")
    listed = JobList([ended(), ended(nodes=1)], Priced(machines()))
    (first, second) = json.loads(Result(listed).to_text("json"))
    assert (first["cost"], first["currency"], second["cost"]) == (6.0, "USD", 3.0)
    assert [item["cost"] for item in Result(listed).data] == [6.0, 3.0]
    table = listed.to_table()
    assert {row[table.titles.index("Cost")] for row in table.rows} == {"3.00 USD"}  # of the same name


def test_a_condition_on_the_cost_needs_a_price() -> None:
    job = ended().spec
    known = costs(Priced(machines()), prices="Standard_NC6=2")
    assert known.price_for_conditions(["loss is nan", "cost > 5"], job) == 2.0
    assert known.price_for_conditions(["loss is nan"], job) == 0.0
    with pytest.raises(UsageError, match="the price of Standard_NC6 is unknown") as caught:
        costs(Priced(machines())).price_for_conditions(["cost > 5"], job)
    assert 'prices: {"Standard_NC6": 0.90}' in str(caught.value)


def test_a_job_of_something_else_than_a_cluster_has_no_price() -> None:
    spec, share = ended().spec, workspace_id(Settings()).child(Kind.FILE_SERVER, "nfs")
    spec = spec.model_copy(update={"cluster": ResourceRef(id=str(share))})
    backend = Priced()
    backend.show = lambda _: resource()  # not a cluster
    assert costs(backend, prices="Standard_NC6=2").node_price(spec) is None
    with pytest.raises(UsageError, match="the price of"):
        costs(backend).price_for_conditions(["cost > 5"], spec)


def test_idle_nodes_that_cost_money_are_noted() -> None:
    for found in (machines(idle=3), scaled(machines(idle=3), least=1)):
        (told,) = costs(Priced(), prices="Standard_NC6=2").idle_notes([found])
        assert told.startswith("Cluster nc6 has 3 idle nodes, which cost 6.00 USD an hour")
        assert "cluster auto-scale -n nc6 --min 0 --max 4" in told


@pytest.mark.parametrize(
    ("found", "prices"),
    [
        (machines(idle=0), "Standard_NC6=2"),
        (machines(idle=3), ""),
        (machines(idle=3), "Standard_NC6=0"),
        (machines(idle=3, partition="gpu"), "gpu=2"),
        (scaled(machines(idle=3), least=0), "Standard_NC6=2"),
    ],
    ids=["none idle", "no price", "free", "a partition of Slurm", "scaled to zero"],
)
def test_nodes_that_cost_nothing_are_not_noted(found: Cluster, prices: str) -> None:
    assert not list(costs(Priced(), prices=prices).idle_notes([found]))


@pytest.mark.parametrize(("price", "least"), [(None, None), (Price(1.0), 0)], ids=["free", "paid"])
def test_the_default_cluster_of_a_paid_backend_scales_to_zero(price: Price | None, least: int | None) -> None:
    backend = Priced(price=price)
    ensure_defaults(backend, Settings(cluster_nodes=3))
    scale = backend.needs.resources[-1][1].scale_settings
    assert (scale.auto_scale.minimum_node_count if scale.auto_scale else None) == least
    assert (scale.auto_scale.maximum_node_count if scale.auto_scale else scale.manual.target_node_count) == 3


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0.00"), (0.0123, "0.012"), (0.1, "0.10"), (1234.567, "1,234.57")]
)
def test_small_amounts_keep_two_digits(amount: float, text: str) -> None:
    assert Cost(amount).text == text
