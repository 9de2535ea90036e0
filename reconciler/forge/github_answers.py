"""Pull requests from GitHub's JSON, which is not trusted to be what its description says."""

from collections.abc import Mapping
from datetime import datetime

from reconciler.errors import TransientError
from reconciler.forge.pull_requests import PullRequest, PullRequestState


def pull_request_of(answer: object) -> PullRequest:
    """The pull request in an answer (full or simple form); TransientError when a field is missing or wrong."""
    number = number_of(answer, "number")
    opened_at, closed_at = text_of(answer, "created_at"), text_of(answer, "closed_at")
    return PullRequest(
        number=number,
        state=_state(answer),
        head_branch=_text(answer, "head", "ref"),
        base_branch=_text(answer, "base", "ref"),
        title=_text(answer, "title"),
        body=text_of(answer, "body"),
        labels=_labels(answer),
        head_commit=_text(answer, "head", "sha"),
        is_draft=flag_of(answer, "draft"),
        closed_at_s=_seconds(closed_at) if closed_at else None,
        opened_at_s=_seconds(opened_at) if opened_at else None,
        url=_text(answer, "html_url"),
    )


def is_from(answer: object, full_name: str) -> bool:
    """Whether a pull request's head branch is in the repository `full_name`; a deleted fork has none at all."""
    return text_of(answer, "head", "repo", "full_name").lower() == full_name.lower()


def updated_at_s(answer: object) -> float:
    """When a pull request was last touched, in Unix seconds."""
    return _seconds(_text(answer, "updated_at"))


def text_of(answer: object, *path: str) -> str:
    """The text at `path`; empty when there is none."""
    value = _find(answer, *path)
    return value if isinstance(value, str) else ""


def flag_of(answer: object, *path: str) -> bool:
    """Whether `path` holds true."""
    return _find(answer, *path) is True


def flag_or_none(answer: object, *path: str) -> bool | None:
    """The truth value at `path`; None when there is none."""
    value = _find(answer, *path)
    return value if isinstance(value, bool) else None


def number_of(answer: object, *path: str) -> int:
    """The whole number at `path`; TransientError when there is none."""
    value = _find(answer, *path)
    if type(value) is not int:
        raise _unexpected("a whole number", path)
    return value


def _state(answer: object) -> PullRequestState:
    if text_of(answer, "merged_at"):
        return PullRequestState.MERGED
    return PullRequestState.OPEN if _text(answer, "state") == "open" else PullRequestState.CLOSED


def _labels(answer: object) -> tuple[str, ...]:
    labels = _find(answer, "labels")
    names = [text_of(label, "name") for label in labels] if isinstance(labels, list) else []
    return tuple(name for name in names if name)


def _find(answer: object, *path: str) -> object:
    for name in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def _text(answer: object, *path: str) -> str:
    text = text_of(answer, *path)
    if not text:
        raise _unexpected("a text", path)
    return text


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise TransientError("GitHub's answer holds a time that is none; is this GitHub's API?") from None


def _unexpected(expected: str, path: tuple[str, ...]) -> TransientError:
    return TransientError(f"GitHub's answer: expected {expected} at {'.'.join(path)}; is this GitHub's API?")
