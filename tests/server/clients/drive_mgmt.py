"""Every operation of azure-mgmt-batchai (2.0.0 or 7.0.0) against a server; tells what came as JSON."""

import json
import sys
import time
import urllib.request

from azure.mgmt import batchai
from azure.mgmt.batchai import models
from shapes import watch

URL, TOKEN, SUBSCRIPTION, GROUP = sys.argv[1:]
WS, CL, EX, NFS = "ws", "cl", "ex", "nfs"
PREFIX = "$AZ_BATCHAI_MOUNT_ROOT/afs"
told, wrong, calls = {}, [], set()


def client_2018():
    from msrest.authentication import BasicTokenAuthentication

    credentials = BasicTokenAuthentication({"access_token": TOKEN})
    return batchai.BatchAIManagementClient(credentials, SUBSCRIPTION, base_url=URL)


def client_of_today():
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class Bearer(SansIOHTTPPolicy):  # its own takes no http, not even on the loopback
        def on_request(self, request):
            request.http_request.headers["Authorization"] = f"Bearer {TOKEN}"

    more = {"authentication_policy": Bearer(), "polling_interval": 0}
    return batchai.BatchAI(object(), SUBSCRIPTION, base_url=URL, **more)


IS_OLD = hasattr(batchai, "BatchAIManagementClient")
client = client_2018() if IS_OLD else client_of_today()
watch(models, wrong)
user = models.UserAccountSettings(admin_user_name="demo", admin_user_password="hush")


def call(name, *arguments):
    """An operation, if the library has it: waited for if it goes on for long, all items if it is a list."""
    family, _, method = name.partition(".")
    operations = getattr(client, family)
    begin = getattr(operations, f"begin_{method}", None)
    work = begin or getattr(operations, method, None)
    if work is None:
        return None
    calls.add(name)
    result = work(*arguments)
    if begin or hasattr(result, "add_done_callback"):
        return result.result()
    return list(result) if "list" in method else result


def parameters(kind, *arguments, **fields):
    """What the library of 2018 takes one by one, and that of today as one object."""
    return arguments if IS_OLD else (getattr(models, kind)(**fields),)


def error_type():
    if IS_OLD:
        from msrestazure.azure_exceptions import CloudError

        return CloudError
    from azure.core.exceptions import HttpResponseError

    return HttpResponseError


def refused(work):
    try:
        work()
    except error_type() as error:
        code = error.error.error if IS_OLD else error.error.code
        return [error.status_code, code, error.error.message]
    return None


def workspaces():
    place, tags = {"location": "eastus"}, {"a": "b"}
    create = parameters("WorkspaceCreateParameters", "eastus", tags, **place, tags=tags)
    made = call("workspaces.create", GROUP, WS, *create)
    told["workspace"] = [made.name, made.location, made.tags, made.provisioning_state, made.type]
    call("workspaces.get", GROUP, WS)
    update = parameters("WorkspaceUpdateParameters", {"x": "y"}, tags={"x": "y"})
    told["tags"] = call("workspaces.update", GROUP, WS, *update).tags
    lists = call("workspaces.list"), call("workspaces.list_by_resource_group", GROUP)
    told["workspaces"] = [[item.name for item in items] for items in lists]


def clusters():
    share = models.AzureFileShareReference(
        account_name="local",
        azure_file_url="https://local.file.core.windows.net/batchaishare",
        credentials=models.AzureStorageCredentialsInfo(account_key="secret-key"),
        relative_mount_path="afs",
    )
    asked = models.ClusterCreateParameters(
        vm_size="STANDARD_D1",
        user_account_settings=user,
        scale_settings=models.ScaleSettings(manual=models.ManualScaleSettings(target_node_count=1)),
        node_setup=models.NodeSetup(mount_volumes=models.MountVolumes(azure_file_shares=[share])),
    )
    made = call("clusters.create", GROUP, WS, CL, asked)
    image = made.virtual_machine_configuration.image_reference
    told["cluster"] = [made.vm_size, made.vm_priority, image.sku]
    told["has secrets"] = "secret-key" in json.dumps(made.serialize(keep_readonly=True))
    call("clusters.get", GROUP, WS, CL)
    scale = models.ScaleSettings(manual=models.ManualScaleSettings(target_node_count=2))
    change = parameters("ClusterUpdateParameters", scale, scale_settings=scale)
    resized = call("clusters.update", GROUP, WS, CL, *change)
    told["resized"] = resized.scale_settings.manual.target_node_count
    call("clusters.list_by_workspace", GROUP, WS)
    while client.clusters.get(GROUP, WS, CL).allocation_state != "steady":
        time.sleep(0.1)
    told["nodes"] = len(call("clusters.list_remote_login_information", GROUP, WS, CL))
    return made.id


