"""Which inference engine a container runs, and how its command line starts it."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

from reconciler.domain.workloads import LaunchSettings

# A shell's way of splitting takes a microsecond a character: a giant's words are good enough.
_LONGEST_SCRIPT = 32_768


def split_scripts(words: Sequence[str], is_script: Callable[[str], bool]) -> Iterator[str]:
    """Words of the command line; a script after `sh -c` is one word of it and is split as a shell would."""
    for word in words:
        if word.startswith("-") or not is_script(word):
            yield word
            continue
        script = word.replace("\\\r\n", " ").replace("\\\n", " ")
        try:
            yield from shlex.split(script) if len(script) <= _LONGEST_SCRIPT else script.split()
        except ValueError:
            yield from script.split()


def read_flags(words: Sequence[str]) -> Mapping[str, str]:
    """The last value of every flag, by its name with dashes; without a value it is empty.

    Both `--flag=value` and `--flag value` are read, and both `--my-flag` and `--my_flag`.
    """
    flags: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            if not equals and not following.startswith("--"):
                value = following
            flags[name.lstrip("-").replace("_", "-")] = value.rstrip(";")
    return flags


_SPELLINGS = ("--served-model-name", "--served_model_name")
_MARK = "--served"
_SHELL_OPERATORS = frozenset({"&&", "||", ";", "|", "&", ">", ">>", "2>&1", "<"})


def find_served_names(words: Sequence[str]) -> tuple[str, ...]:
    """The names after the flag, up to the next flag; `--flag=name` has one, names with `$` are not known here."""
    if not any(_MARK in word for word in words):
        return ()
    names: list[str] = []
    taking = False
    for word in split_scripts(words, lambda word: _MARK in word):
        flag, equals, name = word.partition("=")
        if flag in _SPELLINGS:
            taking = not equals
            names.extend([name] if equals else [])
        elif word.startswith("-") or word in _SHELL_OPERATORS:
            taking = False
        elif taking:
            names.append(word.rstrip(";"))
            taking = not word.endswith(";")
    return tuple(dict.fromkeys(name for name in names if name and "$" not in name))


_VLLM, _SGLANG, _TGI, _TRTLLM, _NIM = "vllm", "sglang", "tgi", "trtllm", "nim"
_LLAMA_CPP, _OLLAMA, _LMDEPLOY = "llama.cpp", "ollama", "lmdeploy"
_UNREAD = frozenset({_LLAMA_CPP, _OLLAMA, _LMDEPLOY})
"""Engines whose metrics are not read."""

# A command says more than an image does: `vllm serve` may run in any.
_COMMANDS: Mapping[str, re.Pattern[str]] = {
    _SGLANG: re.compile(r"\bsglang(?:\.launch_server|\s+serve)\b"),
    _TRTLLM: re.compile(r"\btrtllm-serve\b"),
    "triton": re.compile(r"\btritonserver\b"),
    _TGI: re.compile(r"\btext-generation-launcher\b"),
    _VLLM: re.compile(r"\bvllm(?:\.entrypoints|\s+serve)\b"),
    _LLAMA_CPP: re.compile(r"\bllama-server\b"),
    _OLLAMA: re.compile(r"\bollama\s+serve\b"),
    _LMDEPLOY: re.compile(r"\blmdeploy(?:\.|\s+)serve\b"),
}
# `nvcr.io/nim/ORG/MODEL`, or the same in a registry of one's own.
_NIM_IMAGE = re.compile(r"/nim/(?P<model>[^/]+/[^/]+)$")
_IMAGES: Mapping[str, re.Pattern[str]] = {
    _SGLANG: re.compile(r"sglang"),
    _TRTLLM: re.compile(r"tensorrt-?llm|trt-?llm"),
    "triton": re.compile(r"tritonserver"),
    _TGI: re.compile(r"text-generation-inference|\btgi\b"),
    _NIM: _NIM_IMAGE,
    _LLAMA_CPP: re.compile(r"llama[._-]?cpp[^/]*$"),
    _OLLAMA: re.compile(r"/ollama$"),
    _LMDEPLOY: re.compile(r"lmdeploy[^/]*$"),
    # Not anywhere in the path: an organization of that name publishes other images too.
    _VLLM: re.compile(r"vllm[^/]*$|/llm-d(?:-(?:cuda|rocm|xpu|hpu|cpu|aws|gke|inference-sim))?$"),
}
_BESIDE_AN_ENGINE = re.compile(r"(?:router|proxy|sidecar|scheduler|gateway|exporter|diffus(?:ers|ion))[^/]*$")
_CLIENT = re.compile(r"tritonserver:[^@]*-sdk")
# An image of one's own that needs no command: these flags are vLLM's alone.
_VLLM_FLAGS = ("--gpu-memory-utilization", "--max-num-batched-tokens", "--max-num-seqs", "--num-gpu-blocks-override")
_FIRST_VLLM = "VLLM_USE_V1"

_LARGEST_COUNT = 2**31 - 1
_COUNT = re.compile(r"[0-9]{1,10}")
_DRAFTS = re.compile(r"[\"']num_speculative_tokens[\"']\s*:\s*([0-9]{1,10})")
_FRACTION = re.compile(r"[0-9]?(?:\.[0-9]{0,12})?")
_DTYPE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

# How the flags are called that multiply the devices of a replica; of each row the first that is written counts.
_VLLM_SPREADS = (
    ("tensor-parallel-size", "tp"),
    ("pipeline-parallel-size", "pp"),
    ("data-parallel-size-local", "dpl", "data-parallel-size", "dp"),
)
_SGLANG_SPREADS = (("tensor-parallel-size", "tp-size", "tp"), ("pipeline-parallel-size", "pp-size"))
_SGLANG_COPIES = ("data-parallel-size", "dp-size", "dp")
# With it the copies share the devices of the tensors.
_SGLANG_SHARED_COPIES = "enable-dp-attention"

# How any engine gets the number of devices of a replica: by a flag or from its environment.
_SPREADS = ("tensor-parallel-size", "tensor-parallel", "tp-size", "tp", "num-shard")
_SPREAD_NAMES = re.compile(r"(?:.*_)?(?:TENSOR_PARALLEL(?:_SIZE|ISM)?|TP_SIZE|TP|NUM_SHARD)")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def expand(word: str, variables: Mapping[str, str]) -> str:
    """A word of a command line with its `$(NAME)` filled in as Kubernetes does; what is not known stays."""
    return _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), word) if "$(" in word else word


def find_spread(words: Sequence[str], variables: Mapping[str, str]) -> str:
    """Over how many devices an engine of any kind is to spread its tensors, as written; else empty."""
    flag = _first(flags_of(words), _SPREADS)
    if flag is not None:
        return flag
    return next((value for name, value in sorted(variables.items()) if _SPREAD_NAMES.fullmatch(name)), "")


def find_engine(image: str, words: Sequence[str]) -> str:
    """The name of the engine, as in `_COMMANDS` and `_IMAGES`; empty when nothing shows one."""
    command = " ".join(words)
    for engine, pattern in _COMMANDS.items():
        if pattern.search(command):
            return engine
    repository = _repository_of(image)
    if _BESIDE_AN_ENGINE.search(repository) or _CLIENT.search(image):
        return ""
    for engine, pattern in _IMAGES.items():
        if pattern.search(repository):
            return engine
    return _VLLM if any(flag in command.replace("_", "-") for flag in _VLLM_FLAGS) else ""


def _repository_of(image: str) -> str:
    """The image without tag and digest, as a path: `/vllm/vllm-openai`."""
    parent, _, name = image.partition("@")[0].rpartition("/")
    return f"{parent}/{name.partition(':')[0]}".lower()


# ---- the model that an engine serves: by its flags, by the word behind its command, by its environment, by its image

_MODEL_FLAGS: Mapping[str, Sequence[str]] = {
    _VLLM: ("model", "model-tag"),
    _SGLANG: ("model-path", "model"),
    _TGI: ("model-id",),
    _TRTLLM: ("model",),
    _LLAMA_CPP: ("alias", "a", "hf-repo", "hf", "model", "m"),
    _LMDEPLOY: ("model-name",),
}
_MODEL_VARIABLES: Mapping[str, Sequence[str]] = {
    _TGI: ("MODEL_ID",),
    _NIM: ("NIM_MODEL_NAME", "NIM_MODEL_PATH"),
}
_ANY_MODEL = "/llm-nim"
"""The end of the image that serves whatever model it is configured with."""
_NAME_VARIABLES: Mapping[str, str] = {_NIM: "NIM_SERVED_MODEL_NAME"}
# What stands before a model that is no value of a flag.
_BEFORE_MODEL: Mapping[str, re.Pattern[str]] = {
    _VLLM: re.compile(r"(?:.*/)?vllm serve"),
    _TRTLLM: re.compile(r"(?:.*/)?trtllm-serve(?: serve)?"),
    _LMDEPLOY: re.compile(r"serve api_server"),
}
_SHELL_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_LONGEST_MODEL = 253


def read_names(engine: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The served names that an engine gets from its environment, the first of which its metrics carry."""
    names = variables.get(_NAME_VARIABLES.get(engine, ""), "").split(",")
    return tuple(dict.fromkeys(filter(None, (_as_model(name, variables) for name in names))))


