"""Connections: the part of the schema that says how servers are reached, and where a secret is read from.

What is declared with `repr=False` is never shown in an error: somebody may have put the secret itself there.
"""

# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012

import re
from typing import Annotated, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from reconciler.config.section import ConfigSection
from reconciler.config.values import (
    HeaderName,
    HiddenText,
    LabelName,
    QuantityName,
    Query,
    Text,
    TextfilePath,
    Url,
)

_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|credential|api-?key", re.IGNORECASE)
# With one of these a shared front door would hand the request, and the operator's token in it, to somebody else.
_ROUTING_HEADER = re.compile(
    r"host|connection|upgrade|te|trailer|expect|content-.*|transfer-.*|proxy-.*|forwarded|x-forwarded-.*|x-host"
    r"|x-original-.*|x-rewrite-.*",
    re.IGNORECASE,
)


class SecretSection(ConfigSection):
    """Where a secret is read from on each use: {file: PATH} or {env: NAME}, never the secret itself."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})
    expected = "{file: PATH} or {env: NAME}, never the secret itself"

    file: Annotated[HiddenText | None, Field(repr=False)] = None
    """the absolute path of a file"""
    env: Annotated[HiddenText | None, Field(repr=False)] = None
    """the name of an environment variable"""

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        if (self.file is None) == (self.env is None):
            raise ValueError(f"expected {self.expected}")
        if self.file is not None and not self.file.startswith("/"):
            raise ValueError("expected the absolute path of a file")
        if self.env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.env):
            raise ValueError("expected the name of an environment variable, of letters, digits and `_`")
        return self


SecretReference = Annotated[SecretSection, Field(repr=False)]
MaybeSecret = Annotated[SecretSection | None, Field(repr=False)]


class BasicAuthSection(ConfigSection):
    """User name and password of HTTP basic authentication."""

    username: Text
    """a user name"""
    password: SecretReference
    """{file: PATH} or {env: NAME}, never the password itself"""


class TlsSection(ConfigSection):
    """PEM files of a connection."""

    ca: MaybeSecret = None
    """{file: PATH} or {env: NAME} of a CA bundle (= the system's)"""
    cert: MaybeSecret = None
    """{file: PATH} or {env: NAME} of a client certificate"""
    key: MaybeSecret = None
    """{file: PATH} or {env: NAME} of the client certificate's key"""

    @model_validator(mode="after")
    def _pairs_certificate_and_key(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected both cert and key, or neither")
        return self


class LabelNamesSection(ConfigSection):
    """How the server spells the labels that we group by."""

    namespace: LabelName | None = None
    """the label of the namespace (= namespace)"""
    pod: LabelName | None = None
    """the label of the pod (= pod)"""
    model: LabelName | None = None
    """the label of the model (= model_name)"""


class PushgatewaySection(ConfigSection):
    """A Prometheus Pushgateway: where it is, and how to speak to it."""

    url: Annotated[Url, Field(repr=False)]
    """a URL like https://pushgateway.example.com"""
    bearer_token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= none)"""
    basic_auth: Annotated[BasicAuthSection | None, Field(repr=False)] = None
    """{username: NAME, password: {file: PATH}} (= none)"""
    tls: TlsSection = TlsSection()
    """{ca, cert, key}, each {file: PATH} or {env: NAME}"""

    @model_validator(mode="after")
    def _sends_no_secret_twice(self) -> Self:
        if self.bearer_token is not None and self.basic_auth is not None:
            raise ValueError("expected one of bearerToken and basicAuth")
        return self


class GaugesSection(ConfigSection):
    """Where our own gauges go after each run."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    pushgateway: PushgatewaySection | None = None
    """a Pushgateway, {url: URL} (= none)"""
    textfile: TextfilePath | None = None
    """the absolute path of a file for the node exporter, which ends in .prom (= none)"""

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Self:
        if self.pushgateway is None and self.textfile is None:
            raise ValueError("expected pushgateway or textfile")
        return self


def _tell_header(value: object) -> str:
    return "text" if isinstance(value, str) else "secret"


HeaderValue = Annotated[
    Annotated[HiddenText, Tag("text")] | Annotated[SecretSection, Tag("secret")], Discriminator(_tell_header)
]


class PrometheusSection(ConfigSection):
    """One Prometheus server: where it is, how to speak to it, and how its labels are spelled."""

    url: Annotated[Url, Field(repr=False)]
    """a URL like https://prometheus.example.com"""
    external_url: Annotated[Url | None, Field(repr=False)] = None
    """the URL where people open it, for links in pull requests (= none)"""
    match_labels: dict[LabelName, Text] = {}
    """labels that are added to every query, for a server with several clusters (= none)"""
    label_names: LabelNamesSection = LabelNamesSection()
    """the server's names for our labels: a mapping of namespace, pod, model"""
    bearer_token: MaybeSecret = None
    """{file: PATH} or {env: NAME}, never the token itself (= none)"""
    basic_auth: Annotated[BasicAuthSection | None, Field(repr=False)] = None
    """{username: NAME, password: {file: PATH}} (= none)"""
    tls: TlsSection = TlsSection()
    """{ca, cert, key}, each {file: PATH} or {env: NAME}"""
    headers: Annotated[dict[HeaderName, HeaderValue], Field(repr=False)] = {}
    """HTTP headers by name; text, or a secret as {file: PATH} or {env: NAME} (= none)"""
    queries: dict[QuantityName, Query] = {}
    """PromQL by quantity (arrivalRate, completions, ...), tried before the built-in candidates (= none)"""

    @model_validator(mode="after")
    def _sends_no_secret_twice_or_inline(self) -> Self:
        if self.bearer_token is not None and self.basic_auth is not None:
            raise ValueError("expected one of bearerToken and basicAuth")
        for name, value in self.headers.items():
            if _ROUTING_HEADER.fullmatch(name):
                raise ValueError(f"expected no header {name}: it says where a request goes, which only url may")
            if isinstance(value, str) and _SECRET_HEADER.search(name):
                raise ValueError(
                    f"expected header {name} as {{file: PATH}} or {{env: NAME}}: a secret never stands here"
                )
            if name.lower() == "authorization" and (self.bearer_token or self.basic_auth):
                raise ValueError("expected one of bearerToken, basicAuth and header Authorization")
        return self
