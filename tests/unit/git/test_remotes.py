from pathlib import Path

import pytest

from reconciler.errors import ConfigurationError
from reconciler.git.command import open_remote


@pytest.mark.parametrize(
    ("source", "protocol", "origin"),
    [
        ("https://github.com/acme/fleet.git", "https", "https://github.com"),
        ("https://git.example.com:8443/acme/fleet", "https", "https://git.example.com:8443"),
        ("http://127.0.0.1:8080/fleet.git", "http", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/fleet.git", "http", "http://[::1]:8080"),
        ("ssh://git@github.com:22/acme/fleet.git", "ssh", ""),
        ("git@github.com:acme/fleet.git", "ssh", ""),
    ],
)
def test_the_protocol_and_the_origin_of_credentials_come_from_the_url(source: str, protocol: str, origin: str) -> None:
    remote = open_remote(source)
    assert (remote.url, remote.protocol, remote.origin) == (source, protocol, origin)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("ext::sh -c id", "no such directory"),
        ("ext::sh://x", "found"),
        ("git://example.com/x", "found git://"),
        ("ftp://example.com/x", "found ftp://"),
        ("http://example.com/x", "use https://"),
        ("http://127.0.0.1.example.com/x", "use https://"),
        ("https:///x", "host"),
        ("https://-x/y", "host"),
        ("https://example.com:port/y", "[Pp]ort"),
        ("ssh://-oProxyCommand=id/x", "host"),
        ("ssh://-x@example.com/y", "user"),
        ("-oProxyCommand=id@x:y", "no such directory"),
        ("git@-x:y", "no such directory"),
        ("git@host:-y", "no such directory"),
        ("--upload-pack=id", "no such directory"),
        ("", "expected a URL"),
        ("https://example.com/a\nb", "expected a URL"),
        ("/no/such/place", "no such directory"),
        ("file:///no/such/place", "no such directory"),
        ("x" * 5000, "no such directory"),
        ("~nobody-of-this-name/x", "no such directory"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(source: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        open_remote(source)


@pytest.mark.parametrize(
    "source",
    ["https://bob:hunter2@example.com/x", "https://hunter2@example.com/x", "ssh://git:hunter2@example.com/x"],
)
def test_credentials_in_a_url_are_refused_without_being_repeated(source: str) -> None:
    with pytest.raises(ConfigurationError, match="RECONCILER_FORGE_TOKEN") as raised:
        open_remote(source)
    assert "hunter2" not in str(raised.value)


def test_a_directory_is_reached_as_a_file_only(tmp_path: Path) -> None:
    assert open_remote(str(tmp_path)).protocol == "file"
    assert open_remote(f"file://{tmp_path}").url == str(tmp_path.resolve())
