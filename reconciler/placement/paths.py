"""Paths inside of a repository, and the addresses that repositories are called by; nothing is asked of any disk."""

import re
from dataclasses import dataclass
from typing import Final

KUSTOMIZATION_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_YAML_ENDINGS: Final = (".yaml", ".yml", ".json")
CHART_NAME: Final = "Chart.yaml"
_ADDRESS: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/]+/.+|[^/:]{2,}:[^/].*")
_REMOTE: Final = re.compile(r"[a-z+]+://|git@|git::|[\w-]+(?:\.[\w-]+)+[/:]|.*\?ref=", re.IGNORECASE | re.DOTALL)
_RAW_HOST: Final = "raw.githubusercontent.com/"
_LATEST: Final = frozenset({"", "HEAD", "main", "master"})
_LOOPBACK: Final = re.compile(r"localhost|127\.[0-9.]+|\[.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAddress:
    """An address in parts: the repository, a path in it, and the commit that is meant, empty for the latest."""

    repository: str
    path: str
    revision: str


def is_address(text: str) -> bool:
    """Whether Kustomize fetches what an entry names."""
    return _REMOTE.match(text) is not None


def split_address(text: str) -> OwnAddress | None:
    """The parts of an address that Kustomize fetches a directory or a file from; None where they cannot be told."""
    base, _, query = text.removeprefix("git::").partition("?")
    revisions = [value for name, _, value in (each.partition("=") for each in query.split("&")) if name == "ref"]
    scheme, found, rest = base.rpartition("://")
    if rest.startswith(_RAW_HOST):
        owner, name, revision, *parts = [*rest.removeprefix(_RAW_HOST).split("/"), "", "", ""]
        repository, path, revisions = f"github.com/{owner}/{name}", "/".join(parts).strip("/"), [revision]
    elif "//" in rest:
        repository, _, path = rest.partition("//")
    elif ".git/" in rest:
        repository, _, path = rest.partition(".git/")
    else:
        host, *parts = rest.split("/")
        repository, path = "/".join((host, *parts[:2])), "/".join(parts[2:])
    directory = resolve("", path)
    if not repository or directory is None:
        return None
    revision = next((each for each in revisions if each not in _LATEST), "")
    return OwnAddress(repository=scheme + found + repository, path=directory, revision=revision)


def is_kustomization(path: str) -> bool:
    """Whether a file is a kustomization by its name: it may leave out its kind."""
    return name_of(path) in KUSTOMIZATION_NAMES


def directory_of(path: str) -> str:
    """The directory of a path; empty at the root."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def is_yaml(path: str) -> bool:
    """Whether deployers take a file for manifests, by its name."""
    return path.endswith(_YAML_ENDINGS)


def join(directory: str, name: str) -> str:
    """A path below a directory; the empty one is the root."""
    return f"{directory}/{name}" if directory else name


def resolve(directory: str, relative: str) -> str | None:
    """The path that `relative` means in a directory; None outside of the repository."""
    if relative.startswith("/") or "\0" in relative:
        return None
    parts = directory.split("/") if directory else []
    for part in relative.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)


def normalise_url(url: str) -> str:
    """Host and path of a repository's address in lower case, however it is spelled."""
    text = url.strip().lower().rstrip("/").removesuffix(".git")
    if "://" in text:
        text = text.partition("://")[2]
    elif ":" in text:
        text = text.replace(":", "/", 1)
    host, slash, path = text.partition("/")
    return host.rpartition("@")[2].partition(":")[0] + slash + path


def is_within(path: str, directory: str) -> bool:
    """Whether a path is a directory or lies below it; all lies below the root."""
    return not directory or path == directory or path.startswith(f"{directory}/")


def compare_addresses(url: str, remote: str) -> bool | None:
    """Whether both are one repository; None where that cannot be told, as of a directory or server of this machine.

    A repository of the same name on another host is taken for a mirror.
    """
    own, other = normalise_url(remote), normalise_url(url)
    if not other or "${" in url or "{{" in url:
        return None
    is_namesake = bool(name_of(own)) and name_of(own) == name_of(other)
    host, other_host = own.partition("/")[0], other.partition("/")[0]
    if not _ADDRESS.fullmatch(remote) or _LOOPBACK.fullmatch(host):
        return True if own == other or is_namesake else None
    return own == other or (is_namesake and host != other_host)
