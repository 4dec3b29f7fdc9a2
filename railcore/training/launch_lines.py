"""Reading a Megatron-LM launch line: its parallel sizes, batch and model. Argument names are Megatron-LM's."""

import argparse
import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from railcore.catalog import near_names
from railcore.catalog.arguments import Count, NonNegativeInt, checked
from railcore.training.parallelism import Strategy
from railcore.training.transformer import SHARDING, Transformer

_NUMBERS = (
    "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size expert-model-parallel-size "
    "expert-tensor-parallel-size num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank "
    "micro-batch-size global-batch-size world-size nnodes nproc-per-node num-layers hidden-size num-attention-heads "
    "ffn-hidden-size seq-length num-query-groups kv-channels max-position-embeddings num-experts moe-router-topk "
    "moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-router-num-groups moe-router-group-topk q-lora-rank "
    "kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim vocab-size padded-vocab-size"
).split()
_SWITCHES = (
    "sequence-parallel recompute-activations use-distributed-optimizer use-torch-fsdp2 use-megatron-fsdp "
    "use-custom-fsdp use-tp-pp-dp-mapping group-query-attention swiglu untie-embeddings-and-output-weights "
    "disable-bias-linear use-rotary-position-embeddings multi-latent-attention "
    "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split"
).split()
_WORDS = {
    "recompute-granularity": ("selective", "full"),
    "data-parallel-sharding-strategy": ("no_shard", "optim", "optim_grads", "optim_grads_params"),
    "position-embedding-type": ("learned_absolute", "rope", "mrope", "relative", "none"),
}
_PATTERNS = ("moe-layer-freq", "window-attn-skip-freq", "window-size")  # whole numbers, or lists of them
_ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
_LATENT = {
    "kv-lora-rank": 32,
    "qk-head-dim": 128,
    "qk-pos-emb-head-dim": 64,
    "v-head-dim": 128,
}  # Megatron-LM's defaults
_SHARDING = dict(zip(_WORDS["data-parallel-sharding-strategy"], SHARDING, strict=True))
_MATTERS = "parallel latent lora expert moe head layer hidden fp8 recompute overlap shard offload attention".split()
_MOST_LAYERS = 10**4  # that a list in the line may have
_MOST_LETTERS = 2**16
_DEFAULT_VOCABULARY = 50257  # GPT-2's tokenizer, the example scripts' own


@dataclass(frozen=True)
class MegatronRun:
    """What a launch line starts. model: None where the line does not describe one; global_batch [sequences]."""

    strategy: Strategy
    model: Transformer | None
    global_batch: int
    warnings: tuple[str, ...]


@checked
def megatron_run(
    args: str | Sequence[str], gpus: Count | None = None, vocabulary: NonNegativeInt | None = None
) -> MegatronRun:
    """Strategy, model and batch of a Megatron-LM launch line, checked against each other.

    Parameters
    ----------
    args
        The line (torchrun's words included), or its words.
    gpus
        GPUs N, where the line does not say it.
    vocabulary
        Tokens V before padding, where the line has a tokenizer and no --vocab-size.

    Returns
    -------
    `MegatronRun`: model, strategy, global_batch, and warnings: the arguments that are not used and what had to be
    assumed.

    Raises
    ------
    ValueError
        For what contradicts or does not divide.

    References
    ----------
    Megatron-LM, megatron/training/arguments.py.

    Examples
    --------
    >>> import railcore as rc
    >>> run = rc.megatron_run(
    ...     "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
    ...     "--max-position-embeddings 2048 --vocab-size 50304 --micro-batch-size 1 --global-batch-size 64 "
    ...     "--tensor-model-parallel-size 8",
    ...     gpus=64,
    ... )
    >>> run.strategy.tensor, run.strategy.data, run.global_batch
    (8, 8, 64)
    """
    options, warnings = _read(args)
    if vocabulary:
        options["vocab-size"] = vocabulary
    fields = _strategy(options, gpus, warnings)
    model = _model(options, warnings)
    strategy = Strategy(**fields, warnings=tuple(warnings))
    batch = options.get("global-batch-size") or strategy.data * strategy.micro_batch
    strategy.microbatches(batch)
    odd = strategy.check(model, batch) if model else ()
    return MegatronRun(strategy, model, batch, strategy.warnings + odd)


