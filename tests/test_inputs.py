"""Inputs on which verdicts hang: each is held against another statement of it, by its source's own arithmetic.

The numbers typed here are printed in the source named beside them, and are neither read from the catalog nor computed
by a model of railcore. A claim's printed value comes from the ledger: `agrees` says that a number of our own rounds to
it.
"""

import ast
import json
import math
from itertools import pairwise

import numpy as np
import pytest

from railcore import catalog
from railcore.catalog import units
from railcore.catalog.units import GB, Gbps, GiB, MiB, day, ms
from railcore.siting.cities import cities
from railcore.siting.grid import load_grid
from railcore.training import formats
from suite import workspace
from suite.ledger import claims

T = 1e12


def of(family, name, *parameters):
    item = catalog.item(family, name)
    values = [item[parameter] for parameter in parameters]
    return values[0] if len(values) == 1 else values


def agrees(claim_id, ours):
    """Whether a number in SI units rounds to the printed one."""
    entry = claims.claim(claim_id)
    return claims.verdict(units.convert(ours, entry.unit), entry.paper_value, "=", entry.tolerance) == "reproduced"


# GPUs: rates of the products


@pytest.mark.parametrize(
    ("gpu", "per_clock", "clock"),
    [
        ("A100", 2048, 1.410e9),  # NVIDIA A100 whitepaper: 1,024 dense FP16 FMA a clock and multiprocessor, boost clock
        ("H100", 4096, 1.830e9),  # NVIDIA H100 whitepaper, SXM5: twice that; boost clock of the Tensor Cores
        ("H200", 4096, 1.830e9),  # the same chip
        ("GH200", 4096, 1.830e9),  # the same chip
        ("MI300X", 2048, 2.100e9),  # AMD CDNA 3 whitepaper: 2,048 FLOP a clock and compute unit, peak engine clock
    ],
)
def test_a_peak_rate_is_clock_times_processors(gpu, per_clock, clock):
    rate = of("efficiencies", gpu, "processors") * per_clock * clock
    assert of("gpus", gpu, "bf16_dense_rate") == pytest.approx(rate, rel=5e-4)  # printed with three or four digits


def test_v100_without_tensor_cores():
    """Tesla V100, PCIe: 80 multiprocessors of 64 FP32 cores at 1.38 GHz, two FLOP each, are the printed 14 TFLOP/s."""
    single = 80 * 64 * 2 * 1.38e9
    assert round(single / T) == 14 and of("gpus", "V100", "fp16_rate") == 2 * 14 * T


@pytest.mark.parametrize("gpu", [name for name in catalog.names("gpus") if name != "V100"])
def test_half_the_bits_double_the_rate(gpu):
    """From TF32 to BF16, to FP8 and INT8, to FP4; sparsity of 2:4 doubles FP4 once more.

    Blackwell Ultra has half more dense FP4 than that, no more sparse FP4, and next to no INT8.
    """
    item = catalog.item("gpus", gpu)
    whole = {"rel": 0.03} if gpu == "B200" else {"rel": 1e-3}  # TF32 of B200 is printed as 2.2 PFLOP/s with sparsity
    if "tf32_dense_rate" in item:  # CDNA 4 has none
        assert item["bf16_dense_rate"] == pytest.approx(2 * item["tf32_dense_rate"], **whole)
    eight = [item[name] for name in ("int8_dense_rate", "fp8_dense_rate") if name in item]
    assert eight == pytest.approx([2 * item["bf16_dense_rate"]] * len(eight), rel=1e-3)
    if "fp4_dense_rate" in item:
        more = 1.5 if gpu in ("B300", "GB300") else 1
        assert item["fp4_dense_rate"] / more == 2 * item["fp8_dense_rate"] == item["fp4_sparse_rate"] / 2


