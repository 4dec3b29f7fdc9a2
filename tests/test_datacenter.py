from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore import datacenter as dc
from railcore.catalog import units
from railcore.datacenter.exposed import LayerTimes, wide_area_exchange
from railcore.training.collectives import hierarchical_phase_times
from railcore.training.formats import catalog_precision
from railcore.training.transformer import catalog_model
from suite.flops2024.specification import document_site

DENSE, MIXTURE = catalog_model("flops2024 dense"), catalog_model("flops2024 MoE")
FP4, BF16 = catalog_precision("flops2024"), catalog_precision("bf16")
SITE = document_site(23333, rate="fp4_sparse_rate")
MODELS = ["GPT-3", "Llama-3 405B", "PaLM-540B", "MoE-1.3B", "flops2024 dense", "flops2024 MoE"]


def laid(model=DENSE, site=SITE, bytes_of=FP4, **options):
    layer = dc.model_layer(model, bytes_of)
    layout = dc.rack_layout(layer, site, **options)
    return layer, layout, dc.layer_times(layer, layout, site)


# A layer is a Transformer's


@pytest.mark.parametrize("name", MODELS)
def test_a_layer_is_the_share_of_its_model(name):
    model = catalog_model(name)
    layer, flops = dc.model_layer(model, BF16, micro_batch=3), model.forward_flops(3, causal=False)
    assert layer.parameters == pytest.approx(model.total_parameters, rel=1e-13)
    kinds = model.parameters()
    edges = kinds["embedding"] + kinds["positions"] + kinds["output"]
    assert layer.gradient_bytes / BF16.gradients * model.layers == pytest.approx(
        model.total_parameters - edges, rel=1e-13
    )
    whole = sum(flops.values()) - flops["logits"]
    assert (layer.linear_flops + layer.score_flops) * model.layers == pytest.approx(whole, rel=1e-13)
    selective = model.training_flops(3, "selective", causal=False) - 3 * flops["logits"]
    assert 3 * layer.flops() * model.layers == pytest.approx(selective, rel=1e-13)
    kept = sum(model.layer_activation_bytes(3, sequence_parallel=True, recompute=1).values())
    assert layer.activation_bytes == pytest.approx(kept, rel=1e-13)
    assert sum(layer.state_bytes.values()) == pytest.approx(18 * model.total_parameters)
    assert layer.layer_state_bytes * model.layers == pytest.approx(18 * model.total_parameters)


