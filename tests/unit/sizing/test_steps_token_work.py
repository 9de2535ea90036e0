"""WVA's published steps, and how the law `token_work` says the same."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sizing.queueing import token_work
from reconciler.sizing.queueing.readings import Means

# In milliseconds: alpha, beta, gamma, input and output tokens, requests beside it.
PREFILLS = [
    pytest.param(1000, 1, 32.0, id="M1-n1"),
    pytest.param(2000, 8, 208.0, id="M1-n8"),
    pytest.param(500, 2.5, 29.25, id="M1-n2.5"),
]
DECODES = [
    pytest.param(1, 1.23, id="M2-n1"),
    pytest.param(4, 1.575, id="M2-n4"),
    pytest.param(8, 2.035, id="M2-n8"),
    pytest.param(2.5, 1.4025, id="M2-n2.5"),
]


class Steps(NamedTuple):
    """Seconds of a prefill and of a decode step beside others, prompts in one chunk (wva.md 7.2)."""

    prefill_s: float
    decode_s: float


def steps(alpha: float, beta: float, gamma: float, inputs: float, outputs: float, alongside: float) -> Steps:
    share = beta * (inputs + outputs) / (outputs + 1) + gamma * (inputs + outputs / 2)
    iteration = alpha + alongside * share
    return Steps(iteration + (beta + gamma) * inputs, iteration + beta + gamma * (inputs + outputs / 2))


@pytest.mark.parametrize(("inputs", "alongside", "expected_ms"), PREFILLS)
def test_a_prefill_takes_what_upstream_published(inputs: float, alongside: float, expected_ms: float) -> None:
    assert steps(0.010, 1e-5, 1e-6, inputs, 0, alongside).prefill_s == pytest.approx(expected_ms / 1000)


@pytest.mark.parametrize(("alongside", "expected_ms"), DECODES)
def test_a_decode_step_takes_what_upstream_published(alongside: float, expected_ms: float) -> None:
    assert steps(0.001, 1e-4, 1e-5, 1, 1, alongside).decode_s == pytest.approx(expected_ms / 1000)


@given(
    st.floats(1e-3, 0.1), st.floats(0, 1e-3), st.floats(0, 1e-4), st.floats(0, 4000), st.floats(1, 2000),
    st.integers(0, 64),
)  # fmt: skip
def test_the_law_has_the_same_prefill_and_decodes_half_a_moved_token_longer(
    alpha: float, beta: float, gamma: float, inputs: float, outputs: float, alongside: int
) -> None:
    curves = token_work(
        alpha_s=alpha,
        beta_s=beta,
        gamma_s=gamma,
        input_tokens=inputs,
        output_tokens=outputs,
        max_batch=128,
        token_budget=1e9,
    )
    in_service = np.asarray([alongside + 1.0])

    law = curves.reading.read(Means(service_s=curves.base_s + curves.per_request_s * in_service, in_service=in_service))

    expected = steps(alpha, beta, gamma, inputs, outputs, alongside)
    assert law.first_token_s - law.itl_s == pytest.approx(expected.prefill_s, rel=1e-6)
    assert law.itl_s == pytest.approx(expected.decode_s + gamma / 2, rel=1e-6)
