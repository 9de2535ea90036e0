"""The base of every section of a configuration file."""

import re
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from reconciler.manifests.wording import join_words

_SHOWN_KEYS = 4


class ConfigSection(BaseModel):
    """A mapping with keys of ours, in camel case; `expected` is how an error describes it."""

    expected: ClassVar[str] = ""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
        model_title_generator=lambda model: re.sub("(Section|Entry|File)$", "", model.__name__),
        field_title_generator=lambda name, field: field.alias or to_camel(name),
    )

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, value: object) -> object:
        if not isinstance(value, dict | ConfigSection):
            # Not shown: it may be a URL with a password, or a secret where its reference belongs.
            keys = join_words([field.alias or name for name, field in cls.model_fields.items()][:_SHOWN_KEYS])
            raise ValueError(f"expected {cls.expected or f'a mapping with keys like {keys}'}")  # noqa: TRY004  # pydantic lets a TypeError pass
        return value
