"""The text of one local pull request: YAML front matter, then the body. People edit it, so it is read with care."""

import json
from datetime import UTC, datetime
from pathlib import Path

import yaml

from reconciler.errors import ConfigurationError
from reconciler.forge.pull_requests import PullRequest, PullRequestState

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_FRONT_MATTER_LENGTH = 16_000

FENCE = "---"


def one_line(text: str) -> str:
    """`text` as it fits into front matter: on one line, and without what YAML does not call printable."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def render_pull_request(pull_request: PullRequest) -> bytes:
    """The file for a pull request. Texts are written as JSON, which is YAML that needs no knowledge of YAML."""
    lines = [
        FENCE,
        f"number: {pull_request.number}",
        f"state: {pull_request.state.value}",
        f"head: {json.dumps(pull_request.head_branch)}",
        f"base: {json.dumps(pull_request.base_branch)}",
        f"title: {json.dumps(pull_request.title, ensure_ascii=False)}",
        f"labels: {json.dumps(list(pull_request.labels), ensure_ascii=False)}",
        *(["draft: true"] if pull_request.is_draft else []),
        *([] if pull_request.opened_at_s is None else [f"opened: {_moment(pull_request.opened_at_s)}"]),
        FENCE,
        "",
    ]
    return ("\n".join(lines) + "\n" + pull_request.body).encode("utf-8", "replace")


def parse_pull_request(content: bytes, path: Path) -> PullRequest:
    """The pull request in a file; ConfigurationError says what a person has to correct in it."""
    front_matter, body = _split(content, path)
    fields = _load(front_matter, path)
    number = _text(fields, "number", path)
    if number != path.stem:
        raise ConfigurationError(f"{path}: number: expected {path.stem}, as the file is named, found {number[:20]!r}")
    labels = fields.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ConfigurationError(f"{path}: labels: expected a list of texts")
    return PullRequest(
        number=int(path.stem),
        state=_state(fields, path),
        head_branch=_text(fields, "head", path),
        base_branch=_text(fields, "base", path),
        title=_text(fields, "title", path),
        body=body,
        labels=tuple(labels),
        is_draft=fields.get("draft") == "true",
        opened_at_s=_opened_at_s(fields, path),
        url=path.absolute().as_uri(),
    )


def _split(content: bytes, path: Path) -> tuple[str, str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: expected text in UTF-8") from None
    opening, _, rest = text.partition("\n")
    end = -1 if opening.rstrip() != FENCE else _end_of_front_matter(rest)
    if end < 0:
        raise ConfigurationError(
            f"{path}: expected front matter of at most {MAX_FRONT_MATTER_LENGTH} characters between two lines `---`"
        )
    body = rest[end:].partition("\n")[2]
    blank, _, after_blank = body.partition("\n")
    return rest[:end], body if blank.strip() else after_blank


def _end_of_front_matter(text: str) -> int:
    """Where the closing fence begins; -1 when there is none."""
    position = 0
    for line in text[:MAX_FRONT_MATTER_LENGTH].split("\n"):
        if line.rstrip() == FENCE:
            return position
        position += len(line) + 1
    return -1


def _load(text: str, path: Path) -> dict[str, object]:
    try:
        # Every scalar stays text and no merge key is expanded, so nothing in it can grow.
        fields = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (constructs no objects)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 2
        raise ConfigurationError(f"{path}:{line}: the front matter is not valid YAML") from None
    if not isinstance(fields, dict):
        raise ConfigurationError(f"{path}: the front matter is not a mapping")
    return {str(name): value for name, value in fields.items()}


def _state(fields: dict[str, object], path: Path) -> PullRequestState:
    text = _text(fields, "state", path)
    try:
        return PullRequestState(text)
    except ValueError:
        known = ", ".join(PullRequestState)
        raise ConfigurationError(f"{path}: state: expected one of {known}, found {text[:40]!r}") from None


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(int(time_s), UTC).isoformat().replace("+00:00", "Z")


def _opened_at_s(fields: dict[str, object], path: Path) -> float | None:
    """When it was opened, in Unix seconds; None where it does not say. One without a zone is UTC."""
    if "opened" not in fields:
        return None
    text = _text(fields, "opened", path)
    try:
        moment = datetime.fromisoformat(text)
        time_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        _moment(time_s)  # as it will be written again
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{path}: opened: expected a time, found {text[:40]!r}") from None
    return time_s


def _text(fields: dict[str, object], name: str, path: Path) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{path}: {name}: expected a text, found {type(value).__name__}")
    return value
