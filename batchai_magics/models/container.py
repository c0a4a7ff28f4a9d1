"""The container a job runs in."""

from __future__ import annotations

from pydantic import SecretStr, model_validator
from typing_extensions import Self

from batchai_magics.models.checks import Text
from batchai_magics.models.storage import KeyVaultSecretReference
from batchai_magics.models.wire import WireModel


class RegistryCredentials(WireModel):
    """Who pulls a private image. The password never comes back."""

    username: Text
    password: SecretStr | None = None
    password_secret_reference: KeyVaultSecretReference | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.password and self.password_secret_reference:
            raise ValueError("give one of password and passwordSecretReference")
        return self


class ImageSourceRegistry(WireModel):
    """An image and the registry that holds it."""

    server_url: str | None = None
    image: Text
    credentials: RegistryCredentials | None = None


class ContainerSettings(WireModel):
    """The image a job runs in, and its shared memory size (as docker's `--shm-size`)."""

    image_source_registry: ImageSourceRegistry
    shm_size: Text | None = None
