"""Domain values as JSON-able objects and back, exactly: what a recording holds."""

import json
from collections.abc import Hashable
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

import msgspec
from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import core_schema

from reconciler.domain.profiles import ATTAINMENT
from reconciler.domain.records import Record
from reconciler.domain.settings import AS_IS, RUN_INTERVAL_S, PullRequestSettings, Settings
from reconciler.errors import ConfigurationError

Value = TypeVar("Value")
_LATER = (
    "assignees",
    "auto_merge",
    "merge_method",
    "merges_per_hour",
    "milestone",
    "open_at_once",
    "created_per_hour",
    "pushes_per_hour",
    "worth",
    "title",
    "dashboard",
)
"""Settings of pull requests that older recordings do not have."""
_LEFT_OUT_EMPTY = ("rules", "workloads", "events")


def dump(kind: type[Value], value: Value) -> object:
    """`value` of a domain type (`Settings`, `tuple[Proposal, ...]`) as dicts, lists and scalars."""
    del kind
    return json.loads(json.dumps(msgspec.to_builtins(value, str_keys=True)))  # which has lists alone, and infinities


def load(kind: type[Value], dumped: object) -> Value:
    """The domain value that `dump` made this of; ConfigurationError names what does not fit its type.

    A recording may come from a stranger: nothing is converted.
    """
    try:
        # JSON mode is strict and still reads a list as a tuple; the plain mode is one or the other.
        return _adapter(kind).validate_json(json.dumps(dumped), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"recording: {field or kind.__name__}: {first['msg']}") from None


def dump_settings(settings: Settings) -> object:
    """Effective settings as a recording holds them; secrets are references.

    Rules, workloads, events, limits, automatic merging, signing, attainments, intervals, shards and what learned
    profiles got later are left out where they are the default: older recordings keep their fingerprint.
    """
    dumped = cast(dict[str, object], dump(Settings, settings))
    for model in cast(list[dict[str, list[dict[str, Any]]]], dumped["models"]):
        _drop_defaults(cast(dict[str, object], model), shape=None)
        for profile in model["profiles"]:
            _drop_defaults(profile, tokens_per_step=1.0, step_tokens=1.0, overlap=0.0)
            _drop_defaults(profile["learning"] or {}, cached=0.0, margin=1.0)
    _drop_defaults(cast(dict[str, object], dumped["git"]), signing=None, commit_message=AS_IS)
    _drop_defaults(dumped, run_interval_s=RUN_INTERVAL_S, run_interval_source="", shard=None)
    for name in ("clusters", "other_clusters"):
        for cluster in cast(list[dict[str, object]], dumped[name]):
            _drop_defaults(cluster, is_part=False)
    for service_class in cast(list[dict[str, object]], dumped["service_classes"]):
        _drop_defaults(service_class, attainment=ATTAINMENT)
    pull_requests = cast(dict[str, object], dumped["pull_requests"])
    defaults = cast(dict[str, object], dump(PullRequestSettings, PullRequestSettings()))
    kept = {key: value for key, value in pull_requests.items() if key not in _LATER or value != defaults[key]}
    return {
        key: value for key, value in (dumped | {"pull_requests": kept}).items() if key not in _LEFT_OUT_EMPTY or value
    }


def _drop_defaults(dumped: dict[str, object], **defaults: object) -> None:
    for name, default in defaults.items():
        if dumped.get(name) == default:
            del dumped[name]


def load_settings_json(dumped: object) -> Settings:
    """The settings that `dump_settings` made this of."""
    return load(Settings, dumped)


def _adapter(kind: type[Value]) -> TypeAdapter[Value]:
    return cast(TypeAdapter[Value], _build_adapter(cast(Hashable, kind)))


def _read_record(kind: type[Any], source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    """How pydantic reads a record: as it reads a dataclass, which a struct is to everybody else."""
    del source
    types = get_type_hints(kind)
    listed = {
        each.name: core_schema.typed_dict_field(
            handler.generate_schema(types[each.name]),
            required=each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    }
    return core_schema.no_info_after_validator_function(
        lambda read: kind(**read), core_schema.typed_dict_schema(listed)
    )


cast(Any, Record).__get_pydantic_core_schema__ = classmethod(_read_record)


@cache
def _build_adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(type[Any], kind))
