"""Rights: what our credential may do on a forge, and what its rules forbid to whoever has it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Cures:
    """What a person does on this forge about what is missing, each as the rest of a sentence.

    `TOKEN` stands for the words for our credential.
    """

    opening: str = "let TOKEN open pull requests"
    labelling: str = "let TOKEN label pull requests"
    merging: str = "let TOKEN merge pull requests"
    scheduling: str = "allow auto-merge"
    refusals: str = "let our account pass"
    signatures: str = "let our account pass"
    expiry: str = "renew TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What may be done with pull requests, as far as the forge tells: None is not told.

    `refusals` are rules on our head branches, in the forge's words, that would refuse what we push; `drops_approvals`
    says that a push to a pull request takes back the approvals that it has. Our credential ends at `expires_at_s` (Unix
    seconds).
    """

    may_open: bool | None = True
    may_label: bool | None = True
    may_merge: bool | None = True
    allows_auto_merge: bool | None = None
    drops_approvals: bool = False
    needs_signatures: bool = False
    refusals: tuple[str, ...] = ()
    expires_at_s: float | None = None
    cures: Cures = field(default_factory=Cures, compare=False)
