"""A whole job and a whole cluster, as the API's clients send them; their text, read and written."""

import json

from batchai_magics.models.documents.description import load_text

CLUSTER_ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w/clusters/nc6"


def job_body(**changes):
    body = {
        "schedulingPriority": "high",
        "cluster": {"id": CLUSTER_ID},
        "mountVolumes": {
            "azureFileShares": [
                {
                    "accountName": "acc",
                    "azureFileUrl": "https://acc.file.core.windows.net/share",
                    "credentials": {"accountKey": "key"},
                    "relativeMountPath": "afs",
                    "fileMode": "0777",
                    "directoryMode": "0777",
                }
            ],
            "unmanagedFileSystems": [{"mountCommand": "mount -t nfs host:/", "relativeMountPath": "nfs"}],
        },
        "nodeCount": 2,
        "containerSettings": {"imageSourceRegistry": {"image": "ubuntu"}, "shmSize": "1g"},
        "horovodSettings": {
            "pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/train.py",
            "commandLineArgs": "--Model ResNet50",
            "processCount": 4,
        },
        "jobPreparation": {"commandLine": "true"},
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs",
        "inputDirectories": [{"id": "SCRIPT", "path": "$AZ_BATCHAI_MOUNT_ROOT/afs/Scripts"}],
        "outputDirectories": [
            {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs", "pathSuffix": "Models"}
        ],
        "environmentVariables": [{"name": "Mixed_Case", "value": "Ünï"}],
        "secrets": [{"name": "TOKEN", "value": "hidden"}],
        "constraints": {"maxWallClockTime": "PT2H"},
    }
    return {"properties": {**body, **changes}}


def cluster_body(**changes):
    body = {
        "vmSize": "STANDARD_NC6",
        "vmPriority": "dedicated",
        "scaleSettings": {"manual": {"targetNodeCount": 2, "nodeDeallocationOption": "requeue"}},
        "userAccountSettings": {"adminUserName": "demo", "adminUserPassword": "hidden"},
        "nodeSetup": {
            "setupTask": {
                "commandLine": "apt-get update",
                "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs",
            }
        },
    }
    return {"properties": {**body, **changes}}


def load(model, text, *, source, account=None):
    """The description that a text holds."""
    description = load_text(model, text, source=source, account=account)
    return description.checked(model, description.body)


def dumps(spec, *, secrets=False):
    """The description as text."""
    return json.dumps(spec.to_wire(secrets=secrets))
