import numpy as np
import pandas as pd
import pytest

from railcore import planner
from railcore.network.topology.rails import rail_only
from railcore.strategies.hb_domains import (
    best_times,
    increasing_returns_share,
    smallest_hb_domain_near_ideal,
)
from railcore.strategies.parts import search
from railcore.training import machine, parallelism_splits, transformer
from suite.photonic2025 import parallelism_rules

H100 = machine.catalog_machine("DGX H100")
LLAMA, MIXTURE = transformer.catalog_model("Llama-3 8B"), transformer.catalog_model("MoE-1.3B")


def test_each_way_splits_what_it_should():
    table = parallelism_splits.parallelism_comparison(LLAMA, MIXTURE, H100, 4, 8).set_index("strategy")
    half = parallelism_splits.parallelism_comparison(LLAMA, MIXTURE, H100, 2, 8).set_index("strategy")
    states = ["weights_bytes", "gradients_bytes", "optimizer_bytes"]
    for way in ("DP", "CP"):
        assert table.loc[way, states].tolist() == pytest.approx(half.loc["DP", states].tolist())
    for way in ("FSDP", "TP", "TP & SP", "PP"):
        assert (4 * table.loc[way, states]).tolist() == pytest.approx(half.loc["DP", states].tolist(), rel=1e-3)
    assert table.loc["TP", "activations_bytes"] > table.loc["TP & SP", "activations_bytes"]
    for way in table.index.drop("EP"):
        assert 2 * table.loc[way, "products_s"] == pytest.approx(half.loc["DP", "products_s"], rel=1e-3)
    assert 2 * table.loc["EP", "experts_bytes"] == pytest.approx(half.loc["EP", "experts_bytes"])
    for way in ("DP", "TP", "TP & SP", "CP"):  # the same messages over 4 ranks and over 2: 3 / 4 against 1 / 2 of each
        assert table.loc[way, "sent_bytes"] == pytest.approx(1.5 * half.loc[way, "sent_bytes"])


def test_broken_rows_are_those_that_differ():
    table = parallelism_splits.parallelism_comparison(LLAMA, MIXTURE, H100, 8, 8)
    assert parallelism_rules.broken_rows(table, ["memory", "compute"]) == ["FSDP"]
    assert parallelism_rules.broken_rows(table, ["communication", "per"]) == ["FSDP", "CP"]
    kept = parallelism_splits.parallelism_comparison(LLAMA, MIXTURE, H100, 8, 8, ["weights", "keys"])
    assert parallelism_rules.broken_rows(kept, ["communication", "per"]) == []
    shown = parallelism_rules.splits_in_words(kept, "way", "dense", "mixture", 80e9).set_index("way")
    assert shown.loc["dense, FSDP", "ours differs in"] == "memory: grads, optims too"
    assert set(shown["ours differs in"].drop("dense, FSDP")) == {"–", "nothing"}
    assert shown.loc["dense, DP", "memory of a GPU"].endswith("does not fit; split: activs")
    assert kept["one_gpu_s"].iloc[0] == pytest.approx(8 * (kept["products_s"] + kept["elementwise_s"]).iloc[0])
    table.loc[0, "communication"] = "forward:all_reduce"
    assert parallelism_rules.broken_rows(table, ["communication"]) == ["DP", "FSDP", "CP"]


def test_a_rule_that_nothing_obeys_costs_infinitely_much():
    model, two, one = transformer.catalog_model("Megatron 22B"), [2, 4, 8, 16], [1]
    ways = [(two, two, one), (two, one, two), (one, one, two)]  # tensor, pipeline and data of the rule's practices
    limits = [dict(zip(("tensor", "pipeline", "data"), way, strict=True)) for way in ways]
    obeying = min(search(model, H100, 16, 64, "modern", **limit).least_memory_bytes for limit in limits)
    anything = search(model, H100, 16, 64, "modern").least_memory_bytes
    assert anything < obeying
    table = parallelism_rules.rules_of_thumb({"22B": model}, H100.changed(memory_bytes=anything), [16], 64, "modern")
    assert table["id"].tolist() == ["to_512"] and np.isfinite(table["best_s"]).all()
    assert table["obeying_strategy"].tolist() == ["none fits"] and np.isinf(table["excess"]).all()
    none = parallelism_rules.rules_of_thumb({"22B": model}, H100.changed(memory_bytes=anything / 2), [16], 64, "modern")
    assert none.empty and "excess" in none


