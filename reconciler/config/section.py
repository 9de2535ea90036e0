"""Sections of a configuration file: their base, and that of variant settings, made from the definitions."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.alias_generators import to_camel, to_pascal, to_snake

from reconciler.config.values import NotYet, type_of
from reconciler.domain.settings import SettingScalar
from reconciler.domain.variant_settings import MAX_REPLICAS, MIN_REPLICAS, SETTING_DEFINITIONS, SettingDefinition
from reconciler.manifests.wording import join_words

_SHOWN_KEYS = 4
_GROUPS: Mapping[str, tuple[str, str]] = {
    "sizing": ("How the requirement of a model is found.", "{engine: auto, headroom: 20%}"),
    "helmValues": (
        "Paths in the values of a chart, as in `decode.replicas` or `pools[0].replicas`.",
        "{replicas: decode.replicas}: where the values of a chart hold the numbers; or minReplicas and maxReplicas",
    ),
    "actuationDelay": (
        "How long a number takes from our proposal to replicas that serve.",
        "{sync: 3m, start: 5m}: how long a number takes to arrive",
    ),
}
"""Settings that stand together in a mapping: what the mapping is, and what an editor says of it."""

_NOT_BUILT: Mapping[str, tuple[str, ...]] = {"actuationDelay": ("merge",)}
"""Keys that are documented and not built."""

_Fields = dict[str, Any]


class ConfigSection(BaseModel):
    """A mapping with keys of ours, in camel case; `expected` is how an error describes it."""

    expected: ClassVar[str] = ""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
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


class _OrderedBounds(ConfigSection):
    """Refuses a lower bound above the upper one."""

    @model_validator(mode="after")
    def _has_ordered_bounds(self) -> Self:
        lower, upper = value_in(self, MIN_REPLICAS), value_in(self, MAX_REPLICAS)
        if lower is not None and upper is not None and lower > upper:
            raise ValueError(f"expected minReplicas of at most maxReplicas, got {lower} and {upper}")
        return self


def value_in(section: ConfigSection, setting: SettingDefinition[Any]) -> Any:
    """What a section of variant settings gives for one of them; None where it leaves it out."""
    value: object = section
    for key in setting.path:
        value = getattr(value, to_snake(key))
    return value


def stated_in(section: ConfigSection) -> Iterator[tuple[SettingDefinition[Any], SettingScalar]]:
    """The variant settings that a section gives, with their values."""
    for setting in SETTING_DEFINITIONS:
        value = value_in(section, setting)
        if value is not None:
            yield setting, value


def _field(setting: SettingDefinition[Any]) -> tuple[Any, Any]:
    return type_of(setting) | None, Field(default=None, description=setting.words)


def _group(name: str) -> tuple[Any, Any]:
    doc, words = _GROUPS[name]
    fields: _Fields = dict.fromkeys(_NOT_BUILT.get(name, ()), (NotYet, None))
    for setting in SETTING_DEFINITIONS:
        if setting.path[0] == name:
            fields[to_snake(setting.path[-1])] = _field(setting)
    made: type[ConfigSection] = create_model(
        to_pascal(to_snake(name)), __base__=ConfigSection, __module__=__name__, __doc__=doc, **fields
    )
    return made, Field(default=made(), description=words)


def _make_section() -> type[ConfigSection]:
    fields: _Fields = {}
    for setting in SETTING_DEFINITIONS:
        first, *rest = setting.path
        if to_snake(first) not in fields:
            fields[to_snake(first)] = _group(first) if rest else _field(setting)
    doc = "Variant settings; what is not given here comes from the next layer."
    return create_model("VariantSection", __base__=_OrderedBounds, __module__=__name__, __doc__=doc, **fields)


if TYPE_CHECKING:  # a type checker cannot run what makes the class
    VariantSection = ConfigSection
else:
    VariantSection = _make_section()
