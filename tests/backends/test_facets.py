"""Who needs what a backend has not is told so by name."""

import pytest

from batchai_magics.backends.base import FACETS, Backend, Capabilities
from batchai_magics.errors import CapabilityError


class Bare(Backend):
    """A backend without any facet."""

    capabilities = Capabilities(name="bare")


def test_a_missing_facet_is_refused_by_the_backends_name_and_its_own():
    for facet in FACETS:
        with pytest.raises(CapabilityError, match=f"the bare backend has no {facet.label}"):
            facet.of(Bare())