def test_rates_of_a_rack_are_those_of_its_gpus():
    """flops2024, Section 2: a rack of 72 has 1,440 PFLOP/s in sparse FP4, half of that dense, and in all 16.8e21."""
    gpus, dense, sparse = (
        of("platforms", "GB200 NVL72", "gpus"),
        *of("gpus", "GB200", "fp4_dense_rate", "fp4_sparse_rate"),
    )
    assert gpus * sparse == 1440e15 and gpus * dense == 1440e15 / 2
    assert agrees("flops2024.infra.fp4_dense", 0.7 * 100e9 // 3e6 * gpus * dense)  # racks of 3M USD, 70% of the budget


# GPUs: memory, links, networks


def test_the_driver_reports_at_least_the_memory_of_the_name():
    """80 GB are 80 GiB on A100, of which the driver keeps none; later ones show half a percent less, H100 361 MiB."""
    assert of("gpus", "A100", "driver_memory") == 80 * GiB
    assert of("gpus", "H100", "driver_memory") == 80 * GiB - 361 * MiB
    for gpu in (name for name in catalog.names("gpus") if "driver_memory" in catalog.item("gpus", name)):
        named, driver = of("gpus", gpu, "memory", "driver_memory")
        assert 0.994 * GiB / GB < driver / named <= GiB / GB * (1 + 1e-12)


def test_the_documents_own_bandwidths_of_a_domain():
    """What a document divides by, one way or both, and what the datasheets' links give."""
    assert agrees("railonly2025.text.h100_hb_bandwidth", of("platforms", "DGX H100", "hb_bandwidth"))
    assert agrees("railonly2025.text.mi300x_hb_bandwidth", of("platforms", "MI300X full mesh", "hb_bandwidth"))
    assert of("platforms", "GB200 NVL72", "hb_bandwidth_flops2024") == 2 * 18 * 50 * GB == 14_400 * Gbps  # both ways
    # railonly2023, Section 2.2: 19.2 times the 400 Gbps of the network, and 2 Pbps over the 256 GPUs
    hb, nic, gpus = of("platforms", "GH200", "hb_bandwidth_railonly2023", "nic_bandwidth", "gpus")
    assert hb == claims.paper_value("railonly2023.fig5.ideal_bandwidth_ratio") * nic
    assert agrees("railonly2023.intro.gh200_bisection", gpus * hb)


@pytest.mark.parametrize("chip", catalog.names("switches"))
def test_ports_of_every_mode_share_a_chips_capacity(chip):
    item = catalog.item("switches", chip)
    modes = {int(name.split("_")[1][:-1]) * Gbps: item[name] for name in item if name.startswith("ports_")}
    for speed, ports in {item["port_bandwidth"]: item["ports"], **modes}.items():
        assert ports * speed <= item["capacity"] * (1 + 1e-12)
    for slow, fast in pairwise(sorted(modes)):
        assert modes[slow] * slow >= modes[fast] * fast  # serdes that a faster port would use stand free at most
    assert item["ports"] * item["port_bandwidth"] == pytest.approx(item["capacity"])


# Models


def block(name):
    """Weights of a layer: Q and output of hidden x heads x head_dim, K and V of their heads, and the feed-forward's."""
    item = catalog.item("models", name)
    h, heads, kv = item["hidden"], item["heads"], item["kv_heads"]
    head_dim = item["head_dim"] if "head_dim" in item else h / heads
    return 2 * h * head_dim * (heads + kv) + item["ffn_matrices"] * h * item["ffn_hidden"]


def embeddings(name):
    item = catalog.item("models", name)
    return item["vocabulary"] * item["hidden"] * (1 if item["tied_embeddings"] else 2)


@pytest.mark.parametrize(
    "name", ["GPT-3", "OPT3-175B", "PaLM-540B", "GPT-146B", "GPT-1T", "Llama-3 8B", "Llama-3 70B", "Llama-3 405B"]
)
def test_layers_of_the_printed_widths_have_the_printed_parameters(name):
    """L times a block and the embeddings; norms, biases and positions are less than the printed digits."""
    weights = of("models", name, "layers") * block(name) + embeddings(name)
    assert weights == pytest.approx(of("models", name, "parameters"), rel=4e-3)


@pytest.mark.parametrize("size", ["22B", "175B", "530B", "1T"])
def test_megatrons_sizes_by_its_own_formula(size):
    """Korthikanti et al. 2022 take 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)) from Narayanan et al., Eq. (2)."""
    layers, h, v, s = of("models", f"Megatron {size}", "layers", "hidden", "vocabulary", "sequence_length")
    named = of("models", f"Megatron {size}", "parameters")
    assert 12 * layers * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * layers * h)) == pytest.approx(named, rel=0.01)


