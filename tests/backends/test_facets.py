"""Who needs what a backend has not is told so by name."""

import pytest

from batchai_magics.backends.base import FACETS, STORAGE, Backend, Capabilities
from batchai_magics.errors import CapabilityError


class Bare:
    """A backend without any facet."""

    capabilities = Capabilities(name="bare")

    def __getattr__(self, name):
        if name in vars(Backend):
            return None
        raise AttributeError(name)


@pytest.mark.parametrize("facet", FACETS, ids=lambda facet: facet.attribute)
def test_a_missing_facet_is_refused_by_the_backends_name_and_its_own(facet):
    with pytest.raises(CapabilityError, match=f"the bare backend has no {facet.label}") as caught:
        facet.of(Bare())
    assert caught.value.code == "NotSupported"


def test_a_facet_that_is_there_is_given():
    backend = Bare()
    backend.storage = object()
    assert STORAGE.of(backend) is backend.storage
