"""Reading a Megatron-LM launch line: its parallel sizes, batch and model. Argument names are Megatron-LM's."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from railcore import catalog
from railcore.catalog.arguments import Count, NonNegativeInt, checked
from railcore.training.launch_arguments import MOST_LAYERS, read_line
from railcore.training.parallelism import Strategy
from railcore.training.transformer import SHARDING, Transformer

_CHUNKS = (
    "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank",
    "virtual-pipeline-model-parallel-size",
    "pipeline-model-parallel-layout",
)
_NEEDED = ("num-layers", "hidden-size", "num-attention-heads", "seq-length")  # of a model
_SIZES = ("ffn-hidden-size", "num-query-groups", "kv-channels", "num-experts", "vocab-size", "mtp-num-layers")
_ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
_LATENT = {
    "kv-lora-rank": 32,
    "qk-head-dim": 128,
    "qk-pos-emb-head-dim": 64,
    "v-head-dim": 128,
}  # Megatron-LM's defaults
_SHARDING = dict(zip(("no_shard", "optim", "optim_grads", "optim_grads_params"), SHARDING, strict=True))
# By letters of --tokenizer-model or --tokenizer-type: a model of the catalog with as many tokens.
_TOKENIZERS = {
    **{"gpt2": "GPT-3", "llama2": "Mixtral 8x7B", "mixtral8x": "Mixtral 8x7B", "llama3": "Llama-3 8B"},
    "qwen3": "Qwen3-30B-A3B",
}


@dataclass(frozen=True)
class MegatronRun:
    """What a launch line starts.

    strategy, model: how what is split; model is None where the line does not describe one.
    global_batch: sequences of an iteration.
    warnings: what is assumed and not used.
    missing: arguments without which a line that has some sizes of a model does not describe it.
    """

    strategy: Strategy
    model: Transformer | None
    global_batch: int
    warnings: tuple[str, ...]
    missing: tuple[str, ...] = ()


@checked
def megatron_run(
    args: str | Sequence[str], gpus: Count | None = None, vocabulary: NonNegativeInt | None = None
) -> MegatronRun:
    """Strategy, model and batch of a Megatron-LM launch line, checked against each other.

    Parameters
    ----------
    args
        The line (torchrun's or srun's words included), or its words; or a script that sets its variables.
    gpus
        GPUs N, where the line does not say it.
    vocabulary
        Tokens V before padding, where the line has a tokenizer and no --vocab-size; by default those of the tokenizer
        where its name is known, else GPT-2's.

    Returns
    -------
    `MegatronRun`: model, strategy, global_batch, and warnings: what had to be assumed, and the arguments that are not
    used and may change time or memory.

    Raises
    ------
    ValueError
        For what contradicts or does not divide, and for a model that is not modelled, by the argument that says so.

    References
    ----------
    Megatron-LM, megatron/training/arguments.py; all names that are known: data/launch_arguments.csv.

    Examples
    --------
    >>> import railcore as rc
    >>> run = rc.megatron_run(
    ...     "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    ...     "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50304 "
    ...     "--micro-batch-size 1 --global-batch-size 64 --tensor-model-parallel-size 8",
    ...     gpus=64,
    ... )
    >>> run.strategy.tensor, run.strategy.data, run.global_batch
    (8, 8, 64)
    """
    options, warnings = read_line(args)
    assumed = list[str]()
    fields = _strategy(options, gpus, warnings, assumed)
    layers_listed = _add_pipeline(fields, options, warnings)
    fields |= _recomputed(options, fields["pipeline"], fields.get("interleave", 1))
    missing = tuple(f"--{name}" for name in _NEEDED if name not in options)
    model = None if missing else _model(options, vocabulary, assumed)
    if assumed:
        warnings.append(f"assumed, for the line does not say it: {', '.join(assumed)}")
    strategy = Strategy(**fields, warnings=tuple(warnings))
    batch = options.get("global-batch-size") or strategy.data * strategy.micro_batch
    strategy.microbatches(batch)
    if model is None:
        in_part = any(name in options for name in (*_NEEDED, *_SIZES))
        text = f"no model: {', '.join(missing)} missing"
        return MegatronRun(strategy, None, batch, (*strategy.warnings, text), missing if in_part else ())
    odd = strategy.check(model, batch, layers_listed=layers_listed)
    return MegatronRun(strategy, model, batch, strategy.warnings + odd)


def _strategy(options: dict[str, Any], gpus: int | None, warnings: list[str], assumed: list[str]) -> dict[str, Any]:
    """Fields of `Strategy` that the line says.

    Parameters
    ----------
    options, gpus
        Arguments of the line by name, and GPUs by another way.
    warnings, assumed
        To which texts are added.

    Returns
    -------
    Values by field.
    """
    ways = ("tensor-model", "context", "pipeline-model")
    tensor, context, pipeline = (options.get(f"{way}-parallel-size", 1) for way in ways)
    world, replica = _world(options, gpus), tensor * context * pipeline
    if world % replica:
        raise ValueError(
            f"world size is {world}: give a multiple of tensor x context x pipeline, "
            f"{tensor} x {context} x {pipeline} = {replica}"
        )
    expert, whole = _expert(options), _whole_experts(options, tensor)
    if not world:
        if expert > context * (tensor if whole else 1):
            raise ValueError("the line has no number of GPUs: give gpus, or --nnodes and --nproc-per-node")
        assumed.append("data-parallel size 1 (no number of GPUs)")
    if "micro-batch-size" not in options:
        assumed.append("--micro-batch-size 1")
    sliced = "sequence-parallel" in options
    if sliced and tensor == 1:
        warnings.append("--sequence-parallel does nothing with --tensor-model-parallel-size 1")
    fields: dict[str, Any] = {
        "tensor": tensor,
        "context": context,
        "pipeline": pipeline,
        "data": max(world // replica, 1),
        "expert": expert,
        "whole_experts": whole,
        "micro_batch": options.get("micro-batch-size", 1),
        "recompute": _recompute(options),
        "sequence_parallel": sliced and tensor > 1,
        "sharding": _sharding(options),
    }
    if "use-tp-pp-dp-mapping" in options:
        fields["order"] = ("tensor", "context", "pipeline", "data")
    return fields


def _world(options: dict[str, Any], gpus: int | None) -> int:
    """GPUs by every way the line says it, which must agree; 0 where it does not."""
    ways = {"gpus": gpus or 0, "--world-size": options.get("world-size", 0)}
    nodes = options.get("nnodes", options.get("nodes", 1))
    if "nproc-per-node" in options:
        ways["--nnodes x --nproc-per-node"] = nodes * options["nproc-per-node"]
    else:
        ways["--ntasks"] = options.get("ntasks", 0)
        each = ("ntasks-per-node", "gpus-per-node") if "nodes" in options else ()
        ways |= {f"--nodes x --{name}": nodes * options.get(name, 0) for name in each}
    said = {way: size for way, size in ways.items() if size}
    if len(set(said.values())) > 1:
        raise ValueError(f"{', '.join(f'{way} is {size}' for way, size in said.items())}: give one number of GPUs")
    return max(said.values(), default=0)


def _expert(options: dict[str, Any]) -> int:
    expert = options.get("expert-model-parallel-size", 1)
    if expert > 1 and "num-experts" not in options and "num-layers" in options:
        raise ValueError(f"--expert-model-parallel-size is {expert} without --num-experts: give it, or drop the first")
    return int(expert)


def _whole_experts(options: dict[str, Any], tensor: int) -> bool:
    """Whether a tensor rank holds whole experts; by default they are cut as the other layers are."""
    slices = options.get("expert-tensor-parallel-size", tensor)
    if "num-experts" not in options and _expert(options) == 1:
        return False  # a dense model
    if slices not in (1, tensor):
        raise ValueError(
            f"--expert-tensor-parallel-size is {slices}: experts are whole or cut like the other layers here, give "
            f"1 or {tensor}"
        )
    return bool(slices < tensor)


def _add_pipeline(fields: dict[str, Any], options: dict[str, Any], warnings: list[str]) -> bool:
    """Add the fields of a pipeline's chunks and ends. Gives whether the line lists the layers of its ranks."""
    pipeline = fields["pipeline"]
    stages = _layout_stages(options, pipeline)
    counts = _device_layers(options, pipeline, stages)
    fields["interleave"] = _interleave(options, pipeline, stages)
    fields["ends_as_layers"] = _ends_as_layers(options, counts, warnings)
    return bool(counts)


