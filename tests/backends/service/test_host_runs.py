"""What of a job with an image runs on the host."""

from batchai_magics.backends.service.host_runs import HostRuns, host_note, without_preparation
from tests.cell.parsed_cells import cell

HOST = HostRuns("no engine works here", "Install one.", "local.host_preparation")
JOB = """
properties:
  nodeCount: 1
  stdOutErrPathPrefix: $AZ_BATCHAI_MOUNT_ROOT/afs
  customToolkitSettings: {commandLine: cat data.csv}
  containerSettings: {imageSourceRegistry: {image: tf}}
"""
COPY = 'cp -R "$AZ_BATCHAI_INPUT_SCRIPT/." .'


def job(folder, more=""):
    (folder / "data.csv").touch()
    return cell("r --spec --upload data.csv", JOB + more, folder=folder).spec


def test_uploads_are_copied_though_the_preparation_of_the_image_is_not_run(tmp_path):
    spec = job(tmp_path, "  jobPreparation: {commandLine: apt install x}\n")
    assert spec.job_preparation.command_line == f"{COPY} && apt install x"
    assert host_note(spec, HOST).endswith("(local.host_preparation=yes runs it on the host): apt install x")
    assert without_preparation(spec, HOST).job_preparation.command_line == COPY


def test_a_copy_of_uploads_is_no_preparation_that_needs_the_image(tmp_path):
    spec = job(tmp_path)
    assert "preparation" not in host_note(spec, HOST)
    assert without_preparation(spec, HOST) == spec
