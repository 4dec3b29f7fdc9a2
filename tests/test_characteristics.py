import numpy as np
import pandas as pd
import pytest

from railcore.documents.photonic2025 import parallelism_rules
from railcore.documents.railonly2025 import iteration_claims
from railcore.engines import degraded
from railcore.engines.search import (
    best_times,
    hb_domain_summary,
    increasing_returns_share,
    search,
    slowdown_by_sustained_rate,
    smallest_hb_domain_near_ideal,
    with_strategy_labels,
)
from railcore.engines.strategies import parallelism_splits
from railcore.facts import claims
from railcore.network.topology import rail_only
from railcore.training import machine, transformer
from railcore.training.parallelism import Strategy

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
    table.loc[0, "communication"] = "forward:all_reduce"
    assert parallelism_rules.broken_rows(table, ["communication"]) == ["DP", "FSDP", "CP"]


def test_claims_on_what_ways_split_name_the_broken_rows():
    values, reasons, taken = parallelism_rules.split_claims(
        parallelism_splits.parallelism_comparison(LLAMA, MIXTURE, H100, 8, 8)
    )
    assert values == {"photonic2025.table2.communication": 2 / 7, "photonic2025.table2.reduction": 1 / 7}
    assert reasons["photonic2025.table2.communication"].startswith("broken by FSDP: forward:all_gather")
    assert "; CP: " in reasons["photonic2025.table2.communication"] and " per layer" in next(iter(reasons.values()))
    assert "FSDP, which splits weights gradients optimizer" in reasons["photonic2025.table2.reduction"] and not taken


def test_claims_on_rules_take_the_worst_case_and_explain_those_that_fail():
    rows = [("small", "a", 4, 0.2), ("small", "b", 8, 0.01), ("to_512", "a", 64, 0.02), ("to_512", "c", 8, 0.01)]
    rules = pd.DataFrame(rows, columns=["id", "model", "gpus", "excess"])
    rules = rules.assign(best_strategy="t2", best_s=10.0, obeying_strategy="t4", obeying_s=12.0)
    values, reasons, taken = parallelism_rules.rule_claims(rules)
    assert values == {"photonic2025.table1.small": 0.2, "photonic2025.table1.to_512": 0.02}
    assert reasons == {
        "photonic2025.table1.small": "a on 4 GPUs: t2 takes 10 s, t4, the best that obeys, 12 s",
    }
    text = "worst of 3 models on 3 clusters that are ours, not the document's"
    assert taken == dict.fromkeys(values, text)


def test_a_rule_that_nothing_obeys_costs_infinitely_much():
    model, two, one = transformer.catalog_model("Megatron 22B"), [2, 4, 8, 16], [1]
    ways = [(two, two, one), (two, one, two), (one, one, two)]  # tensor, pipeline and data of the rule's practices
    limits = [dict(zip(("tensor", "pipeline", "data"), way, strict=True)) for way in ways]
    obeying = min(search(model, H100, 16, 64, **limit).least_memory_bytes for limit in limits)
    anything = search(model, H100, 16, 64).least_memory_bytes
    assert anything < obeying
    table = parallelism_rules.rules_of_thumb({"22B": model}, H100.changed(memory_bytes=anything), [16], 64)
    assert table["id"].tolist() == ["to_512"] and np.isfinite(table["best_s"]).all()
    assert table["obeying_strategy"].tolist() == ["none fits"] and np.isinf(table["excess"]).all()
    none = parallelism_rules.rules_of_thumb({"22B": model}, H100.changed(memory_bytes=anything / 2), [16], 64)
    assert none.empty and "excess" in none


def test_rules_of_thumb_never_beat_the_best():
    models = {"Llama-3 8B": LLAMA, "Megatron 22B": transformer.catalog_model("Megatron 22B")}
    table = parallelism_rules.rules_of_thumb(models, H100, [1, 8, 32], 64)
    assert set(table["id"]) == {"small", "to_512"} and (table["excess"] >= 0).all()
    assert table.groupby("model")["gpus"].agg(list).to_dict() == {"Llama-3 8B": [8], "Megatron 22B": [32]}
    found = search(models["Megatron 22B"], H100, 32, 64, top=1)
    assert table["best_s"].iloc[-1] == found.best["total_s"].iloc[0]


def test_names_tell_strategies_apart_and_columns_go_both_ways():
    found = search(LLAMA, H100, 16, 32, top=60)
    names = with_strategy_labels(found.best)["strategy"]
    assert names.is_unique and names.str.contains("b").all()
    for row in found.best.to_dict("records"):
        strategy = Strategy.from_columns(row)
        assert strategy.columns(32) == {key: int(row[key]) for key in strategy.columns(32)}
        strategy.check(LLAMA, 32, 16)


