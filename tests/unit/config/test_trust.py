from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.config.environment import Flags
from reconciler.config.loading import LoadedSettings, origins_of_remote
from reconciler.domain.settings import PrometheusSettings, SecretRef
from reconciler.http.redaction import origin_of

Load = Callable[..., LoadedSettings]
Check = Callable[..., list[str]]


EVIL = "clusters: [{name: prod, prometheus: {url: 'https://evil.example.net/x'}}]"
SECRETS = {
    "bearer token": "bearerToken: {env: RECONCILER_T}",
    "password": "basicAuth: {username: u, password: {env: RECONCILER_T}}",
    "secret header": "headers: {X-A: {env: RECONCILER_T}}",
    "client key": "tls: {cert: {file: /var/run/secrets/reconciler/c}, key: {file: /var/run/secrets/reconciler/k}}",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_the_repository_cannot_send_an_operators_secret_to_its_own_url(check: Check, secret: str) -> None:
    operator = f"clusters: [{{name: prod, prometheus: {{{secret}}}}}]"
    assert check(EVIL, operator=[operator]) == [
        (
            "reconciler.yaml:3: error: clusters[0].prometheus.url: cluster prod: a secret would go to "
            "https://evil.example.net, which only the repository names: "
            "set RECONCILER_TRUSTED_ORIGINS=https://evil.example.net"
        )
    ]


def test_an_extended_file_is_the_repository_too(check: Check) -> None:
    operator = "clusters: [{name: prod, prometheus: {bearerToken: {file: /etc/token}}}]"
    (finding,) = check("extends: [a.yaml]", files={"a.yaml": EVIL}, operator=[operator])
    assert finding.startswith("a.yaml:3: error: clusters[0].prometheus.url: cluster prod: a secret would go to")


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_the_repositorys_own_references_need_a_trusted_origin_too(check: Check, secret: str) -> None:
    text = f"clusters: [{{name: a, prometheus: {{url: 'https://a.example.com:443/p', {secret}}}}}]"
    assert "set RECONCILER_TRUSTED_ORIGINS=https://a.example.com" in check(text)[0]
    assert check(text, variables={"RECONCILER_TRUSTED_ORIGINS": "https://A.example.com/"}) == []
    assert check(text, flags=Flags(repo="https://a.example.com/acme/fleet.git")) == []
    assert check(text, operator=["clusters: [{name: b, prometheus: {url: 'https://a.example.com'}}]"]) == []


def test_the_line_to_set_keeps_what_is_trusted_already(check: Check) -> None:
    text = "clusters: [{name: a, prometheus: {url: 'https://a', bearerToken: {env: RECONCILER_T}}}]"
    (finding,) = check(text, variables={"RECONCILER_TRUSTED_ORIGINS": "https://b, http://c:9090"})
    assert finding.endswith("set RECONCILER_TRUSTED_ORIGINS=https://b,http://c:9090,https://a")


@pytest.mark.parametrize("near", ["http://a", "https://a:8443", "https://a.evil.net", "https://b.a"])
def test_an_origin_that_only_looks_alike_is_not_trusted(check: Check, near: str) -> None:
    text = f"clusters: [{{name: a, prometheus: {{url: '{near}', bearerToken: {{env: RECONCILER_T}}}}}}]"
    assert len(check(text, variables={"RECONCILER_TRUSTED_ORIGINS": "https://a"})) == 1


@pytest.mark.parametrize("header", ["Host", "X-Forwarded-Host", "Forwarded", "Transfer-Encoding"])
def test_a_header_cannot_lead_a_trusted_request_elsewhere(check: Check, header: str) -> None:
    text = f"clusters: [{{name: prod, prometheus: {{headers: {{{header}: evil.example.net}}}}}}]"
    operator = "clusters: [{name: prod, prometheus: {url: 'https://a', bearerToken: {file: /etc/token}}}]"
    (finding,) = check(text, operator=[operator])
    assert f"expected no header {header}: it says where a request goes" in finding


def test_no_secret_needs_no_trust(check: Check) -> None:
    assert check(EVIL) == []
    assert check("clusters: [{name: a, prometheus: {url: 'https://a', headers: {X-Scope-OrgID: llm}}}]") == []


def test_the_operators_url_takes_secrets_wherever_they_are_named(load: Load) -> None:
    text = "clusters: [{name: prod, prometheus: {url: 'https://evil', bearerToken: {env: RECONCILER_T}}}]"
    operator = "clusters: [{name: prod, prometheus: {url: 'https://good.example.com'}}]"
    good = PrometheusSettings(url="https://good.example.com", bearer_token=SecretRef(env="RECONCILER_T"))
    loaded = load(text, operator=[operator])
    (cluster,) = loaded.settings.clusters
    assert cluster.prometheus is not None
    assert replace(cluster.prometheus, place=None) == good
    assert loaded.trusted_origins == {"https://good.example.com"}
    assert load(text, flags=Flags(prometheus=good.url)).settings.clusters[0].prometheus == good


def test_a_cluster_that_is_not_selected_is_not_asked(check: Check) -> None:
    text = "clusters: [{name: a}, {name: b, prometheus: {url: 'https://b', bearerToken: {env: RECONCILER_T}}}]"
    assert len(check(text)) == 1
    assert check(text, flags=Flags(clusters=("a",))) == []


def test_the_forge_gets_a_token_only_at_an_origin_that_the_operator_named(check: Check) -> None:
    text = "forge: {url: 'https://github.example.com/api/v3'}"
    assert check(text) == []
    (finding,) = check(text, variables={"GITHUB_TOKEN": "x"})
    assert finding.startswith(
        "reconciler.yaml:3: error: forge.url: forge: a secret would go to https://github.example.com"
    )
    assert check(text, variables={"GITHUB_TOKEN": "x"}, flags=Flags(repo="https://github.example.com/a/b")) == []
    assert check(text, variables={"GITHUB_TOKEN": "x"}, flags=Flags(remote="git@github.example.com:a/b.git")) == []
    assert check(operator=[text], variables={"GITHUB_TOKEN": "x"}) == []
    app = {"RECONCILER_GITHUB_APP_ID": "1", "RECONCILER_GITHUB_APP_KEY": "x"}
    assert "a secret would go to https://github.example.com" in check(text, variables=app)[0], "proofs are secrets, too"
    github = "forge: {url: 'https://api.github.com'}"
    assert check(github, variables={"GITHUB_TOKEN": "x"}, flags=Flags(repo="https://github.com/a/b")) == []


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.COM", "https://example.com"),
        ("HTTPS://example.com:443/path/x", "https://example.com"),
        ("http://example.com:80", "http://example.com"),
        ("http://prometheus:9090/", "http://prometheus:9090"),
        ("https://[::1]:9090/x", "https://[::1]:9090"),
    ],
)
def test_an_origin_has_one_spelling(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "https://user@example.com",
        "https://good.example.com@evil.net",
        "https://good.example.com\\@evil.net",
        "https://good.example.com#@evil.net",
        "https://good.example.com?@evil.net",
        "https://good.example.com\t.evil.net",
        "https://good.example.com\n",
        " https://example.com",
        "https://exämple.com",
        "https://example.com:0",
        "https://example.com:99999",
        "https://",
        "https:///path",
        "https://a..b",
        "https://example.com/\\evil",
        "https://example.com/a b",
        "ftp://example.com",
        "//example.com",
        "example.com:443",
        "javascript:alert(1)",
    ],
)
def test_a_url_that_two_readers_may_read_differently_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        origin_of(url)


