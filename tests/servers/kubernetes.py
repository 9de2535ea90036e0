"""A real Kubernetes API server on this machine, without a single node: what it takes, keeps and refuses."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.prometheus import free_port

BINARIES = {name: shutil.which(name) or "" for name in ("kube-apiserver", "etcd", "kubectl")}
ABSENT = ", ".join(name for name, path in BINARIES.items() if not path)
ADMIN = "admin-of-the-tests"
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesServer:
    """Where it answers, and the certificate that it made for itself."""

    url: str
    certificate: Path

    def connection(self, token: str = ADMIN) -> tuple[str, ...]:
        """The flags by which kubectl finds it."""
        return f"--server={self.url}", f"--certificate-authority={self.certificate}", f"--token={token}"

    def kubectl(self, *arguments: str, token: str = ADMIN, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """What kubectl says, as the administrator unless a token is given."""
        with tempfile.TemporaryDirectory() as home:
            return subprocess.run(
                [BINARIES["kubectl"], *arguments, *self.connection(token)],
                input=stdin,
                env={"PATH": os.defpath, "HOME": home},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )

    def apply(self, *arguments: str, stdin: str = "") -> None:
        """`kubectl apply`, which must succeed."""
        done = self.kubectl("apply", *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr

    def get(self, namespace: str, kind: str, name: str) -> Mapping[str, Any]:
        """One object, with who manages which field."""
        done = self.kubectl("-n", namespace, "get", kind, name, "--output=json", "--show-managed-fields")
        assert done.returncode == 0, done.stderr
        found: Mapping[str, Any] = json.loads(done.stdout)
        return found


@contextmanager
def serve_kubernetes(directory: Path) -> Iterator[KubernetesServer]:
    """An API server with RBAC over an empty etcd; all that both write is in `directory`."""
    etcd, peer, port = free_port(), free_port(), free_port()
    key, public, tokens = (directory / name for name in ("accounts.key", "accounts.pub", "tokens.csv"))
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
    tokens.write_text(f"{ADMIN},admin,1,system:masters\n")
    store = [
        BINARIES["etcd"],
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{etcd}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
    ]
    server = [
        BINARIES["kube-apiserver"],
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory / 'certificates'}",
        "--authorization-mode=RBAC",
        f"--token-auth-file={tokens}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={key}",
        "--endpoint-reconciler-type=none",
    ]
    with _running(store, directory / "etcd.log"), _running(server, directory / "kube-apiserver.log") as process:
        found = KubernetesServer(
            url=f"https://127.0.0.1:{port}", certificate=directory / "certificates" / "apiserver.crt"
        )
        _wait_for(found, process, directory / "kube-apiserver.log")
        yield found


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield process


def _wait_for(server: KubernetesServer, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s and process.poll() is None:
        if server.certificate.exists() and server.kubectl("get", "--raw=/readyz").stdout == "ok":
            return
        time.sleep(0.2)
    raise AssertionError(f"kube-apiserver was not ready: {log.read_text()[-2000:]}")
