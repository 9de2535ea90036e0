"""The kinds of values in a policy file: amounts with their unit, and words; nothing is converted."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from reconciler.domain.rules import Amount
from reconciler.manifests.wording import describe
from reconciler.resources.amounts import FRACTIONS, SECONDS, pattern_of, read_duration, read_percentage

MAX_COUNT = 2**31 - 1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _amount(value: object) -> Amount:
    if isinstance(value, int) and _is_count(value):
        return Amount(replicas=value)
    if isinstance(value, str):
        return Amount(fraction=read_percentage(value))
    raise ValueError(f"expected a number of replicas, or a percentage like 50%, got {describe(value)}")


def _text(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", "examples": [example]})


def _duration(value: object) -> float:
    return read_duration(value, "30m")


_PERCENT = pattern_of(FRACTIONS)
_AMOUNT: dict[str, Any] = {
    "anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_COUNT}, {"type": "string", "pattern": f"^{_PERCENT}$"}]
}

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Priority = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
Money = Annotated[float, Field(ge=0, le=1e9)]
Glob = Annotated[str, Field(min_length=1, max_length=1000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="a name like step-down")]
Account = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f\x7f]{1,253}$", description="an account, or team:NAME")]
Accounts = Annotated[list[Account], Field(min_length=1, max_length=20)]
PullRequestLabel = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f,]{1,50}$", description="a label")]
PullRequestLabels = Annotated[list[PullRequestLabel], Field(min_length=1, max_length=20)]
Percentage = Annotated[float, PlainValidator(read_percentage), _text(_PERCENT, "20%")]
Duration = Annotated[float, PlainValidator(_duration), _text(pattern_of(SECONDS), "30m")]
ReplicasOrShare = Annotated[Amount, PlainValidator(_amount), WithJsonSchema(_AMOUNT)]
