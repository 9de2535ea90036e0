"""Which of a variant's pods can be judged by what they report, which only in part, and how many are silent."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from reconciler.domain.measured.replicas import is_usual_churn
from reconciler.sizing.saturation.compute_bound import Origin
from reconciler.sizing.saturation.replicas import Screened
from reconciler.sizing.saturation.tokens import ReplicaTokens
from reconciler.sizing.saturation.variants import VariantFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods of a variant, sorted: those that say all, those that say some, and how many say nothing.

    `words` are the doubts about all of them: none about those few of many that are always being started again.
    """

    judged: tuple[str, ...]
    doubtful: tuple[str, ...]
    silent: int
    words: tuple[str, ...]


def sort_pods(variant: VariantFacts, screened: Screened, clear: Set[str] | None = None) -> Pods:
    """Return a variant's pods sorted; where `clear` is given, those of which every instance is among it say all."""
    judged: list[str] = []
    doubtful: list[str] = []
    for pod, instances in screened.by_pod(variant.key).items():
        if all(each.kv_cache_usage is None and each.num_waiting is None for each in instances):
            # It may be new or dying: it is silent, as far as replicas should be serving.
            continue
        is_whole = all(each.kv_cache_usage is not None and each.num_waiting is not None for each in instances)
        is_clear = clear is None or all(each.label in clear for each in instances)
        (judged if is_whole and is_clear else doubtful).append(pod)
    silent = max(variant.ready_replicas - len(judged) - len(doubtful), 0)
    words = [f"{pod} does not report all that its load is judged by" for pod in doubtful]
    if not is_usual_churn(silent, variant.ready_replicas):
        words.append(f"{silent} of {variant.ready_replicas} replicas of {variant.key.label} report nothing")
    return Pods(judged=tuple(judged), doubtful=tuple(doubtful), silent=silent, words=tuple(words))


def clear_labels(variant: VariantFacts, tokens: Sequence[ReplicaTokens], screened: Screened) -> Set[str]:
    """Return the replicas whose demand and capacity are known: a record is a guess.

    Of one in which requests wait its own lengths must be known, for what waits will need as much; of one that works and
    finished nothing lately, those of the others will do.
    """
    reported = {each.label: each for each in screened.of(variant.key)}

    def is_clear(token: ReplicaTokens) -> bool:
        replica = reported[token.replica.label]
        is_idle = replica.kv_cache_usage == 0 and replica.num_waiting == 0
        lengths = replica if replica.num_waiting else token.replica
        has_lengths = lengths.input_tokens is not None and lengths.output_tokens is not None
        return token.origin is not Origin.STORED and (is_idle or has_lengths)

    return {token.replica.label for token in tokens if is_clear(token)}