def test_classical_feed_forward_layers_are_four_times_as_wide():
    for name in catalog.names("models"):
        if of("models", name, "ffn_matrices") == 2 or name == "PaLM-540B":
            assert of("models", name, "ffn_hidden") == 4 * of("models", name, "hidden")
    for name in (
        "Llama-3 8B",
        "Llama-3 70B",
        "Llama-3 405B",
    ):  # gated ones have matrices of about 8 / 3 times the width
        wide = of("models", name, "ffn_hidden") / of("models", name, "hidden")
        assert of("models", name, "ffn_matrices") == 3 and 8 / 3 < wide <= 3.5


def test_gpt3_training_is_six_flop_a_parameter_and_token():
    """Brown et al., Table D.1: 174.6e9 parameters x 300e9 tokens x 6 = 3.14e23 FLOP; 32M is ten times its 3.2M."""
    tokens, flops, batch, other = of(
        "models", "GPT-3", "training_tokens", "training_flops", "batch", "batch_railonly2023"
    )
    assert round(6 * 174.6e9 * tokens / 1e21) == round(flops / 1e21) == 314
    assert (batch, other) == (3.2e6, 32e6) and agrees("railonly2023.fig7.gpt3_batch", other)
    years = claims.paper_value("railonly2023.intro.gpt3_v100_years")  # with the 28 TFLOP/s of the cited source
    assert 28 * T * 365.25 * day * years == pytest.approx(flops, rel=1 / 355 / 2 + 0.005 / 3.14)


def test_palm_s_tokens_are_its_batches_times_its_steps():
    """Chowdhery et al., Section 5: 512 sequences to step 50k, 1,024 to step 115k, 2,048 to the end at step 255k."""
    length, tokens = of("models", "PaLM-540B", "sequence_length", "training_tokens")
    steps = length * (512 * 50e3 + 1024 * (115e3 - 50e3) + 2048 * (255e3 - 115e3))
    assert tokens == pytest.approx(steps, rel=0.01)  # 776e9, printed as 780e9
    row = catalog.item("models", "PaLM-540B").row("batch_railonly2023")
    assert (row.low, row.value, row.high) == (512, 2048, 2048)
    # railonly2023, Section 3.4: "512 to 2048 sequences (1M to 4M tokens)"
    assert agrees("railonly2023.fig8.palm_tokens_min", 512 * length)
    assert agrees("railonly2023.fig8.palm_tokens_max", 2048 * length)


@pytest.mark.parametrize(
    ("name", "attention", "claim"), [("GPT-3", 1, "gpt"), ("OPT3-175B", 1, "gpt"), ("PaLM-540B", 2, "palm")]
)
def test_rounds_of_collectives_in_a_block(name, attention, claim):
    """railonly2023, Table 1: AllGather and ReduceScatter, forward and backward, at every layer of a block."""
    rounds = 2 * 2 * (attention + 1)  # the attention layers that the table counts, and one feed-forward layer
    assert of("models", name, "collective_rounds_railonly2023") == rounds
    assert claims.paper_value(f"railonly2023.eq1.mcc_{claim}") == rounds


def test_the_mixture_of_fig_4():
    """Rajbhandari et al. 2022, Table 1: 1.3e9 parameters, and 52e9 with 128 experts at every other layer."""
    layers, experts, interval = of("models", "MoE-1.3B", "layers", "experts", "expert_layer_interval")
    hidden, wide = of("models", "MoE-1.3B", "hidden", "ffn_hidden")
    base = layers * block("MoE-1.3B") + embeddings("MoE-1.3B")
    assert round(base / 1e9, 1) == 1.3
    whole = base + layers / interval * (experts - 1) * 2 * hidden * wide
    assert round(whole / 1e9) == 52 and of("models", "MoE-1.3B", "parameters") == 52e9
    # Table 1: 512 of GPT's sequences of 2,048 tokens are a batch, 1M tokens; Section 3.1: one expert a token
    length, batch, top = of("models", "MoE-1.3B", "sequence_length", "batch", "top_k")
    assert (length * batch, top) == (2**20, 1)
    # railonly2025, Section on MoE: 128 experts on 16 DGX A100, "each GPU contains a different expert"
    assert experts == 16 * of("platforms", "DGX A100", "gpus")


