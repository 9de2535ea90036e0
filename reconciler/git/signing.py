"""Signed commits: a key of SSH or OpenPGP, prepared for one run, and what git needs to sign with it."""

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from reconciler.domain.records import dataclass
from reconciler.errors import ConfigurationError
from reconciler.git.command import GitCommand, shorten
from reconciler.http.redaction import Redactor

TIMEOUT_S = 30.0
FOLDER = "signing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """How git signs: `format` is git's `gpg.format`, `key` a file with a private key or an OpenPGP fingerprint."""

    format: str
    key: str = field(repr=False)
    home: Path | None = None
    """Where the OpenPGP key is."""

    def sign(
        self, git: GitCommand, *, tree: str, parents: Sequence[str], message: bytes, person: Mapping[str, str]
    ) -> str:
        """Write a signed commit, and return its id; `person` are git's variables of author and committer.

        Raises ConfigurationError where the key does not sign.
        """
        settings = ("-c", f"gpg.format={self.format}", "-c", f"user.signingkey={self.key}")
        named = [word for parent in parents for word in ("-p", parent)]
        variables = {**person, **({} if self.home is None else {"GNUPGHOME": str(self.home)})}
        try:
            command = (*settings, "commit-tree", "-S", *named, tree)
            done = git.attempt(*command, action="sign the commit", stdin=message, variables=variables)
        finally:
            if self.home is not None:  # an agent would outlive the run
                _run(["gpgconf", "--homedir", str(self.home), "--kill", "all"])
        if done.status != 0:
            raise ConfigurationError(
                f"git.signing: the commit was not signed: {shorten(done.stderr, Redactor())}; "
                "check that the key is private, without a passphrase, and of git.signing.method"
            )
        return done.stdout.decode("ascii", "replace").strip()


def prepare_signer(method: str, key: str, directory: Path) -> Signer:
    """The signer of a key (its text), which is kept below `directory` until that is removed.

    A mounted secret may be readable to a group, which ssh-keygen refuses: so it gets a copy of its own.
    Raises ConfigurationError for a text that is no such key.
    """
    folder = directory / FOLDER
    folder.mkdir(mode=0o700)
    if method == "ssh":
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            raise ConfigurationError(
                f"git.signing: ssh-keygen needs its user in /etc/passwd, and {os.getuid()} has none: add one"
            ) from None
        path = folder / "key"
        path.touch(mode=0o600)
        path.write_text(f"{key.strip()}\n", encoding="utf-8")
        _checked(["ssh-keygen", "-y", "-P", "", "-f", str(path)], "is no private key of SSH without a passphrase")
        return Signer(format="ssh", key=str(path))
    gpg = ["gpg", "--homedir", str(folder), "--batch", "--no-tty", "--quiet"]
    try:
        refusal = "is no private key of OpenPGP (gpg --armor --export-secret-keys KEY)"
        _checked([*gpg, "--import"], refusal, stdin=f"{key.strip()}\n".encode())
        listed = _checked([*gpg, "--with-colons", "--list-secret-keys"], refusal)
    finally:
        _run(["gpgconf", "--homedir", str(folder), "--kill", "all"])
    prints = [line.split(":")[9] for line in listed.decode("utf-8", "replace").splitlines() if line.startswith("fpr:")]
    if not prints:
        raise ConfigurationError(f"git.signing.key {refusal}")
    return Signer(format="openpgp", key=f"{prints[0]}!" if len(prints) == 1 else prints[0], home=folder)


def _checked(command: Sequence[str], refusal: str, *, stdin: bytes = b"") -> bytes:
    done = _run(command, stdin=stdin)
    if done is None:
        raise ConfigurationError(f"git.signing needs {command[0]}, which was not found or did not end: install it")
    if done.returncode != 0:  # what it says may quote the key
        raise ConfigurationError(f"git.signing.key {refusal}")
    return done.stdout


def _run(command: Sequence[str], *, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes] | None":
    """The command run to its end; None where it cannot be started, or does not end."""
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": os.devnull}
    try:
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=TIMEOUT_S, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
