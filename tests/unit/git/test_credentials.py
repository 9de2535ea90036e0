import base64

import pytest

from reconciler.errors import ConfigurationError
from reconciler.git import Credentials, redact

CREDENTIALS = Credentials(username="robot", token="s3cr+t/tok en")


def test_repr_shows_the_user_and_hides_the_token() -> None:
    assert "robot" in repr(CREDENTIALS)
    assert "s3cr" not in repr(CREDENTIALS)


@pytest.mark.parametrize(
    "form",
    [
        "s3cr+t/tok en",
        "s3cr%2Bt%2Ftok%20en",
        "s3cr%2Bt%2Ftok+en",
        base64.b64encode(b"s3cr+t/tok en").decode(),
        base64.b64encode(b"robot:s3cr+t/tok en").decode(),
    ],
)
def test_every_spelling_of_the_secret_is_redacted(form: str) -> None:
    assert redact(f"remote says [{form}]", CREDENTIALS) == "remote says [***]"


def test_credentials_in_urls_and_known_token_shapes_are_redacted_without_knowing_them() -> None:
    text = "fatal: https://bob:hunter2@example.com/x and ghs_0123456789abcdef"
    assert redact(text, None) == "fatal: https://***@example.com/x and ***"


def test_control_characters_of_a_server_do_not_reach_a_terminal() -> None:
    assert redact("remote: \x1b[2Jgone\r", None) == "remote:  [2Jgone "


@pytest.mark.parametrize(
    ("username", "token"), [("robot", ""), ("robot", "a\nb"), ("ro\r\nbot", "a"), ("ro:bot", "a"), ("robot", "a\x00")]
)
def test_credentials_that_would_break_the_header_are_refused(username: str, token: str) -> None:
    with pytest.raises(ConfigurationError):
        Credentials(username=username, token=token)
