"""Jobs and clusters as clients of the API describe them, without anything that a test does not ask for."""

from __future__ import annotations

from typing import Any

USER = {"adminUserName": "me", "adminUserPassword": "hush"}
MOUNTED = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def manual(count: int, option: str = "requeue") -> dict[str, object]:
    """Scale settings for a fixed number of nodes."""
    return {"manual": {"targetNodeCount": count, "nodeDeallocationOption": option}}


def plain_cluster(count: int = 1, /, **fields: object) -> dict[str, Any]:
    """A cluster of so many nodes."""
    properties = {"vmSize": "STANDARD_D1", "userAccountSettings": USER, "scaleSettings": manual(count)}
    return {"properties": {**properties, **fields}}


def plain_job(cluster: object, command: str = "true", /, **fields: object) -> dict[str, Any]:
    """A job of the custom toolkit on one node of a cluster."""
    properties = {
        "cluster": {"id": str(cluster)},
        "nodeCount": 1,
        "stdOutErrPathPrefix": MOUNTED,
        "customToolkitSettings": {"commandLine": command},
    }
    return {"properties": {**properties, **fields}}
