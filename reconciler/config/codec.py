"""Domain values as JSON-able objects and back, exactly: what a recording holds."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from reconciler.domain.profiles import ATTAINMENT
from reconciler.domain.records import Record
from reconciler.domain.settings import AS_IS, RUN_INTERVAL_S, PullRequestSettings, Settings
from reconciler.errors import ConfigurationError
from reconciler.manifests.wording import describe, join_words

Value = TypeVar("Value")
Reader: TypeAlias = Callable[[object], Any]
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


def dump(value: object) -> object:
    """A value of a domain type (`Settings`, `tuple[Proposal, ...]`) as dicts, lists and scalars."""
    return json.loads(json.dumps(msgspec.to_builtins(value, str_keys=True)))  # which has lists alone, and infinities


def load(kind: type[Value], dumped: object) -> Value:
    """The domain value that `dump` made this of; ConfigurationError names what does not fit its type.

    A recording may come from a stranger: nothing is converted. What its version does not know is left out.
    """
    try:
        return cast(Value, _reader_of(cast(Hashable, kind))(dumped))
    except _MisfitError as misfit:
        field = ".".join(map(str, misfit.path))
        raise ConfigurationError(f"recording: {field or kind.__name__}: {misfit}") from None


def dump_settings(settings: Settings) -> object:
    """Effective settings as a recording holds them; secrets are references.

    Rules, workloads, events, limits, automatic merging, signing, attainments, intervals, shards and what learned
    profiles got later are left out where they are the default: older recordings keep their fingerprint.
    """
    dumped = cast(dict[str, object], dump(settings))
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
    defaults = cast(dict[str, object], dump(PullRequestSettings()))
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


class _MisfitError(Exception):
    """What was found is not of the type that stands at a path, whose last part comes last."""

    def __init__(self, words: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(words)
        self.path = path

    @classmethod
    def of(cls, expected: str, found: object) -> "_MisfitError":
        return cls(f"expected {expected}, got {describe(found)}")


@cache
def _reader_of(kind: Any) -> Reader:
    """What reads values of a type; the types of settings and proposals are all there are."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return _any_of([_reader_of(each) for each in arguments])
    if origin is Literal:
        return _one_of(arguments)
    if origin is tuple:
        return _items(arguments)
    if origin is Mapping:
        return _members(_reader_of(arguments[1]))
    if issubclass(kind, Record):
        return _record(kind)
    if issubclass(kind, Enum):
        words = {each.value: each for each in kind}
        read = _one_of(tuple(words))
        return lambda dumped: words[read(dumped)]
    return _number if kind is float else _scalar(kind)


def _any_of(readers: Sequence[Reader]) -> Reader:
    def read(dumped: object) -> Any:
        misfits = []
        for each in readers:
            try:
                return each(dumped)
            except _MisfitError as misfit:
                misfits.append(misfit)
        raise max(misfits, key=lambda misfit: len(misfit.path))

    return read


def _one_of(words: Sequence[str]) -> Reader:
    def read(dumped: object) -> Any:
        if not isinstance(dumped, str) or dumped not in words:
            raise _MisfitError.of(join_words(words), dumped)
        return dumped

    return read


def _items(kinds: Sequence[Any]) -> Reader:
    """A tuple of any number of items, or of one of each kind."""
    readers = [_reader_of(each) for each in kinds if each is not ...]
    is_any_number = kinds[-1] is ...

    def read(dumped: object) -> Any:
        if not isinstance(dumped, list) or not (is_any_number or len(dumped) == len(readers)):
            raise _MisfitError.of("a list" if is_any_number else f"a list of {len(readers)}", dumped)
        each_by = readers * len(dumped) if is_any_number else readers
        return tuple(_within(index, *pair) for index, pair in enumerate(zip(each_by, dumped, strict=True)))

    return read


def _members(member: Reader) -> Reader:
    def read(dumped: object) -> Any:
        if not isinstance(dumped, dict):
            raise _MisfitError.of("a mapping", dumped)
        return {name: _within(name, member, child) for name, child in dumped.items()}

    return read


def _record(kind: Any) -> Reader:
    readers = {name: _reader_of(each) for name, each in get_type_hints(kind).items()}

    def read(dumped: object) -> Any:
        if not isinstance(dumped, dict):
            raise _MisfitError.of("a mapping", dumped)
        given = {name: _within(name, each, dumped[name]) for name, each in readers.items() if name in dumped}
        try:
            return kind(**given)
        except (TypeError, ValueError) as error:  # a field is missing, or does not suit another
            raise _MisfitError(str(error)) from None

    return read


def _within(part: str | int, read: Reader, dumped: object) -> Any:
    try:
        return read(dumped)
    except _MisfitError as misfit:
        raise _MisfitError(str(misfit), (part, *misfit.path)) from None


def _number(dumped: object) -> float:
    if isinstance(dumped, bool) or not isinstance(dumped, int | float):
        raise _MisfitError.of("a number", dumped)
    try:
        return float(dumped)
    except OverflowError:
        raise _MisfitError("expected a number, got one beyond all that can be held") from None


def _scalar(kind: type) -> Reader:
    expected = {str: "text", int: "a whole number", bool: "true or false", NoneType: "nothing"}[kind]

    def read(dumped: object) -> Any:
        if type(dumped) is not kind:
            raise _MisfitError.of(expected, dumped)
        return dumped

    return read
