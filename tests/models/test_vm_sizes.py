import pytest

from batchai_magics.errors import ServiceError
from batchai_magics.models.vm_sizes import VmSize, lookup


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("STANDARD_NC24R", VmSize("Standard_NC24r", 24, 4)),
        ("standard_nc6s_v3", VmSize("Standard_NC6s_v3", 6, 1)),
        (" Standard_D2\n", VmSize("Standard_D2", 2, 0)),
        ("Standard_D2", VmSize("Standard_D2", 2, 0)),
        ("Standard_H16mr", VmSize("Standard_H16mr", 16, 0)),
    ],
)
def test_a_size_is_found_in_any_letter_case(name, size):
    assert lookup(name) == size


@pytest.mark.parametrize("name", ["Standard_F4s", "Standard_DS2", "NC6", "", "Standard_A0"])
def test_another_size_is_refused_with_the_words_of_the_service(name):
    with pytest.raises(ServiceError) as caught:
        lookup(name)
    assert caught.value.message == (
        f"The specified value {name} for property Cluster.Properties.VMSize is not a supported VM size. "
        "See additional details for supported VM sizes."
    )
    assert caught.value.hint


def test_a_near_size_is_guessed():
    with pytest.raises(ServiceError) as caught:
        lookup("Standard_NC6_v3")
    assert "Standard_NC6s_v3" in caught.value.hint
