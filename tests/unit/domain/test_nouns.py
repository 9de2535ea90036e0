"""The nouns: how they print, compare and add up; units, globs, and JSON within limits."""

import dataclasses
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain import units
from reconciler.domain.answers import parse_json
from reconciler.domain.identity import (
    Finding,
    ModelKey,
    Place,
    ResourceKey,
    Severity,
    Source,
    SourceKind,
    finding_of,
    matches_any,
    path_matches,
)
from reconciler.domain.inventory import Accelerator, Allocation, Catalog
from reconciler.domain.plan import SloProjection
from reconciler.domain.profiles import PerformanceProfile, SloTarget
from reconciler.domain.proposals import Proposal, ProposalState, ProposedChange
from reconciler.domain.recording import fingerprint_of
from reconciler.domain.requirements import Bounds, Requirement, Segment, Solution, SolveStatus
from reconciler.domain.settings import ClusterSettings, SecretRef
from reconciler.errors import InputError

KEY = ResourceKey(cluster="prod", namespace="llm", kind="VariantAutoscaling", name="llama")
MODEL = ModelKey(cluster="prod", namespace="llm", model_id="meta/llama")


def test_a_merged_proposal_leaves_what_it_does_not_tell() -> None:
    other = dataclasses.replace(KEY, name="qwen")
    current = {key: Allocation(accelerator="H100", replicas=3) for key in (KEY, other)}
    change = ProposedChange(
        resource=str(KEY), replicas_before=3, replicas_after=5, accelerator_before="", accelerator_after=""
    )
    proposal = Proposal(
        group="llm", number=7, state=ProposalState.OPEN, head_branch="llm", decision="", changes=(change,)
    )
    assert proposal.merged(current) == {KEY: Allocation(accelerator="H100", replicas=5), other: current[other]}
    moved = dataclasses.replace(change, accelerator_after="L4")
    assert moved.merged(current[KEY]) == Allocation(accelerator="L4", replicas=5)


def test_a_resource_prints_as_namespace_and_name() -> None:
    assert (KEY.label, str(KEY)) == ("llm/llama", "prod/llm/VariantAutoscaling/llama")
    part = dataclasses.replace(KEY, part="prefill")
    assert (part.label, str(part)) == ("llm/llama/prefill", "prod/llm/VariantAutoscaling/llama/prefill")


def test_a_model_prints_with_its_role() -> None:
    assert str(MODEL) == "prod/llm/meta/llama"
    assert str(dataclasses.replace(MODEL, role="decode")) == "prod/llm/meta/llama/decode"


def test_a_place_prints_as_path_and_line() -> None:
    assert str(Place(path="a.yaml", line=12, field="spec")) == "a.yaml:12"
    assert str(Place(path="a.yaml")) == "a.yaml"


def test_a_finding_prints_its_place_severity_field_and_message() -> None:
    place = Place(path="a.yaml", line=12, field="spec.variantCost")
    finding = Finding(place=place, severity=Severity.WARNING, message="unused")
    assert str(finding) == "a.yaml:12: warning: spec.variantCost: unused"
    assert str(dataclasses.replace(finding, place=Place(path="a.yaml"))) == "a.yaml: warning: unused"


def test_an_input_error_is_an_error_to_fix() -> None:
    finding = finding_of(InputError("a.yaml", 3, "spec.x", "expected a number"))
    assert str(finding) == "a.yaml:3: error: spec.x: expected a number"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Source(kind=SourceKind.BUILT_IN), "built-in"),
        (Source(kind=SourceKind.DEFAULT, place=Place(path="r.yaml", line=7)), "r.yaml:7"),
        (Source(kind=SourceKind.ANNOTATION, place=Place(path="d.yaml", line=9)), "annotation, d.yaml:9"),
        (Source(kind=SourceKind.CONFIG_MAP, detail="ConfigMap x", place=Place(path="c.yaml")), "ConfigMap x, c.yaml"),
        (Source(kind=SourceKind.BUILT_IN, detail="auto: profile given"), "auto: profile given"),
    ],
)
def test_a_source_prints_its_words_and_place(source: Source, words: str) -> None:
    assert str(source) == words


