"""Settings and options of sbatch: what cannot be meant is refused by its name, and becomes no script."""

import shlex

import pytest

from batchai_magics.backends.slurm.opening import open_backend
from batchai_magics.backends.slurm.settings import (
    OF_CLUSTERS,
    OF_FIXED,
    OWN,
    SBATCH,
    SlurmSettings,
    slurm_words,
)
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"placement": "fixd"}, "slurm.placement: there is no 'fixd'"),
        ({"sizes": "Standard_NC6"}, "slurm.sizes: 'Standard_NC6' has no options"),
        ({"sizes": "Standard_NC6=--gres='gpu"}, "slurm.sizes: .* is not a list of options"),
        ({"sizes": "Standard_NC6=--output=x"}, "slurm.sizes: --output cannot be set"),
        ({"options": "--exclusive run.sh"}, "slurm.options: 'run.sh' is not an option"),
        ({"options": "--partition=gpu"}, "slurm.options: --partition cannot be set: .*slurm.partition"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named_and_nothing_is_written(tmp_path, own, words):
    settings = SlurmSettings(home=tmp_path / "home", **own)
    with pytest.raises(UsageError, match=words):
        open_backend(Settings(backend="slurm", sections={"slurm": settings}))
    assert not (tmp_path / "home").exists()


def test_a_vm_size_has_the_options_of_the_table():
    settings = SlurmSettings(sizes="Standard_NC6=--partition=gpu --gres=gpu:1; standard_d2 = -p cpu;")
    assert settings.options_of_size("STANDARD_NC6") == ["--partition=gpu", "--gres=gpu:1"]
    assert settings.options_of_size("Standard_D2") == ["-p", "cpu"]
    assert settings.options_of_size("Standard_D3") == []


# options of sbatch


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--account=lab --qos long",
        "-A lab -C 'a100&nvlink' --gres=gpu:2",
        "--exclusive --requeue --reservation=school",
        "-Ok --mem=0 --wait-all-nodes=1 --ntasks-per-node=4",
        "--time=1-0 -t10 --begin=now+1hour",
        "--dependency=afterok:7 --mail-type=END",
    ],
)
def test_options_of_the_user_are_split_like_a_shell(text):
    assert slurm_words(text, {**OWN, **OF_CLUSTERS, **OF_FIXED}) == shlex.split(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("--output=x", "--output"),
        ("--qos=long --job-name x", "--job-name"),
        ("--wrap=true", "--wrap"),
        ("--wra=true", "--wrap"),
        ("-N4", "--nodes"),
        ("-ON4", "--nodes"),
        ("-o x", "--output"),
        ("--ntask=3", "--ntasks"),
        ("--export=NONE", "--export"),
        ("--array=1-9", "--array"),
        ("-p gpu", "--partition"),
        ("--exclude n1", "--exclude"),
        ("-wn1", "--nodelist"),
    ],
)
def test_options_that_the_backend_sets_are_refused_by_name(text, name):
    with pytest.raises(ValueError, match=f"^{name} cannot be set: "):
        slurm_words(text, {**OWN, **OF_CLUSTERS, **OF_FIXED})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run.sh", "'run.sh' is not an option"),
        ("--exclusive run.sh", "'run.sh' is not an option"),
        ("--qos=long : --qos=short", "':' is not an option"),
        ("-- x", "'--' is not an option"),
        ("--account", "--account needs a value: write --account=VALUE"),
        ("--account --qos=long", "--account needs a value"),
        ("-A", "-A needs a value"),
        ("--qos='long", "No closing quotation"),
    ],
)
def test_no_word_can_become_the_script(text, words):
    with pytest.raises(ValueError, match=words):
        slurm_words(text)


@pytest.mark.parametrize("text", ["--output=x", "--partition=gpu"])
def test_the_job_option_refuses_forbidden_options(text):
    with pytest.raises(ValueError, match="cannot be set"):
        SBATCH.check(text)
    SBATCH.check("--qos=long --nodelist=n1")
