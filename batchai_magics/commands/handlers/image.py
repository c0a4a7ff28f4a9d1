"""`--image`, `--custom-image` and `--subnet`."""

from __future__ import annotations

import re
from typing import Any

from batchai_magics.commands.output.refusal import refusal

ALIASES = {
    "UbuntuLTS": ("Canonical", "UbuntuServer", "16.04-LTS"),
    "UbuntuDSVM": ("microsoft-ads", "linux-data-science-vm-ubuntu", "linuxdsvmubuntu"),
}
_PARTS = ("publisher", "offer", "sku", "version")
_RESOURCE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/[^/]+(/[^/]+/[^/]+)+", re.IGNORECASE
)


def image_reference(image: str | None, custom_image: str | None) -> dict[str, Any] | None:
    """The `imageReference` that the options describe; None when they describe none."""
    if custom_image and not image:
        raise refusal("You need to specify --image argument with information about the custom image")
    if custom_image and not is_resource_id(custom_image):
        raise refusal("Ill-formed custom image resource id")
    if not image:
        return None
    found = _of_parts(image) if ":" in image else _of_alias(image)
    return {**found, "virtualMachineImageId": custom_image} if custom_image else found


def subnet_reference(subnet: str | None) -> dict[str, Any] | None:
    """The `subnet` that the option names."""
    if subnet and not is_resource_id(subnet):
        raise refusal("Ill-formed subnet resource id")
    return {"id": subnet} if subnet else None


def is_resource_id(text: str) -> bool:
    """Whether this is the id of a resource, of any provider."""
    return _RESOURCE.fullmatch(text) is not None


def _of_parts(image: str) -> dict[str, Any]:
    values = image.split(":")
    if len(values) != len(_PARTS):
        raise refusal('--image must have format "publisher:offer:sku:version" or "publisher:offer:sku:"')
    found = dict(zip(_PARTS, values, strict=True))
    for part in _PARTS[:-1]:
        if not found[part]:
            raise refusal(f"Image {part} must be provided in --image argument")
    return {part: value for part, value in found.items() if value}


def _of_alias(image: str) -> dict[str, Any]:
    found = next((parts for alias, parts in ALIASES.items() if alias.lower() == image.lower()), None)
    if found is None:
        known = ", ".join(ALIASES)
        raise refusal(f'Unsupported image alias "{image}", supported aliases are {known}')
    return dict(zip(_PARTS, found, strict=False))
