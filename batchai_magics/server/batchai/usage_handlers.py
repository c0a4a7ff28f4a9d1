"""Handlers for quotas, and for the list of the provider's operations."""

from __future__ import annotations

from batchai_magics.backends.base import USAGES, Usages
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.handler_context import HandlerContext

# Actions on the contents of a workspace.
_ACTIONS = {
    "workspaces": ("Workspaces", "workspace", ("read", "write", "delete")),
    "workspaces/experiments": ("Experiments", "experiment", ("read", "write", "delete")),
    "workspaces/experiments/jobs": (
        "Jobs",
        "job",
        (
            "read",
            "write",
            "delete",
            "terminate/action",
            "listoutputfiles/action",
            "listremotelogininformation/action",
        ),
    ),
    "workspaces/clusters": (
        "Clusters",
        "cluster",
        ("read", "write", "delete", "listremotelogininformation/action"),
    ),
    "workspaces/fileservers": ("File Servers", "file server", ("read", "write", "delete")),
    "locations/usages": ("Usages", "usage", ("read",)),
}
_WORDS = {
    "read": ("List or get", "Lists {}s or gets the properties of a {}"),
    "write": ("Create or update", "Creates a new {} or updates an existing {}"),
    "delete": ("Delete", "Deletes a {}"),
    "terminate/action": ("Terminate", "Terminates a {}"),
    "listoutputfiles/action": ("List output files of", "Lists the output files of a {}"),
    "listremotelogininformation/action": ("List remote login of", "Lists where the nodes of a {} are"),
}


def list_usages(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the usage of each quota in a location."""
    context.check_subscription(call)
    usages: Usages = USAGES.of(context.backend)
    return ApiResponse(data={"value": [usage.to_wire() for usage in usages.list(call.parts["location"])]})


def list_operations(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the operations of the provider."""
    value = [
        _operation(path, resource, noun, action)
        for path, (resource, noun, actions) in _ACTIONS.items()
        for action in actions
    ]
    return ApiResponse(data={"value": value})


def _operation(path: str, resource: str, noun: str, action: str) -> dict[str, object]:
    verb, sentence = _WORDS[action]
    name = f"Batch AI {noun}"
    return {
        "name": f"Microsoft.BatchAI/{path}/{action}",
        "display": {
            "provider": "Microsoft Batch AI",
            "resource": f"Batch AI {resource}",
            "operation": f"{verb} {name}",
            "description": sentence.format(name, name),
        },
        "origin": "user,system",
    }
