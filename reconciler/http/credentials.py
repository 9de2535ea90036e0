"""What lets a request in: headers and certificates, and nothing of them in any text."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.errors import ConfigurationError
from reconciler.http.redaction import Redactor

UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Headers of one request, and the paths of PEM files; `redactor` knows the secrets among them.

    `ca` is a bundle to trust instead of the system's, `cert` and `key` are the client's own.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    redactor: Redactor = field(default_factory=Redactor)
    ca: str = ""
    cert: str = ""
    key: str = ""


def bearer(token: str) -> str:
    """The value of the header Authorization for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The value of the header Authorization for a user and a password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode('ascii')}"


def check_sendable(value: str, name: str) -> None:
    """ConfigurationError for what no header can carry; it names where that comes from, never its text."""
    if UNSENDABLE.search(value) or value != value.strip():
        raise ConfigurationError(f"{name}: expected one line without spaces around it")
