"""The backend that settings open, and which run of a named job a cell is."""

from dataclasses import replace

import pytest

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import CellRequest
from batchai_magics.cell.cell_request import CellSource
from batchai_magics.config import Settings
from batchai_magics.errors import ConflictError, NotFoundError, SpecError, UsageError
from batchai_magics.jobs.submit import find, next_run, submit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from tests.default_resources import ensure_defaults
from tests.widgets.scripted_cluster import EXPERIMENT, ScriptedCluster
from tests.widgets.scripted_job import SPEC


class Lab(ScriptedCluster):
    """A place that takes whatever is created and notes it in order."""

    def __init__(self, folder, *names):
        super().__init__(folder)
        self.created, self.uploaded, self.shares = {}, {}, []
        self.storage = self
        for name in names:
            self.run(name)

    def create(self, id, spec, *, owner="", records=None):
        self.created[str(id)] = spec

    def show(self, id):
        if id.kind is not Kind.JOB and str(id) not in self.created:
            raise NotFoundError("none")
        return super().show(id)

    def names(self, parent, kind, prefix=""):
        ids = map(ResourceId.parse, self.created)
        return [id.name for id in ids if id.kind is kind] or super().names(parent, kind, prefix)

    def make(self, share):
        self.shares.append(share)

    def upload(self, share, files):
        self.uploaded.update({(share, path): data for path, data in files.items()})

    def kinds(self):
        return [ResourceId.parse(id).kind for id in self.created]


def request(*, name="resnet", workspace="w", **changes):
    id = workspace_id(SETTINGS, workspace).child(Kind.EXPERIMENT, "e").child(Kind.JOB, name)
    return replace(CellRequest(id, JobSpec.from_wire(SPEC)), **changes)


def on_cluster(*, cluster="default", **changes):
    """A request whose description names its cluster, as parsed ones do."""
    made = request(**changes)
    id = made.id.workspace_id.child(Kind.CLUSTER, cluster)
    properties = {**SPEC["properties"], "cluster": {"id": str(id)}}
    return replace(made, spec=JobSpec.from_wire({"properties": properties}))


SETTINGS = Settings(provenance="none", subscription="s", resource_group="g", workspace="w", experiment="e")


@pytest.mark.parametrize(
    ("there", "name", "further"),
    [
        ([], "resnet", "resnet"),
        (["resnet"], "resnet", "resnet-2"),
        (["resnet", "resnet-2"], "resnet-2", "resnet-3"),
        (["resnet", "resnet-10", "resnet-2", "resnet-9"], "resnet", "resnet-11"),
        (["resnet-10", "resnet-9"], "resnet-9", "resnet-11"),
        (["resnet-2"], "resnet", "resnet-3"),
        (["resnet-x", "resnet50", "my-resnet-7"], "resnet", "resnet"),
        (["resnet-50"], "resnet-50", "resnet-51"),
        ([], "resnet-50", "resnet-50"),
    ],
)
def test_next_run_is_numbered_after_the_latest(tmp_path, there, name, further):
    assert next_run(Lab(tmp_path, *there), EXPERIMENT, name) == further


@pytest.mark.parametrize(
    ("there", "is_new", "name"),
    [
        ([], False, "resnet"),
        ([], True, "resnet"),
        (["resnet"], False, "resnet"),
        (["resnet", "resnet-10", "resnet-2"], False, "resnet-10"),
        (["resnet", "resnet-10", "resnet-2"], True, "resnet-11"),
    ],
)
def test_a_cell_is_the_latest_run_of_its_name_or_a_further_one(tmp_path, there, is_new, name):
    submitted = submit(Lab(tmp_path, *there), request(is_new=is_new), SETTINGS)
    assert submitted.job.name == name
    assert submitted.is_new is (name not in there)


def after(tmp_path, text, *there):
    """What a job called `late` is submitted with that starts after a job of this name or id."""
    lab = Lab(tmp_path, *there)
    lab.capabilities = replace(lab.capabilities, chains=True)
    spec = request().spec.model_copy(update={"batchai_after": (text,)})
    submitted = submit(lab, replace(request(name="late"), spec=spec), SETTINGS)
    (id,) = lab.created[str(submitted.job.id)].batchai_after
    return ResourceId.parse(id), submitted.note


