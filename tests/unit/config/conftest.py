"""One way to load settings from texts, and one to read what is wrong with them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.config.environment import Environment, Flags
from reconciler.config.loading import LoadedSettings, check_settings, load_settings

HEADER = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"

Load = Callable[..., LoadedSettings]
Check = Callable[..., list[str]]


@pytest.fixture(scope="session")
def testdata() -> Path:
    return Path(__file__).parents[2] / "testdata" / "config"


@pytest.fixture
def sources(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The arguments of `load_settings`; the two lines of the header are put before each text."""

    def arguments(
        text: str | None = None,
        *,
        operator: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        flags: Flags | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        paths = [tmp_path / f"operator-{number}.yaml" for number in range(len(operator))]
        for path, written in zip(paths, operator, strict=True):
            path.write_bytes(_document(written))
        known = files or {}
        return {
            "repository_file": None if text is None else _document(text),
            "read_repository_file": lambda path: _document(known[path]) if path in known else None,
            "operator_files": paths,
            "flags": flags or Flags(),
            "environment": Environment(variables=variables or {}),
        }

    return arguments


@pytest.fixture
def load(sources: Callable[..., dict[str, Any]]) -> Load:
    return lambda *texts, **others: load_settings(**sources(*texts, **others))


@pytest.fixture
def check(sources: Callable[..., dict[str, Any]], tmp_path: Path) -> Check:
    """The findings as lines."""
    return lambda *texts, **others: [
        str(finding).replace(f"{tmp_path}/", "") for finding in check_settings(**sources(*texts, **others))
    ]


def _document(text: str) -> bytes:
    return (text if "apiVersion" in text else HEADER + text).encode()
