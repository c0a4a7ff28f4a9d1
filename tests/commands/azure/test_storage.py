"""`storage …`: what it makes, takes and gives, and that nothing leaves its bucket, not by links either."""

import itertools

import pytest

from batchai_magics.errors import NotFoundError, StorageError, UsageError
from tests.commands.folder_trees import TREE, read

pytestmark = pytest.mark.usefixtures("account")


def test_storage_accounts_are_created_listed_and_deleted(do):
    shown = do("storage account show -n acc -g g")
    assert shown.table.rows == (("acc", "g", "eastus", "Storage", "Standard_LRS"),)
    assert do("storage account list").data == [shown.data]
    assert do("storage account list -g other").data == []
    assert do("storage account check-name -n acc").data["nameAvailable"] is False
    do("storage account delete -n acc -y")
    assert do("storage account check-name -n acc").data["nameAvailable"] is True


def test_account_name_local_is_refused(do):
    with pytest.raises(UsageError, match="is always there"):
        do("storage account create -n local")


def test_renewing_a_key_changes_only_that_key(do):
    before = do("storage account keys list -g g -n acc").data
    assert [key["keyName"] for key in before] == ["key1", "key2"]
    after = do("storage account keys renew --account-name acc --key secondary").data
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


@pytest.mark.parametrize("noun", ["share", "container"])
def test_shares_and_containers_are_created_listed_and_deleted(do, noun):
    line = "-n more --account-name acc --account-key x"
    assert do(f"storage {noun} exists {line}").data == {"exists": False}
    assert do(f"storage {noun} create {line}").data == {"created": True}
    assert do(f"storage {noun} create {line}").data == {"created": False}
    assert {"name": "more"} in do(f"storage {noun} list --account-name acc").data
    assert do(f"storage {noun} delete {line}").data == {"deleted": True}
    assert do(f"storage {noun} exists {line}").data == {"exists": False}


def test_an_account_that_is_not_there_has_no_shares(do):
    with pytest.raises(NotFoundError, match="StorageAccountNotFound"):
        do("storage share create -n data --account-name nowhere")


