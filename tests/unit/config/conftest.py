"""One way to load settings from texts, and one to read what is wrong with them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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
def load(tmp_path: Path) -> Load:
    def load_texts(
        text: str | None = None,
        *,
        operator: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        flags: Flags | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> LoadedSettings:
        return load_settings(
            repository_file=None if text is None else _document(text),
            read_repository_file=_reader(files or {}),
            operator_files=_write(tmp_path, operator),
            flags=flags or Flags(),
            environment=Environment(variables=variables or {}),
        )

    return load_texts


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """The findings as lines; the two lines of the header are put before each text."""

    def check_texts(
        text: str | None = None,
        *,
        operator: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        flags: Flags | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> list[str]:
        findings = check_settings(
            repository_file=None if text is None else _document(text),
            read_repository_file=_reader(files or {}),
            operator_files=_write(tmp_path, operator),
            flags=flags or Flags(),
            environment=Environment(variables=variables or {}),
        )
        return [str(finding).replace(f"{tmp_path}/", "") for finding in findings]

    return check_texts


def _document(text: str) -> bytes:
    return (text if "apiVersion" in text else HEADER + text).encode()


def _reader(files: Mapping[str, str]) -> Callable[[str], bytes | None]:
    return lambda path: _document(files[path]) if path in files else None


def _write(directory: Path, texts: Sequence[str]) -> list[Path]:
    paths = [directory / f"operator-{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(_document(text))
    return paths
