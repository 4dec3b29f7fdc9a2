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
from railcore.catalog.checks import whole
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
    fields, model, batch = read_launch_line(args, gpus, vocabulary)
    strategy = Strategy(**fields)
    batch = batch or strategy.data * strategy.micro_batch
    strategy.microbatches(batch)
    odd = strategy.check(model, batch) if model else ()
    return MegatronRun(strategy, model, batch, strategy.warnings + odd)


def read_launch_line(
    args: str | Sequence[str], gpus: int | None = None, vocabulary: int | None = None
) -> tuple[dict[str, Any], Transformer | None, int]:
    """Fields of `Strategy`, the model, and the batch [sequences], 0 where the line has none; see `megatron_run`."""
    given, warnings = _read(args)
    if vocabulary:
        given["vocab-size"] = vocabulary
    ways = ("tensor-model", "context", "pipeline-model")
    tensor, context, pipeline = (given.get(f"{way}-parallel-size", 1) for way in ways)
    world, each = _world(given, gpus), tensor * context * pipeline
    if world % each:
        raise ValueError(
            f"world size is {world}: give a multiple of tensor x context x pipeline, "
            f"{tensor} x {context} x {pipeline} = {each}"
        )
    if not world:
        warnings.append("no world size in the line: data-parallel size 1 is assumed")
    if "micro-batch-size" not in given:
        warnings.append("no --micro-batch-size in the line: 1 is assumed")
    strategy: dict[str, Any] = {
        "tensor": tensor,
        "context": context,
        "pipeline": pipeline,
        "data": max(world // each, 1),
        "expert": _expert(given, tensor),
        "interleave": _interleave(given, pipeline),
        "micro_batch": given.get("micro-batch-size", 1),
        "recompute": _recompute(given),
        "sequence_parallel": "sequence-parallel" in given,
        "sharding": _sharding(given),
    }
    if ends := [name for name in _ENDS if name in given]:
        if ends == [*_ENDS]:
            strategy["ends_as_layers"] = True
        else:
            warnings.append(f"--{ends[0]} is not used without the other end's")
    if "use-tp-pp-dp-mapping" in given:
        strategy["order"] = ("tensor", "context", "pipeline", "data")
    model = _model(given, warnings)
    return strategy | {"warnings": tuple(warnings)}, model, given.get("global-batch-size", 0)


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
        found = _listed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError):
        found = []
    if not found or (isinstance(found, list) and not all(isinstance(each, int) for each in found)):
        raise argparse.ArgumentTypeError(f"is {text!r}: give a whole number, or a list such as ([0]*3+[1]*58)")
    return found


