"""Lines of launchers as options of a job."""

import shlex

import pytest

from batchai_magics.cell.launcher_line import translate
from batchai_magics.errors import UsageError


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("torchrun --nproc_per_node=4 --nnodes=2 train.py", "--toolkit pytorch --nodes 2 --processes 8"),
        ("torchrun --nproc-per-node 4 --standalone train.py", "--toolkit pytorch --processes 4"),
        ("torchrun --nproc-per-node=gpu train.py", "--toolkit pytorch"),
        ("/opt/bin/torchrun --rdzv-backend c10d --rdzv_endpoint=h:1 train.py", "--toolkit pytorch"),
        (
            "python3.11 -m torch.distributed.run --nproc_per_node=2 train.py",
            "--toolkit pytorch --processes 2",
        ),
        (
            "accelerate launch --multi_gpu --num_processes 8 --num_machines 2 train.py",
            "--toolkit pytorch --nodes 2 --processes 8",
        ),
        ("deepspeed --num_gpus 4 --num_nodes 2 train.py", "--toolkit pytorch --nodes 2 --processes 8"),
        ("deepspeed --hostfile hosts --include h1:0 train.py", "--toolkit pytorch"),
        ("mpirun -np 4 -H a:2,b:2 --oversubscribe python -u train.py", "--toolkit horovod --processes 4"),
        ("horovodrun -np 4 python train.py", "--toolkit horovod --processes 4"),
        ("python train.py", ""),
        ("train.py", ""),
    ],
)
def test_counts_of_a_launcher_become_those_of_the_job(line, options):
    read = translate(shlex.split(f"{line} --lr 0.1"))
    assert " ".join(f"{flag} {value}" for flag, value in read.options.items()) == options
    assert (read.script, read.args) == ("train.py", ("--lr", "0.1"))


def test_the_nodes_of_the_job_count_for_processes_of_each_node():
    read = translate(["torchrun", "--nproc_per_node=4", "--nnodes=2", "train.py"], node_count=3)
    assert read.options == {"--toolkit": "pytorch", "--nodes": "3", "--processes": "12"}


def test_what_a_library_reads_from_variables_is_kept():
    read = translate(shlex.split("accelerate launch --mixed_precision bf16 train.py"))
    assert read.env == {"ACCELERATE_MIXED_PRECISION": "bf16"}
    assert translate(shlex.split("mpirun -x LR=1 -x PATH -n 2 t.py")).env == {"LR": "1"}
    assert translate(shlex.split("mpiexec -genv LR 1 -n 2 t.py")).env == {"LR": "1"}


def test_the_note_says_what_was_left_out():
    note = translate(shlex.split("torchrun --standalone --nproc_per_node=2 train.py")).note
    assert note == "torchrun: runs as --toolkit pytorch --processes 2; left out: --standalone"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("torchrun --nproc_per_node=2", "torchrun: no script"),
        ("torchrun --module pkg.train", "--module cannot be translated"),
        ("torchrun --nnodes 1:4 train.py", "--nnodes 1:4: must be a positive integer"),
        ("torchrun --nproc_per_node", "--nproc_per_node needs a value"),
        ("accelerate launch --use_fsdp train.py", "--use_fsdp cannot be translated"),
        ("python -m pkg.train", "-m instead of a script"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(line, message):
    with pytest.raises(UsageError, match=message):
        translate(shlex.split(line))