def test_a_predecessors_name_means_the_latest_run_of_it_which_a_note_says(tmp_path):
    id, note = after(tmp_path, "resnet", "resnet", "resnet-2")
    assert (id.name, note) == ("resnet-2", "It starts after resnet-2, the latest run of resnet.")


def test_a_predecessors_id_means_that_run(tmp_path):
    id, note = after(tmp_path, str(EXPERIMENT.child(Kind.JOB, "resnet")), "resnet", "resnet-2")
    assert (id.name, note) == ("resnet", "")


@pytest.mark.parametrize("text", ["late", "Late", str(EXPERIMENT), "no/id", "a b"])
def test_invalid_predecessors_are_refused(tmp_path, text):
    with pytest.raises((UsageError, SpecError)):
        after(tmp_path, text)


class Taken(Lab):
    """A place where the jobs that are there stay what they are."""

    def create(self, id, spec, *, owner="", records=None):
        there = list(self.list(id.parent, Kind.JOB)) if id.kind is Kind.JOB else []
        if any(job.id.name == id.name and job.spec != spec for job in there):
            raise ConflictError("another")
        super().create(id, spec)


def edited(**changes):
    return request(spec=JobSpec.from_wire({"properties": {**SPEC["properties"], "nodeCount": 7}}), **changes)


def test_an_edited_cell_is_the_next_run_and_the_old_one_is_kept(tmp_path):
    submitted = submit(Taken(tmp_path, "resnet", "resnet-2"), edited(), SETTINGS)
    assert (submitted.job.name, submitted.is_new) == ("resnet-3", True)
    assert submitted.note.startswith("The cell changed since resnet-2: running as resnet-3")


def test_a_script_is_named_where_a_cell_would_be(tmp_path):
    source = CellSource(tmp_path, file="train.py")
    lab = Taken(tmp_path, "resnet")
    same = submit(lab, request(source=source), SETTINGS)
    assert "resnet was already submitted from train.py" in same.note
    assert submit(lab, edited(source=source), SETTINGS).note.startswith("train.py or its options changed")


def test_edited_cell_is_refused_with_the_option_same(tmp_path):
    lab = Taken(tmp_path, "resnet")
    with pytest.raises(ConflictError, match="a different job called resnet exists") as caught:
        submit(lab, edited(is_same=True), SETTINGS)
    assert "--same" in caught.value.hint
    assert Kind.JOB not in lab.kinds()


def test_run_with_fields_added_by_the_service_is_identical(tmp_path):
    lab = Lab(tmp_path, "resnet")
    added = {"environmentVariables": [{"name": "A", "value": "added"}]}
    spec = JobSpec.from_wire({"properties": {**SPEC["properties"], **added}})
    lab.jobs["resnet"] = replace(lab.jobs["resnet"], spec=spec)
    submitted = submit(lab, request(), SETTINGS)
    assert (submitted.job.name, submitted.is_new) == ("resnet", False)


def refusal(tmp_path, text, *there, name="late", **changes):
    """The message and the hint for a job of that name that is to start after these."""
    lab = Lab(tmp_path, *there)
    lab.capabilities = replace(lab.capabilities, chains=True)
    spec = request().spec.model_copy(update={"batchai_after": (text,)})
    with pytest.raises(UsageError) as caught:
        submit(lab, replace(request(name=name, **changes), spec=spec), SETTINGS)
    assert lab.created == {}
    return caught.value.message, caught.value.hint


def test_a_job_that_would_wait_for_itself_is_told_its_latest_run(tmp_path):
    message, hint = refusal(tmp_path, "late", "late", "late-2", "late-10")
    assert message == "the job late would wait for itself"
    assert hint == "Name the run to wait for: late-10, or give this job another name."
    _, hint = refusal(tmp_path, "late", "late")
    assert hint.startswith(f"Name the run to wait for: {EXPERIMENT.child(Kind.JOB, 'late')}, or ")
    assert after(tmp_path, "late-2", "late", "late-2")[0].name == "late-2"


def test_a_job_that_would_wait_for_itself_is_told_that_no_run_exists(tmp_path):
    source = CellSource(tmp_path, file="late.py")
    _, hint = refusal(tmp_path, "late", source=source)
    assert hint == (
        "There is no run of late yet: name another job, or give this job another name: --name NAME."
    )


