"""The kinds of values in a configuration file, and the base of its sections."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_pascal, to_snake
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema, core_schema

from reconciler.config.layers import find_path_flaw
from reconciler.domain.records import dataclass
from reconciler.domain.settings import AS_IS, TITLE_VARIABLE, TITLE_VARIABLES, SettingScalar
from reconciler.domain.variant_settings import (
    MAX_REPLICAS,
    MIN_REPLICAS,
    SETTING_DEFINITIONS,
    SettingDefinition,
    ValueKind,
)
from reconciler.http.redaction import origin_of
from reconciler.manifests.wording import describe, join_words, quote, suggest
from reconciler.metrics.quantities import CONFIGURABLE_QUANTITIES
from reconciler.resources.validation import (
    FRACTIONS,
    SECONDS,
    pattern_of,
    read_delay,
    read_duration,
    read_percentage,
    read_rating,
)

MAX_COUNT = 2**31 - 1
"""Replicas, devices and batch sizes end up in a resource's int32 fields."""

MEASURED = "measured"
"""Written instead of a number of devices where nodes say it."""

NOT_SUPPORTED_YET = "not supported yet"

_LARGEST_AMOUNT = 1e12


def refuse_not_yet(word: str = "") -> NoReturn:
    """Refuse what is documented and not built yet."""
    what = f"{describe(word)} is " if word else ""
    raise ValueError(f"{what}{NOT_SUPPORTED_YET}: leave it out")


@dataclass(frozen=True, eq=False)
class Parsed:
    """An annotation whose text is read by a function; `spelling` is its JSON Schema."""

    parse: Callable[[object], object]
    spelling: tuple[tuple[str, object], ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self.spelling)


@dataclass(frozen=True, eq=False)
class Spelled:
    """An annotation of text that a function checks; `pattern` is for editors."""

    check: Callable[[str], object]
    pattern: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(text: str) -> str:
            self.check(text)
            return text

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": self.pattern}


def _amount(parse: Callable[[object], float], units: Mapping[str, object], example: str) -> Parsed:
    return Parsed(parse, (("type", "string"), ("pattern", f"^{pattern_of(units)}$"), ("examples", [example])))


def _duration(example: str, *, may_be_zero: bool = False) -> Parsed:
    return _amount(lambda value: read_duration(value, example, may_be_zero=may_be_zero), SECONDS, example)


def _rating(unit: str, example: str) -> Parsed:
    """Of a data sheet, in powers of ten: a unit with G or T before it."""
    units = {f"G{unit}": lambda number: number * 1e9, f"T{unit}": lambda number: number * 1e12}
    return _amount(lambda value: read_rating(value, example, units), units, example)


CONVENTIONAL = "conventional"
_LONGEST_TITLE = 100
_CONVENTIONAL_TITLE = "chore(reconciler): {{ change }}"


def _title(value: object) -> str:
    if value == CONVENTIONAL:
        return _CONVENTIONAL_TITLE
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= _LONGEST_TITLE:
        raise ValueError(f"expected text on one line like {quote(_CONVENTIONAL_TITLE)}, got {describe(value)}")
    named = TITLE_VARIABLE.findall(value)
    for name in named:
        if name not in TITLE_VARIABLES:
            known = join_words([f"{{{{ {each} }}}}" for each in TITLE_VARIABLES])
            raise ValueError(f"{{{{ {name} }}}} is unknown{suggest(name, TITLE_VARIABLES)}: expected {known}")
    if "title" not in named and "change" not in named:
        raise ValueError(f"expected {AS_IS} or {{{{ change }}}} in it, else all pull requests are called alike")
    return value


def _percentile(value: object) -> float | None:
    if value == "mean":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 100.0:
        raise ValueError(f"expected a number between 0 and 100, or mean, got {describe(value)}")
    return float(value)


def _devices(value: object) -> int | None:
    """None is for the nodes to say."""
    if value == MEASURED:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        raise ValueError(f"expected a whole number of devices, or {MEASURED}, got {describe(value)}")
    return value


def _range(value: object) -> tuple[float, float]:
    """The smallest and the largest of what was seen."""
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 2 or not all(map(_is_amount, numbers)) or numbers[0] > numbers[1]:
        found = f"[{', '.join(map(describe, numbers))}]" if 0 < len(numbers) <= 3 else describe(value)
        raise ValueError(f"expected a list of the smallest and the largest, numbers of at least 0, got {found}")
    return float(numbers[0]), float(numbers[1])


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST_AMOUNT


