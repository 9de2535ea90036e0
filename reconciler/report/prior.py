"""Priors as a table, a page and a document: numbers with their bands, what they rest on, and what is refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict

from reconciler.domain.priors import BAND_COVERAGE, Band, Prior, Priors, Refusal
from reconciler.domain.profiles import PerformanceProfile
from reconciler.manifests.wording import join_words
from reconciler.report.findings import finding_json
from reconciler.report.formatting import (
    UNKNOWN,
    Column,
    duration,
    hung,
    lines_of,
    one_line,
    percentage,
    quantity,
    rate,
    wrapped,
)
from reconciler.report.page import Page, Section, columns, table

VERSION = 1
Json = Mapping[str, object]
NEVER = "Nothing moves on a prior: one replica that tries it is proposed where that is worth it, else try one yourself."


def prior_text(found: Priors, width: int = 0) -> str:
    """The priors as people read them; `width` 0 is unlimited, as for a pipe."""
    sections: Iterable[Iterable[str]] = (
        _head(found, width),
        _table(found),
        _listed("Rests on", ((_name(each), each.evidence) for each in found.priors), width),
        _listed("Narrower with", ((_name(each), each.narrower) for each in found.priors), width),
        _listed("Nothing said", ((_name(each), each.reason) for each in found.refusals), width),
        _listed("To fix", (("", str(each)) for each in found.findings), width),
        wrapped(NEVER, indent=0, width=width) if found.priors else (),
    )
    return "\n\n".join("\n".join(lines) for lines in map(tuple, sections) if lines) + "\n"


def prior_page(found: Priors) -> Page:
    """The same as a page: each number with its band drawn, so that bands that overlap are seen to."""
    share = percentage(BAND_COVERAGE)
    money = f"{found.currency} a million output tokens" if found.currency else "cost a million output tokens"
    priced = [(each, each.cost_per_million_tokens) for each in found.priors]
    drawn = (
        (money, [(_name(each), _edges(band)) for each, band in priced if band is not None], _cents),
        (
            "output tokens a second",
            [(_name(each), _edges(each.throughput_tokens_per_s)) for each in found.priors],
            rate,
        ),
    )
    rows = [
        (
            _name(each),
            f"{each.batch} of {each.profile.max_batch_size}",
            _span(each.itl_s, duration),
            _span(each.throughput_tokens_per_s, rate),
            _money(each),
        )
        for each in found.priors
    ]
    headings = ("accelerator", "batch", f"ITL ({share})", "tokens a second", money)
    sections = (
        Section(
            heading="What one replica would probably do",
            words=(
                "The area holds nineteen in twenty above its lower and below its upper edge; the point is the median.",
            ),
            charts=tuple(columns(unit, bands, spell, f"{share} band") for unit, bands, spell in drawn if bands),
            tables=(table("One replica at that batch", headings, rows, (1,)),),
        )
        if rows
        else None,
        *(
            Section(heading=heading, lines=tuple(_grouped(entries)))
            for heading, entries in (
                ("Rests on", [(_name(each), each.evidence) for each in found.priors]),
                ("Narrower with", [(_name(each), each.narrower) for each in found.priors]),
                ("Nothing said", [(_name(each), each.reason) for each in found.refusals]),
                ("To fix", [("", str(each)) for each in found.findings]),
            )
            if entries
        ),
    )
    return Page(
        title=f"Untried accelerators for {one_line(found.model_id)}",
        lead=" ".join(_head(found, 0)),
        sections=tuple(each for each in sections if each is not None),
        foot=(NEVER,),
    )


def _edges(band: Band) -> tuple[float, float, float]:
    return band.low, band.median, band.high


def _cents(value: float) -> str:
    return f"{value:.2f}"


def prior_json(found: Priors) -> Json:
    """The same as a document in base units; a band has its median and the edges that 5 % lie beyond."""
    return {
        "version": VERSION,
        "model": found.model_id,
        "shape": None if found.shape is None else {**asdict(found.shape), "place": None},
        "input_tokens": found.lengths.input_tokens,
        "output_tokens": found.lengths.output_tokens,
        "itl_target_s": found.itl_target_s,
        "currency": found.currency,
        "band_coverage": BAND_COVERAGE,
        "priors": [_prior_json(each) for each in found.priors],
        "refusals": [_refusal_json(each) for each in found.refusals],
        "findings": [finding_json(each) for each in found.findings],
    }


def _head(found: Priors, width: int) -> tuple[str, ...]:
    prompt, output = (quantity(each, "tokens") for each in (found.lengths.input_tokens, found.lengths.output_tokens))
    lengths = f"{prompt} input and {output} output tokens"
    target = "" if found.itl_target_s is None else f", at most {duration(found.itl_target_s)} between tokens"
    shape = found.shape
    source = "no shape" if shape is None else f"{shape.weights} weights, shape from {one_line(shape.source)}"
    line = f"{one_line(found.model_id)}: {lengths}{target}; {source}"
    return wrapped(line, indent=0, width=width)


def _table(found: Priors) -> tuple[str, ...]:
    if not found.priors:
        return ()
    share = percentage(BAND_COVERAGE)
    money = f"{found.currency} A MILLION" if found.currency else "COST A MILLION"
    columns = (
        ("ACCELERATOR", False, [one_line(_name(each)) for each in found.priors]),
        ("BATCH", True, [f"{each.batch} of {each.profile.max_batch_size}" for each in found.priors]),
        (f"ITL ({share})", True, [_span(each.itl_s, duration) for each in found.priors]),
        ("TOKENS/S", True, [_span(each.throughput_tokens_per_s, rate) for each in found.priors]),
        (money, True, [_money(each) for each in found.priors]),
    )
    return lines_of([Column(heading=heading, cells=tuple(cells), right=right) for heading, right, cells in columns])


def _name(each: Prior | Refusal) -> str:
    """The accelerator, and where clusters differ those that it is said of."""
    return f"{each.accelerator} in {join_words(each.clusters, 'and')}" if each.clusters else each.accelerator


def _span(band: Band, spell: Callable[[float], str]) -> str:
    return f"{spell(band.median)} ({spell(band.low)} to {spell(band.high)})"


def _money(prior: Prior) -> str:
    band = prior.cost_per_million_tokens
    return UNKNOWN if band is None else f"{band.median:.2f} ({band.low:.2f} to {band.high:.2f})"


def _listed(heading: str, entries: Iterable[tuple[str, str]], width: int) -> tuple[str, ...]:
    lines = [each for text in _grouped(entries) for each in hung("   ", text, width=width)]
    return (heading, *lines) if lines else ()


def _grouped(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Each text once, with the names that it is said of."""
    names: dict[str, list[str]] = {}
    for name, text in entries:
        names.setdefault(one_line(text), []).append(one_line(name))
    for text, about in names.items():
        head = ", ".join(filter(None, about))
        yield f"{head}: {text}" if head else text


