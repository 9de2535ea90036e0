"""What git may see of the world: a closed environment and fixed settings."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from reconciler.git.remotes import GitToken, Remote

SETTINGS = (
    # A directory that somebody else made may name commands in its own configuration. These outrank it.
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("credential.helper", ""),
    ("protocol.ext.allow", "never"),
    # Another user's directory is readable: with the lines above and no work tree nothing of it is run.
    ("safe.directory", "*"),
    # A token must never follow a redirect; git would not send it, and an operator should name the real place.
    ("http.followRedirects", "false"),
    # A clone lives for one run: maintenance would outlive it.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("push.gpgSign", "false"),
)

VARIABLES: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    # Empty, not unset: then git asks neither core.askPass nor SSH_ASKPASS.
    "GIT_ASKPASS": "",
    # A shared connection would outlive git, hold its pipes open and look like a hang.
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oControlPath=none",
    "GIT_SSH_VARIANT": "ssh",
    # A replaced object would make us read something else than the commit that we name.
    "GIT_NO_REPLACE_OBJECTS": "1",
    # A partial clone would fetch what is missing, with commands from its own configuration.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    # curl would otherwise find other credentials in ~/.netrc; ssh takes its directory from the user database.
    "HOME": os.devnull,
    "LC_ALL": "C",
    "LANGUAGE": "C",
}


def build_environment(directory: Path | None, remote: Remote | None, credentials: GitToken | None) -> dict[str, str]:
    """The variables for one command, to be laid over the process's own.

    GitToken travel in `GIT_CONFIG_VALUE_n` only: never in an argument list or a file, and only to the remote's
    origin. Without `directory` git looks for the repository itself.
    """
    environment = dict(VARIABLES)
    environment["GIT_ALLOW_PROTOCOL"] = remote.protocol if remote else "none"
    if directory is not None:
        environment["GIT_DIR"] = str(directory)
    # Operators name their own certificate authority once, for all clients.
    if bundle := os.environ.get("REQUESTS_CA_BUNDLE"):
        environment["GIT_SSL_CAINFO"] = bundle
    environment |= _config_variables([*SETTINGS, *_remote_settings(remote, credentials)])
    return environment


def inherited_git_variables(kept: Iterable[str]) -> list[str]:
    """`GIT_*` variables of this process that git must not see (a hook or CI job sets GIT_DIR, GIT_TRACE and more)."""
    return sorted({name for name in os.environ if name.startswith("GIT_")} - set(kept))


def _remote_settings(remote: Remote | None, credentials: GitToken | None) -> list[tuple[str, str]]:
    if remote is None or not remote.origin:
        return []
    settings = []
    if remote.protocol == "http":
        settings.append((f"http.{remote.origin}/.proxy", ""))  # loopback: a proxy would be another machine
    if credentials is not None:
        settings.append((f"http.{remote.origin}/.extraHeader", credentials.authorization))
    return settings


def _config_variables(settings: list[tuple[str, str]]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