def test_rules_of_thumb_never_beat_the_best():
    models = {"Llama-3 8B": LLAMA, "Megatron 22B": transformer.catalog_model("Megatron 22B")}
    table = parallelism_rules.rules_of_thumb(models, H100, [1, 8, 32], 64, "modern")
    assert set(table["id"]) == {"small", "to_512"} and (table["excess"] >= 0).all()
    assert table.groupby("model")["gpus"].agg(list).to_dict() == {"Llama-3 8B": [8], "Megatron 22B": [32]}
    found = search(models["Megatron 22B"], H100, 32, 64, "modern", top=1)
    assert table["best_s"].iloc[-1] == found.best["total_s"].iloc[0]
    shown = parallelism_rules.rules_in_words(table)
    assert list(shown["document: GPUs N"]) == ["N ≤ 8", "8 < N ≤ 512", "512 < N ≤ 1,024", "N > 1,024"]
    assert list(shown["document: model size [parameters]"].drop_duplicates()) == ["< 10 B", "> 10 B"]
    assert list(shown["worst case"].iloc[1:]) == ["Megatron 22B on 32 GPUs", "–", "–"], "rules without a case"


def sweep(times, ideal=1.0, gpus=64):
    sizes = [8, 16, 32, gpus]
    rows = [("m", gpus, k, 1, 1.0, t, ideal, t / ideal - 1, "", np.nan) for k, t in zip(sizes, times, strict=True)]
    return pd.DataFrame(
        rows, columns="model gpus hb_domain_size batch nic_Bps iteration_s ideal_s slowdown strategy gain".split()
    )


def test_plateau_and_increasing_returns():
    assert smallest_hb_domain_near_ideal(sweep([1.2, 1.04, 1.02, 1]), 0.05) == 16
    assert smallest_hb_domain_near_ideal(sweep([1.02, 1.2, 1.02, 1]), 0.05) == 32  # near once is not near from there on
    assert smallest_hb_domain_near_ideal(sweep([1.2, 1.2, 1.2, 1]), 0.05) == 64
    assert increasing_returns_share(sweep([4, 2, 1.5, 1.2])) == 0
    assert increasing_returns_share(sweep([4, 3.5, 2, 1.9])) == 0.5


def test_larger_domains_and_faster_nics_are_never_slower():
    batches = {"Llama-3 8B": [64, 128]}
    table = best_times({"Llama-3 8B": LLAMA}, H100, [64], [2, 8, 16], batches, [H100.nic_Bps, 2 * H100.nic_Bps])
    assert len(table) == 2 * 2 * 4 and (table["slowdown"] >= -1e-12).all()
    times = table.set_index(["batch", "nic_Bps", "hb_domain_size"])["iteration_s"].unstack()
    assert (times.diff(axis=1).iloc[:, 1:] <= 1e-12).all(axis=None)
    slow, fast = (times.xs(nic, level="nic_Bps") for nic in (H100.nic_Bps, 2 * H100.nic_Bps))
    assert (fast <= slow + 1e-12).all(axis=None) and fast[64].equals(slow[64])
    # the ideal has all 64 GPUs in one domain; of the sizes only 16 is twice the one before
    for row in table.itertuples():
        mine = times.loc[(row.batch, row.nic_Bps)]
        assert row.ideal_s == mine[64]
        assert (row.gain == 1 - mine[16] / mine[8]) if row.hb_domain_size == 16 else np.isnan(row.gain)


def test_best_strategies_of_dense_models_load_both_networks_alike():
    fabric, models = rail_only(16, 8, 8), {"Llama-3 8B": LLAMA, "GPT-3": transformer.catalog_model("GPT-3")}
    table = planner.dense_slowdowns(fabric, models, H100, 64, splits=2)
    assert set(table.model) == {"Llama-3 8B"}  # the other one fits no strategy of 16 GPUs
    assert len(table) == 4 and table.strategy.nunique() == 2
    assert table.times_best.iloc[0] == 1 and table.times_best.is_monotonic_increasing
    pairs = table.groupby("strategy").iteration_s.nunique()
    assert (pairs == 1).all() and (table.slowdown == 0).all()
