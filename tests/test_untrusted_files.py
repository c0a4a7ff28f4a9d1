"""Files that others can replace: only regular ones are read, within limits, and JSON that can be shown."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from batchai_magics import untrusted_files
from batchai_magics.untrusted_files import MAX_DEPTH, NotRegularError, parse_json, read_file, tail_of


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text("{}")
    path.symlink_to(target)


def make_socket(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("make", [make_pipe, make_link, make_socket, Path.mkdir])
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path, make, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(path := Path("record.json"))
    with pytest.raises(NotRegularError, match="not a regular file"):
        read_file(path)


def test_a_device_is_not_opened() -> None:
    with pytest.raises(NotRegularError):
        read_file("/dev/zero", 1)


def test_a_file_that_is_replaced_by_a_pipe_before_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch
) -> None:
    (path := tmp_path / "record.json").write_text("{}")
    regular = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(untrusted_files.os, "stat", lambda *_, **__: regular)
    with pytest.raises(NotRegularError):
        read_file(path)


def test_a_link_is_followed_where_a_user_names_the_file(tmp_path: Path) -> None:
    make_link(path := tmp_path / "recording")
    assert read_file(path, may_be_link=True) == b"{}"


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (path := tmp_path / "record.json").write_bytes(b"x" * 100)
    assert len(read_file(path, 100)) == 100
    assert tail_of(path, 3) == "xxx"
    with pytest.raises(ValueError, match="larger than 99 bytes"):
        read_file(path, 99)


@pytest.mark.parametrize("sign", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_json_that_is_nested_too_deeply_is_refused(sign: str, depth: int) -> None:
    closing = {"[": "]", '{"a":': "}"}[sign]
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(sign * depth + "1" + closing * depth)


def test_json_of_many_values_that_are_not_nested_is_read() -> None:
    assert len(parse_json("[" + "[]," * 1000 + "[]]")) == 1001
    parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)


@pytest.mark.parametrize("text", ['{"\\ud800": 1}', '["\\uDFff"]', '["\ud800"]', b'["\xff"]'])
def test_json_with_text_that_cannot_be_encoded_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"cannot be encoded|decode"):
        parse_json(text)


def test_json_with_a_pair_of_surrogates_is_read() -> None:
    assert parse_json('["\\ud83d\\ude00 \\\\ud800"]') == ["😀 \\ud800"]