def test_the_name_of_a_trial_means_its_latest_run_and_a_job_comes_before_a_sweep_of_its_name(tmp_path):
    trials = ["lr-t1", "lr-t2", "lr-t10", "lr-t2-2", "lr-tx"]
    assert after(tmp_path, "lr-t2", *trials)[0].name == "lr-t2-2"
    assert after(tmp_path, "lr", *trials, "lr")[0].name == "lr"


def test_a_cell_makes_the_workspace_then_the_cluster_then_the_job(tmp_path):
    lab = Lab(tmp_path)
    submit(lab, on_cluster(), SETTINGS)
    assert lab.kinds() == [Kind.WORKSPACE, Kind.EXPERIMENT, Kind.CLUSTER, Kind.JOB]
    assert (lab.shares, lab.uploaded) == ([], {})
    named = Lab(tmp_path)
    submit(named, on_cluster(cluster="big"), SETTINGS)
    assert named.kinds() == [Kind.WORKSPACE, Kind.EXPERIMENT, Kind.JOB]
    elsewhere = Lab(tmp_path)
    submit(elsewhere, on_cluster(workspace="other", cluster="big"), SETTINGS)
    assert Kind.CLUSTER not in elsewhere.kinds()


def test_the_default_cluster_is_created_from_the_settings_and_not_changed_later(tmp_path):
    lab, settings = Lab(tmp_path), replace(SETTINGS, cluster_nodes=5, cluster_vm_size="Standard_NC6")
    ensure_defaults(lab, settings)
    cluster = lab.created[str(workspace_id(settings).child(Kind.CLUSTER, "default"))]
    assert (cluster.target_node_count, cluster.vm_size) == (5, "Standard_NC6")
    before = dict(lab.created)
    ensure_defaults(lab, SETTINGS)
    assert lab.created == before


@pytest.mark.parametrize(
    ("workspace", "made"), [("w", [Kind.WORKSPACE, Kind.EXPERIMENT]), ("other", [Kind.EXPERIMENT])]
)
def test_a_job_of_an_exact_name_creates_only_the_default_resources_around_it(tmp_path, workspace, made):
    lab = Lab(tmp_path, "resnet")
    submitted = submit(lab, on_cluster(workspace=workspace, is_exact=True), SETTINGS)
    assert (lab.kinds(), submitted.job.name) == ([*made, Kind.JOB], "resnet")


def test_files_are_on_the_share_before_the_job(tmp_path):
    lab = Lab(tmp_path)
    lab.create = lambda id, spec, **_: lab.created.update({str(id): dict(lab.uploaded)})
    submitted = submit(lab, request(uploads={"a/b.py": b"1"}), SETTINGS)
    assert lab.created[str(submitted.job.id)] == {("batchaishare", "a/b.py"): b"1"}
    assert lab.shares == ["batchaishare"]


def test_an_unknown_backend_gets_a_guess_or_the_list():
    with pytest.raises(UsageError, match='Did you mean "local"'):
        open_backend(Settings(backend="locl"))
    with pytest.raises(UsageError, match="Available: local"):
        open_backend(Settings(backend="moon"))


def test_a_missing_job_without_similar_names_has_no_suggestion(tmp_path):
    class Missing(Lab):
        def show(self, id):
            raise NotFoundError("no such job", code="JobNotFound", hint="Look elsewhere.")

    with pytest.raises(NotFoundError) as caught:
        find(Missing(tmp_path, "resnet"), "zzz", SETTINGS)
    assert (caught.value.code, caught.value.hint) == ("JobNotFound", "Look elsewhere.")


def test_quota_comes_from_the_settings(tmp_path):
    settings = Settings(sections={"local": LocalSettings(home=tmp_path / "home", core_quota=3)})
    backend = open_backend(settings)
    with pytest.raises(ConflictError, match="Maximum allowed: 3"):
        ensure_defaults(backend, settings)  # two nodes with two cores each
    backend.close()


class Paid(Taken):
    """A backend that says what a job is going to cost."""

    @property
    def prices(self):
        return self

    def forecast(self, job):
        return f"{job.node_count} × NC6, 0 of 6 cores free: will queue"


def test_a_paid_backend_notes_the_cost_of_a_new_job_and_why_it_waits(tmp_path):
    assert submit(Paid(tmp_path), edited(), SETTINGS).note == "7 × NC6, 0 of 6 cores free: will queue."
    assert submit(Taken(tmp_path), edited(), SETTINGS).note == ""
