"""A remote and a person who works on it, as real git repositories in a temporary directory."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MANIFEST = b"kind: Deployment\r\nspec:\n  replicas: 3  # kept\n\n"
WITHOUT_UPKEEP = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n"
ODD_PATH = 'apps/odd "name"\\\nhere.yaml'


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """A bare remote on branch `main`, and a person's working clone of it."""

    remote: Path
    clone: Path

    def git(self, *arguments: str) -> str:
        """Run git as the person would, and return what it printed."""
        return run_git(self.clone, *arguments)

    def write(self, path: str, content: bytes) -> None:
        """Write a file into the person's work tree."""
        file = self.clone / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def commit(self, message: str = "A change", branch: str = "main") -> str:
        """Commit everything, push it to `branch` and return the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        self.git("push", "-q", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")

    def head(self, branch: str = "main") -> str:
        """Where the remote's branch is; empty without one."""
        return run_git(self.remote, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")


def run_git(directory: Path, *arguments: str, **variables: str) -> str:
    """Run git with a fixed identity and without the settings of this machine; GIT_COMMITTER_DATE says when it is.

    `variables` of git's environment count more.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = ours | {name: os.environ[name] for name in ("GIT_COMMITTER_DATE",) if name in os.environ}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Ann", f"GIT_{role}_EMAIL": "ann@example.com"}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}
    environment |= variables
    completed = subprocess.run(["git", *arguments], cwd=directory, env=environment, capture_output=True, check=True)
    return completed.stdout.decode("utf-8", "replace").strip()


def empty_workshop(folder: Path) -> Workshop:
    """A remote without a commit, and a clone of it; no upkeep by git itself, which every push would wait for."""
    workshop = Workshop(remote=folder / "fleet.git", clone=folder / "person")
    run_git(folder, "init", "-q", "--bare", "--template=", "--initial-branch=main", str(workshop.remote))
    run_git(folder, "init", "-q", "--template=", "--initial-branch=main", str(workshop.clone))
    run_git(workshop.clone, "remote", "add", "origin", f"../{workshop.remote.name}")
    for configuration in (workshop.remote / "config", workshop.clone / ".git" / "config"):
        with configuration.open("a") as file:
            file.write(WITHOUT_UPKEEP)
    return workshop


def open_workshop(folder: Path) -> Workshop:
    """Two commits: `README.md`, then `apps/llama.yaml`, an executable `run.sh` and a file with an odd name."""
    workshop = empty_workshop(folder)
    workshop.write("README.md", b"first\n")
    workshop.commit("First")
    workshop.write("apps/llama.yaml", MANIFEST)
    workshop.write(ODD_PATH, b"odd\n")
    workshop.write("run.sh", b"#!/bin/sh\n")
    (workshop.clone / "run.sh").chmod(0o755)
    workshop.commit("Second")
    return workshop


def copy_workshop(workshop: Workshop, folder: Path) -> Workshop:
    """The same in another folder: much quicker than making it anew."""
    copy = Workshop(remote=folder / workshop.remote.name, clone=folder / workshop.clone.name)
    shutil.copytree(workshop.remote, copy.remote)
    shutil.copytree(workshop.clone, copy.clone, symlinks=True)
    return copy