def test_llamas_run():
    """Llama Team 2024, Section 3.3 and Table 4: TP 8, PP 16, DP 128; 3.8e25 FLOP for 15.6e12 tokens; 16M tokens."""
    gpus, length, batch = of("models", "Llama-3 405B", "training_gpus", "sequence_length", "batch")
    parameters, tokens = of("models", "Llama-3 405B", "parameters", "training_tokens")
    assert gpus == 8 * 16 * 128 and round(6 * parameters * tokens / 1e24) == 38
    assert batch == pytest.approx(128 * 16 * length, rel=0.05)  # 16 sequences a replica (Table 4)
    # 400 TFLOP/s a GPU are printed beside 41% (Table 4); dense BF16 of an H100
    assert of("models", "Llama-3 405B", "model_flops_utilization") == pytest.approx(400e12 / 989e12, abs=0.006)


# flops2024: the models and what they take


DENSE, MIXTURE = "flops2024 dense", "flops2024 MoE"


def kept():
    """Bytes of a parameter by the bits of its formats: FP8 master, FP4 copy and gradient, two moments in FP8."""
    master, copy, gradient, moments = (bits / 8 for bits in (8, 4, 4, 2 * 8))
    return {"master": master, "weights": copy, "gradients": gradient, "optimizer": moments}


def test_bytes_of_a_parameter_are_those_of_its_formats():
    assert {name: of("precisions", "flops2024", name) for name in kept()} == kept()
    # the document's three totals are as 3 : 1 : 4
    parts = [claims.paper_value(f"flops2024.memory.{name}") for name in ("master", "gradients", "optimizer")]
    ours = [kept()["master"] + kept()["weights"], kept()["gradients"], kept()["optimizer"]]
    assert np.array(parts) / sum(parts) == pytest.approx(np.array(ours) / sum(ours), rel=2e-4)


def test_bytes_of_activations():
    """An element is FP4. Korthikanti et al. 2022, Eq. (2): 34 s b h bytes are tensors of 2 bytes and masks of 1 byte;
    flops2024 has 10 s b h of its half bytes: the same 16 tensors and 2 masks give both.
    """
    element, mask = of("precisions", "flops2024", "element", "mask")
    tensors, masks = np.linalg.solve([[2, 1], [element, mask]], [34, 10])
    assert element == 4 / 8 and mask == 1 and (tensors, masks) == (16, 2)
    assert [of("precisions", "bf16", name) for name in ("element", "mask")] == [2, 1]


def test_mixed_precision_has_the_bytes_that_the_catalog_names():
    kept = formats.catalog_precision("bf16")
    assert (kept.weights, kept.gradients, kept.element) == (
        formats.WEIGHT_BYTES,
        formats.GRADIENT_BYTES,
        formats.ELEMENT_BYTES,
    )
    assert (kept.master, kept.optimizer) == (formats.MASTER_BYTES, 2 * formats.MOMENT_BYTES)
    assert kept.master + kept.optimizer == formats.OPTIMIZER_BYTES
    assert formats.BF16.element_bytes == formats.format_bytes("bf16") == formats.BF16_BYTES
    assert formats.format_bytes("fp32") == formats.FP32_BYTES


