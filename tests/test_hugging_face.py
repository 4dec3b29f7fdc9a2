"""Models of config.json: parameters of public ones as their model cards have them, and what cannot be said is refused.

Counts are those of transformers 5.24 for the same file, without layers that predict further tokens.
"""

import json
import re

import pytest

import railcore as rc
from railcore.catalog import files
from railcore.training.hugging_face import model_families
from railcore.training.transformer import Transformer, catalog_model

PUBLIC = json.loads((files.ROOT / "tests/model_configs.json").read_text(encoding="utf-8"))
LLAMA = PUBLIC["Llama-3.1-8B"]["config"]
MOE = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 99}
WINDOWS = {"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": True}
OF_CATALOG = {
    "Llama-3.1-8B": "Llama-3 8B",
    "Llama-3.1-405B": "Llama-3 405B",
    "Mixtral-8x7B-v0.1": "Mixtral 8x7B",
    "Mixtral-8x22B-v0.1": "Mixtral 8x22B",
    "Qwen3-30B-A3B": "Qwen3-30B-A3B",
    "Qwen3-235B-A22B": "Qwen3-235B-A22B",
    "DeepSeek-V3": "DeepSeek-V3",
    "gpt-oss-20b": "GPT-OSS 20B",
    "gpt-oss-120b": "GPT-OSS 120B",
    "Llama-2-7b": "Llama-2 7B",
    "Llama-3.2-1B": "Llama-3.2 1B",
    "Qwen2.5-7B": "Qwen2.5-7B",
    "DeepSeek-V2": "DeepSeek-V2",
    "DeepSeek-V2-Lite": "DeepSeek-V2-Lite",
    "Kimi-K2-Instruct": "Kimi K2",
    "GLM-4.5": "GLM-4.5",
    "GLM-4.5-Air": "GLM-4.5-Air",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_models_have_their_published_parameters(name):
    model = Transformer.from_config(PUBLIC[name]["config"])
    assert model.total_parameters == pytest.approx(PUBLIC[name]["parameters"], rel=1e-4)


@pytest.mark.parametrize("name", OF_CATALOG)
def test_the_catalog_and_the_file_have_the_same_model(name):
    wanted = catalog_model(OF_CATALOG[name])
    changes = {"name": wanted.name, "sequence_length": wanted.sequence_length}
    assert Transformer.from_config(PUBLIC[name]["config"], **changes) == wanted


def test_a_file_its_folder_and_a_dictionary_are_the_same(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("\ufeff" + json.dumps({**LLAMA, "_name_or_path": "of/ours"}), encoding="utf-8")
    model = rc.Transformer.from_config(path, sequence_length=8192)
    assert model == Transformer.from_config(str(tmp_path), sequence_length=8192) and model.name == "ours"
    assert (model.sequence_length, Transformer.from_config(LLAMA).sequence_length) == (8192, 131072)
    assert Transformer.from_config(LLAMA, mtp_layers=1).mtp_layers == 1
    without = {key: value for key, value in LLAMA.items() if key != "max_position_embeddings"}
    assert Transformer.from_config(without, name="ours", sequence_length=8192) == model
    with pytest.raises(ValueError, match="config has no max_position_embeddings: give the whole config"):
        Transformer.from_config(without)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"num_key_value_heads": None}, {"kv_heads": 32}),
        ({"sliding_window": 4096}, {"window": 4096, "full_attention_interval": 0}),
        ({"sliding_window": 4096, "use_sliding_window": False}, {"window": 0}),
        ({"sliding_window": 4096, "layer_types": ["full_attention"] * 32}, {"window": 0}),
        (
            {"sliding_window": 9, "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8},
            {"window": 9, "full_attention_interval": 4},
        ),
        ({"model_type": "qwen2", "sliding_window": 99}, {"window": 0}),  # used only where the file says so
        ({**WINDOWS, "max_window_layers": 0}, {"window": 9, "full_attention_interval": 0}),
        ({**WINDOWS, "max_window_layers": 32}, {"window": 0}),
        ({"model_type": "mistral"}, {"window": 4096, "full_attention_interval": 0}),
        ({"model_type": "mistral", "sliding_window": None}, {"window": 0}),
        ({"model_type": "qwen3"}, {"head_dim": 128}),
        ({"model_type": "gemma2", "tie_word_embeddings": None}, {"window": 4096, "full_attention_interval": 2}),
        ({"text_config": LLAMA}, {"tied_embeddings": False}),
        (
            {
                "tie_word_embeddings": True,
                "text_config": {key: value for key, value in LLAMA.items() if not key.startswith("tie")},
            },
            {"tied_embeddings": True},
        ),
        ({"attention_bias": True}, {"biases": False}),  # of queries, keys and values alone
        ({"attention_bias": True, "mlp_bias": True}, {"biases": True}),
        ({**MOE, "mlp_only_layers": [0, 1]}, {"dense_layers": 2}),
        ({**MOE, "decoder_sparse_step": 2}, {"expert_layer_interval": 2}),
        (PUBLIC["Kimi-K2-Instruct"]["config"], {"expert_groups": 0, "token_groups": 0, "dense_layers": 1}),
        ({"moe_intermediate_size": 99, "first_k_dense_replace": 3, "n_group": 8}, {"experts": 0, "expert_groups": 0}),
    ],
)
def test_keys_give_fields(changes, fields):
    model = Transformer.from_config({**LLAMA, **changes})
    assert {name: getattr(model, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"index_topk": 2048}, r"config has index_topk \(sparse attention\)"),
        ({"attention_chunk_size": 8192}, r"config has attention_chunk_size \(chunked attention\)"),
        ({"block_configs": [{}]}, r"config has block_configs \(layers of different sizes\)"),
        ({"model_type": "lama"}, "model_type of config is 'lama': give one of llama"),
        ({"model_type": None}, "model_type of config is '': give one of chatglm"),
        ({"hidden_size": None}, "config has no hidden_size: give the whole config.json"),
        ({"hidden_size": "4096"}, "hidden_size of config is '4096': give a whole number"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim of config is None: give a whole number"),
        ({"text_config": 5}, "text_config of config is 5"),
        ({"layer_types": ["linear_attention"] * 32}, "layer_types of config has 'linear_attention'"),
        ({"sliding_window": 9, "layer_types": ["full_attention", "sliding_attention"] * 16}, "in no pattern"),
        ({**WINDOWS, "max_window_layers": 3}, "in no pattern"),
        (WINDOWS, "in no pattern"),  # 28 by default
        ({"model_type": "qwen3_moe", "num_experts": None}, "config has no num_experts_per_tok: give the whole config"),
        ({"model_type": "deepseek_v3"}, "config has no n_routed_experts: give the whole config"),
        ({"num_key_value_heads": 0}, "kv_heads is 0: give"),
        ({"max_window_layers": "28", "sliding_window": 9}, "max_window_layers of config is '28': give a whole number"),
        ({"num_experts": 8, "mlp_only_layers": [31]}, r"mlp_only_layers of config is \[31\]"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "top_k is 9: give at most experts 8"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(changes, text):
    with pytest.raises(ValueError, match=text):
        Transformer.from_config({**LLAMA, **changes})


@pytest.mark.parametrize("row", model_families().values(), ids=lambda row: row.name)
def test_every_family_and_key_is_read_or_refused(row):
    if row.effect == "refused":
        for config in ({"model_type": row.name}, {**LLAMA, row.name: 1}):
            with pytest.raises(
                ValueError, match=rf"config has .*{row.name} \({row.note}\), which is not modelled: give"
            ):
                Transformer.from_config(config)
        return
    config = {**LLAMA, "model_type": row.name, "layer_types": None}
    for key in row.needed.split():
        with pytest.raises(ValueError, match=f"config has no {key}: give the whole config.json"):
            Transformer.from_config(config)
        config[key] = 2
    assert row.effect == "family" and Transformer.from_config({**config, "sliding_window": None}).layers == 32


def test_what_is_no_file_or_no_config(tmp_path):
    with pytest.raises(
        ValueError, match=r"config is 'nowhere' \(No such file or directory\): give a config.json, or its"
    ):
        Transformer.from_config("nowhere")
    path = tmp_path / "config.json"
    for text, why in (("{", "which is no JSON"), ("[1]", "a list: give a config.json, an object")):
        path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(why)):
            Transformer.from_config(path)


def test_names_of_a_config_are_told_as_ours():
    for make in (lambda **sizes: Transformer("ours", **sizes), lambda **sizes: catalog_model("GPT-3", **sizes)):
        with pytest.raises(ValueError, match="num_hidden_layers is layers here: give it, or the whole file"):
            make(num_hidden_layers=3)
