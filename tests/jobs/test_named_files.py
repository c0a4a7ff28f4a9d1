"""The files of a job in the order of interest, and by the names that people give them."""

from __future__ import annotations

import pytest

from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_files import in_order, named_files, places_of
from batchai_magics.models.job_execution import OutputFile

NODES = [f"tvm-1690037429_{number}-20261121t033128z-p" for number in (1, 2)]
SENT = {"train.py", "data/x.csv"}
IN_ORDER = (
    ("artifacts", "best/model.pt"),
    ("workdir", f"{NODES[0]}/outputs/loss.png"),
    ("MODEL", "weights.h5"),
    ("workdir", f"{NODES[0]}/model.pt"),
    ("workdir", f"{NODES[0]}/data/y.csv"),
    ("workdir", f"{NODES[1]}/model.pt"),
    ("checkpoints", "step-5.pt"),
    ("workdir", f"{NODES[0]}/train.py"),
    ("workdir", f"{NODES[0]}/data/x.csv"),
    ("stdouterr", "stdout.txt"),
    ("stdouterr", f"execution-{NODES[0]}.log"),
    ("stdouterr", f"stdout-job_prep-{NODES[1]}.txt"),
    ("workdir", f"{NODES[0]}/__pycache__/helper.pyc"),
)


def listed(*names: tuple[str, str]) -> list[OutputFile]:
    return [OutputFile.regular(path, directory_id=directory) for directory, path in names]


def test_results_come_first_and_internal_files_last() -> None:
    mixed = listed(*sorted(IN_ORDER, key=lambda pair: pair[1][::-1]))
    found = in_order(mixed, SENT)
    origins = [IN_ORDER.index((file.directory_id, file.path)) for file in found]
    assert [origin in (0, 1) for origin in origins[:2]] == [True, True]
    assert set(origins[2:6]) == {2, 3, 4, 5}
    assert origins[6] == 6
    assert set(origins[7:9]) == {7, 8}
    assert origins[9] == 9
    assert set(origins[10:]) == {10, 11, 12}


def test_a_log_of_a_name_that_a_script_chose_is_its_result() -> None:
    files = listed(("stdouterr", "stdout.txt"), ("MODEL", "execution.log"), ("workdir", "n1/stdout-job_prep"))
    assert in_order(files, ())[-1].directory_id == "stdouterr"


def test_nodes_have_short_names() -> None:
    assert places_of(listed(*IN_ORDER))[3] == "workdir/node-1/model.pt"
    assert places_of(listed(*IN_ORDER))[10] == "stdouterr/execution-node-1.log"


def test_nodes_of_one_short_name_keep_their_own() -> None:
    again = NODES[0].replace("1121t", "1122t")
    files = listed(("workdir", f"{NODES[0]}/a"), ("workdir", f"{again}/a"), ("workdir", f"{NODES[1]}/a"))
    assert places_of(files) == [f"workdir/{NODES[0]}/a", f"workdir/{again}/a", "workdir/node-2/a"]


@pytest.mark.parametrize(
    ("path", "copies"),
    [
        ("artifacts", ["artifacts/best/model.pt"]),
        ("artifacts/best/", ["best/model.pt"]),
        ("weights.h5", ["weights.h5"]),
        ("loss.png", ["loss.png"]),
        ("outputs", ["outputs/loss.png"]),
        ("best/model.pt", ["model.pt"]),
        ("workdir/node-2", ["node-2/model.pt"]),
        ("node-2/model.pt", ["model.pt"]),
        (f"workdir/{NODES[1]}/model.pt", ["model.pt"]),
        ("data", ["data/y.csv", "data/x.csv"]),
    ],
)
def test_a_file_is_named_as_listed_or_by_an_end_that_no_other_has(path: str, copies: list[str]) -> None:
    assert [copy for _, copy in named_files(listed(*IN_ORDER), path)] == copies


def test_of_several_files_of_a_name_the_one_that_is_least_deep_is_meant() -> None:
    files = listed(("workdir", f"{NODES[0]}/old/run/model.pt"), ("workdir", f"{NODES[0]}/model.pt"))
    assert [file.display_path for file, _ in named_files(files, "model.pt")] == ["workdir/node-1/model.pt"]


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("model.pt", "several files are called model.pt", "workdir/node-1/model.pt, workdir/node-2/model.pt"),
        ("modle.pt", "there is no file modle.pt", 'Did you mean "model.pt"?'),
        ("xyz", "there is no file xyz", "Available: artifacts/best/model.pt"),
    ],
)
def test_a_name_of_none_or_several_says_which_there_are(path: str, message: str, hint: str) -> None:
    with pytest.raises(NotFoundError, match=message) as caught:
        named_files(listed(*IN_ORDER), path)
    assert hint in caught.value.hint