@pytest.mark.parametrize(
    ("name", "experts", "total", "active"),
    [(DENSE, 1, "memory.total", "model.params"), (MIXTURE, 8, "moe.memory", "moe.active_params")],
)
def test_flops2024_models_have_the_printed_parameters(name, experts, total, active):
    """Layers of 4 h^2 and (a dense layer or 8 experts of) 8 h^2, and two tables of 256,000 tokens.

    Times the bytes of a parameter they are the printed 384.14 and 385.54 TB, to the last digit.
    """
    layers, h, v = of("models", name, "layers", "hidden", "vocabulary")
    tables, top = 2 * v * h, min(experts, 2)
    assert agrees(f"flops2024.{total}", (layers * (4 + 8 * experts) * h**2 + tables) * sum(kept().values()))
    assert agrees(f"flops2024.{active}", layers * (4 + 8 * top) * h**2 + tables)
    assert of("models", name, "ffn_matrices") == 2 and not of("models", name, "tied_embeddings")
    assert of("models", name, "heads") == of("models", name, "kv_heads") == 256 and h % 256 == 0
    if experts > 1:
        assert of("models", name, "experts", "top_k") == [experts, top]


@pytest.mark.parametrize(
    ("name", "claim", "times"),
    [(DENSE, "dense.tp_bytes", 2), (DENSE, "dense.pp_bytes", 1 / 18), (MIXTURE, "moe.tp_input_bytes", 1)],
)
def test_sequences_of_32_000_tokens_have_the_printed_bytes(name, claim, times):
    """s b h r, twice for tensor parallelism, an 18th for a stage; 32,768 tokens would give 8.00 GB, 222 MB, 1.80 GB."""
    length, h, r = *of("models", name, "sequence_length", "hidden"), of("precisions", "flops2024", "element")
    assert agrees(f"flops2024.{claim}", times * length * h * r)
    assert not agrees(f"flops2024.{claim}", times * 2**15 * h * r) and r == 0.5


