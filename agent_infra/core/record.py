"""The frozen base of everything that is persisted; the mapping of snake_case to camelCase lives here alone."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Record(BaseModel):
    """A closed, immutable value: an unknown key is refused, because only we write such state."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    def evolve(self, **changes: Any) -> Self:
        """A copy with `changes` (snake_case names), validated again, which `model_copy(update=…)` is not."""
        return type(self).model_validate({name: getattr(self, name) for name in type(self).model_fields} | changes)

    def to_json(self) -> dict[str, Any]:
        """The camelCase mapping that goes to disk: plain JSON values only."""
        return self.model_dump(mode="json", by_alias=True)
