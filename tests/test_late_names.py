"""Packages whose names are loaded when they are first asked for."""

import importlib

import pytest

from batchai_magics.late_names import late_names

PACKAGES = ("backends.base", "cell", "metrics", "models.resources")


@pytest.fixture(params=PACKAGES)
def package(request):
    return importlib.import_module(f"batchai_magics.{request.param}")


def test_every_name_that_is_told_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert dir(package) == sorted(package.__all__)


def test_another_name_is_refused(package):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nonsense'"):
        _ = package.nonsense


def test_a_name_is_loaded_once_and_then_lies_in_the_package(package):
    name = package.__all__[0]
    vars(package).pop(name, None)
    loaded = getattr(package, name)
    assert vars(package)[name] is loaded


def test_what_is_not_asked_for_is_not_loaded():
    load, names = late_names("batchai_magics.cell", {"parse": "cell.request", "never": "no.such.module"})
    assert load("parse").__name__ == "parse"
    assert names() == ["never", "parse"]
