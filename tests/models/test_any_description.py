"""Whatever a file of a job or a cluster holds: it is read, or refused in our words without its secrets."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.documents.description import load_file, load_text
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AccountKey
from batchai_magics.models.wire_model import WireModel
from tests import odd_inputs
from tests.models.samples import cluster_body, job_body


def with_secret(body: Any) -> Any:
    """The same body, with the secret wherever one may stand."""
    return json.loads(
        json.dumps(body)
        .replace('"hidden"', f'"{odd_inputs.SECRET}"')
        .replace('"key"', f'"{odd_inputs.SECRET}"')
    )


JOB, CLUSTER = with_secret(job_body()), with_secret(cluster_body())
SERVER = {
    "properties": {
        "vmSize": "STANDARD_D1",
        "sshConfiguration": {
            "userAccountSettings": {"adminUserName": "me", "adminUserPassword": odd_inputs.SECRET}
        },
        "dataDisks": {"diskSizeInGB": 10, "diskCount": 2, "storageAccountType": "Standard_LRS"},
    }
}
MODELS = st.sampled_from([(JobSpec, JOB), (ClusterSpec, CLUSTER), (FileServerSpec, SERVER)])


def read(model: type[WireModel], text: str) -> None:
    description = load_text(model, text, source="the cell", account=AccountKey())
    writable(description.checked(model, description.body))


def read_from_file(model: type[WireModel], text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        description = load_file(model, path)
    writable(description.checked(model, description.body))
    writable(description.notes)


def writable(value: object) -> None:
    wire = value.to_wire(secrets=True) if isinstance(value, WireModel) else value
    json.dumps(wire, ensure_ascii=False).encode()


@given(st.data())
def test_randomly_changed_file_is_read_or_refused(data: st.DataObject) -> None:
    model, body = data.draw(MODELS)
    text = data.draw(odd_inputs.serialized(body))
    odd_inputs.rejection(lambda: read(model, text))
    odd_inputs.rejection(lambda: read_from_file(model, text))


@given(st.text(st.characters(), max_size=60), st.sampled_from([JobSpec, ClusterSpec]))
def test_any_text_is_read_or_refused(text: str, model: type[WireModel]) -> None:
    odd_inputs.rejection(lambda: read(model, text))


@given(odd_inputs.values, st.sampled_from([JobSpec, ClusterSpec, ClusterPatch, FileServerSpec]))
def test_any_data_is_read_or_refused(value: Any, model: type[WireModel]) -> None:
    for body in (value, {"properties": value}):
        odd_inputs.rejection(lambda body=body: model.from_wire(body))
