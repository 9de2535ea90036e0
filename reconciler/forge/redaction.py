"""Texts without the forge's token."""

import base64
import re
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"
MAX_SHOWN = 600

# Installation tokens of 2026 are long and hold dots, dashes and underscores.
TOKEN_SHAPES = re.compile(r"(?:gh[a-z]_|github_pat_)[A-Za-z0-9._-]+")
USER_INFO = re.compile(r"(?<=://)[^/@\s]{1,2000}@")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def redact(text: str, token: str) -> str:
    """`text` on one line, without the token in any spelling, without other tokens and user names in URLs, shortened."""
    for form in secret_forms(token):
        text = text.replace(form, REDACTED)
    text = TOKEN_SHAPES.sub(REDACTED, text)
    text = USER_INFO.sub(f"{REDACTED}@", text)
    text = CONTROL_CHARACTERS.sub(" ", text)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def secret_forms(token: str) -> tuple[str, ...]:
    """Every way in which the token may be spelled, longest first; none for an empty one."""
    if not token:
        return ()
    forms = {token, quote(token, safe=""), quote_plus(token)}
    for text in (token, f"x-access-token:{token}"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(text.encode()).decode("ascii")
            forms |= {encoded, encoded.rstrip("=")}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))