def _strategy(options: dict[str, Any], gpus: int | None, warnings: list[str]) -> dict[str, Any]:
    """Fields of `Strategy` that the line says; what had to be assumed is added to the warnings."""
    ways = ("tensor-model", "context", "pipeline-model")
    tensor, context, pipeline = (options.get(f"{way}-parallel-size", 1) for way in ways)
    world, replica = _world(options, gpus), tensor * context * pipeline
    if world % replica:
        raise ValueError(
            f"world size is {world}: give a multiple of tensor x context x pipeline, "
            f"{tensor} x {context} x {pipeline} = {replica}"
        )
    if not world:
        warnings.append("no world size in the line: data-parallel size 1 is assumed")
    if "micro-batch-size" not in options:
        warnings.append("no --micro-batch-size in the line: 1 is assumed")
    fields: dict[str, Any] = {
        "tensor": tensor,
        "context": context,
        "pipeline": pipeline,
        "data": max(world // replica, 1),
        "expert": _expert(options, tensor),
        "interleave": _interleave(options, pipeline),
        "micro_batch": options.get("micro-batch-size", 1),
        "recompute": _recompute(options),
        "sequence_parallel": "sequence-parallel" in options,
        "sharding": _sharding(options),
    }
    if ends := [name for name in _ENDS if name in options]:
        if ends == [*_ENDS]:
            fields["ends_as_layers"] = True
        else:
            warnings.append(f"--{ends[0]} is not used without the other end's")
    if "use-tp-pp-dp-mapping" in options:
        fields["order"] = ("tensor", "context", "pipeline", "data")
    return fields


class _Once(argparse.Action):
    """Stores a value; a second, different one is refused."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        before = getattr(namespace, self.dest, values)
        if before != values:
            raise argparse.ArgumentError(self, f"is given twice, as {before} and {values}: keep one")
        setattr(namespace, self.dest, values)


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"is {text!r}: give a positive whole number (a variable's value, not its name)"
        )
    return int(text)


def _pattern(text: str) -> int | list[int]:
    """A whole number, or the numbers of a Python expression of lists with + and *, such as ([0]*3+[1]*58)."""
    try:
        pattern = _listed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError):
        pattern = []
    if not pattern or (isinstance(pattern, list) and not all(isinstance(number, int) for number in pattern)):
        raise argparse.ArgumentTypeError(f"is {text!r}: give a whole number, or a list such as ([0]*3+[1]*58)")
    return pattern


def _listed(node: ast.expr) -> Any:
    """Value of a whole number, a list, or a sum or product of these. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _MOST_LAYERS:
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_listed(node.operand)
    if isinstance(node, ast.List | ast.Tuple):
        return [_listed(element) for element in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_listed(node.left), *_listed(node.right)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _listed(node.left), _listed(node.right)
        part, times = (left, right) if isinstance(left, list) else (right, left)
        if len(part) * times <= _MOST_LAYERS:
            return part * times
    raise ValueError("neither a number nor a list")


def _parser() -> argparse.ArgumentParser:
    """Megatron-LM's arguments that matter here; those that a line does not have are not in the result."""
    settings: dict[str, Any] = {"add_help": False, "allow_abbrev": False, "exit_on_error": False}
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, **settings)
    for name in _NUMBERS:
        parser.add_argument(f"--{name}", dest=name, type=_whole, action=_Once)
    for name in _PATTERNS:
        parser.add_argument(f"--{name}", dest=name, type=_pattern, action=_Once)
    for name, words in _WORDS.items():
        parser.add_argument(f"--{name}", dest=name, choices=words, action=_Once)
    for name in _SWITCHES:
        parser.add_argument(f"--{name}", dest=name, action="store_true")
    return parser


def _read(args: str | Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Arguments that are used, by name, and a text for each one that is not."""
    text = args if isinstance(args, str) else " ".join(map(str, args))
    if len(text) > _MOST_LETTERS:
        raise ValueError(f"args has {len(text):,} letters: give a launch line of {_MOST_LETTERS:,} at most")
    if text.strip() and "--" not in text:
        raise ValueError(f"args is {text[:60]!r}: give a line with options, such as --tensor-model-parallel-size 8")
    words = shlex.split(args.replace("\\\n", " "), comments=True) if isinstance(args, str) else list(map(str, args))
    dashed = [re.sub("^--[^=]+", lambda name: name[0].replace("_", "-"), word) for word in words]
    try:
        used, others = _parser().parse_known_args(dashed)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name} {error.message}") from None
    return vars(used), [_unused(word[2:].partition("=")[0]) for word in others if word.startswith("--")]


def _unused(name: str) -> str:
    """The warning about an argument that is not used. Raises ValueError where it looks like a misspelt one that is."""
    arguments = [*_NUMBERS, *_SWITCHES, *_PATTERNS, *_WORDS]
    initials = [size for size in arguments if "parallel-size" in size and name == f"{size[0]}p"]  # tp, pp, cp, ep
    near = near_names(name, arguments, alike=0.85) or initials
    if near:
        raise ValueError(f"--{name} is unknown: Megatron-LM has --{near[0]}")
    matters = any(part in name for part in _MATTERS)
    return f"--{name} is not used" + (", and may change the model or its time" if matters else "")


def _world(options: dict[str, Any], gpus: int | None) -> int:
    """GPUs by every way the line says it, which must agree; 0 where it does not."""
    ways = {"gpus": gpus or 0, "--world-size": options.get("world-size", 0)}
    if "nproc-per-node" in options:
        ways["--nnodes x --nproc-per-node"] = options.get("nnodes", 1) * options["nproc-per-node"]
    said = {way: size for way, size in ways.items() if size}
    if len(set(said.values())) > 1:
        raise ValueError(f"{', '.join(f'{way} is {size}' for way, size in said.items())}: give one number of GPUs")
    return max(said.values(), default=0)


def _expert(options: dict[str, Any], tensor: int) -> int:
    expert, wide = options.get("expert-model-parallel-size", 1), options.get("expert-tensor-parallel-size", tensor)
    if wide != tensor:
        raise ValueError(
            f"--expert-tensor-parallel-size is {wide}: experts are cut like the other layers here, give {tensor}"
        )
    if expert > 1 and "num-experts" not in options and "num-layers" in options:
        raise ValueError(f"--expert-model-parallel-size is {expert} without --num-experts: give it, or drop the first")
    return expert


def _interleave(options: dict[str, Any], pipeline: int) -> int:
    chunk_layers, chunks = "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"
    if chunk_layers in options and chunks in options:
        raise ValueError(f"--{chunk_layers} and --{chunks} are both given: keep one")
    if (chunk_layers in options or chunks in options) and pipeline == 1:
        raise ValueError("virtual pipeline stages are given with --pipeline-model-parallel-size 1: give 2 or more")
    if chunk_layers not in options:
        return options.get(chunks, 1)
    layers, chunk = options.get("num-layers", 0), options[chunk_layers]
    ends = [name for name in _ENDS if name in options]
    if not layers or (layers + len(ends)) % (pipeline * chunk):
        counted = f" with {' and '.join(f'--{name}' for name in ends)}" if ends else ""
        raise ValueError(
            f"--{chunk_layers} is {chunk} and --num-layers is {layers or 'missing'}{counted}: give layers that "
            f"{pipeline} pipeline ranks x {chunk} divide"
        )
    return (layers + len(ends)) // (pipeline * chunk)


def _recompute(options: dict[str, Any]) -> str:
    level = options.get("recompute-granularity", "none")
    if "recompute-activations" not in options:
        return level
    if level == "full":
        raise ValueError("--recompute-activations (selective) and --recompute-granularity full contradict: keep one")
    return "selective"


def _sharding(options: dict[str, Any]) -> str:
    if "use-torch-fsdp2" in options:
        for other in ("use-distributed-optimizer", "data-parallel-sharding-strategy"):
            if other in options:
                raise ValueError(f"--use-torch-fsdp2 shards weights by itself: drop --{other}")
        for size in ("pipeline-model-parallel-size", "expert-model-parallel-size"):
            if options.get(size, 1) > 1:
                raise ValueError(f"--use-torch-fsdp2 with --{size} {options[size]}: it does not go with that, give 1")
        return "weights"
    plain = "optimizer" if "use-distributed-optimizer" in options else "none"
    if "data-parallel-sharding-strategy" not in options:
        return plain
    if not {"use-megatron-fsdp", "use-custom-fsdp"} & set(options):
        raise ValueError("--data-parallel-sharding-strategy needs --use-megatron-fsdp: give it, or drop the strategy")
    return _SHARDING[options["data-parallel-sharding-strategy"]]


def _model(options: dict[str, Any], warnings: list[str]) -> Transformer | None:
    """The model of the line, or None where layers, hidden size, heads or sequence length are missing."""
    needed = ("num-layers", "hidden-size", "num-attention-heads", "seq-length")
    if missing := [name for name in needed if name not in options]:
        warnings.append(f"no model: --{', --'.join(missing)} missing")
        return None
    if "num-query-groups" in options and "group-query-attention" not in options:
        raise ValueError("--num-query-groups needs --group-query-attention: give both, or neither")
    gated, experts, heads = "swiglu" in options, options.get("num-experts", 0), options["num-attention-heads"]
    learned = options.get("position-embedding-type", "learned_absolute") == "learned_absolute"
    learned = learned and "use-rotary-position-embeddings" not in options
    return Transformer(
        name="the launch line's model",
        layers=options["num-layers"],
        hidden=options["hidden-size"],
        heads=heads,
        kv_heads=options.get("num-query-groups", 1) if "group-query-attention" in options else heads,
        ffn_hidden=_ffn_hidden(options),
        vocabulary=_vocabulary(options, warnings),
        sequence_length=options["seq-length"],
        ffn_matrices=3 if gated else 2,
        positions=options.get("max-position-embeddings", options["seq-length"]) if learned else 0,
        tied_embeddings="untie-embeddings-and-output-weights" not in options,
        biases="disable-bias-linear" not in options,
        **(_mixture(options) if experts else {}),
        **_attention(options),
    )


def _mixture(options: dict[str, Any]) -> dict[str, Any]:
    """Fields of the model for its experts."""
    dense, interval = _mixture_layers(options.get("moe-layer-freq", 1), options["num-layers"])
    return {
        "experts": options["num-experts"],
        "top_k": options.get("moe-router-topk", 2),
        "dense_layers": dense,
        "expert_layer_interval": interval,
        "expert_hidden": options.get("moe-ffn-hidden-size", 0),
        "shared_hidden": options.get("moe-shared-expert-intermediate-size", 0),
        "expert_groups": options.get("moe-router-num-groups", 0),
        "token_groups": options.get("moe-router-group-topk", 0),
    }


def _mixture_layers(pattern: int | list[int], layers: int) -> tuple[int, int]:
    """Dense first layers, and every so many of the others with experts, which a list of all layers marks with 1."""
    if isinstance(pattern, int):
        return 0, pattern
    mixed = sum(pattern)
    if len(pattern) == layers and set(pattern) <= {0, 1} and mixed:
        for interval in range(1, layers // mixed + 1):
            dense, others = layers - mixed * interval, [0] * (interval - 1)
            if pattern in ([0] * dense + [*others, 1] * mixed, [0] * dense + [1, *others] * mixed):
                return dense, interval
    raise ValueError(
        f"--moe-layer-freq lists {len(pattern)} layers, {mixed} with experts: give {layers}, after the first "
        "dense ones all with experts, or every so many"
    )


def _attention(options: dict[str, Any]) -> dict[str, Any]:
    """Fields of the model for its heads, for latent attention and for windows."""
    latent = [name for name in ("q-lora-rank", *_LATENT) if name in options]
    heads = {"head_dim": options.get("kv-channels", 0)}
    if "multi-latent-attention" in options:
        if "group-query-attention" in options:
            raise ValueError(
                "--group-query-attention with --multi-latent-attention: it does not go with that, drop one"
            )
        sizes = _LATENT | {name: options[name] for name in latent}
        heads = {
            "head_dim": sizes["qk-head-dim"],
            "query_rank": sizes.get("q-lora-rank", 0),
            "kv_rank": sizes["kv-lora-rank"],
            "rope_dim": sizes["qk-pos-emb-head-dim"],
            "value_dim": sizes["v-head-dim"],
        }
    elif latent:
        raise ValueError(f"--{latent[0]} needs --multi-latent-attention: give both, or neither")
    return heads | _windows(options)


def _windows(options: dict[str, Any]) -> dict[str, int]:
    """Tokens of a window, its own one included, and every so many layers one without."""
    if "window-size" not in options:
        return {}
    size, skipped = options["window-size"], options.get("window-attn-skip-freq", 0)
    if not isinstance(size, list) or len(size) != 2 or size[1] not in (0, -1) or size[0] < -1:
        raise ValueError(f"--window-size is {size}: give tokens before and after a token, such as 127,0")
    if size[0] < 0:
        return {}
    if isinstance(skipped, list):
        every = skipped.index(0) + 1 if 0 in skipped else 0
        if skipped != [int(not every or layer % every > 0) for layer in range(1, options["num-layers"] + 1)]:
            raise ValueError("--window-attn-skip-freq lists layers of no pattern: give every so many 0, all others 1")
        skipped = every
    return {"window": size[0] + 1, "full_attention_interval": skipped}


def _ffn_hidden(options: dict[str, Any]) -> int:
    """4 h, or where gated two thirds of it as a multiple of 64, unless the line says another."""
    hidden = options["hidden-size"]
    return options.get("ffn-hidden-size", 8 * hidden // 3 // 64 * 64 if "swiglu" in options else 4 * hidden)


def _vocabulary(options: dict[str, Any], warnings: list[str]) -> int:
    """Tokens of the line's vocabulary, or those of GPT-2."""
    vocabulary = options.get("padded-vocab-size", options.get("vocab-size"))
    if vocabulary is None:
        warnings.append(f"no --vocab-size in the line: {_DEFAULT_VOCABULARY} tokens are assumed")
    return vocabulary or _DEFAULT_VOCABULARY
