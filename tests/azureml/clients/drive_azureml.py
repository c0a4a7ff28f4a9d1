"""Azure Machine Learning as its own library uses it; tells what came as JSON.

The steps are read as JSON: each names a function below, with its arguments.
"""

import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

from azure.ai.ml import MLClient, Output, command
from azure.ai.ml._restclient.arm_ml_service import models as arm
from azure.ai.ml._restclient.arm_ml_service._utils.model_base import Model as ArmModel
from azure.ai.ml._restclient.runhistory import models as history
from azure.ai.ml._restclient.runhistory._utils.model_base import Model as HistoryModel
from azure.ai.ml.entities import AmlCompute, Environment
from azure.identity import EnvironmentCredential

client = MLClient(
    EnvironmentCredential(),
    os.environ["SUBSCRIPTION"],
    os.environ["GROUP"],
    os.environ["WORKSPACE"],
    enable_telemetry=False,
    show_progress=False,
)


def submit(name, command_line, *, code=None, compute=None, nodes=1, distribution=None, **options):
    """Makes a command job; without a compute, a serverless one."""
    place = {"compute": compute} if compute else {}
    job = command(
        name=name,
        command=command_line,
        code=code,
        environment=Environment(image="registry.example.org/image"),
        instance_count=nodes,
        distribution=distribution,
        outputs={"result": Output(type="uri_folder")},
        **place,
        **options,
    )
    if not compute:
        job.set_resources(instance_type="Standard_DS3_v2", instance_count=nodes)
    return shown(client.jobs.create_or_update(job))


def shown(job):
    """What a person is shown of a job."""
    return {"name": job.name, "status": job.status, "experiment": job.experiment_name, "command": job.command}


def show(name):
    return shown(client.jobs.get(name))


def names():
    return [job.name for job in client.jobs.list()]


def stream(name):
    with redirect_stdout(io.StringIO()) as printed:
        try:
            client.jobs.stream(name)
        except Exception as error:  # noqa: BLE001 what it raises is told
            return {"printed": printed.getvalue(), "error": f"{type(error).__name__}: {error}"}
    return {"printed": printed.getvalue(), "error": None}


def cancel(name):
    client.jobs.begin_cancel(name).result()
    return show(name)


def archive(name):
    client.jobs.archive(name)


def download(name, folder):
    client.jobs.download(name, download_path=folder, all=True)
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def make_cluster(name, size, maximum):
    options = {"min_instances": 0, "max_instances": maximum, "tier": "low_priority"}
    client.compute.begin_create_or_update(AmlCompute(name=name, size=size, **options)).result()
    found = client.compute.get(name)
    return {"name": found.name, "size": found.size, "tier": found.tier, "maximum": found.max_instances}


def nodes(name):
    return [[node.node_state, node.run_id] for node in client.compute.list_nodes(name)]


def clusters():
    return [compute.name for compute in client.compute.list()]


def remove_cluster(name):
    client.compute.begin_delete(name).result()


def usage():
    return [
        [item.name["value"] if isinstance(item.name, dict) else item.name.value, item.limit]
        for item in client.compute.list_usage()
    ]


def sizes():
    return [size.name for size in client.compute.list_sizes()]


def losses(model, body):
    """The parts of a response that the generated models do not have."""
    kind = getattr(arm, model, None) or getattr(history, model)
    return sorted(_losses(kind._deserialize(body, []), model))


def _losses(value, place):
    if isinstance(value, (ArmModel, HistoryModel)):
        fields = {field._rest_name: name for name, field in value._attr_to_rest_field.items()}
        for key in value:
            if key not in fields:
                yield f"{place}.{key}"
            else:
                yield from _losses(getattr(value, fields[key]), f"{place}.{key}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _losses(item, f"{place}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _losses(item, f"{place}[]")


told = []
for step, arguments, options in json.loads(sys.stdin.read()):
    told.append(globals()[step](*arguments, **options))
print(json.dumps(told))
