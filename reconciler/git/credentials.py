"""The token for one remote, and its removal from everything that a person reads."""

import base64
import re
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from reconciler.errors import ConfigurationError

REDACTED = "***"
USER_INFO = re.compile(r"(?<=://)[^/@\s'\"]+@")
TOKEN_SHAPES = re.compile(r"\b(?:gh[opsur]_|github_pat_|glpat-)[A-Za-z0-9_-]{10,}")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """User name and token of a remote; the token never shows in `repr`."""

    username: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.token:
            raise ConfigurationError("the git token is empty: set it, or leave its setting out")
        if CONTROL_CHARACTERS.search(self.username + self.token) or "\n" in self.username + self.token:
            raise ConfigurationError("the git token or its user name holds a line break or control character")
        if ":" in self.username:
            raise ConfigurationError("the user name of a git token cannot hold a colon")

    @property
    def authorization(self) -> str:
        """The HTTP header that carries them."""
        return f"Authorization: Basic {_base64(f'{self.username}:{self.token}')}"

    @property
    def secret_forms(self) -> tuple[str, ...]:
        """Every way in which the secret may be spelled in a text, longest first."""
        forms = {
            self.token,
            quote(self.token, safe=""),
            quote_plus(self.token),
            _base64(self.token),
            _base64(f"{self.username}:{self.token}"),
        }
        return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def redact(text: str, credentials: Credentials | None) -> str:
    """`text` without the secret in any form, without user names and tokens in URLs, without control characters."""
    for form in credentials.secret_forms if credentials else ():
        text = text.replace(form, REDACTED)
    text = USER_INFO.sub(f"{REDACTED}@", text)
    text = TOKEN_SHAPES.sub(REDACTED, text)
    return CONTROL_CHARACTERS.sub(" ", text)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