def word(*words: str, later: tuple[str, ...] = (), false: str = "") -> Parsed:
    """One of some words; `later` are documented and not built, `false` is the word that YAML reads as false (`off`)."""

    def parse(value: object) -> str:
        found = false if value is False and false else value
        if isinstance(found, str) and found in later:
            refuse_not_yet(found)
        if not isinstance(found, str) or found not in words:
            raise ValueError(f"expected {join_words(words)}, got {describe(value)}")
        return found

    return Parsed(parse, (("type", "string"), ("enum", list(words))))


def _matching(expected: str, pattern: str, *, is_shown: bool = True, is_line: bool = True) -> Spelled:
    """Text that matches a pattern; what is not shown may be a secret in the wrong place.

    A line holds no character that a terminal or a browser would act on instead of showing it.
    """

    def check(text: str) -> None:
        if not re.fullmatch(pattern, text) or (is_line and not text.isprintable()):
            raise ValueError(f"expected {expected}" + (f", got {describe(text)}" if is_shown else ""))

    return Spelled(check, f"^(?:{pattern})$")


def _check_day(text: str) -> None:
    try:
        day = date.fromisoformat(text).isoformat()
    except ValueError:
        day = ""
    if day != text:  # ISO has other spellings of a day
        raise ValueError(f"expected a day like 2026-11-20, got {describe(text)}")


def _check_relative_path(path: str) -> None:
    if flaw := find_path_flaw(path):
        raise ValueError(flaw)


def _check_branch_prefix(prefix: str) -> None:
    from reconciler.git.repository import is_branch_name  # its package brings the whole of git: 0.1 s

    if not prefix or not is_branch_name(f"{prefix}x"):
        raise ValueError(f"expected the beginning of a branch name like reconciler/, got {describe(prefix)}")


def _check_branch(name: str) -> None:
    from reconciler.git.repository import is_branch_name  # see above

    if not is_branch_name(name):
        raise ValueError(f"expected the name of a branch like main, got {describe(name)}")


_COUNT_SPELLING = (("type", "integer"), ("minimum", 0), ("maximum", MAX_COUNT))
_PERCENTILE_SPELLING = (("type", "number"), ("exclusiveMinimum", 0), ("exclusiveMaximum", 100))

Latency = Annotated[float, _duration("500ms")]
LatencyOrNone = Annotated[float, _duration("500ms", may_be_zero=True)]
Days = Annotated[float, _duration("7d")]
Interval = Annotated[float, _duration("10m")]
Delay = Annotated[float, _amount(read_delay, SECONDS, "3m")]
Percentage = Annotated[float, _amount(read_percentage, FRACTIONS, "20%")]
Percentile = Annotated[float | None, Parsed(_percentile, (("anyOf", [dict(_PERCENTILE_SPELLING), {"const": "mean"}]),))]

