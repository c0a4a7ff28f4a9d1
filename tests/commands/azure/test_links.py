"""Links among the files that go up to a share and come down from it."""

import pytest

from batchai_magics.errors import NotFoundError, StorageError, UsageError
from tests.commands.folder_trees import read

pytestmark = pytest.mark.usefixtures("account")


def test_links_go_up_as_az_has_it(do, tree):
    (tree / "one").symlink_to("a.txt")
    (tree / "folder").symlink_to("deep")
    up = do(f"storage file upload-batch -d data -s {tree} --account-name acc")
    assert sorted(file.path for file in up) == ["a.txt", "deep/b.txt", "deep/er/c.json", "one"]
    assert do("storage file show -s data -p one --account-name acc").table.rows[0][1] == 3


@pytest.mark.parametrize(("target", "told"), [("../secret", "points outside"), ("missing", "is broken")])
@pytest.mark.parametrize(("noun", "place"), [("file", "data"), ("blob", "blobs")])
def test_a_link_that_leads_elsewhere_is_refused_before_anything_goes_up(
    do, tree, tmp_path, noun, place, target, told
):
    (tmp_path / "secret").write_text("geheim")
    (tree / "zz").symlink_to(target)
    line = f"storage {noun} upload-batch -d {place} -s {tree} --account-name acc"
    with pytest.raises(UsageError, match=f"the link {tree}/zz {told}"):
        do(line)
    holder = {"file": "-s data", "blob": "-c blobs"}[noun]
    assert do(f"storage {noun} list {holder} --account-name acc").data == []
    assert len(do(f"{line} --pattern *.txt")) == 2


def test_no_link_of_a_share_leads_out(do, context, tmp_path):
    (tmp_path / "secret").write_text("geheim")
    share = context.backend.layout.home / "shares/acc/data"
    (share / "link").symlink_to(tmp_path / "secret")
    (share / "folder").symlink_to(tmp_path)
    (share / "nowhere").symlink_to(tmp_path / "missing")
    listed = do("storage file list -s data --account-name acc").data
    assert {item["type"] for item in listed} == {"link"}
    for path in ("link", "folder/secret"):
        with pytest.raises((NotFoundError, StorageError)):
            do(f"storage file download -s data -p {path} --dest {tmp_path}/got --account-name acc")
    with pytest.raises(StorageError):
        do(f"storage file upload -s data --source {tmp_path}/secret -p folder/new --account-name acc")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "got").exists()


def test_a_download_does_not_follow_links_out_of_its_folder(do, tree, tmp_path):
    do(f"storage file upload-batch -d data -s {tree} --account-name acc")
    (tmp_path / "outside").mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back/deep").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="is outside"):
        do(f"storage file download-batch -s data -d {tmp_path}/back --account-name acc")
    assert read(tmp_path / "outside") == {}
