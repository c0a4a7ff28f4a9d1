"""The base of all models: camelCase JSON, strict about unknown keys, never showing secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    SecretStr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from typing_extensions import Self

from batchai_magics.errors import Problem, SpecError
from batchai_magics.models.documents.key_spellings import (
    KeyConverter,
    UnknownKeys,
    check_envelope,
    without_unknown_keys,
)
from batchai_magics.models.documents.spec_problems import problems_of, surrogates_in

# The validation context of specs that were validated before they were stored.
STORED = {"is_stored": True}


class WireModel(BaseModel):
    """A frozen value with conversion from and to the service's JSON."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
        hide_input_in_errors=True,
    )
    what: ClassVar[str] = "the description"  # names the value in error messages: `the job description`
    wrapper: ClassVar[str] = ""  # the JSON key that contains its fields; empty if they are at the top
    kind: ClassVar[str] = ""  # the noun that a template's `type` must end with

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Self:
        """Reads parsed JSON with keys in any case and with legacy names.

        Raises:
            SpecError: Lists every problem with its path; for unknown keys with a suggestion.
        """
        inner, envelope_problems = cls._unwrap(data)
        if unwritable := list(surrogates_in(inner, cls.wrapper)):
            raise SpecError(unwritable, what=cls.what)
        converter = KeyConverter(UnknownKeys.REPORT)
        body = converter.object(inner, cls, cls.wrapper)
        problems = [*envelope_problems, *converter.problems, *converter.unknown]
        if more := converter.unknown_count - len(converter.unknown):
            raise SpecError([*problems, Problem(cls.wrapper, f"{more:,} more unknown keys")], what=cls.what)
        return cls._validated(body, problems)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Validates fields that this package wrote itself, with the service's keys.

        Raises:
            SpecError: Lists every problem with its path.
        """
        return cls._validated(fields, ())

    @classmethod
    def _validated(cls, body: Mapping[str, Any], problems: Sequence[Problem]) -> Self:
        """The model of a body in canonical keys; raises SpecError with these problems and its own."""
        try:
            model = cls.model_validate_json(json.dumps(body, ensure_ascii=False).encode())
        except UnicodeEncodeError:
            raise SpecError([*surrogates_in(body, cls.wrapper)], what=cls.what) from None
        except ValidationError as error:
            conflicts = [Problem(cls.wrapper, text) for text in cls.conflicts(body)]
            known = {problem.path for problem in (*problems, *conflicts)}
            others = [item for item in problems_of(error, cls, cls.wrapper) if item.path not in known]
            raise SpecError([*problems, *others, *conflicts], what=cls.what) from None
        if problems:
            raise SpecError(problems, what=cls.what)
        return model

    @classmethod
    def from_service(cls, data: Mapping[str, Any]) -> Self:
        """Reads the fields of a service response, without wrapper, ignoring unknown ones.

        Raises:
            pydantic.ValidationError: A known field is invalid.
        """
        fields = KeyConverter(UnknownKeys.IGNORE).object(data, cls, "")
        return cls.model_validate(fields, strict=False, context=STORED)

    @classmethod
    def from_stored(cls, text: str) -> Self:
        """Reads JSON text of `to_wire`; trusted, so legacy names are not considered."""
        fields = json.loads(text)
        return cls.of_stored(fields[cls.wrapper] if cls.wrapper else fields)

    @classmethod
    def of_stored(cls, fields: Mapping[str, Any]) -> Self:
        """Reads the fields of `to_wire` without wrapper, as `from_stored` does."""
        return cls.model_validate(fields, strict=False, context=STORED)

    @classmethod
    def canonical(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Converts `data` to canonical keys without validating it, as the base of overrides."""
        body = KeyConverter(UnknownKeys.KEEP).object(cls._unwrap(data)[0], cls, cls.wrapper)
        return cls._with_body(data, body)

    @classmethod
    def _with_body(cls, data: Mapping[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        if not cls.wrapper:
            return body
        envelope = {key: value for key, value in data.items() if str(key).lower() != cls.wrapper}
        return {**envelope, cls.wrapper: body}

    @classmethod
    def known(cls, data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        """Like `canonical`, without unknown keys, which are returned as problems."""
        converter = KeyConverter(UnknownKeys.IGNORE)
        body = converter.object(cls._unwrap(data)[0], cls, cls.wrapper)
        wire, unknown = without_unknown_keys(cls._with_body(data, body), cls.wrapper)
        return wire, unknown + converter.unknown

    @classmethod
    def conflicts(cls, body: Mapping[str, Any]) -> list[str]:
        """Conflicts between the fields of a wire body; single values may be invalid."""
        return []

    def to_wire(self, *, secrets: bool = False) -> dict[str, Any]:
        """JSON-ready data in the field order of the service, without nulls, and secrets only on request."""
        return self._dump({"reveal": secrets})

    def to_masked_wire(self, mask: str = "***") -> dict[str, Any]:
        """The same for display, with secrets replaced by `mask`."""
        return self._dump({"mask": mask})

    def _dump(self, context: dict[str, Any]) -> dict[str, Any]:
        body = self.model_dump(mode="json", by_alias=True, exclude_none=True, context=context)
        return {self.wrapper: body} if self.wrapper else body

    @classmethod
    def _unwrap(cls, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
        if not isinstance(data, Mapping):
            problem = Problem("", f"expected a JSON object, got {type(data).__name__}")
            raise SpecError([problem], what=cls.what)
        if not cls.wrapper:
            return data, []
        problems = check_envelope(data, cls.wrapper, cls.kind)
        inner = next((value for key, value in data.items() if str(key).lower() == cls.wrapper), None)
        if not isinstance(inner, Mapping):
            fix = f'wrap the settings in {{"{cls.wrapper}": {{…}}}}'
            missing = Problem(cls.wrapper, "this object is required", fix)
            raise SpecError([missing, *problems], what=cls.what)
        return inner, problems

    @model_serializer(mode="wrap")
    def _hide_secrets(self, handler: SerializerFunctionWrapHandler, info: Any) -> dict[str, Any]:
        """Drops, masks or reveals secrets, depending on the serialization context."""
        data: dict[str, Any] = handler(self)
        context = info.context or {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                key = field.alias if info.by_alias and field.alias else name
                data.pop(key, None)
                if context.get("mask"):
                    data[key] = context["mask"]
                elif context.get("reveal"):
                    data[key] = value.get_secret_value()
        return data
