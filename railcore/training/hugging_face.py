"""Sizes of a model as a config.json of Hugging Face has them, by the fields of `Transformer`.

Names of keys: GitHub huggingface/transformers, src/transformers/models/*/configuration_*.py, version 5.24. The families
(`model_type`) are rows of data/model_families.csv.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from railcore.catalog import files, near_names, tables, units
from railcore.catalog.letters import check_visible
from railcore.catalog.plain_values import plain_faults
from railcore.catalog.text_files import read_text

_MOST_VALUES = 1_000_000  # of a config.json: quantization lists modules
# Keys that mean the same, in the order in which they count by field of `Transformer`.
KEYS: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "num_layers"),
    "hidden": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn_hidden": ("intermediate_size", "ffn_hidden_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "sequence_length": ("max_position_embeddings", "seq_length"),
    "tied_embeddings": ("tie_word_embeddings",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "top_k": ("num_experts_per_tok", "experts_per_token"),
    "expert_hidden": ("moe_intermediate_size",),
    "shared_hidden": ("shared_expert_intermediate_size",),
    "dense_layers": ("first_k_dense_replace",),
    "expert_layer_interval": ("moe_layer_freq", "decoder_sparse_step"),
    "expert_groups": ("n_group",),
    "token_groups": ("topk_group",),
    "query_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "rope_dim": ("qk_rope_head_dim",),
    "value_dim": ("v_head_dim",),
    "window": ("sliding_window",),
    "mtp_layers": ("num_nextn_predict_layers",),
}
FOREIGN_NAMES = {  # keys that are no field, and what to give
    key: f"{field} here: give it, or the whole file (Transformer.from_config, or job.config in a spec)"
    for field, keys in KEYS.items()
    for key in keys
    if key != field
}
_NEEDED = ("layers", "hidden", "heads", "vocabulary", "ffn_hidden", "sequence_length")
_OF_EXPERTS = (
    *("experts", "top_k", "expert_hidden", "shared_hidden", "dense_layers", "expert_layer_interval"),
    *("expert_groups", "token_groups"),
)
_NEAR = 0.7  # likeness of a family's name to a known one
_KINDS = ("sliding_attention", "full_attention")


class ModelFamily(NamedTuple):
    """A family of models by its model_type, or a key: a row of data/model_families.csv.

    effect: "family", one that is read, or "refused", which `note` says why.
    defaults: keys that its file may leave out, with the values of its class in transformers, as JSON.
    needed: keys without which a mixture would be taken for another model.
    """

    name: str
    effect: str
    defaults: str
    needed: str
    note: str


@cache
def model_families() -> dict[str, ModelFamily]:
    """All rows by name."""
    return {row["name"]: ModelFamily(**row) for row in tables.read_csv(files.data("model_families.csv"))}


def read_config(config: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """A config.json as a dictionary. Raises ValueError for a file that is not there or no JSON object."""
    if isinstance(config, Mapping):
        return dict(config)
    path = files.user_path("config", config)
    try:
        path = path / "config.json" if path.is_dir() else path
        read = json.loads(read_text(path, path.name))
    except OSError as error:
        raise ValueError(f"config is {str(config)!r} ({error.strerror}): give a config.json, or its folder") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"config is {str(config)!r}, which is no JSON ({error}): give a config.json") from None
    if not isinstance(read, dict):
        raise ValueError(f"config is {str(config)!r}, a {type(read).__name__}: give a config.json, an object")
    if faults := plain_faults(read, in_lines=".*", most=_MOST_VALUES):
        raise ValueError(f"config is {str(config)!r}: {faults[0]}")
    return read


def config_fields(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `Transformer` that a config.json says; of a model of images and text those of its text.

    Layers that predict further tokens (num_nextn_predict_layers) are left out, as published counts of parameters do;
    so are biases of queries, keys and values alone, norms of heads, and gates of shared experts: below 0.1% of any.

    changes: fields in place of the file's, which need not have them.
    Raises ValueError naming the key for what is missing, and for what cannot be said.
    """
    text = _text_part(config)
    fields: dict[str, Any] = {field: value for field in KEYS if (value := _value(text, field)) is not None}
    fields = {**fields, "mtp_layers": 0, **changes}
    missing = [KEYS[field][0] for field in _NEEDED if field not in fields]
    if missing := missing + [key for key in model_families()[text["model_type"]].needed.split() if key not in text]:
        raise ValueError(f"config has no {missing[0]}: give the whole config.json")
    name = str(text.get("_name_or_path") or f"{text['model_type']} of config.json")
    check_visible("_name_or_path of config", name)
    fields |= {
        "name": name.rstrip("/").rpartition("/")[2],
        "ffn_matrices": 3,
        "biases": bool(text.get("attention_bias") and text.get("mlp_bias")),
        "tied_embeddings": bool(fields.get("tied_embeddings")),
        "kv_heads": fields.get("kv_heads", fields["heads"]),
    }
    if fields.get("kv_rank"):
        fields |= {"head_dim": _number(text, "qk_nope_head_dim"), "kv_heads": fields["heads"]}
    return {**_mixture(text, fields | _windows(text, fields)), **changes}