def read_model(
    engine: str, image: str, words: Sequence[str], variables: Mapping[str, str], *, has_command: bool = False
) -> str:
    """The model that an engine loads, as written: an id or a path; empty where it is filled in elsewhere.

    With `has_command` the words are more than arguments of the image's own command.
    """
    split = split_command(words)
    flags = _flags_once(split)
    found = _first(flags, _MODEL_FLAGS.get(engine, ())) or _positional(engine, split, has_command=has_command)
    found = found or next((variables[name] for name in _MODEL_VARIABLES.get(engine, ()) if variables.get(name)), "")
    image_model = _NIM_IMAGE.search(_repository_of(image)) if engine == _NIM and not found else None
    if image_model is None or image_model["model"].endswith(_ANY_MODEL):
        return _as_model(found, variables)
    return image_model["model"]


def _positional(engine: str, words: Sequence[str], *, has_command: bool) -> str:
    """The word behind the engine's command; the first of all where the image brings the command."""
    pattern = _BEFORE_MODEL.get(engine)
    if pattern is None:
        return ""
    starts = [
        end
        for end in range(1, len(words) + 1)
        if any(pattern.fullmatch(" ".join(words[begin:end])) for begin in range(max(end - 2, 0), end))
    ]
    start = starts[-1] if starts else 0
    is_known = bool(starts) or (engine == _VLLM and not has_command)
    first = words[start] if is_known and start < len(words) else ""
    return "" if first.startswith(("-", "/bin/")) or first in _SHELL_OPERATORS or first in _INTERPRETERS else first


