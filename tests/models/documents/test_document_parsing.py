import os
from pathlib import Path

import pytest

from batchai_magics.errors import UsageError
from batchai_magics.models.documents.description import parse, read_file


def refused(text):
    with pytest.raises(UsageError) as caught:
        parse(text, source="job.json")
    return caught.value.message


def test_json_and_yaml_say_the_same():
    json_text = '\ufeff {"properties": {"nodeCount": 2, "on": true, "none": null, "x": 1.5}}'
    yaml_text = "properties:\n  nodeCount: 2\n  on: true\n  none:\n  x: 1.5\n"
    assert parse(json_text, source="a") == parse(yaml_text, source="b")


@pytest.mark.parametrize(
    "text", ["2018-06-06", "0777", "yes", "off", "1_000", "12:30:00", "0x1F", ".5", "=", "1e5"]
)
def test_yaml_knows_only_the_types_of_json(text):
    assert parse(f"a: {text}", source="x") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"), [("-3", -3), ("2.5", 2.5), ("1.0e+3", 1000.0), ("~", None), ("False", False)]
)
def test_yaml_reads_what_json_has(text, value):
    assert parse(f"a: {text}", source="x") == {"a": value}


def test_yaml_anchors_and_merges_work():
    assert parse("a: &b {x: 1}\nc:\n  <<: *b\n  y: 2", source="x")["c"] == {"x": 1, "y": 2}


def test_a_mistake_in_json_is_told_with_line_and_column():
    assert (
        refused('{"a": 1,\n "b" 2}')
        == "job.json is not valid JSON: Expecting ':' delimiter at line 2, column 6"
    )


def test_a_mistake_in_yaml_is_told_with_line_and_column():
    assert (
        refused("a: 1\nb: [1\n")
        == "job.json is not valid YAML: expected ',' or ']', but got '<stream end>' at line 3, column 1"
    )


def test_a_mistake_does_not_quote_the_line():
    assert "secret" not in refused('accountKey: "secret\nb: 1')
    assert "secret" not in refused('{"accountKey": "secret" "x"}')


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"b": {"a": 1, "a": 2}}', "a: 1\na: 2", "b:\n  a: 1\n  a: 2"]
)
def test_a_key_that_is_there_twice_is_refused(text):
    assert "'a' twice" in refused(text)


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_text_is_refused(text):
    assert refused(text) == "job.json is empty"


@pytest.mark.parametrize("text", ["[1]", "- 1", "just words", "3"])
def test_what_is_no_object_is_refused(text):
    assert refused(text) == "job.json holds no object"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "a: &x\n  b: *x"])
def test_endless_nesting_is_refused(text):
    assert "nested" in refused(text)


@pytest.mark.parametrize(
    "text", ["a: !!python/object/apply:os.getcwd []", "? [1]\n: 2", "a: \x01", "a: !x 1"]
)
def test_yaml_that_is_more_than_data_is_refused(text):
    assert "is not valid YAML" in refused(text)


@pytest.mark.parametrize(
    "text", ["!!binary aGk=", "!!set {x}", "!!timestamp 2001-01-01", "!!bool x", "!!int y"]
)
def test_yaml_has_no_types_that_json_does_not_have(text):
    assert refused(f"a: {text}") == (
        "job.json is not valid YAML: a type that JSON does not have at line 1, column 4"
    )


@pytest.mark.parametrize(
    "text",
    ["key: *hunter2", "key: !hunter2 x", "key: !<hunter2> x", "key: !h!unter2 x",
     "a: &hunter2 1\nb: &hunter2 2", 'key: {"hunter2', "key: 'hunter2", "key: @hunter2", "key: %hunter2",
     "key: [hunter2: x: y]"],
)  # fmt: skip
def test_a_mistake_in_yaml_repeats_no_value(text):
    assert "unter2" not in refused(text)


def laughs(line):
    """Ten levels, each with nine times what the one before it holds."""
    lines = [line.format(at=level, above=", ".join([f"*m{level - 1}"] * 9)) for level in range(1, 10)]
    return "\n".join(["m0: &m0 {a: 1}", *lines])


@pytest.mark.parametrize("line", ["m{at}: &m{at} [{above}]", "m{at}: &m{at} {{<<: [{above}]}}"])
def test_aliases_that_make_much_of_little_are_refused(line):
    assert "aliases stand for more than" in refused(laughs(line))


def test_a_long_text_that_is_repeated_often_counts_too():
    assert "aliases stand for more than" in refused(f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 101)}]")
    assert len(parse(f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 99)}]", source="x")["b"]) == 99


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"nope\.json does not exist"):
        read_file(tmp_path / "nope.json")


def test_a_file_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "job.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"job\.json is not a text file"):
        read_file(file)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_file(tmp_path)


def test_a_device_without_an_end_is_no_description():
    with pytest.raises(UsageError, match="larger than 16 MiB"):
        read_file(Path("/dev/zero"))


def test_a_description_may_come_through_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, b'{"a":\r\n 1}')
    os.close(writing)
    assert read_file(Path(f"/dev/fd/{reading}")) == '{"a":\n 1}'
    os.close(reading)