def _prior_json(prior: Prior) -> Json:
    return {
        "accelerator": prior.accelerator,
        **({"clusters": list(prior.clusters)} if prior.clusters else {}),
        "batch": prior.batch,
        "itl_s": _band_json(prior.itl_s),
        "throughput_tokens_per_s": _band_json(prior.throughput_tokens_per_s),
        "cost_per_hour": prior.cost_per_hour,
        "cost_per_million_tokens": _band_json(prior.cost_per_million_tokens),
        "profile": _profile_json(prior.profile),
        "pessimistic_profile": _profile_json(prior.slower(prior.spread.high)),
        "carried_from": prior.carried_from,
        "evidence": prior.evidence,
        "narrower_with": prior.narrower,
    }


def _refusal_json(refusal: Refusal) -> Json:
    told: Json = {"accelerator": refusal.accelerator, "reason": refusal.reason}
    return {**told, "clusters": list(refusal.clusters)} if refusal.clusters else told


def _band_json(band: Band | None) -> Json | None:
    return None if band is None else {"median": band.median, "low": band.low, "high": band.high}


def _profile_json(profile: PerformanceProfile) -> Json:
    return {
        "alpha_s": profile.alpha_s,
        "beta_s": profile.beta_s,
        "prompt_s": profile.prompt_s,
        "max_batch_size": profile.max_batch_size,
        "at_tokens": profile.at_tokens,
    }
