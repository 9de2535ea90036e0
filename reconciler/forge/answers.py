"""Values from a forge's JSON, which is not trusted to be what its description says."""

from collections.abc import Mapping
from datetime import UTC, datetime

from reconciler.errors import TransientError


def text_of(answer: object, *path: str) -> str:
    """The text at `path`; empty when there is none."""
    value = find(answer, *path)
    return value if isinstance(value, str) else ""


def needed_text(answer: object, *path: str) -> str:
    """The text at `path`; TransientError when there is none."""
    text = text_of(answer, *path)
    if not text:
        raise _unexpected("a text", path)
    return text


def flag_of(answer: object, *path: str) -> bool:
    """Whether `path` holds true."""
    return find(answer, *path) is True


def flag_or_none(answer: object, *path: str) -> bool | None:
    """The truth value at `path`; None when there is none."""
    value = find(answer, *path)
    return value if isinstance(value, bool) else None


def number_or_none(answer: object, *path: str) -> int | None:
    """The whole number at `path`; None when there is none."""
    value = find(answer, *path)
    return value if type(value) is int else None


def number_of(answer: object, *path: str) -> int:
    """The whole number at `path`; TransientError when there is none."""
    number = number_or_none(answer, *path)
    if number is None:
        raise _unexpected("a whole number", path)
    return number


def list_of(answer: object) -> list[object]:
    """A list; empty for anything else."""
    return answer if isinstance(answer, list) else []


def time_of(answer: object, *path: str) -> float | None:
    """The time at `path` in Unix seconds; None when there is none, TransientError for what is no time.

    One without a zone, such as a day, is UTC.
    """
    text = text_of(answer, *path)
    try:
        moment = datetime.fromisoformat(text) if text else None
        return None if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _unexpected("a time", path) from None


def find(answer: object, *path: str) -> object:
    """What is at `path`; None when there is nothing."""
    for name in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def _unexpected(expected: str, path: tuple[str, ...]) -> TransientError:
    return TransientError(f"the forge's answer: expected {expected} at {'.'.join(path)}; is this its API?")
