"""Resources as the service shows them, for tests."""

from __future__ import annotations

from datetime import datetime, timezone

from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.models.samples import job_body

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "e")
JOB = EXPERIMENT.child(Kind.JOB, "j")
MADE = {
    "creationTime": "2018-06-06T20:59:38.611Z",
    "provisioningState": "succeeded",
    "provisioningStateTransitionTime": "2018-06-06T20:59:39Z",
}
CREATED = datetime(2018, 6, 6, 20, 59, 38, 611_000, timezone.utc)
CHANGED = datetime(2018, 6, 6, 20, 59, 39, 0, timezone.utc)


def shown(id, properties, **more):
    return {"id": str(id), "name": id.name, "type": id.kind.wire_type, "properties": properties, **more}


def job(**changes):
    """A finished job as the service shows it: credentials empty, secrets by name."""
    asked = job_body(
        mountVolumes={
            "azureFileShares": [
                {
                    "accountName": "acc",
                    "azureFileUrl": "https://acc.file.core.windows.net/share",
                    "credentials": {},
                    "relativeMountPath": "afs",
                }
            ]
        },
        secrets=[{"name": "TOKEN"}],
    )["properties"]
    became = {
        "experimentName": "e",
        "toolType": "horovod",
        "jobOutputDirectoryPathSegment": "s/g/workspaces/w/experiments/e/jobs/j/1",
        "executionState": "failed",
        "executionStateTransitionTime": "2018-06-06T21:10:00Z",
        "executionInfo": {
            "startTime": "2018-06-06T21:00:00Z",
            "endTime": "2018-06-06T21:10:00Z",
            "exitCode": 1,
            "errors": [{"code": "JobFailed", "message": "Job failed with non-zero exit code"}],
        },
    }
    body = {**asked, **MADE, **became, **changes}
    return shown(JOB, {key: value for key, value in body.items() if value is not None})
