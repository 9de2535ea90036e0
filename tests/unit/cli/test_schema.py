"""The schema for editors."""

import json
from collections.abc import Callable

import jsonschema  # type: ignore[import-untyped]  # its types are a package of their own
import pytest
import yaml

from tests.servers.fleet import SETTINGS, Outcome


@pytest.mark.parametrize("arguments", [(), ("configuration",), ("--output", "json")])
def test_the_schema_accepts_what_we_accept(command: Callable[..., Outcome], arguments: tuple[str, ...]) -> None:
    outcome = command("schema", *arguments)
    assert outcome.code == 0
    schema = json.loads(outcome.out)
    jsonschema.validate(yaml.safe_load(SETTINGS), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**yaml.safe_load(SETTINGS), "acelerators": []}, schema)