Range = Annotated[
    tuple[float, float],
    Parsed(
        _range,
        (
            ("type", "array"),
            ("items", {"type": "number", "minimum": 0, "maximum": _LARGEST_AMOUNT}),
            ("minItems", 2),
            ("maxItems", 2),
        ),
    ),
]
MemorySize = Annotated[float, _rating("B", "80GB")]
Bandwidth = Annotated[float, _rating("B/s", "3350GB/s")]
Flops = Annotated[float, _rating("FLOPS", "989TFLOPS")]
Day = Annotated[str, Spelled(_check_day, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]

Text = Annotated[str, _matching("text on one line", r"[^\x00-\x1f\x7f]{1,4096}")]
HiddenText = Annotated[str, _matching("text on one line", r"[^\x00-\x1f\x7f]{1,4096}", is_shown=False)]
Query = Annotated[str, _matching("PromQL", r"[\s\S]*\S[\s\S]*", is_line=False)]
QuantityName = Annotated[
    str, _matching(join_words(sorted(CONFIGURABLE_QUANTITIES)), "|".join(sorted(CONFIGURABLE_QUANTITIES)))
]
Name = Annotated[str, _matching("a name without blanks", r"[^\s\x00-\x1f\x7f]{1,253}")]
ClusterName = Annotated[str, _matching("a name of letters, digits and `._-`", r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")]
Currency = Annotated[str, _matching("a currency code like USD", r"[A-Z]{3}")]
LabelName = Annotated[str, _matching("a Prometheus label name like model_name", r"[A-Za-z_][A-Za-z0-9_]*")]
HeaderName = Annotated[str, _matching("a header name like X-Scope-OrgID", r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")]
LabelKey = Annotated[
    str,
    _matching("a label key like nvidia.com/gpu.product", r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}"),
]
ResourceName = Annotated[
    str, _matching("a resource like nvidia.com/gpu", r"[a-z0-9][a-z0-9.-]{0,252}/[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
]
Grouping = Annotated[
    str,
    _matching("cluster, namespace, model, path or label:KEY", r"cluster|namespace|model|path|label:[A-Za-z0-9][^\s:]*"),
]
PersonName = Annotated[str, _matching("a name without < and >", r"[^<>\x00-\x1f\x7f]{1,200}")]
Email = Annotated[str, _matching("an address like reconciler@example.com", r"[^\s<>@]+@[^\s<>@]+")]
RelativePath = Annotated[str, Spelled(_check_relative_path, r"^[^/~\\].*$")]
Branch = Annotated[str, Spelled(_check_branch, r"^[A-Za-z0-9._/-]+$")]
BranchPrefix = Annotated[str, Spelled(_check_branch_prefix, r"^[A-Za-z0-9._/-]+$")]
TextfilePath = Annotated[
    str, _matching("an absolute path that ends in .prom", r"/(?!.*/\.\.?/)[^\x00-\x1f\x7f]*[^/\x00-\x1f\x7f]\.prom")
]
TitleTemplate = Annotated[str, Parsed(_title, (("type", "string"), ("examples", [_CONVENTIONAL_TITLE, CONVENTIONAL])))]
Url = Annotated[str, Spelled(origin_of, r"^https?://[^@?#\s]+$")]

DeviceCount = Annotated[int | None, Parsed(_devices, (("anyOf", [dict(_COUNT_SPELLING), {"const": MEASURED}]),))]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Priority = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
Factor = Annotated[float, Field(ge=1, le=1000)]
Money = Annotated[float, Field(ge=0, le=1e9)]

NotYet = SkipJsonSchema[Annotated[None, BeforeValidator(lambda _: refuse_not_yet())]]
"""A key that is documented and not built."""

_BY_KIND: Mapping[ValueKind, object] = {
    ValueKind.NAME: Name,
    ValueKind.TEXT: Text,
    ValueKind.PATH: Name,
    ValueKind.FLAG: bool,
    ValueKind.COUNT: Count,
    ValueKind.POSITIVE_COUNT: PositiveCount,
    ValueKind.PERCENTAGE: Percentage,
    ValueKind.DELAY: Delay,
}


def type_of(setting: SettingDefinition[Any]) -> Any:
    """The pydantic annotation that reads a variant setting."""
    return Annotated[str, word(*setting.choices)] if setting.kind is ValueKind.WORD else _BY_KIND[setting.kind]


_GROUPS: Mapping[str, tuple[str, str]] = {
    "sizing": ("How the requirement of a model is found.", "{engine: auto, headroom: 20%}"),
    "helmValues": (
        "Paths in the values of a chart, as in `decode.replicas` or `pools[0].replicas`.",
        "{replicas: decode.replicas}: where the values of a chart hold the numbers; or minReplicas and maxReplicas",
    ),
    "actuationDelay": (
        "How long a number takes from our proposal to replicas that serve.",
        "{merge: 10m, sync: 3m, start: 5m}: how long a number takes to arrive",
    ),
}
"""Settings that are grouped in a mapping: what the mapping is, and what an editor says of it."""

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
        defer_build=True,
        model_title_generator=lambda model: re.sub("(Section|Entry|File)$", "", model.__name__),
        field_title_generator=lambda name, field: field.alias or to_camel(name),
    )

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, value: object) -> object:
        if not isinstance(value, dict | ConfigSection):
            # Not shown: it may be a URL with a password, or a secret where its reference belongs.
            keys = join_words([field.alias or name for name, field in cls.model_fields.items()][:4])
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
        value = getattr(value, to_snake(key), None)
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
    fields: _Fields = {}
    for setting in SETTING_DEFINITIONS:
        if setting.path[0] == name:
            fields[to_snake(setting.path[-1])] = _field(setting)
    made: type[ConfigSection] = create_model(
        to_pascal(to_snake(name)), __base__=ConfigSection, __module__=__name__, __doc__=doc, **fields
    )
    return made, Field(default_factory=made, description=words)


def _make_section(name: str, base: type[ConfigSection], *, is_of_workloads: bool) -> type[ConfigSection]:
    fields: _Fields = {}
    for setting in SETTING_DEFINITIONS:
        first, *rest = setting.path
        if setting.is_of_workloads is is_of_workloads and to_snake(first) not in fields:
            fields[to_snake(first)] = _group(first) if rest else _field(setting)
    doc = "Variant settings; what is not given here comes from the next layer."
    return create_model(name, __base__=base, __module__=__name__, __doc__=doc, **fields)


if TYPE_CHECKING:  # a type checker cannot run what makes the class
    VariantSection = ConfigSection
    WorkloadSection = ConfigSection
else:
    VariantSection = _make_section("VariantSection", _OrderedBounds, is_of_workloads=False)
    WorkloadSection = _make_section("WorkloadSection", VariantSection, is_of_workloads=True)
