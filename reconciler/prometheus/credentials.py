"""What a request to Prometheus carries to be let in, read anew for each request."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from reconciler.domain.settings import BasicAuth, SecretRef, Tls
from reconciler.errors import ConfigurationError
from reconciler.http.messages import Credentials, basic, bearer, check_sendable
from reconciler.http.redaction import Redactor

ReadSecret = Callable[[SecretRef], str]


class Connection(Protocol):
    """A server with what it takes to be let in."""

    @property
    def bearer_token(self) -> SecretRef | None: ...
    @property
    def basic_auth(self) -> BasicAuth | None: ...
    @property
    def tls(self) -> Tls: ...
    @property
    def headers(self) -> Mapping[str, str | SecretRef]: ...


HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
ENCRYPTED_KEY = re.compile(r"-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED")


def read_credentials(settings: Connection, read_secret: ReadSecret) -> Credentials:
    """Everything that `settings` refers to; ConfigurationError says which reference is wrong, never its text."""
    if settings.bearer_token and settings.basic_auth:
        raise ConfigurationError("prometheus: expected bearerToken or basicAuth, found both")
    headers: dict[str, str] = {}
    secrets: list[str] = []
    for name, value, secret in _headers(settings, read_secret):
        headers[name] = value
        secrets.extend(secret)
    return Credentials(
        headers=headers,
        redactor=Redactor(tuple(secrets)),
        ca=_path(settings.tls.ca, "tls.ca", read_secret),
        cert=_path(settings.tls.cert, "tls.cert", read_secret),
        key=_key_path(settings.tls.key, read_secret),
    )


def describe(settings: Connection) -> str:
    """Which credential a server would have refused, as a person knows it."""
    refs = []
    if settings.bearer_token:
        refs.append(f"the token in {settings.bearer_token}")
    if settings.basic_auth:
        refs.append(f"the password in {settings.basic_auth.password}")
    refs += [f"header {name} from {ref}" for name, ref in settings.headers.items() if isinstance(ref, SecretRef)]
    if settings.tls.cert:
        refs.append(f"the client certificate in {settings.tls.cert}")
    return " and ".join(refs)


def _headers(settings: Connection, read_secret: ReadSecret) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, value, and the secrets in it."""
    for name, given in settings.headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"prometheus.headers: expected the name of a header, found {name!r}")
        value = _read(given, f"header {name}", read_secret) if isinstance(given, SecretRef) else given
        check_sendable(value, f"prometheus.header {name}")
        yield name, value, (value,) if isinstance(given, SecretRef) else ()
    if settings.bearer_token:
        token = _read(settings.bearer_token, "bearerToken", read_secret)
        check_sendable(token, "prometheus.bearerToken")
        yield "Authorization", bearer(token), (token,)
    if settings.basic_auth:
        username = settings.basic_auth.username
        password = _read(settings.basic_auth.password, "basicAuth.password", read_secret)
        if ":" in username:
            raise ConfigurationError("prometheus.basicAuth.username: a user name cannot hold a colon")
        yield "Authorization", basic(username, password), (password, f"{username}:{password}")


def _read(ref: SecretRef, field_name: str, read_secret: ReadSecret) -> str:
    text = read_secret(ref).strip("\r\n")
    if not text.strip():
        raise ConfigurationError(f"prometheus.{field_name}: {ref} is empty")
    return text


def _path(ref: SecretRef | None, field_name: str, read_secret: ReadSecret) -> str:
    if ref is None:
        return ""
    if not ref.file:
        raise ConfigurationError(f"prometheus.{field_name}: expected {{file: PATH}} of a PEM file, found {ref}")
    read_secret(ref)  # whoever may not be read is refused here, with the reason
    return ref.file


def _key_path(ref: SecretRef | None, read_secret: ReadSecret) -> str:
    path = _path(ref, "tls.key", read_secret)
    if ref and ENCRYPTED_KEY.search(read_secret(ref)):
        # OpenSSL would ask the terminal for its password and wait for ever
        raise ConfigurationError(f"prometheus.tls.key: {ref} is encrypted: give a key without a password")
    return path
