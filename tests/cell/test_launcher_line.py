"""Lines of launchers as options of a job."""

import shlex

import pytest

from batchai_magics.cell.launcher_line import translate
from batchai_magics.cell.launchers import JobCounts
from batchai_magics.errors import UsageError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, without settings of Accelerate from elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path


def translated(line, counts=None):
    return translate(shlex.split(line), counts)


def options_of(line, counts=None):
    return " ".join(f"{flag} {value}" for flag, value in translated(line, counts).options.items())


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("torchrun --nproc_per_node=4 --nnodes=2 train.py", "--toolkit pytorch --nodes 2 --processes 8"),
        ("torchrun --nproc-per-node 4 --standalone train.py", "--toolkit pytorch --processes 4"),
        ("torchrun --nproc-per-node=gpu train.py", "--toolkit pytorch"),
        (
            "/opt/bin/torchrun --rdzv-backend c10d --rdzv_endpoint=h:1 train.py",
            "--toolkit pytorch --processes 1",
        ),
        (
            "python3.11 -m torch.distributed.run --nproc_per_node=2 train.py",
            "--toolkit pytorch --processes 2",
        ),
        (
            "accelerate launch --multi_gpu --num_processes 8 --num_machines 2 train.py",
            "--toolkit pytorch --nodes 2 --processes 8",
        ),
        ("deepspeed --num_gpus 4 --num_nodes 2 train.py", "--toolkit pytorch --nodes 2 --processes 8"),
        ("torchrun train.py", "--toolkit pytorch --processes 1"),
        ("torchrun --nnodes=2:2 train.py", "--toolkit pytorch --nodes 2 --processes 2"),
        ("env PET_NPROC_PER_NODE=3 torchrun train.py", "--toolkit pytorch --processes 3"),
        ("accelerate launch train.py", "--toolkit pytorch"),
        ("deepspeed train.py", "--toolkit pytorch"),
        ("deepspeed --include localhost:1,3 train.py", "--toolkit pytorch --nodes 1 --processes 2"),
        ("deepspeed -i a:0,1@b:0,1 train.py", "--toolkit pytorch --nodes 2 --processes 4"),
        (
            "mpirun -np 4 -H a:2,b:2 --oversubscribe python -u train.py",
            "--toolkit horovod --nodes 2 --processes 4",
        ),
        ("mpirun -H a:2,b:2 python train.py", "--toolkit horovod --nodes 2 --processes 4"),
        ("mpirun -np 2 -H a:2,b:2 python train.py", "--toolkit horovod --nodes 1 --processes 2"),
        ("mpirun -np 2 -H a,b python train.py", "--toolkit horovod --nodes 2 --processes 2"),
        ("mpirun -npernode 2 -H a,b python train.py", "--toolkit horovod --nodes 2 --processes 4"),
        ("mpirun -npernode 2 -H a:4,b:4 python train.py", "--toolkit horovod --nodes 2 --processes 4"),
        ("mpiexec -n 4 -ppn 2 python train.py", "--toolkit horovod --nodes 2 --processes 4"),
        ("mpirun -np 4 --map-by ppr:2:node python train.py", "--toolkit horovod --nodes 2 --processes 4"),
        ("horovodrun -np 4 python train.py", "--toolkit horovod --processes 4"),
        ("python train.py", ""),
        ("train.py", ""),
    ],
)
def test_counts_of_a_launcher_become_the_jobs(line, options):
    read = translated(f"{line} --lr 0.1")
    assert options_of(line) == options
    assert (read.script, read.args) == ("train.py", ("--lr", "0.1"))


def test_the_jobs_own_counts_replace_the_launchers():
    line = "torchrun --nproc_per_node=4 --nnodes=2 train.py"
    assert options_of(line, JobCounts(nodes=3)) == "--toolkit pytorch --nodes 3 --processes 12"
    assert translated(line, JobCounts(nodes=3)).note.endswith("left out: 2 nodes (--nodes 3 counts)")
    assert options_of(line, JobCounts(processes=6)) == "--toolkit pytorch --nodes 2 --processes 6"


def test_a_process_for_each_gpu_is_as_many_as_a_node_has():
    line = "torchrun --nproc_per_node=gpu train.py"
    assert options_of(line, JobCounts(nodes=2, gpus=4)) == "--toolkit pytorch --nodes 2 --processes 8"
    assert options_of(line) == "--toolkit pytorch"
    with pytest.raises(UsageError, match="--nproc_per_node gpu: the node has no GPUs"):
        translated(line, JobCounts(gpus=0))
    with pytest.raises(UsageError, match="not known before the job runs"):
        translated("torchrun --nproc_per_node=cpu train.py")