_INTERPRETERS = frozenset({"sh", "bash", "python", "python3", "ray", "sleep", "tail", "exec", "bench"})


def _as_model(text: str, variables: Mapping[str, str]) -> str:
    """A name of a model with the variables of a shell filled in; empty where one is not known, or for no name."""
    named = _SHELL_REFERENCE.sub(lambda found: variables.get(found[1] or found[2], found[0]), text.strip())
    is_name = 0 < len(named) <= _LONGEST_MODEL and named.isprintable() and not {" ", "$", "{"} & {*named}
    return named if is_name else ""


# ---- why a replica is not sized although it serves

_ROLES = frozenset({"prefill", "decode"})
ROLE_LABEL = "llm-d.ai/role"
"""Which half of a disaggregated model a pod is."""
_TASKS = frozenset({"embed", "embedding", "classify", "score", "reward", "pooling", "transcription"})
_NO_LANGUAGE_MODEL = re.compile(
    r"riva|parakeet|canary|magpie|fastpitch|embed|rerank|nv-clip|vista3d|maisi|diffusion|flux|cosmos-|ocdr|nemoretriever"
)
_KV_ROLE = re.compile(r"kv_role[\"'\\]*\s*:\s*[\"'\\]*kv_(producer|consumer)")


def why_unsized(engine: str, words: Sequence[str], role: str, model: str = "") -> str:
    """Why the saturation of a replica does not say how many are needed; empty where it does.

    `role` is what the label says that has this meaning.
    """
    if engine in _UNREAD:
        return f"metrics of {engine} are not read: its replicas are not sized"
    split = split_command(words)
    flags = _flags_once(split)
    transfer = _KV_ROLE.search(flags.get("kv-transfer-config", ""))
    role = role or flags.get("disaggregation-mode", "")
    if role in _ROLES or transfer is not None:
        half = role if role in _ROLES else "prefill" if transfer and transfer[1] == "producer" else "decode"
        return (
            f"it is the {half} half of a disaggregated model: how many prefill and decode replicas belong together is "
            "not known"
        )
    task = flags.get("task", flags.get("runner", ""))
    if engine == _NIM and _NO_LANGUAGE_MODEL.search(model.lower()):
        return "it serves no language model: its replicas are not sized"
    if task in _TASKS or "is-embedding" in flags or (engine == _TRTLLM and {"embeddings", "rerank"} & {*split}):
        return "it computes embeddings or scores, not tokens: its replicas are not sized"
    return ""


def read_launch(engine: str, words: Sequence[str], variables: Mapping[str, str]) -> LaunchSettings | None:
    """How the engine was started; None for one whose flags are not read. A value that is no number is the default."""
    split = split_command(words)
    if engine == _VLLM:
        is_first = variables.get(_FIRST_VLLM) == "0" or f"{_FIRST_VLLM}=0" in split
        return _read_vllm(_flags_once(split), is_first=is_first)
    return _read_sglang(_flags_once(split)) if engine == _SGLANG else None


