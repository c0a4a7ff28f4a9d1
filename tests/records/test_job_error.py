"""Why a process failed, of what it printed last."""

import json

import pytest

from batchai_magics.records.job_error import (
    MAX_BYTES,
    FailedProcess,
    JobError,
    LastOutput,
    RaisedError,
    SourcePaths,
    elapsed_text,
    error_of_preparation,
    error_of_process,
    raised_in,
)

PATHS = SourcePaths("3be912269cc9", "5b90", "train.py")
COPY = "/home/me/my jobs/scripts/default/train/3be912269cc9"
TRACE = f"""\
Traceback (most recent call last):
  File "{COPY}/train.py", line 10, in <module>
    main()
  File "/opt/venv/lib/python3.12/site-packages/torch/nn/module.py", line 3, in call
    return d["labels"]
           ~^^^^^^^^^^
KeyError: 'labels'
"""
PROCESS = FailedProcess(2, "node 1", 1)


def lines(text):
    return tuple(text.splitlines())


def error_of(text, paths=PATHS, *, process=PROCESS, out=""):
    outputs = [LastOutput("stderr.txt", lines(text)), LastOutput("stdout.txt", lines(out))]
    return error_of_process(process, outputs, paths)._replace(job="train", seconds=12.3)


def test_a_failure_is_told_in_a_line():
    assert error_of(TRACE).sentence == "train failed after 12 s: rank 2, cell line 11: KeyError: 'labels'"


def test_a_script_that_is_no_cell_has_its_own_lines():
    error = error_of(TRACE, PATHS._replace(script=""))
    assert (error.place, error.exception) == ("train.py:10", "KeyError: 'labels'")


@pytest.mark.parametrize(
    "line",
    [
        "/bin/bash: line 1: /opt/python: No such file or directory",
        "sh: 1: /opt/python: No such file or directory",
    ],
)
def test_a_command_that_cannot_start_is_named(line):
    error = error_of(line, process=FailedProcess(0, "node 1", 127, "the command was not found"))
    assert error.reason == "exit code 127: /opt/python: No such file or directory"


def test_bytes_of_a_log_are_shown_with_the_users_own_paths():
    data = f'a\n  File "{COPY}/b.py"\n'.encode() + b"\xff\n"
    assert PATHS.bytes_with_user_paths(data) == b'a\n  File "b.py"\n\xff\n'
    assert PATHS.bytes_with_user_paths(b"\xff/home") == b"\xff/home"


def test_paths_in_the_copy_are_shown_as_the_users_own():
    assert error_of(TRACE).lines[1] == '  File "train.py", line 10, in <module>  ← line 11 of the cell'
    assert COPY not in str(error_of(TRACE))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("python: can't open file '/a b/3be912269cc9/x.py'", "python: can't open file 'x.py'"),
        ("/a/3be912269cc9/pkg/x.py:3: UserWarning", "pkg/x.py:3: UserWarning"),
        ("reads /data/x of /a/3be912269cc9/x.csv", "reads /data/x of x.csv"),
        ("in /a/5b90/workdir/n1/x.csv", "in x.csv"),
        ("in /a/5b90/stdouterr/x.csv", "in /a/5b90/stdouterr/x.csv"),
        ("https://host/3be912269cc9/x", "https://host/3be912269cc9/x"),
    ],
)
def test_only_paths_in_the_copy_are_shortened(line, shown):
    assert PATHS.with_user_paths(line) == shown


@pytest.mark.parametrize("prefix", ["[rank2]: ", "2026-11-28 02:18:48 ERROR "])
def test_a_traceback_behind_a_prefix_is_read(prefix):
    text = "\n".join(prefix + line for line in TRACE.splitlines())
    assert error_of(text).sentence.endswith("cell line 11: KeyError: 'labels'")


def test_the_last_of_several_exceptions_counts():
    text = f"{TRACE}\nDuring handling of the above exception, another exception occurred:\n\n"
    assert raised_in(lines(text + TRACE.replace("KeyError: 'labels'", "OSError"))).exception == "OSError"


NCCL = """\
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage, NCCL version 2.28.9
ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
Last error:
Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60
"""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            NCCL,
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage, NCCL version"
            " 2.28.9: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60",
        ),
        (
            "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): 'w'.\n",
            "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s): 'w'.",
        ),
        (
            "RuntimeError: \n        An attempt has been made to start a new process\n",
            "RuntimeError: An attempt has been made to start a new process",
        ),
        ("ValueError: 3\nLast error:\n", "ValueError: 3"),
        ("ValueError: these:\n", "ValueError: these:"),
    ],
)
def test_a_message_of_several_lines_is_told_with_its_reason(message, shown):
    text = TRACE.replace("KeyError: 'labels'\n", message)
    assert error_of("".join(f"[rank1]: {line}\n" for line in lines(text))).exception == shown


def test_exceptions_that_python_ignores_do_not_count():
    text = f"{TRACE}Exception ignored in: <function f>\n{TRACE.replace('KeyError', 'OSError')}"
    assert raised_in(lines(text)).exception == "KeyError: 'labels'"


def test_exception_of_a_worker_names_the_users_code():
    text = f"{TRACE}RuntimeError: Caught KeyError in DataLoader worker process 0.\nOriginal {TRACE}"
    assert raised_in(lines(text)) == RaisedError("KeyError: 'labels'", f"{COPY}/train.py", 10)


def test_a_syntax_error_has_its_line():
    text = f'  File "{COPY}/train.py", line 3\n    x = = 3\n        ^\nSyntaxError: invalid syntax\n'
    assert error_of(text).sentence.endswith("rank 2, cell line 4: SyntaxError: invalid syntax")


def test_an_exception_on_stdout_is_found():
    error = error_of("a warning\n", out=TRACE)
    assert (error.exception, error.log) == ("KeyError: 'labels'", "stdout.txt")


@pytest.mark.parametrize(
    ("text", "process", "reason"),
    [
        ("", PROCESS, "exit code 1"),
        ("100%|█████|\n", PROCESS, "exit code 1"),
        (
            "usage\ntrain.py: error: --lr is missing\n",
            PROCESS,
            "exit code 1: train.py: error: --lr is missing",
        ),
        ("error\n", FailedProcess(0, "n", 139, "segmentation fault"), "exit code 139: segmentation fault"),
    ],
)
def test_a_process_without_an_exception_is_told_by_its_exit_code(text, process, reason):
    error = error_of(text, process=process)
    assert (error.reason, error.exception, error.place) == (reason, "", "")


def test_a_failed_preparation_is_told_by_its_last_line_and_node():
    output = LastOutput("stderr-job_prep.txt", ("…", "uv is not installed", ""))
    error = error_of_preparation(PROCESS.node, 3, output, "preparation")._replace(job="train")
    assert error.sentence == "train failed: preparation on node 1: uv is not installed"


def test_an_error_has_at_most_2_kib():
    error = error_of(TRACE + "\n".join(["é" * 500] * 40) + "\n" + TRACE.replace("labels", "x" * 5000))
    small = error._replace(hints=("h" * 1000,) * 9).bounded()
    assert len(json.dumps(small.to_data(), ensure_ascii=False).encode()) <= MAX_BYTES
    assert small.exception.startswith("KeyError: 'xxx")
    assert small.lines


def test_json_has_no_empty_fields():
    assert JobError("a", "no disk").to_data() == {"message": "a failed: no disk"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (1.7, "1 s"), (12, "12 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_a_duration_has_two_units(seconds, text):
    assert elapsed_text(seconds) == text
