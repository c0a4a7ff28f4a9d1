"""What a job's JSON holds: every field by name, with what is printed of one that was left out.

The models say the same, and a test holds this against them. To load them takes longer than a list of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from batchai_magics.commands.output.tidy import SPAN


class Filled(NamedTuple):
    """An object whose fields are printed though it was left out, where others are null."""

    fields: Fields


# A text is what is printed of a field that was left out; `{}` holds names that people chose themselves.
Fields = Mapping[str, "Fields | Filled | str | None"]

_REFERENCE: Fields = {"id": None}
_VAULT: Fields = {"sourceVault": _REFERENCE, "secretUrl": None}
_ACCOUNT_KEY = Filled({"accountKey": None, "accountKeySecretReference": _VAULT})
_SCRIPT: Fields = {"pythonScriptFilePath": None, "pythonInterpreterPath": None}
_RUN: Fields = {**_SCRIPT, "commandLineArgs": None}
_RANKS: Fields = {**_RUN, "processCount": None}
_MOUNTS: Fields = {
    "azureFileShares": {
        "accountName": None,
        "azureFileUrl": None,
        "credentials": _ACCOUNT_KEY,
        "relativeMountPath": None,
        "fileMode": None,
        "directoryMode": None,
    },
    "azureBlobFileSystems": {
        "accountName": None,
        "containerName": None,
        "credentials": _ACCOUNT_KEY,
        "relativeMountPath": None,
        "mountOptions": None,
    },
    "fileServers": {
        "fileServer": _REFERENCE,
        "sourceDirectory": None,
        "relativeMountPath": None,
        "mountOptions": None,
    },
    "unmanagedFileSystems": {"mountCommand": None, "relativeMountPath": None},
}
_REGISTRY: Fields = {
    "serverUrl": None,
    "image": None,
    "credentials": {"username": None, "password": None, "passwordSecretReference": _VAULT},
}
_TOOLKITS: Fields = {
    "cntkSettings": {"languageType": None, "configFilePath": None, **_RANKS},
    "pyTorchSettings": {**_RANKS, "communicationBackend": None},
    "tensorFlowSettings": {
        **_SCRIPT,
        "masterCommandLineArgs": None,
        "workerCommandLineArgs": None,
        "parameterServerCommandLineArgs": None,
        "workerCount": None,
        "parameterServerCount": None,
    },
    "caffeSettings": {"configFilePath": None, **_RANKS},
    "caffe2Settings": _RUN,
    "chainerSettings": _RANKS,
    "customToolkitSettings": {"commandLine": None, "batchaiProcessCount": None},
    "customMpiSettings": {"commandLine": None, "processCount": None},
    "horovodSettings": _RANKS,
}
JOB: Fields = {
    "schedulingPriority": "normal",
    "cluster": _REFERENCE,
    "mountVolumes": _MOUNTS,
    "nodeCount": None,
    "containerSettings": {"imageSourceRegistry": _REGISTRY, "shmSize": None},
    **_TOOLKITS,
    "jobPreparation": {"commandLine": None},
    "stdOutErrPathPrefix": None,
    "inputDirectories": {"id": None, "path": None, "createNew": None},
    "outputDirectories": {"id": None, "pathPrefix": None, "pathSuffix": None, "createNew": None},
    "environmentVariables": {"name": None, "value": None},
    "secrets": {"name": None, "value": None, "valueSecretReference": _VAULT},
    "constraints": Filled({SPAN: "7 days, 0:00:00"}),
    "batchaiStopIf": None,
    "batchaiPatterns": {},
    "batchaiSlurm": None,
}
ERROR: Fields = {"code": None, "message": None, "details": {"name": None, "value": None}}
TOOLS = {  # the toolkit whose settings stand there, by its short name
    "cntkSettings": "cntk",
    "pyTorchSettings": "pytorch",
    "tensorFlowSettings": "tensorflow",
    "caffeSettings": "caffe",
    "caffe2Settings": "caffe2",
    "chainerSettings": "chainer",
    "customToolkitSettings": "custom",
    "customMpiSettings": "mpi",
    "horovodSettings": "horovod",
}
