"""How an inference engine was started, as far as it decides what a replica holds."""

from dataclasses import dataclass

_UNSET_BATCH_TOKENS = 2048
_CHUNKED_BATCH_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """How an inference engine was started, as far as its capacity depends on it (defaults: wva.md 4.1).

    `max_batched_tokens` None is the engine's own default; the overrides are None where the engine measures itself.
    """

    engine: str = "vllm"
    memory_fraction: float = 0.9
    block_tokens: int = 16
    kv_dtype: str = "auto"
    tensor_parallel: int = 1
    max_num_seqs: int = 256
    max_batched_tokens: int | None = None
    max_model_tokens: int | None = None
    is_chunked: bool = True
    is_first_engine: bool = False
    num_blocks_override: int | None = None
    total_kv_tokens_override: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The values of all settings that are counts."""
        optional = self.max_batched_tokens, self.max_model_tokens, self.num_blocks_override
        return (self.block_tokens, self.tensor_parallel, self.max_num_seqs, *(each or 0 for each in optional))

    @property
    def batched_tokens(self) -> int:
        """Tokens that one engine step may hold at most."""
        if self.max_batched_tokens is not None and self.max_batched_tokens > 0:
            return self.max_batched_tokens
        if self.is_chunked:
            return _UNSET_BATCH_TOKENS if self.is_first_engine else _CHUNKED_BATCH_TOKENS
        return max(self.max_model_tokens or 0, _UNSET_BATCH_TOKENS)

    def is_compatible(self, other: "LaunchSettings") -> bool:
        """Whether a replica started like that holds as many tokens as this one."""
        return self.footprint == other.footprint

    @property
    def footprint(self) -> tuple[object, ...]:
        """Everything that decides how many tokens a replica holds."""
        return (
            self.engine,
            self.memory_fraction,
            self.block_tokens,
            self.kv_dtype,
            self.tensor_parallel,
            self.num_blocks_override,
            self.total_kv_tokens_override,
            self.batched_tokens,
        )