@pytest.mark.parametrize(
    ("name", "replicas", "layers"), [(DENSE, "layout.replicas", 134), (MIXTURE, "moe.replicas", 118)]
)
def test_replicas_are_four_times_the_racks_of_a_layer(name, replicas, layers):
    """Section 4: 4 layers in a rack of 72 in groups of 18, and whole racks a layer: 4 x 174 and 4 x 197."""
    racks = 0.7 * 100e9 // 3e6  # Section 2
    assert of("models", name, "layers") == layers and of("platforms", "GB200 NVL72", "gpus") / 18 == 4
    assert 4 * (racks // layers) == claims.paper_value(f"flops2024.{replicas}")


def test_depth_and_width_rule():
    """Levine et al. 2020, abstract and Section 5.2: a trillion parameters at 95 layers and a width of 30K. flops2024,
    Section 5, takes 118 layers and 109,568 by the same rule. The two make the line log d = a + b L.
    """
    a, b = of("scaling_laws", "Levine", "a", "b")
    assert math.exp(a + 95 * b) == pytest.approx(30e3, rel=0.02)
    assert 12 * 95 * math.exp(a + 95 * b) ** 2 == pytest.approx(1e12, rel=0.04)
    assert b == pytest.approx(math.log(109_568 / 30e3) / (118 - 95), rel=0.02)


@pytest.mark.parametrize("name", catalog.names("scaling_tables"))
def test_hoffmanns_table_a3_has_6_flop_a_parameter_and_token(name):
    """C = 6 N D within the printed digits, in every row that approach 2 is fitted to."""
    size, flops, tokens = of("scaling_tables", name, "parameters", "compute_2", "tokens_2")
    assert flops == pytest.approx(6 * size * tokens, rel=0.012)


# flops2024: money, power, distance


def test_what_the_budget_buys():
    """Section 2: 70% of 100 billion USD buy 23.3K racks at 3M USD; 130 kW each are about 3 GW, a fifth more 3.6 GW."""
    budget, compute, network, others = of(
        "prices", "flops2024", "datacenter_price", "compute_share", "network_share", "storage_network_power_share"
    )
    price, power, gpus = of("platforms", "GB200 NVL72", "price_flops2024", "power_flops2024", "gpus")
    racks = budget * compute / price
    assert agrees("flops2024.infra.racks", racks) and round(racks / 1e3, 1) == 23.3
    assert 23_300 * gpus == pytest.approx(claims.paper_value("flops2024.infra.gpus"), rel=0.005)
    assert agrees("flops2024.infra.compute_power", 23_300 * power)
    assert agrees("flops2024.infra.it_power", claims.paper_value("flops2024.infra.compute_power") * (1 + others))
    assert agrees("flops2024.fattree.budget_per_dc", network * budget / of("sites", "flops2024", "datacenters"))


def test_pues_are_the_ratio_of_the_printed_powers():
    """Section 2: 4.16 and 4.71 GW at the ends; their ratio is that of the PUEs within the printed digits."""
    low, high = of("prices", "energy", "pue_low_flops2024", "pue_high_flops2024")
    ends = [claims.paper_value(f"flops2024.infra.total_power_{end}") for end in ("low", "high")]
    it_w = claims.paper_value("flops2024.infra.it_power")
    for pue, end in zip((low, high), ends, strict=True):
        assert end / pue == pytest.approx(it_w, rel=0.01)
    assert high / low == pytest.approx(ends[1] / ends[0], rel=2 * 0.005 / 4.16)


def test_prices_of_links_and_ports():
    """Section 6.1: 2.4M links with two transceivers of 1,000 USD each are the printed 5 billion; 64 ports a switch."""
    links, optics = claims.paper_value("flops2024.fattree.links"), of("prices", "flops2024", "transceiver_price")
    assert agrees("flops2024.fattree.wire_cost", 2 * links * optics)
    switch, port, speed = of("prices", "flops2024", "switch_price", "port_price", "bandwidth")
    assert switch / 64 == port and 64 * speed == of("switches", "51.2T", "capacity")
    # railonly2023, footnote 1: a port is twice a transceiver. Three tiers against two save 1 - (3 p + 4 t)/(5 p + 6 t)
    p, t = of("prices", "railonly2023", "port_price", "transceiver_price")
    assert p == 2 * t == 748
    saved = 1 - (3 * p + 4 * t) / (5 * p + 6 * t)
    assert (
        math.floor(100 * saved) == 37 == round(100 * claims.paper_value("railonly2023.table2.n65536.r64.cost_saving"))
    )


def test_street_prices_and_powers_by_their_boxes():
    """GitHub opusfabric/Opus, the notebook that the rows name: 37,299 USD and 2,524 W for 64 ports, 75 W for 192."""
    assert of("prices", "street2025", "port_price") == pytest.approx(37_299 / 64, abs=0.05)
    assert of("powers", "street2025", "port_power") == 2524 / 64
    assert of("powers", "street2025", "circuit_port_power") == 75 / 192


def test_two_datacenters_and_their_round_trip():
    """Section 4.1: 348 replicas in each and 696 in all; a round trip of 60 ms is twice the propagation."""
    sites, delay, capacity = of("sites", "flops2024", "datacenters", "one_way_delay", "wan_bandwidth")
    replicas = [claims.paper_value(f"flops2024.layout.replicas{end}") for end in ("", "_per_dc")]
    assert sites == replicas[0] / replicas[1] == 2
    assert 2 * delay == claims.paper_value("flops2024.dense.wan_rtt") == 60 * ms
    assert delay == claims.paper_value("flops2024.fig3c.one_way_delay")
    assert claims.paper_value("flops2024.fig3c.wan_masked") == 8 * capacity


def test_where_the_coasts_are():
    """Washington is a city of data/grid; the Pacific DC Intertie is that grid's longest line of direct current."""
    table, made = cities(), load_grid()
    city = table[(table["city"] == "Washington") & (table["state"] == "DC")].iloc[0]
    east, west = (
        [catalog.item("wide_area", f"flops2024 {end}")[axis] for axis in ("latitude_deg", "longitude_deg")]
        for end in ("east", "west")
    )
    assert east == pytest.approx([city["latitude"], city["longitude"]], abs=0.05)
    wires = made.lines[made.lines["type"] == "DC"]
    ends = wires.loc[wires["length_m"].idxmax(), ["from_sub", "to_sub"]]
    places = made.substations.set_index("sub_id").loc[list(ends)]
    north = places.loc[places["latitude"].idxmax()]
    assert west == pytest.approx([north["latitude"], north["longitude"]], abs=0.1)


def test_the_earth_and_light_in_fibre():
    """GRS 80: mean radius (2 a + b) / 3 of its axes. Light: the group index over the speed in vacuum."""
    axis, flattening = 6_378_137.0, 1 / 298.257222101
    assert of("wide_area", "Earth", "radius") == pytest.approx(
        axis * (3 - flattening) / 3, abs=0.05
    )  # printed to 0.1 m
    assert of("wide_area", "fibre", "delay") == pytest.approx(1.4682 / 299_792_458, rel=1e-5)


def test_the_code_of_ethernet():
    """IEEE 802.3, Clause 119: 20 blocks of 257 bits and 30 parity symbols of 10 bits make a codeword of 5,440 bits."""
    n, k, bits = of("wide_area", "KP4", "codeword_symbols", "message_symbols", "symbol_bits")
    assert (k * bits, n * bits, n - k) == (20 * 257, 5440, 30)


# Efficiencies: the printed rates over each other


@pytest.mark.parametrize(
    ("gpu", "parameter", "got", "of_peak"),
    [
        ("A100", "matmul_fraction_bf16", 271.2, 312),
        ("A100", "memory_fraction", 1.7, 2.039),
        ("A100", "hb_fraction", 231.58, 300),
        ("A100", "attention_fraction", 179.5, 312),
        ("A100", "nic_fraction", 24, 25),
        ("H100", "matmul_fraction_bf16", 794.5, 989),
        ("H100", "matmul_fraction_fp8", 1402.6, 1979),
        ("H100", "memory_fraction", 3.008, 3.35),
        ("H100", "hb_fraction", 370, 450),
        ("H100", "nic_fraction", 365.84, 8 * 50),
        ("GH200", "matmul_fraction_bf16", 828.6, 989),
        ("H200", "memory_fraction", 4.15, 4.8),
        ("H200", "hb_fraction", 367.61, 450),
        ("GB200", "matmul_fraction_bf16", 1822.0, 2500),
        ("MI300X", "hb_fraction", 316.82, 448),
    ],
)
def test_a_fraction_is_what_was_measured_over_the_peak(gpu, parameter, got, of_peak):
    """Both as printed in the source that the row names."""
    assert of("efficiencies", gpu, parameter) == pytest.approx(got / of_peak, abs=1.1e-3)


# Parameters of the notebooks


def parameters(notebook):
    """Names and values of a notebook's parameters cell."""
    cells = json.loads((workspace.NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    source = next("".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    return {line.target.id: ast.literal_eval(line.value) for line in ast.parse(source).body}


def test_the_datacenters_of_flops2024_are_one_machine_in_all_notebooks():
    sizing, exposed, wires = map(
        parameters, ("09_datacenter_sizing", "10_exposed_communication", "11_scale_out_networks")
    )
    for run in (sizing, exposed, wires):
        assert units.parse(run["budget"], "USD") == of("prices", "flops2024", "datacenter_price") == 100e9
        assert run["datacenters"] == of("sites", "flops2024", "datacenters") and run["platform"] == "GB200 NVL72"
    for run in (exposed, wires):  # None for the platform's, with the document's own rows
        assert run["document"] == "flops2024" and run["nic"] is run.get("hb") is None
    assert units.parse(exposed["wan"], "bps") == of("sites", "flops2024", "wan_bandwidth")
    assert units.parse(exposed["delay"], "s") == of("sites", "flops2024", "one_way_delay")
    assert exposed["rate"] == sizing["rate"] == parameters("12_power_siting")["rate"]
    # Section 6.1: four planes of 200 Gbps are the NIC, and make 256 front ports of four chips of 64
    assert of("platforms", "GB200 NVL72", "nic_bandwidth_flops2024") == wires["planes"] * 200 * Gbps
    assert wires["planes"] * 64 == claims.paper_value("flops2024.multiplane.ports")
    half = claims.paper_value("flops2024.infra.gpus") / 2  # of 1.67M, which Section 6.1 rounds to 800K
    assert wires["rail_gpus"] == claims.paper_value("flops2024.multirail.gpus_per_rail")
    assert {wires["gpus"], wires["claimed_gpus"]} == {half, 800_000}
    assert wires["rails"] >= of("platforms", "GB200 NVL72", "gpus") == claims.paper_value("flops2024.multirail.rails")
