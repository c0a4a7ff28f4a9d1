"""What a job or sweep cannot have is refused before anything is uploaded, and the dry run says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics import cell
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.commands.output.dry_run import dry_run_text, sweep_dry_run_text
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.submit import submit
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from tests.azureml import sign_in
from tests.azureml.stand_in import AzureStandIn


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, provenance="none")  # git is a process


def changes(azure: AzureStandIn) -> list[str]:
    """The requests that changed something, besides those for tokens."""
    sent = [exchange.request for exchange in azure.exchanges]
    return [
        f"{each.method} {each.path}" for each in sent if each.method != "GET" and each.host != sign_in.HOST
    ]


REFUSED = {
    "--env DB_PASSWORD=hunter-22": "environmentVariables",
    "--requeue 2": "batchaiMaxRestarts",
    "--gpus 1": "batchaiGpus",
    "--after first": "batchaiAfter",
    "--after-any first": "batchaiAfterAny",
    "--nodes 2 --processes 3 --toolkit pytorch": "3 processes do not spread evenly over 2 nodes",
    "--size Standard_X9": "there is no VM size Standard_X9 in eastus",
    "--size Standard_NC6": "there is no VM size Standard_NC6 in eastus",
    "--cluster gpu": "there is no cluster gpu",
    "--cluster cpu --nodes 9": "9 nodes were requested",
    "--cluster cpu --nodes 3 --grow --gpus 1": "batchaiGpus",
    "--nodes 26": "26 × Standard_DS3_v2 need 104 cores, and the quota is 100",
    "--max-time 22d": "runs for at most 21 days",
    "--spot --max-time 8d": "a job on low-priority nodes runs for at most 7 days",
    "--notify https://example.org/hook": "--notify is not supported",
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.items())
def test_a_refused_cell_uploads_nothing(azure, backend, settings, options, reason):
    azure.computes.add("cpu", maximum=2)
    request = cell.parse(f"train {options}", "print(1)", settings=settings)
    with pytest.raises(BatchAIError, match=reason):
        submit(backend, request, settings)
    dry_run = dry_run_text(request, settings)
    assert "problem: " in dry_run
    assert reason in dry_run
    assert changes(azure) == []


def test_a_sweep_uploads_nothing(azure, backend, settings):
    line = 'tune --sweep "lr=1,2"'
    request = parse_sweep(line, "print({lr})", settings=settings, notebook=cell.Notebook())
    with pytest.raises(BatchAIError, match="sweeps are not supported by the azureml backend"):
        submit_sweep(backend, request, settings)
    assert "problem: sweeps are not supported" in sweep_dry_run_text(request, settings)
    assert changes(azure) == []


def test_a_dry_run_knows_nothing_of_the_default_cluster_of_this_machine(azure, settings):
    settings = replace(settings, cluster_vm_size="Standard_NC4as_T4_v3")
    request = cell.parse("train --nodes 4", "print(1)", settings=settings)
    assert "problem" not in dry_run_text(request, settings)


def test_a_variable_too_long_to_start_a_program_with_is_named(azure, backend, settings):
    request = cell.parse(f"train --env DATA={'x' * 200_000}", "print(1)", settings=settings)
    with pytest.raises(BatchAIError, match="DATA has 200,000 characters, more than 100,000"):
        submit(backend, request, settings)
    assert changes(azure) == []


def test_the_first_cell_of_the_page_is_accepted_as_it_stands(azure, backend, settings):
    page = (Path(__file__).parents[3] / "docs" / "azureml.md").read_text(encoding="utf-8")
    line, body = page.partition("%%batchai_job ")[2].partition("```")[0].split("\n", 1)
    request = cell.parse(line, body, settings=settings)
    assert "problem" not in dry_run_text(request, settings)
    submit(backend, request, settings)
    (job,) = azure.jobs.jobs.values()
    assert job.properties["distribution"] == {"distributionType": "PyTorch", "processCountPerInstance": 1}
    assert "pytorch" in job.properties["environmentId"]
