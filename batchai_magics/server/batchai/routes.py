"""The 29 operations of the published API, what asks for its long-running ones, and our own."""

from __future__ import annotations

from batchai_magics.models.ids import Kind
from batchai_magics.server.batchai import clusters, ensuring, jobs, links, own, resources, usages, workspaces
from batchai_magics.server.batchai.log_watch import LogWatcher
from batchai_magics.server.service import Route
from batchai_magics.server.storage import packs

_PROVIDER = "/subscriptions/{subscription}/providers/Microsoft.BatchAI"
_IN_GROUP = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.BatchAI"
_WORKSPACE = f"{_IN_GROUP}/workspaces/{{workspace}}"
_CLUSTERS, _SERVERS = f"{_WORKSPACE}/clusters", f"{_WORKSPACE}/fileServers"
_EXPERIMENTS = f"{_WORKSPACE}/experiments"
_JOBS = f"{_EXPERIMENTS}/{{experiment}}/jobs"


def _usual(kind: Kind, collection: str, parent: Kind) -> tuple[Route, ...]:
    item = f"{collection}/{{name}}"
    # The experiment of a list of jobs is what the path is about.
    listing = collection.replace("{experiment}", "{name}")
    return (
        Route("PUT", item, resources.create(kind)),
        Route("GET", item, resources.show(kind)),
        Route("DELETE", item, resources.delete(kind)),
        Route("GET", listing, resources.list_in(parent, kind)),
    )


ROUTES = (
    Route("GET", "/providers/Microsoft.BatchAI/operations", usages.list_operations),
    Route("GET", f"{_PROVIDER}/locations/{{location}}/usages", usages.list_usages),
    Route("GET", f"{_PROVIDER}/locations/{{location}}/operationresults/{{operation}}", links.result),
    Route("GET", f"{_PROVIDER}/locations/{{location}}/operationstatuses/{{operation}}", links.status),
    Route("GET", f"{_PROVIDER}/workspaces", workspaces.list_all),
    Route("GET", f"{_IN_GROUP}/workspaces", workspaces.list_in_group),
    Route("PUT", _WORKSPACE, workspaces.create),
    Route("PATCH", _WORKSPACE, workspaces.update),
    Route("GET", _WORKSPACE, resources.show(Kind.WORKSPACE)),
    Route("DELETE", _WORKSPACE, resources.delete(Kind.WORKSPACE)),
    *_usual(Kind.EXPERIMENT, _EXPERIMENTS, Kind.WORKSPACE),
    *_usual(Kind.CLUSTER, _CLUSTERS, Kind.WORKSPACE),
    Route("PATCH", f"{_CLUSTERS}/{{name}}", clusters.update),
    Route("POST", f"{_CLUSTERS}/{{name}}/listRemoteLoginInformation", clusters.nodes(Kind.CLUSTER)),
    *_usual(Kind.FILE_SERVER, _SERVERS, Kind.WORKSPACE),
    *_usual(Kind.JOB, _JOBS, Kind.EXPERIMENT),
    Route("POST", f"{_JOBS}/{{name}}/terminate", jobs.terminate),
    Route("POST", f"{_JOBS}/{{name}}/listOutputFiles", jobs.list_output_files),
    Route("POST", f"{_JOBS}/{{name}}/listRemoteLoginInformation", clusters.nodes(Kind.JOB)),
    Route("GET", "/providers/Microsoft.BatchAI/batchaiOffer", own.offer),
    Route("POST", f"{_PROVIDER}/batchaiLook", own.status),
    Route("POST", f"{_PROVIDER}/batchaiEnsure", ensuring.ensure),
    Route("POST", f"{_PROVIDER}/batchaiStoreFiles", packs.store, takes_files=True),
    Route("POST", f"{_PROVIDER}/batchaiFetchFiles", packs.fetch),
    Route("POST", f"{_JOBS}/{{name}}/batchaiAhead", own.jobs_ahead_of),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRead", own.read),
    Route("POST", f"{_JOBS}/{{name}}/batchaiTail", own.tail, watch=LogWatcher),
    Route("POST", f"{_JOBS}/{{name}}/batchaiTelemetry", own.telemetry),
    Route("POST", f"{_JOBS}/{{name}}/batchaiExecute", own.execute(Kind.JOB)),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiExecute", own.execute(Kind.CLUSTER)),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiPreempt", own.preempt),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiSetupFiles", own.setup_files),
)
