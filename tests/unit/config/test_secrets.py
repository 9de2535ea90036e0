import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.config.environment import MAX_SECRET_BYTES, Environment, SecretReader, lies_below
from reconciler.domain.settings import SecretRef
from reconciler.errors import ConfigurationError

Check = Callable[..., list[str]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    return tmp_path / "secrets"


@pytest.fixture
def reader(directory: Path) -> SecretReader:
    return SecretReader(
        environment=Environment(variables={"RECONCILER_SECRETS_DIR": str(directory), "A": "from env\n"})
    )


@pytest.mark.parametrize(("content", "secret"), [("s3", "s3"), ("s3\n", "s3"), ("s3\r\n", "s3"), (" s3\n\n", " s3\n")])
def test_one_trailing_line_break_is_not_part_of_a_secret(
    reader: SecretReader, directory: Path, content: str, secret: str
) -> None:
    (directory / "token").write_text(content, newline="")
    assert reader.read(SecretRef(file=str(directory / "token"))) == secret


def test_a_rotated_secret_is_seen_on_the_next_use(reader: SecretReader, directory: Path) -> None:
    file = directory / "token"
    file.write_text("old")
    assert reader.read(SecretRef(file=str(file))) == "old"
    file.write_text("new")
    assert reader.read(SecretRef(file=str(file))) == "new"


def test_a_variable_is_read_and_a_missing_one_named(reader: SecretReader) -> None:
    assert reader.read(SecretRef(env="A")) == "from env"
    with pytest.raises(ConfigurationError, match="secret environment variable B: not set"):
        reader.read(SecretRef(env="B"))


def test_what_cannot_be_a_secret_is_refused_by_name_and_never_quoted(reader: SecretReader, directory: Path) -> None:
    for name, content in {"empty": b"\n", "binary": b"hunter2\xff", "large": b"hunter2" * MAX_SECRET_BYTES}.items():
        (directory / name).write_bytes(content)
        with pytest.raises(ConfigurationError) as raised:
            reader.read(SecretRef(file=str(directory / name)))
        assert f"secret file {directory / name}: " in str(raised.value)
        assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="No such file"):
        reader.read(SecretRef(file=str(directory / "none")))
    with pytest.raises(ConfigurationError, match="expected a regular file"):
        reader.read(SecretRef(file=str(directory.parent)))


def test_a_named_pipe_does_not_stop_the_run(reader: SecretReader, directory: Path) -> None:
    os.mkfifo(directory / "pipe")
    with pytest.raises(ConfigurationError, match="expected a regular file"):
        reader.read(SecretRef(file=str(directory / "pipe")))


def test_a_mounted_secret_may_be_a_link_that_stays_in_its_directory(reader: SecretReader, directory: Path) -> None:
    (directory / "..data").mkdir()
    (directory / "..data" / "token").write_text("s3")
    (directory / "token").symlink_to("..data/token")
    assert reader.read(SecretRef(file=str(directory / "token"))) == "s3"


def test_a_link_that_leaves_the_secrets_directory_is_refused(
    reader: SecretReader, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_text("s3")
    (directory / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="a symbolic link leads out of"):
        reader.read(SecretRef(file=str(directory / "token")))


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/s/a", True),
        ("/s/a/b", True),
        ("/s//a", True),
        ("/s", False),
        ("/s/", False),
        ("/secrets/a", False),
        ("/s/../etc/passwd", False),
        ("/s/./a", True),
        ("s/a", False),
        ("//s/a", False),
    ],
)
def test_paths_are_compared_by_components(path: str, below: bool) -> None:
    assert lies_below(path, "/s") is below


@pytest.mark.parametrize(
    "reference",
    [
        "{file: /etc/shadow}",
        "{file: /var/run/secrets/reconciler/../kubernetes.io/token}",
        "{file: /var/run/secrets/reconciler-other/token}",
        "{env: GITHUB_TOKEN}",
        "{env: PATH}",
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "clusters: [{{name: a, prometheus: {{url: 'https://a', bearerToken: {}}}}}]",
        "clusters: [{{name: a, prometheus: {{url: 'https://a', basicAuth: {{username: u, password: {}}}}}}}]",
        "clusters: [{{name: a, prometheus: {{url: 'https://a', headers: {{X-A: {}}}}}}}]",
        "clusters: [{{name: a, prometheus: {{url: 'https://a', tls: {{ca: {}}}}}}}]",
        "forge: {{auth: {{token: {}}}}}",
    ],
)
def test_the_repository_refers_to_its_own_secrets_only(check: Check, place: str, reference: str) -> None:
    text = place.format(reference)
    (finding,) = check(text)
    assert finding.startswith("reconciler.yaml:3: error: ")
    assert "in the repository a secret's" in finding
    trusting = {"RECONCILER_TRUSTED_ORIGINS": "https://a"}
    assert check(operator=[text], variables=trusting) == []


def test_an_operator_may_name_another_secrets_directory(check: Check) -> None:
    text = "forge: {auth: {token: {file: /mnt/secrets/token}}}"
    assert check(text, variables={"RECONCILER_SECRETS_DIR": "/mnt/secrets"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "forge: {auth: {token: hunter2}}",
        "forge: {auth: hunter2}",
        "forge: {auth: {token: {env: hunter2!}}}",
        "forge: {auth: {token: {file: hunter2}}}",
        "forge: {auth: {token: {value: hunter2}}}",
        "forge: {auth: {token: {env: [hunter2]}}}",
        "forge: {url: 'https://me:hunter2@github.example.com'}",
        "forge: {url: 'hunter2'}",
        "clusters: [{name: a, prometheus: {url: 'https://a', bearerToken: hunter2}}]",
        "clusters: [{name: a, prometheus: {url: 'https://a', basicAuth: 'me:hunter2'}}]",
        "clusters: [{name: a, prometheus: {url: 'https://a', basicAuth: {username: me, password: hunter2}}}]",
        "clusters: [{name: a, prometheus: {url: 'https://a', headers: {Authorization: Bearer hunter2}}}]",
        "clusters: [{name: a, prometheus: {url: 'https://a', headers: {X-Api-Key: hunter2}}}]",
        'clusters: [{name: a, prometheus: {url: "https://a", headers: {X-A: "hunter2\\n"}}}]',
        "clusters: [{name: a, prometheus: 'https://me:hunter2@a'}]",
    ],
)
def test_an_inline_secret_is_an_error_that_does_not_repeat_it(check: Check, text: str) -> None:
    findings = check(text)
    assert findings
    assert "hunter2" not in "\n".join(findings)


def test_an_inline_secret_is_told_what_stands_there_instead(check: Check) -> None:
    assert check("forge: {auth: {token: s3}}") == [
        "reconciler.yaml:3: error: forge.auth.token: expected {file: PATH} or {env: NAME}, never the secret itself"
    ]


def test_an_environment_never_shows_its_values() -> None:
    assert "hunter2" not in repr(Environment(variables={"A": "hunter2"}))
