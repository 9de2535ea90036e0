"""The line under the objective `inferno` is its transition value, wherever something changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.optimizer.separable import transition_line, transition_value

PRICE = st.floats(min_value=0, max_value=1000)
COUNT = st.integers(min_value=0, max_value=500)


@given(price=PRICE, old_price=PRICE, now=COUNT, wanted=COUNT, accelerator=st.sampled_from(["H100", "A100"]))
def test_the_line_gives_the_value_of_every_change(
    price: float, old_price: float, now: int, wanted: int, accelerator: str
) -> None:
    before = now * old_price
    fixed, slope = transition_line(
        current_accelerator="H100",
        current_cost_per_hour=before,
        accelerator=accelerator,
        replica_cost_per_hour=price,
    )
    value = transition_value(
        current_accelerator="H100",
        current_replicas=now,
        current_cost_per_hour=before,
        accelerator=accelerator,
        replicas=wanted,
        cost_per_hour=wanted * price,
    )
    if (accelerator, wanted) != ("H100", now) or price == old_price:
        assert fixed + slope * wanted == pytest.approx(value, rel=1e-9, abs=1e-6)