@pytest.mark.parametrize("name", ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING"])
def test_the_account_may_come_from_the_environment(do, monkeypatch, name):
    values = {"AZURE_STORAGE_CONNECTION_STRING": "EndpointsProtocol=https;AccountName=acc;AccountKey=a=="}
    monkeypatch.setenv(name, values.get(name, "acc"))
    assert do("storage share list").data == [{"name": "data"}]


def test_without_an_account_there_is_the_one_of_this_machine(do):
    do("storage share create -n mine")
    assert do("storage share list").data == [{"name": "mine"}]


def test_folders_are_created_listed_and_deleted(do):
    line = "-s data --account-name acc"
    assert do(f"storage directory create {line} -n top/inner").data == {"created": True}
    assert do(f"storage directory create {line} -n top").data == {"created": False}
    assert do(f"storage directory list {line}").data[0]["name"] == "top"
    assert do(f"storage directory exists {line} -n top/inner").data == {"exists": True}
    assert do(f"storage directory delete {line} -n top").data == {"deleted": True}
    assert do(f"storage directory exists {line} -n top/inner").data == {"exists": False}


@pytest.mark.parametrize(
    ("path", "there"),
    [("", "a.txt"), ("-p folder", "folder/a.txt"), ("-p x/", "x/a.txt"), ("-p x/y.txt", "x/y.txt")],
)
def test_a_file_goes_into_a_folder_or_to_a_path(do, tree, path, there):
    do("storage directory create -s data --account-name acc -n folder")
    do(f"storage file upload -s data --source {tree}/a.txt {path} --account-name acc --no-progress")
    assert do(f"storage file exists -s data --account-name acc -p {there}").data == {"exists": True}
    assert do(f"storage file show -s data --account-name acc -p {there}").table.rows[0][1] == 3


def test_a_file_comes_back(do, tree, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    do(f"storage file upload -s data --source {tree}/a.txt --account-name acc")
    down = do("storage file download -s data -p a.txt --account-name acc")
    assert down.data == {"contentLength": 3, "name": "a.txt", "path": "a.txt"}
    assert (tmp_path / "a.txt").read_text() == "one"
    do(f"storage file download -s data -p a.txt --account-name acc --dest {tmp_path}/new/b.txt")
    assert (tmp_path / "new/b.txt").read_text() == "one"
    assert do("storage file delete -s data -p a.txt --account-name acc").data == {"deleted": True}
    with pytest.raises(NotFoundError, match="does not exist"):
        do("storage file download -s data -p a.txt --account-name acc")


@pytest.mark.parametrize(
    ("noun", "bucket", "listed"), [("file", "data", ["a.txt", "deep"]), ("blob", "blobs", sorted(TREE))]
)
def test_a_folder_goes_up_and_comes_back(do, tree, tmp_path, noun, bucket, listed):
    holder = {"file": "-s data", "blob": "-c blobs"}[noun]
    up = do(f"storage {noun} upload-batch -d {bucket} -s {tree} --account-name acc")
    assert len(up) == 3
    assert do(f"storage {noun} list {holder} --account-name acc --query [].name").data == listed
    down = do(f"storage {noun} download-batch -s {bucket} -d {tmp_path}/back --account-name acc")
    assert len(down) == 3
    assert read(tmp_path / "back") == TREE


def test_a_batch_takes_what_fits(do, tree, tmp_path):
    line = f"storage file upload-batch -d data -s {tree} --account-name acc --destination-path in/here"
    assert do(f"{line} --pattern *.txt --dryrun").data == ["in/here/a.txt", "in/here/deep/b.txt"]
    assert do("storage file list -s data --account-name acc").data == []
    do(f"{line} --pattern *.txt")
    options = f"-d {tmp_path}/back --source-path in/here/deep --account-name acc"
    do(f"storage file download-batch -s data {options}")
    assert read(tmp_path / "back") == {"in/here/deep/b.txt": "two"}


@pytest.mark.parametrize(("noun", "bucket"), [("file", "data"), ("blob", "blobs")])
def test_delete_batch_deletes_the_matching_files(do, tree, noun, bucket):
    do(f"storage {noun} upload-batch -d {bucket} -s {tree} --account-name acc")
    line = f"storage {noun} delete-batch -s {bucket} --account-name acc --pattern"
    assert do(f"{line} *.txt --dryrun").data == ["a.txt", "deep/b.txt"]
    assert do(f"{line} *.txt").notes == ("2 files deleted.",)
    assert do(f"{line} *").notes == ("1 file deleted.",)


def test_the_connection_string_names_the_account(do, monkeypatch):
    text = do("storage account show-connection-string -n acc").data["connectionString"]
    assert do(f"storage share list --connection-string '{text}'").data == [{"name": "data"}]


def test_blobs_are_single_files_too(do, tree, tmp_path):
    do(f"storage blob upload -c blobs -f {tree}/a.txt -n x/one --account-name acc --overwrite")
    assert do("storage blob list -c blobs --prefix x --account-name acc").table.rows[0][:3] == (
        "x/one",
        "BlockBlob",
        3,
    )
    do(f"storage blob download -c blobs -n x/one -f {tmp_path}/got --account-name acc")
    assert (tmp_path / "got").read_text() == "one"
    assert do("storage blob show -c blobs -n x/one --account-name acc").data["name"] == "x/one"
    assert do("storage blob delete -c blobs -n x/one --account-name acc").data == {"deleted": True}
    assert do("storage blob exists -c blobs -n x/one --account-name acc").data == {"exists": False}


OUTSIDE = ("../out", "/etc/passwd", "a/../../out", "..\\out", "C:\\out")
LINES_WITH_A_PATH = (
    "storage file upload -s data --source {here} -p '{path}'",
    "storage file download -s data -p '{path}'",
    "storage file list -s data -p '{path}'",
    "storage file delete -s data -p '{path}'",
    "storage file download-batch -s data -d . --source-path '{path}'",
    "storage file upload-batch -d data -s {folder} --destination-path '{path}'",
    "storage directory create -s data -n '{path}'",
    "storage directory delete -s data -n '{path}'",
    "storage blob upload -c blobs -f {here} -n '{path}'",
    "storage blob download -c blobs -n '{path}'",
    "storage blob upload-batch -d blobs -s {folder} --destination-path '{path}'",
)


def test_no_path_leads_out(do, tree):
    for line, path in itertools.product(LINES_WITH_A_PATH, OUTSIDE):
        with pytest.raises(UsageError, match="is outside the"):
            do(line.format(here=tree / "a.txt", folder=tree, path=path) + " --account-name acc")


def test_upload_of_a_folder_or_missing_file_is_refused(do, tree):
    for line in ("file upload -s data --source {}", "blob upload -c blobs -f {}"):
        with pytest.raises(UsageError, match="is a folder"):
            do(f"storage {line.format(tree)} --account-name acc")
        with pytest.raises(UsageError, match="does not exist"):
            do(f"storage {line.format(tree / 'x')} --account-name acc")
    with pytest.raises(UsageError, match=r"the folder .* does not exist"):
        do(f"storage file upload-batch -d data -s {tree}/x --account-name acc")
    do("storage directory create -s data --account-name acc -n folder")
    with pytest.raises(UsageError, match="is a folder"):
        do("storage file download -s data -p folder --account-name acc")


def test_unwritable_target_of_a_download_is_named(do, tree, tmp_path):
    do(f"storage file upload -s data --source {tree}/a.txt --account-name acc")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written: "):
        do(f"storage file download -s data -p a.txt --dest {tmp_path}/file/below --account-name acc")


@pytest.mark.parametrize(
    ("noun", "destination"),
    [
        ("file", "https://acc.file.core.windows.net/data"),
        ("blob", "https://acc.blob.core.windows.net/blobs?sv=2018&sig=x"),
        ("file", "data/sub"),
        ("blob", "blobs/sub"),
        ("blob", "https://acc.blob.core.windows.net/blobs/sub/"),
    ],
)
def test_a_batch_goes_to_an_address_and_comes_from_it(do, tree, tmp_path, noun, destination):
    account = "" if "://" in destination else "--account-name acc"
    do(f"storage {noun} upload-batch -s {tree} -d {destination} {account}")
    do(f"storage {noun} download-batch -s {destination} -d {tmp_path}/back {account}")
    below = "sub/" if "sub" in destination else ""
    assert read(tmp_path / "back") == {f"{below}{name}": text for name, text in TREE.items()}


def test_a_missing_container_is_called_a_container(do, tree):
    with pytest.raises(NotFoundError, match=r"\(ContainerNotFound\) The specified container"):
        do(f"storage blob upload-batch -s {tree} -d nowhere")
    with pytest.raises(UsageError, match="is outside the container"):
        do(f"storage blob upload-batch -s {tree} -d blobs --destination-path ../x")


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
