import pytest

from batchai_magics.errors import UsageError
from batchai_magics.options.option_parsing import relative_path


@pytest.mark.parametrize(
    ("path", "clean"),
    [(".", ""), ("", ""), ("./a//b/", "a/b"), ("a/./b", "a/b"), ("..a/b..", "..a/b.."), ("a\\b", "a/b")],
)
def test_a_path_below_is_cleaned(path, clean):
    assert relative_path(path, "--path") == clean


@pytest.mark.parametrize("path", ["..", "a/../b", "/", "/a", "C:/a", "c:a", "\\a", "a\\..\\b", "a\0b"])
def test_a_path_that_leads_out_is_refused(path):
    with pytest.raises(UsageError, match="is outside the output directory"):
        relative_path(path, "--path")
