from batchai_magics.jobs.job_logs import with_cell_lines

TRACE = '  File "/mnt/scripts/default/train/0a1b/train.py", line 7, in <module>'


def test_a_line_of_the_script_is_named_by_the_line_of_the_cell():
    assert with_cell_lines([TRACE, "ValueError: x"], "train.py") == [
        '  File "train.py", line 7, in <module>  ← line 8 of the cell',
        "ValueError: x",
    ]


def test_other_files_keep_their_lines():
    assert with_cell_lines([TRACE], "other.py") == [TRACE]
    assert with_cell_lines([TRACE], "") == [TRACE]
