"""Parameters of runs, from arguments and variables."""

import pytest

from batchai_magics.models.runs.labels import MAX_LENGTH, MAX_PARAMETERS, bounded, of_arguments


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ("--lr 0.1 --model resnet50", {"lr": 0.1, "model": "resnet50"}),
        ("--batch-size=32 -b 4", {"batch_size": 32, "b": 4}),
        ("train.py --amp --seed -1", {"amp": True, "seed": -1}),
        ("optimizer.lr=1e-3 +trainer=ddp", {"optimizer.lr": 0.001, "trainer": "ddp"}),
        ("--name 'my run' --pretrained false", {"name": "my run", "pretrained": False}),
        ("--note 'unclosed", {"note": "'unclosed"}),
        ("", {}),
    ],
)
def test_parameters_of_a_command_line(arguments, parameters):
    assert of_arguments(arguments) == parameters


def test_variables_that_fit_into_a_column_are_parameters():
    variables = {"lr": 0.1, "deep": True, "name": "a", "data": [1], "far": float("inf"), "text": "x" * 201}
    assert bounded(variables) == {"lr": 0.1, "deep": True, "name": "a"}


def test_number_and_length_of_parameters_are_limited():
    names = [f"{'n' * MAX_LENGTH}x", *map(str, range(MAX_PARAMETERS + 5))]
    assert len(bounded(dict.fromkeys(names, 1))) == MAX_PARAMETERS
