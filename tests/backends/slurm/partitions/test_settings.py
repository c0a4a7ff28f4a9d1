"""Settings that cannot be meant are refused by their names; those of VM sizes become options."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.slurm.opening import open_backend
from batchai_magics.backends.slurm.settings import SlurmSettings
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
def test_a_setting_that_cannot_be_meant_is_named_and_nothing_is_written(tmp_path: Path, own, words) -> None:
    settings = SlurmSettings(home=tmp_path / "home", **own)
    with pytest.raises(UsageError, match=words):
        open_backend(Settings(backend="slurm", sections={"slurm": settings}))
    assert not (tmp_path / "home").exists()


def test_a_vm_size_has_the_options_of_the_table() -> None:
    settings = SlurmSettings(sizes="Standard_NC6=--partition=gpu --gres=gpu:1; standard_d2 = -p cpu;")
    assert settings.options_of_size("STANDARD_NC6") == ["--partition=gpu", "--gres=gpu:1"]
    assert settings.options_of_size("Standard_D2") == ["-p", "cpu"]
    assert settings.options_of_size("Standard_D3") == []