def test_a_secret_prints_where_it_is_and_never_what() -> None:
    assert str(SecretRef(file="/run/token")) == "file /run/token"
    assert str(SecretRef(env="RECONCILER_TOKEN")) == "environment variable RECONCILER_TOKEN"


def test_a_target_prints_its_statistic() -> None:
    assert SloTarget(limit_s=1.0).statistic == "mean"
    assert SloTarget(limit_s=1.0, percentile=99.5).statistic == "p99.5"


@pytest.mark.parametrize(
    ("before_s", "after_s", "met"),
    [
        (1.9, 0.31, (False, True)),
        (0.5, math.inf, (True, False)),
        (None, 0.6, (None, False)),
        (math.nextafter(0.5, 1), None, (False, None)),
    ],
)
def test_a_projection_says_whether_the_target_is_met(
    before_s: float | None, after_s: float | None, met: tuple[bool | None, bool | None]
) -> None:
    projection = SloProjection(name="wait", statistic="p95", target_s=0.5, before_s=before_s, after_s=after_s)
    assert (projection.is_met_before, projection.is_met_after) == met


def test_a_catalog_finds_every_spelling_and_prefers_the_name() -> None:
    h100, l4 = Accelerator(name="H100", device="H100"), Accelerator(name="l4", device="L4")
    catalog = Catalog(accelerators={"H100": h100, "l4": l4}, names={"h100": "H100", "p5": "H100", "l4": "H100"})
    assert [catalog.find(each) for each in ("H100", "h100", "P5", "l4", "B200", "")] == [
        h100,
        h100,
        h100,
        l4,
        None,
        None,
    ]


def test_bounds_admit_what_lies_between_them() -> None:
    assert [Bounds(minimum=1, maximum=3).admits(count) for count in range(5)] == [False, True, True, True, False]
    assert Bounds(minimum=0).admits(10**9)


def test_a_requirement_sums_its_segments() -> None:
    segments = (Segment(amount=1.5), Segment(amount=2.0, probability=0.1, price=3.0))
    assert Requirement(model=MODEL, unit="req/s", segments=segments, per_replica={}).amount == 3.5


def test_a_gap_is_a_fraction_of_the_value() -> None:
    solution = Solution(allocations={}, status=SolveStatus.FEASIBLE, value=10.0, lower_bound=9.0)
    assert solution.gap == pytest.approx(0.1)
    assert dataclasses.replace(solution, lower_bound=11.0).gap == 0.0
    assert dataclasses.replace(solution, value=-9.0, lower_bound=-10.0).gap == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("gamma_s", "delta_s", "law"),
    [(None, None, "decode_only"), (0.0, None, "prefill_decode"), (0.1, 0.2, "prefill_decode")],
)
def test_a_profile_with_prefill_parameters_belongs_to_that_law(
    gamma_s: float | None, delta_s: float | None, law: str
) -> None:
    profile = PerformanceProfile(
        accelerator="H100", alpha_s=0.1, beta_s=0.1, max_batch_size=1, gamma_s=gamma_s, delta_s=delta_s
    )
    assert profile.law == law


def test_a_cluster_holds_what_is_included_and_not_excluded() -> None:
    cluster = ClusterSettings(name="us", include=("clusters/us/**", "shared/*.yaml"), exclude=("**/charts/**",))
    paths = (
        "clusters/us/a.yaml",
        "clusters/us/charts/a.yaml",
        "shared/a.yaml",
        "shared/x/a.yaml",
        "clusters/eu/a.yaml",
    )
    assert [cluster.holds(path) for path in paths] == [True, False, True, False, False]
    assert ClusterSettings(name="default").holds("any/thing.yaml")