def _interleave(options: dict[str, Any], pipeline: int, stages: list[str]) -> int:
    """Model chunks of a stage, which three arguments and the layout say."""
    given = [name for name in _CHUNKS if name in options]
    if len(given) > 1:
        raise ValueError(f"--{given[0]} and --{given[1]} are both given: keep one")
    if not given:
        return 1
    if given[0] == "pipeline-model-parallel-layout":
        return len(stages) // pipeline
    if pipeline == 1:
        raise ValueError("virtual pipeline stages are given with --pipeline-model-parallel-size 1: give 2 or more")
    if given[0] != "num-layers-per-virtual-pipeline-stage":
        return int(options[given[0]])
    layers, chunk = options.get("num-layers", 0), options[given[0]]
    ends = [name for name in _ENDS if name in options]
    if not layers or (layers + len(ends)) % (pipeline * chunk):
        counted = f" with {' and '.join(f'--{name}' for name in ends)}" if ends else ""
        raise ValueError(
            f"--{given[0]} is {chunk} and --num-layers is {layers or 'missing'}{counted}: give layers that "
            f"{pipeline} pipeline ranks x {chunk} divide"
        )
    return int((layers + len(ends)) // (pipeline * chunk))


def _layout_stages(options: dict[str, Any], pipeline: int) -> list[str]:
    """Stages of --pipeline-model-parallel-layout, of letters: E embedding, t layer, m predicting layer, L loss.

    Without a layout there are none. Raises ValueError for one that cannot be read or does not fit the other arguments.
    """
    name = "pipeline-model-parallel-layout"
    if name not in options:
        return []
    given = text = options[name].replace(",", "")
    for part in (r"\(([EtmL|]+)\)\*(\d+)", r"([EtmL|])\*(\d+)"):  # what is in brackets first
        while found := re.search(part, text):
            times = int(found[2]) if len(found[2]) <= len(str(MOST_LAYERS)) else MOST_LAYERS
            if len(text) + len(found[1]) * times > MOST_LAYERS:
                raise ValueError(f"--{name} is {given[:60]!r}: give one of fewer layers")
            text = text[: found.start()] + found[1] * times + text[found.end() :]
    if not re.fullmatch(r"E[t|]*(m[tm|]*)?L", text):
        raise ValueError(f"--{name} is {given[:60]!r}: give stages of E, t, m and L, such as Et*3|(tt|)*29mL")
    stages, layers = text.split("|"), options.get("num-layers", text.count("t"))
    if len(stages) % pipeline:
        raise ValueError(f"--{name} has {len(stages)} stages: give a multiple of {pipeline} pipeline ranks")
    for letter, argument, count in (("t", "num-layers", layers), ("m", "mtp-num-layers", _predicting(options))):
        if text.count(letter) != count:
            raise ValueError(f"--{name} has {text.count(letter)} x {letter}: give as many as --{argument}, {count}")
    return stages


def _device_layers(options: dict[str, Any], pipeline: int, stages: list[str]) -> list[int]:
    """Layers of each pipeline rank where the line lists them, in stages of a layout or at the ends; else none."""
    if stages:
        return [sum(stage.count("t") for stage in stages[rank::pipeline]) for rank in range(pipeline)]
    ends = [options.get(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last")]
    layers, given = options.get("num-layers", 0), [count for count in ends if count]
    if not given or not layers:
        return []
    rest, ranks = layers - sum(given), pipeline - len(given)
    if rest < 0 or (rest % ranks if ranks > 0 else rest or ranks):
        raise ValueError(
            f"--num-layers is {layers}, {' and '.join(map(str, given))} of them at the ends: give as many as "
            f"{ranks} other pipeline ranks divide"
        )
    middle = [rest // ranks] * ranks if ranks else []
    return [*([ends[0]] if ends[0] else []), *middle, *([ends[1]] if ends[1] else [])]


def _ends_as_layers(options: dict[str, Any], counts: list[int], warnings: list[str]) -> bool:
    """Whether embedding and loss take the place of a layer each; a text is added where stages are modelled otherwise.

    Listed layers, `counts` of each rank, are taken for the nearer of both: even stages, or ends with a layer less than
    the others.
    """
    if given := [name for name in _ENDS if name in options]:
        if given != [*_ENDS]:
            warnings.append(f"--{given[0]} is not used without the other end's")
        return given == [*_ENDS]
    pipeline = len(counts)
    if pipeline < 2:
        return False
    said, modelled = (max(counts), counts[0], counts[-1]), dict[bool, tuple[int, int, int]]()
    for ends in (False, True):
        most = -(-(sum(counts) + 2 * ends) // pipeline)
        spare = min(pipeline * most - sum(counts), most) if _predicting(options) else ends
        modelled[ends] = most, most - ends, most - spare
    ends = min(modelled, key=lambda ends: [abs(one - other) for one, other in zip(modelled[ends], said, strict=True)])
    if modelled[ends] != said:
        most, first, last = modelled[ends]
        warnings.append(
            f"pipeline ranks of {', '.join(map(str, counts))} layers are modelled as {first} on the first, {last} on "
            f"the last and {most} on the others"
        )
    return ends


def _predicting(options: dict[str, Any]) -> int:
    """Layers that predict further tokens (MTP)."""
    return int(options.get("mtp-num-layers", 0))


def _recompute(options: dict[str, Any]) -> str:
    level = options.get("recompute-granularity", "none")
    if "recompute-activations" not in options:
        return level
    if level == "full":
        raise ValueError("--recompute-activations (selective) and --recompute-granularity full contradict: keep one")
    return "selective"


def _recomputed(options: dict[str, Any], stages: int, chunks: int) -> dict[str, int]:
    """Of full recompute: layers of a stage (block: so many of each chunk), or of a group in a chunk (uniform)."""
    number, method = options.get("recompute-num-layers", 0), options.get("recompute-method")
    if options.get("recompute-granularity") != "full":
        if number or method:
            name = "recompute-num-layers" if number else "recompute-method"
            raise ValueError(f"--{name} is of full recompute: give --recompute-granularity full, or leave it out")
        return {}
    if method == "block" and not number:
        raise ValueError("--recompute-method block has no number: give --recompute-num-layers")
    if method == "block":
        return {"recomputed_layers": number * chunks}
    of_chunk = -(-options.get("num-layers", MOST_LAYERS) // (stages * chunks))
    return {"recompute_group": min(max(number, 1), of_chunk)}


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
        return "weights" if "use-megatron-fsdp" in options else plain
    if not {"use-megatron-fsdp", "use-custom-fsdp"} & set(options):
        raise ValueError("--data-parallel-sharding-strategy needs --use-megatron-fsdp: give it, or drop the strategy")
    return _SHARDING[options["data-parallel-sharding-strategy"]]


def _model(options: dict[str, Any], vocabulary: int | None, assumed: list[str]) -> Transformer:
    """The model of the line. vocabulary: where it does not say it. assumed: to which texts are added."""
    if "num-query-groups" in options and "group-query-attention" not in options:
        raise ValueError("--num-query-groups needs --group-query-attention: give both, or neither")
    if {"swiglu", "quick-geglu"} <= options.keys():
        raise ValueError("--swiglu and --quick-geglu are both given: keep one")
    gated, heads = _gated(options), options["num-attention-heads"]
    learned = options.get("position-embedding-type", "learned_absolute") == "learned_absolute"
    learned = learned and not {"use-rotary-position-embeddings", "no-position-embedding"} & options.keys()
    return Transformer(
        name="the launch line's model",
        layers=options["num-layers"],
        hidden=options["hidden-size"],
        heads=heads,
        kv_heads=options.get("num-query-groups", 1) if "group-query-attention" in options else heads,
        ffn_hidden=_ffn_hidden(options),
        vocabulary=_vocabulary(options, vocabulary, assumed),
        sequence_length=options["seq-length"],
        ffn_matrices=3 if gated else 2,
        positions=options.get("max-position-embeddings", options["seq-length"]) if learned else 0,
        tied_embeddings="untie-embeddings-and-output-weights" not in options,
        biases="disable-bias-linear" not in options,
        mtp_layers=_predicting(options),
        **(_mixture(options) if "num-experts" in options else {}),
        **_attention(options),
    )


def _gated(options: dict[str, Any]) -> bool:
    return bool({"swiglu", "quick-geglu"} & options.keys())


def _mixture(options: dict[str, Any]) -> dict[str, Any]:
    """Fields of the model for its experts."""
    layers, pattern = options["num-layers"], options.get("moe-layer-freq", 1)
    dense, interval = _mixture_layers(pattern, layers)
    if layers % interval and not dense:
        raise ValueError(f"--moe-layer-freq is {pattern}: give a divisor of --num-layers {layers}")
    return {
        "experts": options["num-experts"],
        "top_k": options.get("moe-router-topk", 2),
        "dense_layers": dense,
        "expert_layer_interval": interval,
        "expert_hidden": options.get("moe-ffn-hidden-size", 0),
        "shared_hidden": options.get("moe-shared-expert-intermediate-size", 0),
        "expert_groups": options.get("moe-router-num-groups", 0),
        "token_groups": options.get("moe-router-group-topk", 0),
        "clamped": "activation-func-clamp-value" in options,
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
    """4 h, or with SwiGLU two thirds of it as a multiple of 64, unless the line says another."""
    hidden = options["hidden-size"]
    return int(options.get("ffn-hidden-size", 8 * hidden // 3 // 64 * 64 if "swiglu" in options else 4 * hidden))


def _vocabulary(options: dict[str, Any], vocabulary: int | None, assumed: list[str]) -> int:
    """Tokens of the line, else those that are given, else of the tokenizer by its name, else GPT-2's."""
    said = options.get("padded-vocab-size") or options.get("vocab-size") or vocabulary
    if said:
        return int(said)
    names = [str(options.get(f"tokenizer-{key}", "")).rstrip("/").rpartition("/")[2] for key in ("model", "type")]
    known = {_letters(name): name for name in catalog.names("models")} | _TOKENIZERS
    of_other = f", for {names[0]} is not known" if names[0] else ""
    model, why = _TOKENIZERS["gpt2"], f"GPT-2's{of_other}"
    for name in names:
        if near := [letters for letters in known if letters in _letters(name)]:
            model, why = known[max(near, key=len)], f"of {name}"
            break
    tokens = int(catalog.item("models", model)["vocabulary"])
    assumed.append(f"--vocab-size {tokens} ({why})")
    return tokens


def _letters(name: str) -> str:
    """A name by its letters and digits alone."""
    return re.sub("[^a-z0-9]", "", name.lower())
