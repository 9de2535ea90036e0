"""What a failed git command means: somebody must change something, or the next run may succeed.

git ends with 128 for everything, so the only facts are the HTTP status and the few fixed messages of its transports,
which `LC_ALL=C` keeps in English. What is not recognised is transient: the next run tries again and the text is shown.
"""

import re

from reconciler.errors import ConfigurationError, ReconcilerError, TransientError
from reconciler.http.redaction import MAX_SHOWN, UNPRINTABLE, Redactor

PERMANENT: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"returned error: 401|Authentication failed|could not read (?:Username|Password)|HTTP 401"),
        "the remote wants valid credentials: check that RECONCILER_FORGE_TOKEN is set, not expired, and for this host",
    ),
    (
        re.compile(r"returned error: 403|HTTP 403"),
        "the remote knows the token but forbids this: it needs to read and write contents of this repository",
    ),
    (
        re.compile(r"Permission denied \(|Host key verification failed"),
        "ssh was refused: check the key of this user and that known_hosts has the host (ssh never asks here)",
    ),
    (
        re.compile(r"returned error: 404|repository '[^']*' not found|does not appear to be a git repository"),
        "no repository there: check the URL, and that the token may see it",
    ),
    (
        re.compile(r"returned error: 30\d|HTTP 30\d|redirection from"),
        "the remote redirects to another address, which credentials never follow: name the final URL",
    ),
    (
        re.compile(r"not a git repository|detected dubious ownership"),
        "not a git repository that this user may write to: check the path and its owner",
    ),
    (
        re.compile(r"lazy fetching disabled|from promisor remote"),
        "this clone is incomplete (partial), and nothing is fetched for it: use a full clone or the remote's URL",
    ),
    (
        re.compile(r"SSL certificate problem|server certificate verification failed"),
        "the certificate is not trusted: set REQUESTS_CA_BUNDLE to your certificate authority's file",
    ),
)


def explain_failure(action: str, status: int, stderr: bytes, redactor: Redactor) -> ReconcilerError:
    """The error to raise for a git command that ended with `status`; its text holds no secret."""
    text = shorten(stderr, redactor)
    for pattern, advice in PERMANENT:
        if pattern.search(text):
            return ConfigurationError(f"{action}: {advice} ({text})")
    return TransientError(f"{action}: git ended with {status}: {text or 'no message'}")


def shorten(output: bytes, redactor: Redactor) -> str:
    """The end of git's output on one line, redacted; what a server sends is hostile text."""
    text = redactor.hide(output.decode("utf-8", "replace"))
    lines = (UNPRINTABLE.sub(" ", line).strip() for line in text.splitlines())
    return "; ".join(filter(None, lines))[-MAX_SHOWN:]
