"""Packages that import their public names on first use, from the list in `__init__.pyi`."""

import importlib

import pytest

PACKAGES = (
    "batchai_magics",
    *(f"batchai_magics.{n}" for n in ("backends.base", "cell", "follow", "metrics", "models.resources")),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_listed_name_can_be_imported(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert sorted(dir(module)) == sorted(module.__all__)


@pytest.mark.parametrize("package", PACKAGES[1:])  # a name of the first one may prepare another notebook
def test_name_is_an_attribute_once_it_was_used(package):
    module = importlib.import_module(package)
    name = module.__all__[0]
    used = getattr(module, name)
    assert vars(module)[name] is used


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="nonsense"):
        _ = importlib.import_module(package).nonsense
