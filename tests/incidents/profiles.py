"""Profiles that say other than replicas do: what is forecast from them moves nobody."""

from tests.incidents.rows import Incident
from tests.incidents.stage import ALPHA_S, BETA_S, MAX_BATCH


def given(*, speed: float = 1.0, batch: int = MAX_BATCH) -> str:
    """The settings of a fleet whose profile is so many times as fast as its replicas, with another batch."""
    alpha_ms, beta_ms = ALPHA_S * 1000 / speed, BETA_S * 1000 / speed
    profile = f"{{accelerator: H100, alpha: {alpha_ms:g}ms, beta: {beta_ms:g}ms, maxBatchSize: {batch}}}"
    return (
        "serviceClasses: [{name: standard, itl: 60ms, ttft: 1s}]\n"
        "defaults: {serviceClass: standard}\n"
        f"models:\n- id: org/chat\n  profiles: [{profile}]\n"
    )


PROFILES = (
    Incident(
        name="profile: batch of 5",
        happened="the profile knows a batch of 5, each replica runs forty requests",
        engine="given",
        settings=given(batch=5),
        holds=("profile-contradicted",),
        told=("expected", "measured"),
    ),
    Incident(
        name="profile: too fast",
        happened="the profile is twice as fast as replicas",
        engine="given",
        settings=given(speed=2.0),
        holds=("profile-contradicted",),
        told=("ITL",),
    ),
    Incident(name="profile: a little off", happened="5 % too fast", engine="given", settings=given(speed=1.05)),
)
