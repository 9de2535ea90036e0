"""What a refusal of GitLab means."""

from collections.abc import Iterator

from reconciler.errors import ConfigurationError, RivalRunError, TransientError
from reconciler.forge.failures import Judge, redirect_advice

NEEDED = "the scope api and at least the role Developer in this project"


class ConflictError(RivalRunError):
    """Raised for a 409: such a thing is there already, or somebody changed it at the same time."""


class GitLabJudge(Judge):
    """Judges GitLab's answers."""

    forge = "GitLab"
    limit_headers = "RateLimit"

    def messages(self, content: object) -> str:
        """See `Judge`; a message is a text, a list of them, or both by field."""
        if not isinstance(content, dict):
            return ""
        said = (content.get(name) for name in ("message", "error", "error_description"))
        return "; ".join(text for each in said for text in _texts(each))

    def refusal(self, status: int, content: object, shown: str) -> ConfigurationError | TransientError:
        """See `Judge`."""
        if status == 409:
            return ConflictError(f"{shown} (somebody changed it at the same time)")
        return super().refusal(status, content, shown)

    def advice(self, status: int) -> str:
        """See `Judge`."""
        return redirect_advice(status) or {
            401: f"check that {self.token_name} holds a personal, project or group access token that is valid, not "
            "expired, and for this host; a CI_JOB_TOKEN may not do this",
            403: f"{self.token_name} needs {NEEDED}",
            404: f"check the project's path, and that {self.token_name} may see it: it needs {NEEDED}",
        }.get(status, "")


def _texts(said: object) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, list):
        for each in said:
            yield from _texts(each)
    elif isinstance(said, dict):
        for name, each in said.items():
            yield from (f"{name} {text}" for text in _texts(each))