def split_command(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line, a script in it split as a shell would."""
    return _split_once(tuple(words))


# Several things are read of one command line, one after the other: it is split once.
@lru_cache(maxsize=4)
def _split_once(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(split_scripts(words, lambda word: " " in word and "--" in word))


_VLLM_DEFAULT = LaunchSettings(engine=_VLLM)


def flags_of(words: Sequence[str]) -> Mapping[str, str]:
    """The flags of a command line, as `read_flags` tells them, with those of a script in it."""
    return _flags_once(split_command(words))


@lru_cache(maxsize=4)
def _flags_once(words: tuple[str, ...]) -> Mapping[str, str]:
    return read_flags(words)


def _read_vllm(flags: Mapping[str, str], *, is_first: bool) -> LaunchSettings:
    default = _VLLM_DEFAULT
    tensor_parallel = _count(_first(flags, _VLLM_SPREADS[0]))
    return LaunchSettings(
        engine=_VLLM,
        memory_fraction=_fraction(flags.get("gpu-memory-utilization")) or default.memory_fraction,
        block_tokens=_count(flags.get("block-size")) or default.block_tokens,
        kv_dtype=_dtype(flags) or default.kv_dtype,
        tensor_parallel=tensor_parallel or default.tensor_parallel,
        parallel=_spread(flags, _VLLM_SPREADS),
        max_num_seqs=_count(flags.get("max-num-seqs")) or default.max_num_seqs,
        written_num_seqs=_count(flags.get("max-num-seqs")),
        max_batched_tokens=_count(flags.get("max-num-batched-tokens")),
        max_model_tokens=_count(flags.get("max-model-len")),
        is_chunked=_is_chunked(flags, not is_first),
        is_first_engine=is_first,
        num_blocks_override=_count(flags.get("num-gpu-blocks-override")),
        step_tokens=_step_tokens(flags),
    )


def _step_tokens(flags: Mapping[str, str]) -> int | None:
    """The drafts of vLLM's speculation and the token that the model makes itself; None without drafts."""
    written = flags.get("speculative-config.num-speculative-tokens") or flags.get("num-speculative-tokens")
    in_object = _DRAFTS.search(flags.get("speculative-config", ""))
    drafts = _count(in_object[1] if in_object is not None else written)
    return None if drafts is None else drafts + 1


def _is_chunked(flags: Mapping[str, str], default: bool) -> bool:
    if "no-enable-chunked-prefill" in flags:
        return False
    written = flags.get("enable-chunked-prefill")
    return default if written is None else written.lower() not in {"false", "0"}


def _read_sglang(flags: Mapping[str, str]) -> LaunchSettings:
    default = LaunchSettings(engine=_SGLANG, block_tokens=1)
    tensor_parallel = _count(_first(flags, _SGLANG_SPREADS[0]))
    copies = () if _SGLANG_SHARED_COPIES in flags else (_SGLANG_COPIES,)
    chunk = flags.get("chunked-prefill-size")
    return LaunchSettings(
        engine=_SGLANG,
        memory_fraction=_fraction(flags.get("mem-fraction-static")) or default.memory_fraction,
        block_tokens=_count(flags.get("page-size")) or default.block_tokens,
        kv_dtype=_dtype(flags) or default.kv_dtype,
        tensor_parallel=tensor_parallel or default.tensor_parallel,
        parallel=_spread(flags, (*_SGLANG_SPREADS, *copies)),
        max_num_seqs=_count(flags.get("max-running-requests")) or default.max_num_seqs,
        written_num_seqs=_count(flags.get("max-running-requests")),
        max_batched_tokens=_count(chunk) or _count(flags.get("max-prefill-tokens")),
        max_model_tokens=_count(flags.get("context-length")),
        is_chunked=chunk != "-1",
        total_kv_tokens_override=_count(flags.get("max-total-tokens")),
        step_tokens=_count(flags.get("speculative-num-draft-tokens")),  # its own token among them
    )


def _first(flags: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((flags[name] for name in names if name in flags), None)


def _spread(flags: Mapping[str, str], rows: Sequence[Sequence[str]]) -> int | None:
    """The product of some flags, each 1 unless it is written; None where one is no number."""
    written = [text for text in (_first(flags, names) for names in rows) if text is not None]
    counts = [_count(text) for text in written]
    return prod(count or 0 for count in counts) or None


def _count(text: str | None) -> int | None:
    if text is None or not _COUNT.fullmatch(text):
        return None
    return int(text) if 1 <= int(text) <= _LARGEST_COUNT else None


def _fraction(text: str | None) -> float | None:
    if text is None or not _FRACTION.fullmatch(text) or text in {"", "."}:
        return None
    return float(text) if 0 < float(text) <= 1 else None


def _dtype(flags: Mapping[str, str]) -> str | None:
    text = flags.get("kv-cache-dtype", "")
    return text if _DTYPE.fullmatch(text) else None
