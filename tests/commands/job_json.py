"""A job.json that runs a shell command line."""

import json


def write_job(folder, command):
    share = {
        "azureFileUrl": "https://local.file.core.windows.net/logs",
        "accountName": "local",
        "relativeMountPath": "autoafs",
    }
    properties = {
        "nodeCount": 1,
        "customToolkitSettings": {"commandLine": command},
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs",
        "mountVolumes": {"azureFileShares": [share]},
    }
    path = folder / "job.json"
    path.write_text(json.dumps({"properties": properties}))
    return path
