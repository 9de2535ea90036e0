from collections.abc import Callable

import pytest

from reconciler.config.environment import Environment, Flags, read_environment
from reconciler.domain.settings import SecretRef
from reconciler.errors import ConfigurationError

Check = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("variables", "wants"),
    [
        ({}, None),
        ({"NO_COLOR": ""}, None),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_as_the_environment_asks(variables: dict[str, str], wants: bool | None) -> None:
    assert Environment(variables=variables).wants_color is wants


def test_a_token_given_twice_is_refused() -> None:
    variables = {"RECONCILER_FORGE_TOKEN": "a", "RECONCILER_FORGE_TOKEN_FILE": "/b"}
    with pytest.raises(
        ConfigurationError, match="RECONCILER_FORGE_TOKEN: set together with RECONCILER_FORGE_TOKEN_FILE"
    ):
        _ = Environment(variables=variables).own_forge_token


def test_what_is_wrong_with_the_environment_is_found_with_everything_else(check: Check) -> None:
    variables = {
        "RECONCILER_PROMETHEUS_TOKEN": "a",
        "RECONCILER_PROMETHEUS_TOKEN_FILE": "/b",
        "RECONCILER_TRUSTED_ORIGINS": "https://a/path",
    }
    assert check("status: x", flags=Flags(prometheus="http://p"), variables=variables) == [
        "RECONCILER_PROMETHEUS_TOKEN: error: set together with RECONCILER_PROMETHEUS_TOKEN_FILE: unset one of them",
        "RECONCILER_TRUSTED_ORIGINS: error: expected an origin like https://a, without a path",
        'reconciler.yaml:3: error: status: expected file, off or deliver, got "x"',
    ]


def test_the_process_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_FORGE_TOKEN", "a")
    environment = read_environment()
    monkeypatch.delenv("RECONCILER_FORGE_TOKEN")
    assert environment.own_forge_token == SecretRef(env="RECONCILER_FORGE_TOKEN")
