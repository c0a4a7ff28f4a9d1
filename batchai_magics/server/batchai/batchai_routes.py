"""The routes of Batch AI: the 29 published operations, polling of long-running ones, and our extensions."""

from __future__ import annotations

from batchai_magics.models.resource_ids import Kind
from batchai_magics.server.batchai import (
    batchai_responses,
    extensions,
    job_handlers,
    resource_handlers,
    usage_handlers,
)
from batchai_magics.server.batchai.job_logs import LogWatcher
from batchai_magics.server.handler_context import Route
from batchai_magics.server.storage import storage_extensions

_PROVIDER = "/subscriptions/{subscription}/providers/Microsoft.BatchAI"
_IN_GROUP = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.BatchAI"
_WORKSPACE = f"{_IN_GROUP}/workspaces/{{workspace}}"
_CLUSTERS, _SERVERS = f"{_WORKSPACE}/clusters", f"{_WORKSPACE}/fileServers"
_EXPERIMENTS = f"{_WORKSPACE}/experiments"
_JOBS = f"{_EXPERIMENTS}/{{experiment}}/jobs"


def _standard_routes(kind: Kind, collection: str, parent: Kind) -> tuple[Route, ...]:
    item = f"{collection}/{{name}}"
    # The path of a job list addresses its experiment.
    listing = collection.replace("{experiment}", "{name}")
    return (
        Route("PUT", item, resource_handlers.create(kind)),
        Route("GET", item, resource_handlers.show(kind)),
        Route("DELETE", item, resource_handlers.delete(kind)),
        Route("GET", listing, resource_handlers.list_in(parent, kind)),
    )


ROUTES = (
    Route("GET", "/providers/Microsoft.BatchAI/operations", usage_handlers.list_operations),
    Route("GET", f"{_PROVIDER}/locations/{{location}}/usages", usage_handlers.list_usages),
    Route(
        "GET",
        f"{_PROVIDER}/locations/{{location}}/operationresults/{{operation}}",
        batchai_responses.operation_result,
    ),
    Route(
        "GET",
        f"{_PROVIDER}/locations/{{location}}/operationstatuses/{{operation}}",
        batchai_responses.operation_status,
    ),
    Route("GET", f"{_PROVIDER}/workspaces", resource_handlers.list_workspaces),
    Route("GET", f"{_IN_GROUP}/workspaces", resource_handlers.list_workspaces_in_group),
    Route("PUT", _WORKSPACE, resource_handlers.create_workspace),
    Route("PATCH", _WORKSPACE, resource_handlers.update_workspace),
    Route("GET", _WORKSPACE, resource_handlers.show(Kind.WORKSPACE)),
    Route("DELETE", _WORKSPACE, resource_handlers.delete(Kind.WORKSPACE)),
    *_standard_routes(Kind.EXPERIMENT, _EXPERIMENTS, Kind.WORKSPACE),
    *_standard_routes(Kind.CLUSTER, _CLUSTERS, Kind.WORKSPACE),
    Route("PATCH", f"{_CLUSTERS}/{{name}}", resource_handlers.update_cluster),
    Route(
        "POST", f"{_CLUSTERS}/{{name}}/listRemoteLoginInformation", resource_handlers.list_nodes(Kind.CLUSTER)
    ),
    *_standard_routes(Kind.FILE_SERVER, _SERVERS, Kind.WORKSPACE),
    *_standard_routes(Kind.JOB, _JOBS, Kind.EXPERIMENT),
    Route("POST", f"{_JOBS}/{{name}}/terminate", job_handlers.terminate),
    Route("POST", f"{_JOBS}/{{name}}/listOutputFiles", job_handlers.list_output_files),
    Route("POST", f"{_JOBS}/{{name}}/listRemoteLoginInformation", resource_handlers.list_nodes(Kind.JOB)),
    Route("GET", "/providers/Microsoft.BatchAI/batchaiOffer", extensions.show_capabilities),
    Route("POST", f"{_PROVIDER}/batchaiLook", extensions.query_states),
    Route("POST", f"{_PROVIDER}/batchaiEnsure", extensions.ensure_resources),
    Route("POST", f"{_PROVIDER}/batchaiStoreFiles", storage_extensions.store_files, takes_files=True),
    Route("POST", f"{_PROVIDER}/batchaiFetchFiles", storage_extensions.fetch_files),
    Route("POST", f"{_JOBS}/{{name}}/batchaiAhead", extensions.list_jobs_ahead),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRead", extensions.read_file),
    Route("POST", f"{_JOBS}/{{name}}/batchaiTail", extensions.tail_logs, watch=LogWatcher),
    Route("POST", f"{_JOBS}/{{name}}/batchaiTelemetry", extensions.read_telemetry),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRecords", extensions.read_records),
    Route("POST", f"{_PROVIDER}/batchaiLabels", extensions.read_labels),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRelabel", extensions.change_labels),
    Route("POST", f"{_EXPERIMENTS}/{{name}}/batchaiBaseline", extensions.show_baseline),
    Route("POST", f"{_JOBS}/{{name}}/batchaiExecute", extensions.execute_command(Kind.JOB)),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiExecute", extensions.execute_command(Kind.CLUSTER)),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiPreempt", extensions.preempt_node),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiSetupFiles", extensions.list_setup_files),
)
