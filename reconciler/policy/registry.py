"""Every kind of rule by its name."""

from collections.abc import Mapping
from typing import Any

from reconciler.policy.kinds.approval import APPROVAL
from reconciler.policy.kinds.bounds import BOUNDS
from reconciler.policy.kinds.step import STEP
from reconciler.policy.port import RuleKind

KINDS: Mapping[str, RuleKind[Any]] = {each.name: each for each in (BOUNDS, STEP, APPROVAL)}
