import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, cast, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.config.codec import dump, dump_settings, load, load_settings_json
from reconciler.domain.identity import ResourceKey
from reconciler.domain.proposals import Proposal
from reconciler.domain.records import Record
from reconciler.domain.settings import Assumption, SecretRef, Setting, Settings, SettingScalar
from reconciler.errors import ConfigurationError

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.text() | st.integers(-(2**53), 2**53) | finite | st.booleans()
st.register_type_strategy(float, finite)
st.register_type_strategy(Mapping, lambda kind: st.dictionaries(*map(st.from_type, get_args(kind)), max_size=3))


def records_of(kind: type[Record]) -> st.SearchStrategy[Record]:
    """Records of a kind, which may have their defaults."""
    values = {name: st.from_type(each) for name, each in get_type_hints(kind).items()}
    needed = [each.name for each in fields(cast(Any, kind)) if each.default is each.default_factory is MISSING]
    given = {name: values.pop(name) for name in needed}
    return st.fixed_dictionaries(given, optional=values).map(lambda drawn: kind(**drawn))


for _kind in Record.__subclasses__():
    st.register_type_strategy(_kind, records_of)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_type(Settings))
def test_settings_survive_a_recording(value: Settings) -> None:
    dumped = json.loads(json.dumps(dump_settings(value)))
    assert load_settings_json(dumped) == value
    assert dump_settings(load_settings_json(dumped)) == dumped


@given(scalars)
def test_a_setting_keeps_its_type(value: SettingScalar) -> None:
    loaded = load(Setting, json.loads(json.dumps(dump(Setting(value=value)))))
    assert loaded.value == value
    assert type(loaded.value) is type(value)


@given(st.from_type(tuple[Proposal, ...]), st.from_type(ResourceKey))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_proposals_and_keys_survive_too(proposals: tuple[Proposal, ...], key: ResourceKey) -> None:
    assert load(tuple[Proposal, ...], json.loads(json.dumps(dump(proposals)))) == proposals
    assert load(ResourceKey, dump(key)) == key


def test_loaded_settings_are_tuples_and_types_of_the_domain() -> None:
    value = Settings(assumed=(Assumption.ONE_CLUSTER,), defaults={"a": Setting(value=1), "b": Setting(value=1.0)})
    back = load_settings_json(dump_settings(value))
    assert back == value
    assert isinstance(back.assumed, tuple)
    assert [type(setting.value) for setting in back.defaults.values()] == [int, float]


@pytest.mark.parametrize(
    "dumped", [None, [], {"currency": 5}, {"clusters": "a"}, {"forge": {"token": "s3"}}, {"run_interval_s": 10**400}]
)
def test_what_is_no_recording_of_settings_is_refused(dumped: object) -> None:
    with pytest.raises(ConfigurationError, match="recording: "):
        load_settings_json(dumped)


def test_a_dumped_secret_is_its_reference() -> None:
    assert dump(SecretRef(env="A")) == {"file": "", "env": "A"}