def test_batch_that_does_not_divide():
    with pytest.raises(ValueError, match="batch is 12: give a multiple of degree 8"):
        parallelism_splits.parallelism_comparison(LLAMA, MIXTURE, H100, 8, 12)


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


def test_within_is_the_share_that_is_asked_and_includes_its_end():
    table = sweep([1.5, 1.25, 1.125, 1])  # slowdowns 1/2, 1/4, 1/8, 0, exact in binary
    assert [smallest_hb_domain_near_ideal(table, share) for share in (0.5, 0.49, 0.25, 0.125, 0.1)] == [
        8,
        16,
        16,
        32,
        64,
    ]
    assert [hb_domain_summary(table, 32, share)["plateau"].item() for share in (0.5, 0.25)] == [8, 16]


def test_quoted_are_those_of_the_cluster_named_and_the_nearest_rate():
    """Two clusters of each model, one slower than the other: the document does not say which one it quotes."""
    slowdown = {("GPT-1T", 8): 0.02, ("GPT-1T", 16): 0.08, ("GPT-146B", 8): 0.3, ("GPT-146B", 16): 0.1}
    rows = [
        (model, gpus, 1.0, 1.0, share, "", plateau)
        for (model, gpus), share, plateau in zip(slowdown, slowdown.values(), (256, 64, 512, 128), strict=True)
    ]
    found = pd.DataFrame(rows, columns="model gpus iteration_s ideal_s slowdown strategy plateau".split())
    printed = {key: claims.paper_value(f"railonly2025.fig8.{key}_k256_slowdown") for key in ("gpt1t", "gpt146b")}
    rates = pd.DataFrame(
        {"sustained_fraction": [0.1, 0.25, 0.9], "GPT-1T": [0.0, printed["gpt1t"], 1.0], "GPT-146B": [9, 8, 7.0]}
    )
    values, reasons, taken = iteration_claims.fig8_claims(sweep([4, 3.5, 2, 1.9]), found, rates, 16)
    assert values == {
        "railonly2025.fig8.diminishing": 0.5,
        "railonly2025.fig8.gpt1t_k256_slowdown": 0.08,
        "railonly2025.fig8.gpt146b_k256_slowdown": 0.1,
        "railonly2025.fig8.gpt1t_plateau": 64,
    }
    assert taken["railonly2025.fig8.gpt1t_k256_slowdown"] == "16 GPUs, the cluster is not printed; 2.00% at 8 GPUs"
    paper = claims.paper_value("railonly2025.fig8.gpt1t_k256_slowdown")
    assert f"with {paper:.2%}" in reasons["railonly2025.fig8.gpt1t_k256_slowdown"]
    assert taken["railonly2025.fig8.gpt1t_plateau"] == "16 GPUs, the cluster is not printed; 256 at 8 GPUs"
    assert "sustained 0.25 of its best rate" in reasons["railonly2025.fig8.gpt1t_k256_slowdown"]
    assert "sustained 0.9 of its best rate" in reasons["railonly2025.fig8.gpt146b_k256_slowdown"]


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
    table = degraded.dense_slowdowns(fabric, models, H100, 64, splits=2)
    assert set(table.model) == {"Llama-3 8B"}  # the other one fits no strategy of 16 GPUs
    assert len(table) == 4 and table.strategy.nunique() == 2
    assert table.times_best.iloc[0] == 1 and table.times_best.is_monotonic_increasing
    pairs = table.groupby("strategy").iteration_s.nunique()
    assert (pairs == 1).all() and (table.slowdown == 0).all()


def test_by_rate_takes_the_cluster_that_suffers_most():
    """A cluster of one HB domain has no slowdown, a larger one has; fewer FLOP/s make its links matter less."""
    models, sizes = {"Llama-3 8B": LLAMA}, {"batches": {"Llama-3 8B": [64]}}
    table = slowdown_by_sustained_rate(models, H100, [8, 32], 8, [0.25, 1.0], **sizes)
    for row in table.to_dict("records"):
        machine_then = H100.changed(sustained_fraction=row["sustained_fraction"])
        large = best_times(models, machine_then, [32], [8], **sizes)
        assert row["Llama-3 8B"] == large.slowdown[large.hb_domain_size == 8].item() > 0
    assert table["Llama-3 8B"].is_monotonic_increasing


def test_the_claim_on_dense_models_is_the_largest_slowdown():
    dense = pd.DataFrame({"model": ["a", "a", "b", "b"], "slowdown": [0.0, 0.02, 0.0, 0.01]})
    values, reasons, taken = iteration_claims.dense_slowdown_claim(dense, 64, 3)
    assert values == {"railonly2025.text.dense_slowdown": 0.02} and not taken
    assert "over 2 strategies, the 3 best ways to split 64 GPUs for each of a, b" in next(iter(reasons.values()))
