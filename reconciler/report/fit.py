"""Learned profiles as a table and as a document, and the reasons where none was learned."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from reconciler.domain.profiles import FittedModel, Fitting, KeptProfiles, Learning, PerformanceProfile
from reconciler.domain.units import ms_from_seconds, utc_minute
from reconciler.report.findings import finding_json
from reconciler.report.formatting import (
    Column,
    count,
    display_width,
    duration,
    hung,
    labels_of,
    lines_of,
    one_line,
    percentage,
    wrapped,
)

VERSION = 1
DEFAULT_PATH = ".reconciler/profiles.yaml"
NAMED_DIFFERENCE = 0.1
"""A given parameter that is off by more than this is shown next to what was learned."""
CLUSTERS_NAMED = 3
NONE, UNSEEN = "-", "?"
SERIAL_TIME = "prompt token"
"""Of prompts that are computed one after the other, the only laws with such a time: shown where one was learned."""

HEADINGS = {"prefillPerToken": SERIAL_TIME}
"""Names of a profile's times that a table cannot hold as the configuration spells them."""

Json = Mapping[str, object]


def fit_text(fitting: Fitting, kept: KeptProfiles | None = None, *, is_extended: bool = False, width: int = 0) -> str:
    """What was learned, what was not and why, and what to do with it; `width` 0 is unlimited, as for a pipe.

    `is_extended` says that the configuration reads the default file of `--write` already, which `kept` knows itself.
    """
    learned = [model for model in fitting.models if model.profile is not None]
    without = [model for model in fitting.models if model.profile is None]
    labels = labels_of(each.variant for each in fitting.unused)
    sections = (
        _head(fitting, len(learned), len(without)),
        _table(learned, width),
        _grouped("Notes", ((_name(model), note) for model in learned for note in model.notes), width),
        _grouped("Not learned", ((_name(model), model.reason) for model in without), width),
        _grouped("Not used", ((labels[each.variant], each.reason) for each in fitting.unused), width),
        _listed("Failed", fitting.failures, width),
        _listed("To fix", (*map(str, fitting.findings), *fitting.warnings), width),
        wrapped(_foot(fitting, kept, is_extended=is_extended), indent=0, width=width),
    )
    return "\n\n".join("\n".join(section) for section in sections if any(section)) + "\n"


def fit_json(fitting: Fitting, kept: KeptProfiles | None = None) -> Json:
    """The same as a document in base units."""
    return {
        "version": VERSION,
        "now_s": fitting.now_s,
        "since_s": fitting.since_s,
        "step_s": fitting.step_s,
        "repository": fitting.repository,
        "branch": fitting.branch,
        "commit": fitting.commit,
        "models": [_model_json(model) for model in fitting.models],
        "unused": [{"variant": asdict(each.variant), "reason": each.reason} for each in fitting.unused],
        "findings": [finding_json(finding) for finding in fitting.findings],
        "failures": list(fitting.failures),
        "warnings": list(fitting.warnings),
        "written": kept and {"path": kept.path, "is_changed": kept.is_changed, "is_extended": kept.is_extended},
    }


def _head(fitting: Fitting, learned: int, without: int) -> tuple[str, ...]:
    moment = utc_minute(fitting.now_s)
    branch = f" ({one_line(fitting.branch, limit=80)})" if fitting.branch else ""
    span = f"{duration(fitting.since_s)} to {moment}, a sample every {duration(fitting.step_s)}"
    if not fitting.models and not fitting.unused:
        counts = "No variants to learn from."
    else:
        counts = f"{count(learned, 'profile')} learned" + (f", {without} not." if without else ".")
    return f"{_where(fitting)} at {fitting.commit[:7]}{branch}, {span}", counts


def _where(fitting: Fitting) -> str:
    variants = (
        *(key for model in fitting.models for key in model.variants),
        *(each.variant for each in fitting.unused),
    )
    clusters = sorted({key.cluster for key in variants})
    if not clusters:
        return one_line(fitting.repository)
    return one_line(", ".join(clusters)) if len(clusters) <= CLUSTERS_NAMED else count(len(clusters), "cluster")


def _table(learned: Sequence[FittedModel], width: int) -> tuple[str, ...]:
    if not learned:
        return ()
    heading, *rows = lines_of(
        [Column(heading=heading, cells=cells, right=right) for heading, right, cells in _cells(learned)]
    )
    lines = [heading]
    for row, model in zip(rows, learned, strict=True):
        lines += [row, *hung("   ", beside, width=width)] if (beside := _given(model)) else [row]
    return tuple(lines) if width <= 0 or max(map(display_width, lines)) <= width else tuple(_stacked(learned, width))


def _cells(learned: Sequence[FittedModel]) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """Heading, whether it is aligned to the right, and cells of each column."""
    rows = [_row(model) for model in learned]
    for heading in _shown(rows):
        yield heading, heading not in ("MODEL", "ACCELERATOR", "SEEN"), tuple(row[heading] for row in rows)


def _shown(rows: Sequence[Mapping[str, str]]) -> Sequence[str]:
    """The headings of a table of `rows`."""
    return [name for name in rows[0] if name != SERIAL_TIME.upper() or any(row[name] != NONE for row in rows)]


def _row(model: FittedModel) -> Mapping[str, str]:
    profile = model.profile
    learning = profile.learning if profile is not None else None
    if profile is None or learning is None:
        return {}
    return {
        "MODEL": one_line(model.model_id),
        "ACCELERATOR": one_line(model.accelerator),
        **{name.upper(): _ms(value) for name, value in _parameters(profile).items()},
        "BATCH": f"{profile.max_batch_size}{'' if model.is_full_batch_seen else '+'}",
        "ERROR": percentage(round(learning.error, 3)),
        "SAMPLES": f"{learning.samples:,}",
        "SEEN": _seen(learning),
    }


