"""The routes of the API: Azure Resource Manager's, the 29 operations of Batch AI, and our extensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from batchai_magics.models.resource_ids import Kind
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.arm import storage_accounts, subscriptions
from batchai_magics.server.batchai import batchai_responses, extensions, job_handlers, resource_handlers
from batchai_magics.server.batchai.job_handlers import LogWatcher
from batchai_magics.server.handler_context import Handler
from batchai_magics.server.storage import storage_extensions


@dataclass(frozen=True)
class Route:
    """A method, a path and its handler; `{name}` in the path becomes an entry of `ApiCall.parts`."""

    method: str
    path: str
    handler: Handler
    takes_files: bool = False  # allows bodies as large as a range of a file
    is_read: bool = False  # changes nothing although it is a POST
    watch: Callable[[ApiCall], LogWatcher] | None = None  # constructed from a long-polling request


_SUBSCRIPTION = "/subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_STORAGE = f"{_SUBSCRIPTION}/providers/Microsoft.Storage"
_ACCOUNTS = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts"
_ACCOUNT = f"{_ACCOUNTS}/{{account}}"
_ROLES = "providers/Microsoft.Authorization"
_SCOPES = (_SUBSCRIPTION, _GROUP)


def _role_routes(scope: str) -> tuple[Route, ...]:
    assignment = f"{scope}/{_ROLES}/roleAssignments/{{assignment}}"
    return (
        Route("GET", f"{scope}/{_ROLES}/roleDefinitions", subscriptions.list_role_definitions),
        Route("GET", f"{scope}/{_ROLES}/roleAssignments", subscriptions.list_role_assignments),
        Route("PUT", assignment, subscriptions.assign_role),
        Route("DELETE", assignment, subscriptions.delete_role_assignment),
    )


ARM_ROUTES = (
    Route("GET", "/tenants", subscriptions.list_tenants),
    Route("GET", "/subscriptions", subscriptions.list_subscriptions),
    Route("GET", _SUBSCRIPTION, subscriptions.show_subscription),
    Route("GET", f"{_SUBSCRIPTION}/locations", subscriptions.list_locations),
    Route("GET", f"{_SUBSCRIPTION}/operationresults/{{operation}}", subscriptions.operation_result),
    Route("GET", f"{_SUBSCRIPTION}/resourceGroups", subscriptions.list_groups),
    Route("HEAD", _GROUP, subscriptions.group_exists),
    Route("GET", _GROUP, subscriptions.show_group),
    Route("PUT", _GROUP, subscriptions.create_group),
    Route("PATCH", _GROUP, subscriptions.update_group),
    Route("DELETE", _GROUP, subscriptions.delete_group),
    Route("GET", f"{_STORAGE}/storageAccounts", storage_accounts.list_all),
    Route("POST", f"{_STORAGE}/checkNameAvailability", storage_accounts.check_name, is_read=True),
    Route("GET", _ACCOUNTS, storage_accounts.list_all),
    Route("PUT", _ACCOUNT, storage_accounts.create),
    Route("GET", _ACCOUNT, storage_accounts.show),
    Route("DELETE", _ACCOUNT, storage_accounts.delete),
    Route("POST", f"{_ACCOUNT}/listKeys", storage_accounts.list_keys),
    Route("POST", f"{_ACCOUNT}/regenerateKey", storage_accounts.regenerate_key),
    *(route for scope in _SCOPES for route in _role_routes(scope)),
    Route("GET", f"{_SUBSCRIPTION}/providers", subscriptions.list_providers),
    Route("GET", f"{_SUBSCRIPTION}/providers/{{namespace}}", subscriptions.show_provider),
    Route("POST", f"{_SUBSCRIPTION}/providers/{{namespace}}/register", subscriptions.show_provider),
    Route("POST", f"{_SUBSCRIPTION}/providers/{{namespace}}/unregister", subscriptions.show_provider),
)


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
        Route("PUT", item, partial(resource_handlers.create, kind)),
        Route("GET", item, partial(resource_handlers.show, kind)),
        Route("DELETE", item, partial(resource_handlers.delete, kind)),
        Route("GET", listing, partial(resource_handlers.list_in, parent, kind)),
    )


ROUTES = (
    # What is polled comes first: the path of a request is compared with one route after the other.
    Route("POST", f"{_JOBS}/{{name}}/batchaiTail", extensions.tail_logs, watch=LogWatcher, is_read=True),
    Route("POST", f"{_PROVIDER}/batchaiLook", extensions.query_states, is_read=True),
    Route("GET", "/providers/Microsoft.BatchAI/operations", resource_handlers.list_operations),
    Route("GET", f"{_PROVIDER}/locations/{{location}}/usages", resource_handlers.list_usages),
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
    Route("GET", _WORKSPACE, partial(resource_handlers.show, Kind.WORKSPACE)),
    Route("DELETE", _WORKSPACE, partial(resource_handlers.delete, Kind.WORKSPACE)),
    *_standard_routes(Kind.EXPERIMENT, _EXPERIMENTS, Kind.WORKSPACE),
    *_standard_routes(Kind.CLUSTER, _CLUSTERS, Kind.WORKSPACE),
    Route("PATCH", f"{_CLUSTERS}/{{name}}", resource_handlers.update_cluster),
    Route(
        "POST",
        f"{_CLUSTERS}/{{name}}/listRemoteLoginInformation",
        partial(resource_handlers.list_nodes, Kind.CLUSTER),
        is_read=True,
    ),
    *_standard_routes(Kind.FILE_SERVER, _SERVERS, Kind.WORKSPACE),
    *_standard_routes(Kind.JOB, _JOBS, Kind.EXPERIMENT),
    Route("POST", f"{_JOBS}/{{name}}/terminate", job_handlers.terminate),
    Route("POST", f"{_JOBS}/{{name}}/listOutputFiles", job_handlers.list_output_files, is_read=True),
    Route(
        "POST",
        f"{_JOBS}/{{name}}/listRemoteLoginInformation",
        partial(resource_handlers.list_nodes, Kind.JOB),
        is_read=True,
    ),
    Route("GET", "/providers/Microsoft.BatchAI/batchaiOffer", extensions.show_capabilities),
    Route("POST", f"{_PROVIDER}/batchaiHostNote", extensions.show_host_note, is_read=True),
    Route("POST", f"{_PROVIDER}/batchaiEnsure", extensions.ensure_resources),
    Route("POST", f"{_PROVIDER}/batchaiStoreFiles", storage_extensions.store_files, takes_files=True),
    Route("POST", f"{_PROVIDER}/batchaiFetchFiles", storage_extensions.fetch_files, is_read=True),
    Route("POST", f"{_JOBS}/{{name}}/batchaiAhead", extensions.list_jobs_ahead, is_read=True),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRead", extensions.read_file, is_read=True),
    Route("POST", f"{_JOBS}/{{name}}/batchaiTelemetry", extensions.read_telemetry, is_read=True),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRecords", extensions.read_records, is_read=True),
    Route("POST", f"{_PROVIDER}/batchaiLabels", extensions.read_labels, is_read=True),
    Route("POST", f"{_JOBS}/{{name}}/batchaiRelabel", extensions.change_labels),
    Route("POST", f"{_EXPERIMENTS}/{{name}}/batchaiBaseline", extensions.show_baseline, is_read=True),
    Route("POST", f"{_JOBS}/{{name}}/batchaiExecute", partial(extensions.execute_command, Kind.JOB)),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiExecute", partial(extensions.execute_command, Kind.CLUSTER)),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiPreempt", extensions.preempt_node),
    Route("POST", f"{_CLUSTERS}/{{name}}/batchaiSetupFiles", extensions.list_setup_files, is_read=True),
)
