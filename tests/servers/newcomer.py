"""Somebody with an empty directory, a repository on a forge, a Prometheus, and a shell: who types what pages say."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from reconciler.domain.settings import FILL_IN
from reconciler.git.command import GitToken
from tests.servers.fleet import Fleet

PATIENCE_S = 600.0
OPEN = r"^# (accelerators:|  - \{name: |serviceClasses:|defaults: \{serviceClass: )"
"""Where lines begin that `init` leaves for a person to fill in."""
PRICES = {"A100": "3.97", "H100": "6.88", "L4": "0.70"}


def blocks_of(page: str) -> list[str]:
    """The blocks of shell commands of a page."""
    return re.findall(r"^```sh\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Types commands in a clone of the fleet's repository."""

    fleet: Fleet
    directory: Path

    @property
    def clone(self) -> Path:
        """The clone that everything happens in."""
        return self.directory / "fleet"

    @property
    def environment(self) -> dict[str, str]:
        """The shell's: this forge is not on the internet, so the operator says what and where it is."""
        assert self.fleet.git is not None
        assert self.fleet.forge is not None
        operator = self.directory / "operator.yaml"
        head = "apiVersion: reconciler.io/v1alpha1\nkind: Configuration\n"
        forge = {"kind": self.fleet.forge.kind, "url": self.fleet.forge.url}
        operator.write_text(f"{head}forge: {json.dumps(forge)}\n")
        binaries = self.directory / "bin"
        binaries.mkdir(exist_ok=True)
        command = binaries / "reconciler"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
        command.chmod(0o755)
        credential = f"http.{self.fleet.git.url}.extraHeader"
        return {
            **{name: text for name, text in os.environ.items() if not name.startswith(("RECONCILER_", "GITHUB_"))},
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "RECONCILER_CONFIG": str(operator),
            "GIT_CONFIG_COUNT": "3",
            "GIT_CONFIG_KEY_0": credential,
            "GIT_CONFIG_VALUE_0": GitToken(username=self.fleet.git.username, token=self.fleet.git.token).authorization,
            "GIT_CONFIG_KEY_1": "user.name",
            "GIT_CONFIG_VALUE_1": "Ann",
            "GIT_CONFIG_KEY_2": "user.email",
            "GIT_CONFIG_VALUE_2": "ann@example.com",
        }

    def type(self, commands: str) -> str:
        """What a shell prints; every command must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.clone if self.clone.exists() else self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def with_addresses(self, commands: str) -> str:
        """Commands of a page, with this Prometheus and this token."""
        text = commands.replace("http://127.0.0.1:9090", self.fleet.prometheus)
        return text.replace("TOKEN=...", f"TOKEN={self.fleet.token}")

    def put_right(self) -> None:
        """Fill in what stands open in the configuration: where Prometheus is, prices and targets; commit and push."""
        file = self.clone / "reconciler.yaml"
        written = file.read_text(encoding="utf-8")
        assert "127.0.0.1" not in written, "the address of a port-forward is for looking from here"
        assert FILL_IN in written
        text = re.sub(OPEN, r"\1", written.replace(FILL_IN, self.fleet.prometheus), flags=re.MULTILINE)
        text = text.replace("ttft: 500ms, itl: 24ms", "ttft: 2s, itl: 60ms")
        for name, price in PRICES.items():
            text = text.replace(f'{{name: "{name}", costPerHour: ...}}', f'{{name: "{name}", costPerHour: {price}}}')
        assert "..." not in text
        file.write_text(text, encoding="utf-8")
        self.type("git commit -qam 'Say what we know' && git push -q")


def newcomer_on(fleet: Fleet, directory: Path) -> Newcomer:
    """Somebody whose repository is not configured yet."""
    fleet.rearrange({}, "reconciler.yaml")
    directory.mkdir()
    person = Newcomer(fleet=fleet, directory=directory)
    person.type(f"git clone -q {fleet.repo} fleet")
    return person
