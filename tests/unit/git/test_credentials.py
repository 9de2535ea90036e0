import base64

import pytest

from reconciler.errors import ConfigurationError
from reconciler.git.command import GitToken, shorten
from reconciler.http.redaction import Redactor

CREDENTIALS = GitToken(username="robot", token="s3cr+t/tok en")


def test_repr_shows_the_user_and_hides_the_token() -> None:
    assert "robot" in repr(CREDENTIALS)
    assert "s3cr" not in repr(CREDENTIALS)


def test_git_says_nothing_of_the_token_or_of_its_pair_with_the_user() -> None:
    pair = base64.b64encode(b"robot:s3cr+t/tok en").decode()
    assert shorten(f"remote: [{pair}]\r\n [s3cr+t/tok en]".encode(), CREDENTIALS.redactor) == "remote: [***]; [***]"


def test_control_characters_of_a_server_do_not_reach_a_terminal() -> None:
    assert shorten(b"remote: \x1b[2Jgone\r\n\n\xe2\x80\xaefdp\n", Redactor()) == "remote:  [2Jgone; fdp"


@pytest.mark.parametrize(
    ("username", "token"), [("robot", ""), ("robot", "a\nb"), ("ro\r\nbot", "a"), ("ro:bot", "a"), ("robot", "a\x00")]
)
def test_credentials_that_would_break_the_header_are_refused(username: str, token: str) -> None:
    with pytest.raises(ConfigurationError):
        GitToken(username=username, token=token)
