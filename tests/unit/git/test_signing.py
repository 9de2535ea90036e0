"""Commits that are signed with a real key of SSH or OpenPGP, as git itself verifies them."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from reconciler.domain.records import replace
from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError
from reconciler.git.clone import Clone
from reconciler.git.signing import Signer, prepare_signer
from tests.servers.git_workshop import Workshop, run_git

FILES = {"clusters/prod/llama.yaml": b"replicas: 5\n"}

needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")


def tell(*command: str, variables: Mapping[str, str] | None = None) -> str:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": os.devnull, **(variables or {})}
    return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout


@pytest.fixture
def ssh_key(tmp_path: Path) -> Path:
    """A private key; its public half lies beside it."""
    tell("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bot", "-f", str(tmp_path / "bot"))
    return tmp_path / "bot"


@pytest.fixture
def gpg_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A person's keyring with one key."""
    home = tmp_path_factory.mktemp("g")
    home.chmod(0o700)
    gpg = ("gpg", "--homedir", str(home), "--batch", "--quiet")
    tell(*gpg, "--passphrase", "", "--quick-generate-key", "Bot <reconciler@example.com>", "ed25519", "sign", "never")
    yield home
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


def commit(clone: Clone, signer: Signer | None, author: Identity, **changes: str) -> str:
    signing = replace(clone, signer=signer)
    return signing.write_commit(
        parent=clone.commit,
        files=FILES,
        message="Scale llama\n\nTwice\n",
        author=author,
        date_s=1_790_000_000,
        **changes,
    )


def shown(directory: Path, oid: str) -> Sequence[str]:
    return run_git(directory, "show", "-s", "--format=%T%n%P%n%an%n%ae%n%cn%n%at%n%ct%n%B", oid).splitlines()


def test_a_commit_signed_by_ssh_is_verified_by_git(
    clone: Clone, author: Identity, ssh_key: Path, tmp_path: Path
) -> None:
    signed = commit(clone, prepare_signer("ssh", ssh_key.read_text(), tmp_path), author)
    assert clone.git.directory is not None
    signers = tmp_path / "signers"
    signers.write_text(f"{author.email} {ssh_key.with_suffix('.pub').read_text()}")
    run_git(clone.git.directory, "-c", f"gpg.ssh.allowedSignersFile={signers}", "verify-commit", signed)
    unsigned = commit(clone, None, author)
    assert [clone.read_commit(each).is_signed for each in (signed, unsigned)] == [True, False]
    assert shown(clone.git.directory, signed) == shown(clone.git.directory, unsigned), "but for the signature"
    (tmp_path / "second").mkdir()
    again = prepare_signer("ssh", ssh_key.read_text(), tmp_path / "second")
    assert signed == commit(clone, again, author), "and the same each time"


def test_a_merge_is_signed_too(clone: Clone, author: Identity, ssh_key: Path, tmp_path: Path) -> None:
    head = commit(clone, None, author)
    merge = commit(clone, prepare_signer("ssh", ssh_key.read_text(), tmp_path), author, merged=head)
    assert clone.git.directory is not None
    assert "gpgsig" in run_git(clone.git.directory, "cat-file", "commit", merge)
    assert shown(clone.git.directory, merge)[1].split() == [clone.commit, head]


@needs_gpg
def test_a_commit_signed_by_openpgp_is_verified_by_git(
    clone: Clone, author: Identity, gpg_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = tell("gpg", "--homedir", str(gpg_home), "--batch", "--armor", "--export-secret-keys")
    folder = tmp_path_factory.mktemp("s")
    signed = commit(clone, prepare_signer("gpg", key, folder), author)
    assert clone.git.directory is not None
    variables = {"GNUPGHOME": str(gpg_home)}
    tell("git", "-C", str(clone.git.directory), "verify-commit", signed, variables=variables)
    assert not [path for path in (folder / "signing").iterdir() if path.is_socket()], "no agent is left"


def test_a_key_that_others_may_read_is_used_from_a_copy(ssh_key: Path, tmp_path: Path) -> None:
    """As a mounted secret is, which ssh-keygen refuses."""
    ssh_key.chmod(0o644)
    signer = prepare_signer("ssh", ssh_key.read_text().rstrip("\n"), tmp_path)
    assert stat.S_IMODE(Path(signer.key).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(signer.key).parent.stat().st_mode) == 0o700
    assert "PRIVATE" not in repr(signer)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("ssh", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHRoaXMgaXMgbm8ga2V5IGF0IGFsbCwganVzdCB0 bot"),
        ("ssh", "canary"),
        pytest.param("gpg", "canary", marks=needs_gpg),
        pytest.param("gpg", "", marks=needs_gpg),
    ],
)
def test_what_is_no_private_key_is_refused_and_not_repeated(tmp_path: Path, method: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"git\.signing\.key is no private key") as caught:
        prepare_signer(method, text, tmp_path)
    assert "canary" not in str(caught.value)


def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    tell("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret words", "-f", str(tmp_path / "locked"))
    with pytest.raises(ConfigurationError, match="without a passphrase"):
        prepare_signer("ssh", (tmp_path / "locked").read_text(), tmp_path)


def test_an_author_whom_git_spells_otherwise_is_refused(clone: Clone, ssh_key: Path, tmp_path: Path) -> None:
    """Commits of ours are known by their author, and git strips such a name when it signs."""
    signer = prepare_signer("ssh", ssh_key.read_text(), tmp_path)
    with pytest.raises(ConfigurationError, match=r"git\.author: git signs for 'Acme Inc'"):
        commit(clone, signer, Identity(name="Acme Inc.", email="bot@example.com"))


def test_a_missing_program_is_named(tmp_path: Path, ssh_key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"git\.signing needs ssh-keygen"):
        prepare_signer("ssh", ssh_key.read_text(), tmp_path)


def test_what_was_signed_is_merged_as_before(
    clone: Clone, workshop: Workshop, author: Identity, ssh_key: Path, tmp_path: Path
) -> None:
    """The tree of a signed head is compared with what was drafted."""
    signing = replace(clone, signer=prepare_signer("ssh", ssh_key.read_text(), tmp_path))
    head = commit(clone, signing.signer, author)
    assert signing.changes_only(signing.read_commit(head), FILES)
    signing.push("reconciler/prod", head, expected=None)
    merged = signing.merge(
        "reconciler/prod", head, files=FILES, since=clone.commit, message="Merge", author=author, date_s=1_790_000_100
    )
    assert run_git(workshop.remote, "rev-parse", "main") == merged.commit
    assert "gpgsig" in run_git(workshop.remote, "cat-file", "commit", "main")


def test_a_user_without_an_entry_is_named(tmp_path: Path, ssh_key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the users that OpenShift makes up: ssh-keygen only says that no user exists."""
    monkeypatch.setattr("os.getuid", lambda: 1_000_770_000)
    with pytest.raises(ConfigurationError, match="1000770000 has none: add one"):
        prepare_signer("ssh", ssh_key.read_text(), tmp_path)