@pytest.mark.parametrize(
    ("remote", "origins"),
    [
        ("https://github.com/a/b", {"https://github.com", "https://api.github.com"}),
        ("git@github.com:a/b.git", {"https://github.com", "https://api.github.com"}),
        ("https://acme.ghe.com/a/b", {"https://acme.ghe.com", "https://api.acme.ghe.com"}),
        ("https://acme.ghe.com.evil.net/a/b", {"https://acme.ghe.com.evil.net"}),
        ("ssh://git@git.example.com:2222/a/b", {"https://git.example.com"}),
        ("http://127.0.0.1:3000/a/b", {"http://127.0.0.1:3000"}),
        ("https://me:secret@evil.example/a", set()),
        ("/srv/git/fleet.git", set()),
        (".", set()),
        ("", set()),
    ],
)
def test_a_remote_names_its_host_and_its_forge(remote: str, origins: set[str]) -> None:
    assert origins_of_remote(remote) == origins


def test_the_pushgateways_secret_goes_only_where_the_operator_said(load: Load, check: Check) -> None:
    text = "gauges: {pushgateway: {url: 'https://push.example', bearerToken: {env: RECONCILER_PUSH}}}"
    (finding,) = check(text)
    assert "gauges: a secret would go to https://push.example, which only the repository names" in finding
    assert check(text, variables={"RECONCILER_TRUSTED_ORIGINS": "https://push.example"}) == []
    assert check("gauges: {pushgateway: {url: 'https://push.example'}}") == [], "no secret, no trust needed"
    assert load(operator=[text]).gauges is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gauges: {}", "expected pushgateway or textfile"),
        ("gauges: {textfile: x.prom}", "expected an absolute path that ends in .prom"),
        ("gauges: {textfile: /etc/passwd}", "expected an absolute path that ends in .prom"),
        ("gauges: {textfile: /var/../etc/x.prom}", "expected an absolute path that ends in .prom"),
        ("gauges: {textfile: /var/.prom}", "expected an absolute path that ends in .prom"),
    ],
)
def test_a_textfile_can_replace_nothing_but_gauges(check: Check, text: str, words: str) -> None:
    (finding,) = check(text)
    assert words in finding
