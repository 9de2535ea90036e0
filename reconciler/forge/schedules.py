"""What a forge starts at times by itself, where it keeps that outside of the repository."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSchedule:
    """A cron expression at which the pipeline of a branch is started; `name` is a person's words for it."""

    name: str
    cron: str
    branch: str
    is_active: bool
