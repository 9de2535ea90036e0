"""Tokens of a GitHub App: made from its private key for one run and one repository, and valid for an hour."""

import math
from urllib.parse import quote

from reconciler.domain.settings import Identity
from reconciler.errors import ConfigurationError
from reconciler.forge.github import GitHubClient, api_url
from reconciler.forge.hosted import checked_api_url, needed_text, number_of, text_of
from reconciler.forge.pull_requests import ForgeToken, parse_remote
from reconciler.http.messages import Clock
from reconciler.http.redaction import Redactor

CLOCKS_DIFFER_S = 60
LIFE_S = 540
"""Of the proof that we have the key; GitHub takes at most ten minutes by its own clock."""


def make_token(
    remote: str, url: str, app_id: str, key: str, *, source: str, run_ends_s: float = math.inf
) -> ForgeToken:
    """A token for `remote` alone, of the App's installation there; `url` is the API's, empty for that of the host.

    Its source is `source`, its author the App's bot. Raises ConfigurationError for a wrong key or a repository where
    the App is not installed, TransientError when GitHub does not answer.
    """
    address = parse_remote(remote)
    if address is None:
        raise ConfigurationError(f"{Redactor().show(remote)}: a GitHub App needs https://HOST/OWNER/NAME")
    root = checked_api_url(url or api_url(address.host))
    proof = GitHubClient(root, _signed(app_id, key, source), token_name=source, run_ends_s=run_ends_s)
    app = proof.get("/app", action="ask GitHub which App this is")
    installation = proof.get(f"/repos/{address.full_name}/installation", action=f"look for the App at {address}")
    path = f"/app/installations/{number_of(installation, 'id')}/access_tokens"
    form = {"repositories": [address.name]}
    made = proof.write("POST", path, form, action=f"make a token for {address}")
    token = needed_text(made, "token")
    login = f"{needed_text(app, 'slug')}[bot]"
    client = GitHubClient(root, token, token_name=source, run_ends_s=run_ends_s)
    bot = client.get(f"/users/{quote(login, safe='')}", action=f"ask who {login} is")
    email = f"{number_of(bot, 'id')}+{login}@users.noreply.{address.host}"
    return ForgeToken(text=token, source=source, author=Identity(name=text_of(bot, "name") or login, email=email))


def _signed(app_id: str, key: str, source: str) -> str:
    import jwt  # loads cryptography, which only Apps need

    now_s = int(Clock().now_s())
    claims = {"iss": app_id, "iat": now_s - CLOCKS_DIFFER_S, "exp": now_s + LIFE_S}
    try:
        return jwt.encode(claims, key, algorithm="RS256")
    except (ValueError, TypeError, AttributeError, jwt.PyJWTError):  # a public key, too; what they say may quote it
        raise ConfigurationError(f"{source}: expected the App's private key, as GitHub gave it (PEM)") from None