@given(st.integers(2, 400), st.integers(64, 40_000), st.booleans())
def test_a_model_of_another_size_is_that_model(layers, width, mixture):
    like = MIXTURE if mixture else DENSE
    hidden = 256 * width
    other = replace(like, name="other", layers=layers, hidden=hidden, ffn_hidden=4 * hidden, head_dim=hidden // 256)
    scaled, built = dc.model_layer(like, FP4, 2, layers, hidden), dc.model_layer(other, FP4, 2)
    for field in ("linear_flops", "score_flops", "tensor_bytes", "activation_bytes", "gradient_bytes"):
        # the norm after the last layer is spread over all layers
        assert getattr(scaled, field) == pytest.approx(getattr(built, field), rel=1e-5), field
    assert scaled.parameters == pytest.approx(built.parameters, rel=1e-5)


# Layout


@given(st.floats(2e9, 4e12), st.sampled_from([8, 36, 72, 73, 576]), st.integers(1, 4))
def test_the_degree_is_the_smallest_divisor_that_fits(memory, rack, sites):
    site = replace(SITE, memory_bytes=memory, rack_gpus=rack, datacenters=sites)
    layer = dc.model_layer(DENSE, FP4)
    needed = layer.layer_state_bytes + layer.activation_bytes
    fitting = [t for t in range(1, rack + 1) if rack % t == 0 and needed <= t * memory]
    if not fitting:
        with pytest.raises(ValueError, match=f"leaves {units.show(needed - rack * memory, 'B', 4)} of a layer"):
            dc.rack_layout(layer, site)
        return
    found = dc.rack_layout(layer, site)
    assert found.tensor == fitting[0] and found.layers_per_rack == rack / fitting[0]
    assert (found.device_bytes + found.active_bytes) * found.tensor == pytest.approx(needed)
    assert found.racks_per_layer_here == site.racks // (134 * sites)
    assert found.racks_per_layer >= sites * found.racks_per_layer_here
    assert found.gpus_here * sites <= site.gpus
    assert found.replicas >= sites * found.replicas_here
    assert found.host_bytes == pytest.approx(134 * layer.activation_bytes / found.tensor)


def test_more_racks_than_layers_are_needed_in_every_datacenter():
    text = "flops2024 dense: racks is 267 over 2 datacenters: give at least 268, .* or fewer datacenters"
    with pytest.raises(ValueError, match=text):
        dc.rack_layout(dc.model_layer(DENSE, FP4), replace(SITE, racks=267))
    with pytest.raises(ValueError, match=r"racks is 133: give at least 134, one for each layer in each datacenter$"):
        dc.rack_layout(dc.model_layer(DENSE, FP4), replace(SITE, racks=133, datacenters=1))
    least = dc.rack_layout(dc.model_layer(DENSE, FP4), replace(SITE, racks=268))
    assert least.racks_per_layer_here == 1 and least.replicas_here == least.layers_per_rack


def test_a_degree_of_ones_own():
    layer = dc.model_layer(DENSE, FP4)
    assert dc.rack_layout(layer, SITE, tensor=24).tensor == 24
    with pytest.raises(ValueError, match=r"flops2024 dense: tensor parallelism .* of a layer without memory"):
        dc.rack_layout(layer, SITE, tensor=12)
    assert dc.rack_layout(layer, SITE, tensor=12, strict=False).tensor == 0


def test_oddities_are_warnings():
    dense, mixture = (
        dc.rack_layout(dc.model_layer(DENSE, FP4), SITE),
        dc.rack_layout(dc.model_layer(MIXTURE, FP4), SITE),
    )
    assert any("heads 256" in text for text in dense.warnings)
    assert not any("hidden" in text for text in dense.warnings)
    assert any("hidden 109,568" in text for text in mixture.warnings)
    assert any("evenly by 2 datacenters" in text for text in mixture.warnings)
    tidy = replace(SITE, racks=134 * 4, rack_gpus=64, memory_bytes=200e9)
    assert dc.rack_layout(dc.model_layer(DENSE, FP4), tidy).warnings == ()


@given(st.floats(0.2, 8))
def test_a_layer_that_fills_less_than_half_a_gpu_is_a_warning(fill):
    layer = dc.model_layer(catalog_model("Llama-3 405B"), FP4)
    needed = layer.layer_state_bytes + layer.activation_bytes
    found = dc.rack_layout(layer, replace(SITE, memory_bytes=needed / fill))
    assert any("could share one" in text for text in found.warnings) == (fill <= 0.5)


# Times


@given(st.integers(1, 5), st.integers(1, 40), st.sampled_from([18, 24, 36, 72]))
def test_the_hierarchical_exchange_sends_no_more_than_one_ring_would(sites, y, t):
    """Reduce, then gather, over three networks in turn: 2 (n - 1) / n of the buffer for n = g y D replicas."""
    site = replace(SITE, racks=134 * y * sites, datacenters=sites, one_way_delay_s=0.0)
    layer = dc.model_layer(DENSE, FP4)
    layout = dc.rack_layout(layer, site, tensor=t)
    sent = dc.layer_times(layer, layout, site, reduce="reduce_scatter").steps_bytes
    n = layout.layers_per_rack * y * sites
    assert sum(sent) == pytest.approx(2 * (n - 1) / n * layer.gradient_bytes / t)
    whole = dc.layer_times(layer, layout, site).steps_bytes
    assert whole[:2] == pytest.approx([2 * sent[0], 2 * sent[1]]) and whole[2:] == pytest.approx(sent[2:])


def test_one_datacenter_is_the_hierarchical_all_reduce_of_collectives():
    site = replace(SITE, datacenters=1)
    layer, layout, _ = laid(site=site)
    ours = dc.layer_times(layer, layout, site, reduce="reduce_scatter").steps_s
    g, y = int(layout.layers_per_rack), int(layout.racks_per_layer_here)
    phases = hierarchical_phase_times(
        "all_reduce",
        layer.gradient_bytes / 18,
        g,
        y,
        site.hb_Bps,
        site.nic_Bps,
        hb_algorithm="ring",
        nic_algorithm="ring",
    )
    assert ours[2] == 0
    assert [ours[0], ours[1] + ours[3], ours[4]] == pytest.approx(list(phases.values()))


@given(st.floats(1e3, 1e10), st.integers(2, 12), st.floats(0, 0.2), st.floats(0, 3))
def test_the_wide_area_takes_the_better_of_two_exchanges(chunk, sites, delay, lost):
    site = replace(SITE, datacenters=sites, one_way_delay_s=delay, tail_loss_rtts=lost)
    size, time = wide_area_exchange(chunk, site)
    at_once = ((sites - 1) * chunk, (sites - 1) * chunk / site.wan_Bps + delay)
    in_two = (2 * (sites - 1) / sites * chunk, 2 * (sites - 1) / sites * chunk / site.wan_Bps + 2 * delay)
    assert time - 2 * delay * lost == pytest.approx(min(at_once[1], in_two[1]))
    assert size == pytest.approx(at_once[0]) or size == pytest.approx(in_two[0])
    if sites == 2:
        assert size == pytest.approx(chunk)


def test_times_scale_with_what_they_cross():
    layer, layout, base = laid()
    for field, names in (("hb_Bps", (0, 4)), ("nic_Bps", (1, 3)), ("gpu_rate", ())):
        faster = dc.layer_times(layer, layout, replace(SITE, **{field: 2 * getattr(SITE, field)}))
        halved = [step / 2 if at in names else step for at, step in enumerate(base.steps_s)]
        assert faster.steps_s == pytest.approx(halved)
        assert faster.tensor_s == pytest.approx(base.tensor_s / (2 if field == "hb_Bps" else 1))
        assert faster.pipeline_s == pytest.approx(base.pipeline_s / (2 if field == "nic_Bps" else 1))
        assert faster.backward_s == pytest.approx(base.backward_s / (2 if field == "gpu_rate" else 1))
    assert base.backward_s == 2 * base.forward_s
    gathers = 4 * 17 / 18 * DENSE.sequence_length * DENSE.hidden * FP4.element  # two there, two back
    assert base.tensor_s == pytest.approx(gathers / SITE.hb_Bps)
    assert base.pipeline_s == pytest.approx(DENSE.sequence_length * DENSE.hidden / 2 / 18 / SITE.nic_Bps)


speeds = st.floats(1e8, 1e13)


@given(speeds, speeds, speeds, st.sampled_from([DENSE, MIXTURE]), st.integers(1, 4))
def test_rules_are_ordered_and_shares_are_shares(hb, nic, wan, model, sites):
    site = replace(SITE, hb_Bps=hb, nic_Bps=nic, wan_Bps=wan, datacenters=sites)
    _, _, x = laid(model, site)
    late = {rule: x.gradients_s(rule) for rule in dc.OVERLAP_RULES}
    assert 0 <= late["scale-out reduce"] <= late["slowest reduce"] <= late["each network"]
    assert late["slowest reduce"] <= min(late["busiest network"], late["gathers under forward"])
    floor = 2 * (x.tensor_s + x.pipeline_s) / (x.forward_s + x.backward_s + 2 * (x.tensor_s + x.pipeline_s))
    for rule in dc.OVERLAP_RULES:
        assert 0 < floor <= x.share(rule) < 1
        assert x.share(rule, 1e12) == pytest.approx(floor, abs=1e-6)
        assert x.share(rule, 4) <= x.share(rule, 2) + 1e-12


def test_rules_in_numbers():
    x = LayerTimes(1.0, 2.0, 0.25, 0.125, (3.0, 5.0, 4.0, 2.5, 1.5), (0.0,) * 5)
    late = {rule: x.gradients_s(rule) for rule in dc.OVERLAP_RULES}
    assert late == {
        "scale-out reduce": 5 - 2,
        "slowest reduce": 5 - 2,
        "each network": (3 - 2) + (5 - 2) + (4 - 2),
        "gathers under forward": (5 - 2) + (2.5 - 1),
        "busiest network": 5 + 2.5 - 2,
        "whole period": 5 + 2.5 + 2 * 0.125 - (3 + 2 * (0.25 + 0.125)),
    }
    slow = replace(x, steps_s=(7.0, 5.0, 4.0, 2.5, 1.5))  # now the scale-up network
    assert slow.gradients_s("busiest network") == 7 + 1.5 - 2
    assert slow.gradients_s("whole period") == 7 + 1.5 + 2 * 0.25 - (3 + 2 * (0.25 + 0.125))


def test_a_sweep_equals_its_points():
    rng = np.random.default_rng(1)
    n = 60
    hidden, layers = 256 * rng.integers(50, 1600, n), rng.integers(1, 400, n)
    fields = {name: 10 ** rng.uniform(8, 13, n) for name in ("hb_Bps", "nic_Bps", "wan_Bps")}
    fields |= {"racks": rng.integers(100, 60_000, n), "datacenters": rng.integers(1, 5, n)}
    fields |= {"memory_bytes": 10 ** rng.uniform(10, 12, n), "tail_loss_rtts": rng.integers(0, 2, n)}
    many, sites = dc.model_layer(DENSE, FP4, layers=layers, hidden=hidden), replace(SITE, **fields)
    swept = dc.layer_times(many, dc.rack_layout(many, sites, strict=False), sites).share()
    fitted = 0
    for i in range(n):
        point = replace(SITE, **{name: values[i] for name, values in fields.items()})
        layer = dc.model_layer(DENSE, FP4, layers=layers[i], hidden=hidden[i])
        try:
            one = dc.layer_times(layer, dc.rack_layout(layer, point), point).share()
        except ValueError:
            assert np.isnan(swept[i])
        else:
            fitted += 1
            assert swept[i] == pytest.approx(one, rel=1e-12)
    assert 10 < fitted < n


# Sites


def test_a_site_is_one_datacenter_until_more_are_given_with_their_wide_area():
    one = dc.datacenter_site(10, "DGX H100", "fp8_dense_rate")
    assert one.datacenters == 1 and one.one_way_delay_s == 0
    with pytest.raises(ValueError, match="datacenters is 2: give a finite wan_Bps"):
        dc.datacenter_site(10, "DGX H100", "fp8_dense_rate", datacenters=2)
    two = dc.datacenter_site(10, "DGX H100", "fp8_dense_rate", "flops2024")
    row = catalog.item("sites", "flops2024")
    assert (two.datacenters, two.wan_Bps, two.one_way_delay_s) == tuple(
        row[name] for name in ("datacenters", "wan_bandwidth", "one_way_delay")
    )


def test_a_parallel_block_has_one_exchange_in_place_of_two():
    palm = catalog_model("PaLM-540B")
    models = (replace(palm, parallel_block=False), palm)
    both, one = (laid(model, bytes_of=BF16, tensor=18)[2].tensor_s for model in models)
    assert palm.parallel_block and one == pytest.approx(both / 2) and one > 0
