"""Pull requests that may be merged in any order, and any of them never: whichever are, devices and needs are kept.

What waits for devices leaves less to serve with, and what stays for that takes devices that were to be free: both
are looked at in turns until neither takes anything back. Every turn leads nearer to what runs, so they end.
"""

from reconciler.decision.staging.devices import DeviceRoom
from reconciler.decision.staging.serving import Serving
from reconciler.decision.staging.staged_plan import Situation, StagedPlan


def make_independent(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Take back of each group what breaks anything in case others are not merged.

    After draining: what that makes wait leaves more, so less has to wait here. After every other pass that changes what
    a variant gets: what stays there holds devices here.
    """
    serving = Serving(situation, staged)
    staged = serving.kept(staged)
    if not situation.formulated.problem.pools:
        return staged
    room = DeviceRoom(situation, staged)
    while True:
        fitting = room.fitted(staged)
        staged = serving.kept(fitting)
        if staged.allocations == fitting.allocations:
            return room.told(staged)