def _stacked(learned: Iterable[FittedModel], width: int) -> Iterator[str]:
    """Each profile in lines of its own, where the table is too wide."""
    for model in learned:
        row = _row(model)
        yield from hung("", _name(model), width=width)
        shown = ("ALPHA", "BETA", "GAMMA", "DELTA", SERIAL_TIME.upper())
        parameters = ", ".join(f"{name.lower()} {row[name]}" for name in shown if name in _shown([row]))
        yield from hung("   ", f"{parameters}, batch {row['BATCH']}", width=width)
        yield from hung("   ", f"error {row['ERROR']}, {row['SAMPLES']} samples, seen: {row['SEEN']}", width=width)
        if beside := _given(model):
            yield from hung("   ", beside, width=width)


def _name(model: FittedModel) -> str:
    return f"{one_line(model.model_id)} on {one_line(model.accelerator)}"


def _parameters(profile: PerformanceProfile) -> Mapping[str, float | None]:
    return {HEADINGS.get(name, name): seconds for name, seconds in profile.times_s.items()}


def _ms(seconds: float | None) -> str:
    """Milliseconds of four digits, however small: `6.958 ms`, `0.00034 ms`."""
    if seconds is None:
        return NONE
    ms = ms_from_seconds(seconds)
    places = 0 if ms <= 0 else min(max(3 - math.floor(math.log10(ms)), 0), 12)
    text = f"{ms:.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} ms"


def _seen(learning: Learning) -> str:
    """Ranges of the batch, of input and of output tokens."""
    lengths = f"{_range(learning.input_tokens)} → {_range(learning.output_tokens)}"
    return f"batch {_range(learning.batch)}, tokens {lengths}"


def _range(seen: tuple[float, float]) -> str:
    low, high = (f"{value:.0f}" for value in seen)
    if not any(seen):
        return UNSEEN
    return low if low == high else f"{low}–{high}"


def _given(model: FittedModel) -> str:
    """`given: alpha 6.96 ms`: what somebody wrote instead, where it is far from what was learned."""
    given, learned = model.given, model.profile
    if given is None or learned is None:
        return ""
    said, found = _parameters(given), _parameters(learned)
    parts = [f"{name} {_ms(said[name])}" for name in said if _is_far(said[name], found[name])]
    if model.is_full_batch_seen and _is_far(given.max_batch_size, learned.max_batch_size):
        parts.append(f"batch {given.max_batch_size}")
    place = one_line(str(given.place)) if given.place is not None else "this"
    return f"given: {', '.join(parts)} ({place} goes before what is learned)" if parts else ""


def _is_far(given: float | None, learned: float | None) -> bool:
    if given is None or learned is None:
        return False
    return abs(learned - given) > NAMED_DIFFERENCE * given


def _grouped(heading: str, entries: Iterable[tuple[str, str]], width: int) -> tuple[str, ...]:
    """Each text once, with the names it is about below."""
    names: dict[str, list[str]] = {}
    for name, text in entries:
        names.setdefault(one_line(text), []).append(name)
    if not names:
        return ()
    lines = [heading]
    for text, about in names.items():
        lines += [*hung("   ", text, width=width), *hung("      ", ", ".join(about), width=width)]
    return tuple(lines)


def _listed(heading: str, texts: Sequence[str], width: int) -> tuple[str, ...]:
    if not texts:
        return ()
    return (heading, *(line for text in texts for line in hung("   ", one_line(text), width=width)))


def _foot(fitting: Fitting, kept: KeptProfiles | None, *, is_extended: bool) -> str:
    """What to do next."""
    if kept is None:
        advice = "" if is_extended else f", and {_extend(DEFAULT_PATH)}"
        return f"Keep them with --write {DEFAULT_PATH}{advice}." if fitting.learned else ""
    path = one_line(kept.path)
    if kept.is_changed:
        return f"Wrote {path}: commit it" + ("." if kept.is_extended else f", and {_extend(path)}.")
    is_idle = kept.is_extended or not fitting.learned
    return f"{path} stays as it is" + ("." if is_idle else f"; {_extend(path)}.")


def _extend(path: str) -> str:
    return f"add extends: [{path}] to reconciler.yaml"


def _model_json(model: FittedModel) -> Json:
    return {
        "model": model.model_id,
        "accelerator": model.accelerator,
        "variants": [asdict(key) for key in model.variants],
        "profile": None if model.profile is None else _profile_json(model.profile),
        "is_full_batch_seen": model.is_full_batch_seen,
        "prefill_error": model.prefill_error,
        "reason": model.reason or None,
        "samples": model.samples,
        "notes": list(model.notes),
        "given": None if model.given is None else _profile_json(model.given),
    }


def _profile_json(profile: PerformanceProfile) -> Json:
    return {
        "alpha_s": profile.alpha_s,
        "beta_s": profile.beta_s,
        "gamma_s": profile.gamma_s,
        "delta_s": profile.delta_s,
        "prompt_s": profile.prompt_s,
        "token_budget": profile.token_budget,
        "overlap": profile.overlap,
        "max_batch_size": profile.max_batch_size,
        "learned": None if profile.learning is None else asdict(profile.learning),
        "place": None if profile.place is None else str(profile.place),
    }
