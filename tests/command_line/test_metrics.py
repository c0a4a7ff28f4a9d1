"""`batchai metrics`: numbers of logs as JSON, as a table, as CSV."""

import json

from batchai_magics.cli import main

LOG = b"""Step\tImg/sec\ttotal_loss
1\timages/sec: 10.1 +/- 0.0 (jitter = 0.0)\t7.972
10\timages/sec: 11.1 +/- 0.1 (jitter = 0.2)\t7.856
----------------------------------------------------------------
total images/sec: 11.14
----------------------------------------------------------------
"""


def test_metrics_are_read_from_a_file(capsys, tmp_path):
    (tmp_path / "stdout.txt").write_bytes(LOG)
    assert main(["metrics", "read", str(tmp_path / "stdout.txt"), "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["records", "total_images_per_sec", "summary"]
    assert data["total_images_per_sec"] == 11.14
    names = ["step", "rank", "epoch", "images_per_sec", "uncertainty", "jitter", "loss"]
    assert [list(record) for record in data["records"]] == [names, names]
    assert data["records"][1]["loss"] == 7.856


def test_metrics_are_a_table_or_csv(capsys, tmp_path):
    (tmp_path / "a.txt").write_bytes(LOG)
    main(["metrics", "read", str(tmp_path / "a.txt"), "-o", "csv"])
    assert capsys.readouterr().out.splitlines()[1] == "1,,,10.1,0.0,0.0,7.972,line"
    main(["metrics", "read", str(tmp_path / "a.txt"), "-o", "table"])
    assert capsys.readouterr().out.splitlines()[0].split()[:2] == ["step", "rank"]


def test_several_logs_are_told_apart(capsys, tmp_path):
    names = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    for name in names:
        (tmp_path / name).write_bytes(LOG)
    main(["metrics", "read", *names, "-o", "json"])
    assert [log["file"] for log in json.loads(capsys.readouterr().out)] == names