def predicting_layers(config: Mapping[str, Any]) -> int:
    """Layers of a config.json that predict further tokens, which `config_fields` leaves out."""
    return int(_value(_text_part(config), "mtp_layers") or 0)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes a transformer for text, with the defaults of its family.

    Raises ValueError for a family that is not known or modelled.
    """
    part = config.get("text_config") or config
    if not isinstance(part, Mapping):
        raise ValueError(f"text_config of config is {part!r}: give the whole config.json")
    kinds = [str(each.get("model_type") or "") for each in (part, config)]
    for name in (*kinds, *part):
        row = model_families().get(name)
        if row and row.effect == "refused" and (name in kinds or part[name]):
            what = f"model_type {name}" if name in kinds else name
            raise ValueError(f"config has {what} ({row.note}), which is not modelled: give another model")
    known = sorted(row.name for row in model_families().values() if row.effect == "family")
    if kinds[0] not in known:
        near = near_names(kinds[0], known, alike=_NEAR) or known
        raise ValueError(
            f"model_type of config is {kinds[0]!r}: give one of {units.either(near)}, or the sizes as Transformer(...)"
        )
    around = {key: config[key] for key in KEYS["tied_embeddings"] if key in config}  # beside the part for text
    return {**json.loads(model_families()[kinds[0]].defaults or "{}"), **around, **part}


def _value(text: Mapping[str, Any], field: str) -> Any:
    """The value of a field; None where the file has none of its keys, or null."""
    return next((_number(text, key) for key in KEYS[field] if text.get(key) is not None), None)


def _number(text: Mapping[str, Any], key: str) -> int:
    """A whole number, or true or false. Raises ValueError naming the key for anything else."""
    if not isinstance(text.get(key), int):
        raise ValueError(f"{key} of config is {text.get(key)!r}: give a whole number")
    return int(text[key]) if not isinstance(text[key], bool) else text[key]


def _list(text: Mapping[str, Any], key: str) -> list[Any]:
    """A list, empty where the file has none. Raises ValueError naming the key for anything else."""
    if not isinstance(text.get(key) or [], list):
        raise ValueError(f"{key} of config is {text[key]!r}: give a list")
    return text.get(key) or []


def _mixture(text: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """All fields with those of the experts, which a dense model has none of."""
    if not fields.get("experts"):
        return {field: value for field, value in fields.items() if field not in _OF_EXPERTS}
    hidden = fields.get("expert_hidden", fields["ffn_hidden"])
    changes = {"expert_hidden": hidden, "clamped": bool(text.get("swiglu_limit"))}
    if text.get("n_shared_experts"):
        changes["shared_hidden"] = _number(text, "n_shared_experts") * hidden
    if dense := _list(text, "mlp_only_layers"):
        if dense != [*range(len(dense))] or fields.get("expert_layer_interval", 1) != 1:
            raise ValueError(f"mlp_only_layers of config is {dense}: layers without experts are modelled before others")
        changes["dense_layers"] = len(dense)
    if fields.get("expert_groups") == 1:  # one group is no limit
        changes |= {"expert_groups": 0, "token_groups": 0}
    return {**fields, **changes}


def _windows(text: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, int]:
    """The window, and every how many layers one attends to all tokens; 0 for none."""
    layers, kinds, pattern = fields["layers"], _list(text, "layer_types"), 0
    if other := [kind for kind in kinds if kind not in _KINDS]:
        raise ValueError(f"layer_types of config has {other[0]!r}, which is not modelled: give another model")
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        pattern = _number(text, key) if text.get(key) else pattern
    if not fields.get("window") or not text.get("use_sliding_window", True):
        return {"window": 0}
    if not kinds and "max_window_layers" in text:  # the first ones attend to all tokens
        whole = min(_number(text, "max_window_layers"), layers)
        kinds = ["full_attention"] * whole + ["sliding_attention"] * (layers - whole)
    if {*kinds} == {"full_attention"}:
        return {"window": 0}
    if kinds:
        pattern = kinds.index("full_attention") + 1 if "full_attention" in kinds else 0
        if kinds != [_KINDS[pattern > 0 and layer % pattern == 0] for layer in range(1, layers + 1)]:
            raise ValueError("layers of config have full attention in no pattern: it is modelled every so many layers")
    return {"full_attention_interval": pattern}