def _listed(node: ast.expr) -> Any:
    """Value of a whole number, a list, or a sum or product of these. Raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _MOST_LAYERS:
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_listed(node.operand)
    if isinstance(node, ast.List | ast.Tuple):
        return [_listed(each) for each in node.elts]
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
    options: dict[str, Any] = {"add_help": False, "allow_abbrev": False, "exit_on_error": False}
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, **options)
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
    """Known arguments by name, and a text for each one that is not used."""
    text = args if isinstance(args, str) else " ".join(map(str, args))
    if len(text) > _MOST_LETTERS:
        raise ValueError(f"args has {len(text):,} letters: give a launch line of {_MOST_LETTERS:,} at most")
    if text.strip() and "--" not in text:
        raise ValueError(f"args is {text[:60]!r}: give a line with options, such as --tensor-model-parallel-size 8")
    words = shlex.split(args.replace("\\\n", " "), comments=True) if isinstance(args, str) else list(map(str, args))
    dashed = [re.sub("^--[^=]+", lambda name: name[0].replace("_", "-"), word) for word in words]
    try:
        known, unknown = _parser().parse_known_args(dashed)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name} {error.message}") from None
    return vars(known), [_unused(word[2:].partition("=")[0]) for word in unknown if word.startswith("--")]


def _unused(name: str) -> str:
    """What is said of an argument that is not read. Raises ValueError where it looks like one that is, misspelt."""
    known = [*_NUMBERS, *_SWITCHES, *_PATTERNS, *_WORDS]
    initials = [size for size in known if "parallel-size" in size and name == f"{size[0]}p"]  # tp, pp, cp, ep
    near = near_names(name, known, alike=0.85) or initials
    if near:
        raise ValueError(f"--{name} is unknown: Megatron-LM has --{near[0]}")
    matters = any(part in name for part in _MATTERS)
    return f"--{name} is not used" + (", and may change the model or its time" if matters else "")


def _world(given: dict[str, Any], gpus: int | None) -> int:
    """GPUs by every way the line says it, which must agree; 0 where it does not."""
    if gpus is not None:
        whole("gpus", gpus)
    ways = {"gpus": gpus or 0, "--world-size": given.get("world-size", 0)}
    if "nproc-per-node" in given:
        ways["--nnodes x --nproc-per-node"] = given.get("nnodes", 1) * given["nproc-per-node"]
    said = {way: size for way, size in ways.items() if size}
    if len(set(said.values())) > 1:
        raise ValueError(f"{', '.join(f'{way} is {size}' for way, size in said.items())}: give one number of GPUs")
    return max(said.values(), default=0)


def _expert(given: dict[str, Any], tensor: int) -> int:
    expert, wide = given.get("expert-model-parallel-size", 1), given.get("expert-tensor-parallel-size", tensor)
    if wide != tensor:
        raise ValueError(
            f"--expert-tensor-parallel-size is {wide}: experts are cut like the other layers here, give {tensor}"
        )
    if expert > 1 and "num-experts" not in given and "num-layers" in given:
        raise ValueError(f"--expert-model-parallel-size is {expert} without --num-experts: give it, or drop the first")
    return expert


def _interleave(given: dict[str, Any], pipeline: int) -> int:
    layers_each, chunks = "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"
    if layers_each in given and chunks in given:
        raise ValueError(f"--{layers_each} and --{chunks} are both given: keep one")
    if (layers_each in given or chunks in given) and pipeline == 1:
        raise ValueError("virtual pipeline stages are given with --pipeline-model-parallel-size 1: give 2 or more")
    if layers_each not in given:
        return given.get(chunks, 1)
    layers, each = given.get("num-layers", 0), given[layers_each]
    ends = [name for name in _ENDS if name in given]
    if not layers or (layers + len(ends)) % (pipeline * each):
        counted = f" with {' and '.join(f'--{name}' for name in ends)}" if ends else ""
        raise ValueError(
            f"--{layers_each} is {each} and --num-layers is {layers or 'missing'}{counted}: give layers that "
            f"{pipeline} pipeline ranks x {each} divide"
        )
    return (layers + len(ends)) // (pipeline * each)


def _recompute(given: dict[str, Any]) -> str:
    level = given.get("recompute-granularity", "none")
    if "recompute-activations" not in given:
        return level
    if level == "full":
        raise ValueError("--recompute-activations (selective) and --recompute-granularity full contradict: keep one")
    return "selective"


def _sharding(given: dict[str, Any]) -> str:
    if "use-torch-fsdp2" in given:
        for other in ("use-distributed-optimizer", "data-parallel-sharding-strategy"):
            if other in given:
                raise ValueError(f"--use-torch-fsdp2 shards weights by itself: drop --{other}")
        for size in ("pipeline-model-parallel-size", "expert-model-parallel-size"):
            if given.get(size, 1) > 1:
                raise ValueError(f"--use-torch-fsdp2 with --{size} {given[size]}: it does not go with that, give 1")
        return "weights"
    plain = "optimizer" if "use-distributed-optimizer" in given else "none"
    if "data-parallel-sharding-strategy" not in given:
        return plain
    if not {"use-megatron-fsdp", "use-custom-fsdp"} & set(given):
        raise ValueError("--data-parallel-sharding-strategy needs --use-megatron-fsdp: give it, or drop the strategy")
    return _SHARDING[given["data-parallel-sharding-strategy"]]


def _model(given: dict[str, Any], warnings: list[str]) -> Transformer | None:
    """The model of the line, or None where layers, hidden size, heads or sequence length are missing."""
    needed = ("num-layers", "hidden-size", "num-attention-heads", "seq-length")
    if missing := [name for name in needed if name not in given]:
        warnings.append(f"no model: --{', --'.join(missing)} missing")
        return None
    if "num-query-groups" in given and "group-query-attention" not in given:
        raise ValueError("--num-query-groups needs --group-query-attention: give both, or neither")
    gated, experts, heads = "swiglu" in given, given.get("num-experts", 0), given["num-attention-heads"]
    learned = given.get("position-embedding-type", "learned_absolute") == "learned_absolute"
    learned = learned and "use-rotary-position-embeddings" not in given
    return Transformer(
        name="the launch line's model",
        layers=given["num-layers"],
        hidden=given["hidden-size"],
        heads=heads,
        kv_heads=given.get("num-query-groups", 1) if "group-query-attention" in given else heads,
        ffn_hidden=_ffn_hidden(given),
        vocabulary=_vocabulary(given, warnings),
        sequence_length=given["seq-length"],
        ffn_matrices=3 if gated else 2,
        positions=given.get("max-position-embeddings", given["seq-length"]) if learned else 0,
        tied_embeddings="untie-embeddings-and-output-weights" not in given,
        biases="disable-bias-linear" not in given,
        **(_mixture(given) if experts else {}),
        **_attention(given),
    )


def _mixture(given: dict[str, Any]) -> dict[str, Any]:
    """Fields of the model for its experts."""
    dense, interval = _mixture_layers(given.get("moe-layer-freq", 1), given["num-layers"])
    return {
        "experts": given["num-experts"],
        "top_k": given.get("moe-router-topk", 2),
        "dense_layers": dense,
        "expert_layer_interval": interval,
        "expert_hidden": given.get("moe-ffn-hidden-size", 0),
        "shared_hidden": given.get("moe-shared-expert-intermediate-size", 0),
        "expert_groups": given.get("moe-router-num-groups", 0),
        "token_groups": given.get("moe-router-group-topk", 0),
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


def _attention(given: dict[str, Any]) -> dict[str, Any]:
    """Fields of the model for its heads, for latent attention and for windows."""
    latent = [name for name in ("q-lora-rank", *_LATENT) if name in given]
    found = {"head_dim": given.get("kv-channels", 0)}
    if "multi-latent-attention" in given:
        if "group-query-attention" in given:
            raise ValueError(
                "--group-query-attention with --multi-latent-attention: it does not go with that, drop one"
            )
        sizes = _LATENT | {name: given[name] for name in latent}
        found = {
            "head_dim": sizes["qk-head-dim"],
            "query_rank": sizes.get("q-lora-rank", 0),
            "kv_rank": sizes["kv-lora-rank"],
            "rope_dim": sizes["qk-pos-emb-head-dim"],
            "value_dim": sizes["v-head-dim"],
        }
    elif latent:
        raise ValueError(f"--{latent[0]} needs --multi-latent-attention: give both, or neither")
    return found | _windows(given)


def _windows(given: dict[str, Any]) -> dict[str, int]:
    """Tokens of a window, its own one included, and every so many layers one without."""
    if "window-size" not in given:
        return {}
    size, skipped = given["window-size"], given.get("window-attn-skip-freq", 0)
    if not isinstance(size, list) or len(size) != 2 or size[1] not in (0, -1) or size[0] < -1:
        raise ValueError(f"--window-size is {size}: give tokens before and after a token, such as 127,0")
    if size[0] < 0:
        return {}
    if isinstance(skipped, list):
        every = skipped.index(0) + 1 if 0 in skipped else 0
        if skipped != [int(not every or layer % every > 0) for layer in range(1, given["num-layers"] + 1)]:
            raise ValueError("--window-attn-skip-freq lists layers of no pattern: give every so many 0, all others 1")
        skipped = every
    return {"window": size[0] + 1, "full_attention_interval": skipped}


def _ffn_hidden(given: dict[str, Any]) -> int:
    """4 h, or where gated two thirds of it as a multiple of 64, unless the line says another."""
    hidden = given["hidden-size"]
    return given.get("ffn-hidden-size", 8 * hidden // 3 // 64 * 64 if "swiglu" in given else 4 * hidden)


def _vocabulary(given: dict[str, Any], warnings: list[str]) -> int:
    if (found := given.get("padded-vocab-size", given.get("vocab-size"))) is None:
        warnings.append(f"no --vocab-size in the line: {_DEFAULT_VOCABULARY} tokens are assumed")
    return found or _DEFAULT_VOCABULARY
