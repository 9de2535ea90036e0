"""The file that `reconciler fit --write` keeps: a configuration with the learned profiles of models, and no more."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from pathlib import Path

from reconciler.config.environment import Environment, Flags
from reconciler.config.files import HEADER, MAX_FILE_BYTES
from reconciler.config.loading import load_settings
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.errors import ConfigurationError

FIRST_LINE = "# Kept by reconciler fit --write: edits are lost."

_DIGITS = Context(prec=6, rounding=ROUND_HALF_EVEN)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_NO_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def render_learned(models: Mapping[str, Sequence[PerformanceProfile]]) -> str:
    """A whole configuration file with these profiles by model id, equal for equal profiles in any order.

    Numbers have up to six significant digits. Only parameters, batch size and
    learning are written.
    """
    lines = [FIRST_LINE, *(f"{key}: {value}" for key, value in HEADER.items())]
    lines += ["models:" if models else "models: []"]
    for model_id, profiles in sorted(models.items()):
        lines += [f"  - id: {_text(model_id)}", "    profiles:" if profiles else "    profiles: []"]
        for profile in sorted(profiles, key=lambda each: each.accelerator):
            first, *others = _render_profile(profile)
            lines += [f"      - {first}", *(f"        {line}" for line in others)]
    return "\n".join(lines) + "\n"


def read_learned(path: Path) -> Mapping[str, tuple[PerformanceProfile, ...]]:
    """The profiles in the file by model id; none when there is no file.

    Raises ConfigurationError when the file is not one that `render_learned` made: it belongs to a person.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or 'unknown reason'}") from error
    first_line = content.partition(b"\n")[0].rstrip(b"\r")
    if first_line != FIRST_LINE.encode():
        message = f"expected the first line {FIRST_LINE!r}: the file is somebody's own, name another or remove it"
        raise ConfigurationError(f"{path}:1: {message}")
    loaded = load_settings(
        repository_file=None,
        read_repository_file=lambda _: None,
        operator_files=[path],
        flags=Flags(),
        environment=Environment(),
    )
    return {model.model_id: model.profiles for model in loaded.settings.models}


def _render_profile(profile: PerformanceProfile) -> Iterator[str]:
    yield f"accelerator: {_text(profile.accelerator)}"
    for name, seconds in profile.times_s.items():
        if seconds is not None:
            yield f"{name}: {_number(seconds, 3)}ms"
    if profile.token_budget is not None:
        yield f"maxBatchedTokens: {profile.token_budget}"
    yield f"maxBatchSize: {profile.max_batch_size}"
    if profile.learning is not None:
        yield "learned:"
        yield from (f"  {line}" for line in _render_learning(profile.learning))


def _render_learning(learning: Learning) -> Iterator[str]:
    yield f"date: {learning.on}"
    yield f"samples: {learning.samples}"
    yield f"error: {_number(learning.error, 2)}%"
    for name, (smallest, largest) in (
        ("batch", learning.batch),
        ("inputTokens", learning.input_tokens),
        ("outputTokens", learning.output_tokens),
    ):
        yield f"{name}: [{_number(smallest)}, {_number(largest)}]"
    if learning.reach is not None:
        yield f"reach: {learning.reach}"


def _number(value: float, shift: int = 0) -> str:
    """The number times ten to the power of `shift`, without an exponent."""
    rounded = Decimal(repr(float(value))).scaleb(shift).normalize(_DIGITS)
    # Twelve decimals are all that a quantity may have: see `values`.
    return f"{rounded:.12f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    """Plain where no reader of YAML could take it for anything but text."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _NO_TEXT else json.dumps(text, ensure_ascii=False)