def jobs(cluster):
    call("experiments.create", GROUP, WS, EX)
    call("experiments.get", GROUP, WS, EX)
    call("experiments.list_by_workspace", GROUP, WS)
    call("jobs.create", GROUP, WS, EX, "jb", job(cluster, "echo hi; echo saved > model.pt"))
    call("jobs.list_by_experiment", GROUP, WS, EX)
    until("jb", "succeeded", "failed")
    done = call("jobs.get", GROUP, WS, EX, "jb")
    told["job"] = [done.execution_state, done.execution_info.exit_code, done.tool_type]
    options = models.JobsListOutputFilesOptions(outputdirectoryid="stdouterr")
    files = call("jobs.list_output_files", GROUP, WS, EX, "jb", options)
    told["files"] = {item.name: item.download_url for item in files}
    working_directories()
    termination(cluster)
    call("jobs.delete", GROUP, WS, EX, "jb")
    told["no job"] = refused(lambda: client.jobs.get(GROUP, WS, EX, "jb"))


def working_directories():
    """What the job saved in its working directory, by way of the folder of its node."""
    options = models.JobsListOutputFilesOptions(outputdirectoryid="workdir")
    (node,) = call("jobs.list_output_files", GROUP, WS, EX, "jb", options)
    options = models.JobsListOutputFilesOptions(outputdirectoryid="workdir", directory=node.name)
    (file,) = call("jobs.list_output_files", GROUP, WS, EX, "jb", options)
    told["working directory"] = [node.download_url, file.name, file.content_length]
    told["saved"] = urllib.request.urlopen(file.download_url).read().decode()


def termination(cluster):
    """A job that is terminated, twice; one that is no job."""
    call("jobs.create", GROUP, WS, EX, "long", job(cluster, "sleep 1000"))
    until("long", "running")
    told["job nodes"] = len(call("jobs.list_remote_login_information", GROUP, WS, EX, "long"))
    call("jobs.terminate", GROUP, WS, EX, "long")
    ended = client.jobs.get(GROUP, WS, EX, "long")
    told["terminated"] = [ended.execution_state, ended.execution_info.errors[0].code]
    call("jobs.terminate", GROUP, WS, EX, "long")
    nothing = job(cluster, "true")
    nothing.custom_toolkit_settings = None
    told["no toolkit"] = refused(lambda: call("jobs.create", GROUP, WS, EX, "bad", nothing))


def job(cluster, command):
    return models.JobCreateParameters(
        cluster=models.ResourceId(id=cluster),
        node_count=1,
        std_out_err_path_prefix=PREFIX,
        custom_toolkit_settings=models.CustomToolkitSettings(command_line=command),
        environment_variables=[models.EnvironmentVariable(name="A", value="1")],
    )


def until(name, *states):
    while client.jobs.get(GROUP, WS, EX, name).execution_state not in states:
        time.sleep(0.1)


def file_servers():
    disks = models.DataDisks(disk_size_in_gb=10, disk_count=2, storage_account_type="Standard_LRS")
    ssh = models.SshConfiguration(user_account_settings=user)
    asked = models.FileServerCreateParameters(vm_size="STANDARD_D1", ssh_configuration=ssh, data_disks=disks)
    made = call("file_servers.create", GROUP, WS, NFS, asked)
    told["file server"] = made.mount_settings.mount_point
    call("file_servers.get", GROUP, WS, NFS)
    call("file_servers.list_by_workspace", GROUP, WS)
    call("file_servers.delete", GROUP, WS, NFS)


def ends():
    told["usages"] = len(call("usages.list", "eastus"))
    told["operations"] = [operation.display.description for operation in call("operations.list")]
    call("experiments.delete", GROUP, WS, EX)
    call("clusters.delete", GROUP, WS, CL)
    call("workspaces.delete", GROUP, WS)
    told["gone"] = refused(lambda: client.workspaces.get(GROUP, WS))


workspaces()
jobs(clusters())
file_servers()
ends()
print(json.dumps({"told": told, "wrong": wrong, "calls": sorted(calls)}))
