"""The token for one remote."""

import re
from dataclasses import dataclass, field

from reconciler.errors import ConfigurationError
from reconciler.http.credentials import basic
from reconciler.http.redaction import Redactor

CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitToken:
    """User name and token of a remote; the token never shows in `repr`."""

    username: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.token:
            raise ConfigurationError("the git token is empty: set it, or leave its setting out")
        if CONTROL_CHARACTERS.search(self.username + self.token):
            raise ConfigurationError("the git token or its user name holds a line break or control character")
        if ":" in self.username:
            raise ConfigurationError("the user name of a git token cannot hold a colon")

    @property
    def authorization(self) -> str:
        """The HTTP header that carries them."""
        return f"Authorization: {basic(self.username, self.token)}"

    @property
    def redactor(self) -> Redactor:
        """Takes the token out of what git says, in every spelling."""
        return Redactor((self.token, f"{self.username}:{self.token}"))