def test_a_recordings_fingerprint_ignores_order_and_nothing_else() -> None:
    digests = [("a", "1"), ("b", "2")]
    fingerprint = fingerprint_of(digests)
    assert fingerprint == fingerprint_of(digests[::-1])
    others = [[("a", "1")], [("a", "2"), ("b", "1")], [("a", "1"), ("b", "3")], [("a", "1"), ("c", "2")]]
    assert fingerprint not in {fingerprint_of(each) for each in others}
    assert len(fingerprint) == 64


def test_nouns_are_frozen() -> None:
    with pytest.raises(AttributeError):
        KEY.name = "other"  # type: ignore[misc]  # that is the point


def test_one_of_each() -> None:
    assert units.seconds_from_ms(250) == 0.25
    assert units.ms_from_seconds(0.25) == 250
    assert units.per_minute_from_per_second(1.5) == 90
    assert units.cost_per_hour_from_cents(40) == 0.4


@given(st.floats(min_value=0, max_value=1e12))
def test_there_and_back_is_the_same(value: float) -> None:
    assert units.seconds_from_ms(units.ms_from_seconds(value)) == pytest.approx(value, rel=1e-12)


SEGMENT = st.text(alphabet="ab.-_[](){}+^$|\\* ?", min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**", "a", True),
        ("**", "a/b/c.yaml", True),
        ("**/*", "c.yaml", True),
        ("**/*.yaml", "c.yaml", True),
        ("**/*.yaml", "a/b/c.yaml", True),
        ("**/*.yaml", "a/b/c.yml", False),
        ("*", "a", True),
        ("*", "a/b", False),
        ("*.yaml", "a/b.yaml", False),
        ("clusters/*/dev/**", "clusters/us/dev/llm/a.yaml", True),
        ("clusters/*/dev/**", "clusters/us/prod/a.yaml", False),
        ("clusters/*/dev/**", "clusters/us/east/dev/a.yaml", False),
        ("clusters/us-east/**", "clusters/us-east-2/a.yaml", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/xb", False),
        ("a/**/b", "ab", False),
        ("**/charts/**", "charts/x.yaml", True),
        ("**/charts/**", "apps/charts/x.yaml", True),
        ("**/charts/**", "apps/mycharts/x.yaml", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a?c", "ac", False),
        ("a.yaml", "aXyaml", False),
        ("a[b]", "a[b]", True),
        ("a[b]", "ab", False),
        ("A.yaml", "a.yaml", False),
        ("a", "a\n", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_glob_matches_whole_paths(pattern: str, path: str, fits: bool) -> None:
    assert path_matches(pattern, path) is fits


@given(st.lists(SEGMENT, min_size=1, max_size=4))
def test_text_without_wildcards_matches_itself_alone(segments: list[str]) -> None:
    path = "/".join(segments)
    assert path_matches("**", path)
    if not {"*", "?"} & set(path):
        assert path_matches(path, path)
        assert not path_matches(path, path + "x")


def test_globs_of_argo_cd_cross_directories_and_take_alternatives() -> None:
    assert matches_any("*.yaml", "a/b.yaml")
    assert matches_any("{x.json, a/**}", "a/b.yaml")
    assert not matches_any("{x.json,y.json}", "a/b.yaml")


def peak_bytes(body: bytes, most_values: int) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="values that are read"):
            parse_json(body, most_values=most_values)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", ["[]", "{}", '""', "0", '{"":[]}'])
def test_a_bomb_of_small_values_is_refused_before_it_fills_the_memory(value: str) -> None:
    body = f"[{','.join([value] * 300_000)}]".encode()
    assert peak_bytes(body, most_values=100_000) < 3 * len(body)


def test_punctuation_within_texts_is_no_value() -> None:
    text = ',[{"\\' * 1000
    assert parse_json(b'["%s"]' % text.replace("\\", "\\\\").replace('"', '\\"').encode(), most_values=3) == [text]


def test_nesting_without_end_is_no_json() -> None:
    with pytest.raises(ValueError, match="too deep"):
        parse_json(b"[" * 100_000, most_values=1_000_000)
