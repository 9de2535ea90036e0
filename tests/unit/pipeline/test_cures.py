"""Every kind of hold has a cure, or is none to be cured."""

from reconciler.domain.holds import HoldKind
from reconciler.pipeline.doctor_metrics import CURES


def test_every_kind_of_hold_says_what_to_do_or_that_there_is_nothing() -> None:
    assert set(CURES) == set(HoldKind)
    assert {kind for kind, cure in CURES.items() if cure is None} == {
        HoldKind.IGNORED,
        HoldKind.DECLINED,
        HoldKind.PUT_BACK,
        HoldKind.REFUSED,
        HoldKind.RULE,
        HoldKind.WAITING_FOR_DEVICES,
        HoldKind.WAITING_FOR_MERGE,
        HoldKind.WAITING_FOR_REPLICAS,
    }
    assert all(cure.words for cure in CURES.values() if cure is not None)