def test_a_host_file_gives_the_counts(folder):
    (folder / "hosts").write_text("# two nodes\nworker-1 slots=4\nworker-2 slots=4\n")
    for line in ("deepspeed --hostfile hosts train.py", "deepspeed -H hosts --num_nodes 2 train.py"):
        assert options_of(line) == "--toolkit pytorch --nodes 2 --processes 8"
    filtered = "deepspeed --hostfile=hosts --include worker-2 train.py"
    assert options_of(filtered) == "--toolkit pytorch --nodes 1 --processes 4"
    assert options_of("mpirun --hostfile hosts python t.py") == "--toolkit horovod --nodes 2 --processes 8"
    (folder / "hosts").write_text("a slots=4\nb slots=2\n")
    with pytest.raises(UsageError, match="different numbers of slots: a 4, b 2"):
        translated("deepspeed --hostfile hosts train.py")
    with pytest.raises(UsageError, match="--hostfile none: No such file"):
        translated("deepspeed --hostfile none train.py")
    (folder / "hosts").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="--hostfile hosts is not a text file"):
        translated("mpirun --hostfile hosts python t.py")


CONFIG = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_offload_params: true
  fsdp_transformer_layer_cls_to_wrap: BertLayer
gpu_ids: all
machine_rank: 0
main_process_ip: null
mixed_precision: bf16
num_machines: 2
num_processes: 8
rdzv_backend: static
same_network: true
tpu_use_sudo: false
use_cpu: false
"""


def test_the_settings_of_accelerate_count_unless_its_options_say_otherwise(folder):
    (folder / "two.yaml").write_text(CONFIG)
    line = "accelerate launch --config_file two.yaml"
    assert options_of(f"{line} train.py") == "--toolkit pytorch --nodes 2 --processes 8"
    read = translated(f"{line} --num_processes=4 --mixed_precision no train.py --config_file mine")
    assert read.options["--processes"] == "4"
    assert read.args == ("--config_file", "mine")
    assert read.env["ACCELERATE_MIXED_PRECISION"] == "no"
    assert read.env["FSDP_OFFLOAD_PARAMS"] == "true"
    assert read.env["FSDP_TRANSFORMER_CLS_TO_WRAP"] == "BertLayer"
    assert read.env["FSDP_SHARDING_STRATEGY"] == "FULL_SHARD"
    with pytest.raises(UsageError, match=r"none\.yaml: No such file"):
        translated("accelerate launch --config_file none.yaml train.py")


def test_the_default_settings_of_accelerate_count(folder):
    (folder / "hf" / "accelerate").mkdir(parents=True)
    (folder / "hf" / "accelerate" / "default_config.yaml").write_text("num_processes: 4\n")
    assert options_of("accelerate launch train.py") == "--toolkit pytorch --processes 4"
    assert "default_config.yaml: runs as" in translated("accelerate launch train.py").note
    assert options_of("accelerate launch --cpu train.py") == "--toolkit pytorch"
    assert options_of("accelerate launch train.py --cpu") == "--toolkit pytorch --processes 4"


def test_untranslatable_setting_of_accelerate_is_named(folder):
    (folder / "a.yaml").write_text("fp8_config:\n  backend: TE\n")
    with pytest.raises(UsageError, match="fp8_config cannot be translated"):
        translated("accelerate launch --config_file a.yaml train.py")
    (folder / "a.yaml").write_text("gpu_ids: 0,1\n")
    with pytest.raises(UsageError, match="--gpu_ids cannot be translated") as caught:
        translated("accelerate launch --config_file a.yaml train.py")
    assert "--gpus N" in caught.value.hint


def test_accelerate_trains_jointly_on_nodes_without_gpus():
    line = "accelerate launch --num_processes 4 train.py"
    assert translated(line, JobCounts(gpus=0)).env == {"ACCELERATE_USE_CPU": "true"}
    assert translated(line, JobCounts(gpus=2)).env == {}


def test_modules_are_started_as_python_does():
    for line in (
        "torchrun --nproc_per_node=2 -m pkg.train --lr 0.1",
        "torchrun --module pkg.train --lr 0.1",
        "python -u -m pkg.train --lr 0.1",
        "accelerate launch -m pkg.train --lr 0.1",
        "deepspeed --module pkg.train --lr 0.1",
        "mpirun -np 2 python3 -m pkg.train --lr 0.1",
        "uv run -m pkg.train --lr 0.1",
    ):
        read = translated(line)
        assert (read.script, read.is_module, read.args) == ("pkg.train", True, ("--lr", "0.1"))


def test_launchers_that_pass_the_local_rank_as_an_option_still_do():
    assert translated("deepspeed train.py").rank_option == "--local_rank"
    assert translated("python -m torch.distributed.launch train.py").rank_option == "--local-rank"
    assert not translated("deepspeed --no_local_rank train.py").rank_option
    assert not translated("python -m torch.distributed.launch --use_env train.py").rank_option
    assert not translated("torchrun train.py").rank_option


def test_variables_before_a_launcher_become_the_jobs():
    read = translated("env A=1 B='two words' torchrun train.py")
    assert read.env == {"A": "1", "B": "two words"}
    assert translated("A=1 python -O train.py").env == {"A": "1", "PYTHONOPTIMIZE": "1"}
    with pytest.raises(UsageError, match="env: -i cannot be translated"):
        translated("env -i A=1 python train.py")


@pytest.mark.parametrize(
    "line", ["env WANDB_API_KEY=hush torchrun train.py", "mpirun -n 2 -x API_TOKEN=hush python train.py"]
)
def test_a_secret_on_the_line_is_refused_and_not_repeated(line):
    with pytest.raises(UsageError, match="looks like a secret") as caught:
        translated(line)
    assert "--secret" in caught.value.hint
    assert "hush" not in f"{caught.value} {caught.value.hint}"


def test_an_interpreter_that_is_named_by_its_path_is_used(folder):
    assert translated(".venv/bin/python train.py").python == str(folder / ".venv/bin/python")
    assert not translated("python3.11 train.py").python
    (folder / "bin").mkdir()
    (folder / "bin" / "python").touch()
    assert translated("bin/torchrun train.py").python == str(folder / "bin/python")


def test_uv_runs_the_launcher_in_the_environment_of_the_project():
    read = translated("uv run --frozen torchrun --nproc_per_node=2 train.py")
    assert (read.is_project, read.options["--processes"]) == (True, "2")
    assert read.note.endswith("left out: --frozen")
    with pytest.raises(UsageError, match="uv run: --with cannot be translated") as caught:
        translated("uv run --with rich train.py")
    assert "--with PACKAGE" in caught.value.hint


@pytest.mark.parametrize("line", ["srun -n 2 python t.py", "time python t.py"])
def test_unknown_launcher_is_refused_with_the_known_ones(line):
    with pytest.raises(UsageError, match="no launcher that is translated") as caught:
        translated(line)
    assert all(name in caught.value.hint for name in ("torchrun", "accelerate launch", "mpirun", "uv run"))


def test_options_that_a_library_reads_become_variables(monkeypatch):
    read = translated("accelerate launch --mixed_precision bf16 train.py")
    assert read.env == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    monkeypatch.setenv("DATA", "/data")
    read = translated("mpirun -x LR=1 -x DATA -x NOT_SET -n 2 t.py")
    assert (read.env, read.passed) == ({"LR": "1"}, ("DATA",))
    assert read.note.endswith("--env LR=1 --env DATA; left out: -x NOT_SET (not set here)")
    assert translated("mpiexec -genv LR 1 -env GAMMA 2 -n 2 t.py").env == {"LR": "1", "GAMMA": "2"}


def test_the_note_says_what_was_left_out():
    note = translated("torchrun --standalone --nproc_per_node=2 train.py").note
    assert note == "torchrun: runs as --toolkit pytorch --processes 2; left out: --standalone"
    assert "--requeue N" in translated("torchrun --max-restarts 3 train.py").note


def test_parameters_of_open_mpi_have_a_name_and_a_value():
    line = (
        "mpirun -np 2 -bind-to none -mca pml ob1 --mca btl ^openib python train.py"  # as Horovod's docs say
    )
    left_out = "left out: -bind-to none -mca pml ob1 --mca btl ^openib"
    assert translated(line).note == f"mpirun: runs as --toolkit horovod --processes 2; {left_out}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("torchrun --nproc_per_node=2", "torchrun: no script"),
        ("torchrun --no-python train.sh", "--no-python cannot be translated"),
        ("accelerate launch --gpu_ids 0,1 train.py", "--gpu_ids cannot be translated"),
        ("deepspeed --exclude h1 train.py", "--exclude cannot be translated"),
        ("mpirun python train.py", "mpirun: the number of processes is missing"),
        ("mpirun -n 1 python a.py : -n 1 python b.py", "several programs"),
        ("mpirun -H a:x -np 2 python train.py", "expected HOST:SLOTS"),
        ("torchrun --nnodes 1:4 train.py", "--nnodes 1:4: must be a positive integer"),
        ("torchrun --nproc_per_node", "--nproc_per_node needs a value"),
        ("accelerate launch --use_megatron_lm train.py", "--use_megatron_lm cannot be translated"),
        ("python -c 'print(1)'", "-c instead of a script"),
    ],
)
def test_untranslatable_option_is_refused_by_name(line, message):
    with pytest.raises(UsageError, match=message):
        translated(line)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "mpirun --nnodes 2 python train.py",  # --npernode is not what was meant
            "mpirun: --nnodes cannot be translated\nleave it out, or give the job's own option",
        ),
        ("mpirun python train.py", "mpirun: the number of processes is missing\nWrite -np N."),
    ],
)
def test_hint_is_useful_and_given_once(line, text):
    with pytest.raises(UsageError) as caught:
        translated(line)
    assert str(caught.value) == text
