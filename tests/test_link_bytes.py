"""What a step sends and what its time counts are the same bytes, for every switch of strategy and software.

`step_transfers` counts bytes, `iteration_times` seconds on links. With links of 1 byte/s and no latency the seconds are
bytes. Two things are in the transfers alone: what tensor ranks exchange for the embedding of the first stage, and the
sum of tied embeddings' gradients.
"""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jobs import IDEAL_DOMAIN

from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import STRATEGY_SWITCHES, Strategy
from railcore.training.runtime import FP8_SCALINGS, GRAPHS, PIPELINE_SCHEDULES, Runtime
from railcore.training.transfers import step_transfers
from railcore.training.transformer import LORA_TARGETS, RECOMPUTE, SHARDING, Transformer

LLAMA = Transformer("llama", 16, 256, 8, 4, 512, 1024, 128, ffn_matrices=3, biases=False, tied_embeddings=False)
TIED = replace(LLAMA, name="tied", tied_embeddings=True)
PALM = replace(LLAMA, name="palm", parallel_block=True)
MIXTURE = replace(LLAMA, name="mixture", experts=8, top_k=2, expert_hidden=96)
SHARED = replace(MIXTURE, name="shared", shared_hidden=64, dense_layers=2, imbalance=1.25)
GROUPED = replace(MIXTURE, name="groups", expert_groups=4, token_groups=2, mtp_layers=1)
MODELS = (LLAMA, TIED, PALM, MIXTURE, SHARED, GROUPED)
MODELS += (replace(LLAMA, lora_rank=8), replace(SHARED, lora_rank=4, lora_targets=LORA_TARGETS))
FREE = IDEAL_DOMAIN | {f"{name}_latency_s": 0.0 for name in ("hb", "nic", "call")} | {"launch_s": 0.0}
ONE = FREE | {"hb_Bps": 1.0, "nic_Bps": 1.0, "hb_fraction": 1.0, "nic_fraction": 1.0}
KINDS = {"tensor": ("tensor", "sequence"), "context": ("context",), "expert": ("expert",)}
SAME_BYTES = {  # switches of the software that change when things are sent, or what is kept, and no byte
    *("name", "overlap_tensor", "overlap_tensor_forward", "overlap_pipeline", "overlap_data", "overlap_expert"),
    *("accumulation_bytes", "sharded_gradients", "moment_bytes", "master_bytes", "fp32_shards", "graphs", "attention"),
    *("dropout", "fp8_scaling", "eager", "persistent_kernels", "fp8_activations", "fp8_attention"),
    *("expert_products", "compiled", "fused_loss", "gradient_passes", "waiting_operators"),
}
CHANGED = {  # all others, each with values that change bytes
    "fp8_tensor": (False, True),
    "adapter_all_to_all": (False, True),
    "scatter_gather": (False, True),
    "gradient_bytes": (2, 4),
    "schedule": PIPELINE_SCHEDULES,
    "dispatcher": ("copies", "nodes"),
    "dispatch_bytes": (1, 2),
    "capacity": (0.0, 1.5),
    "fp8_weights": (False, True),
    "recompute_modules": (("core_attn",), ("mlp",), ("moe", "layernorm"), ("shared_experts", "mlp")),
}


@st.composite
def jobs(draw):
    """A model, a strategy, its batch, software, and the linear layers' precision."""
    model = draw(st.sampled_from(MODELS))
    t, c, d = (draw(st.sampled_from(sizes)) for sizes in ((1, 2, 4), (1, 2), (1, 2, 4)))
    p = draw(st.sampled_from((1, 2, 4)))
    sliced, whole = draw(st.booleans()) and t > 1, draw(st.booleans()) and bool(model.experts)
    spread = c * d * (t if whole else 1)
    strategy = Strategy(
        tensor=t,
        context=c,
        pipeline=p,
        data=d,
        expert=draw(st.sampled_from([e for e in (1, 2, 4, 8) if spread % e == 0 and (model.experts or e == 1)])),
        interleave=draw(st.sampled_from((1, 2))) if p > 1 else 1,
        micro_batch=draw(st.sampled_from((1, 2))),
        recompute=draw(st.sampled_from(RECOMPUTE)),
        sequence_parallel=sliced,
        sharding=draw(st.sampled_from(SHARDING)),
        ends_as_layers=draw(st.booleans()) and p > 1 and not model.mtp_layers,
        keep_gathered=draw(st.booleans()),
        whole_experts=whole,
    )
    if strategy.ends_as_layers:  # whole layers on every stage
        model = replace(model, layers=14)
    changed = {name: draw(st.sampled_from(values)) for name, values in CHANGED.items()}
    if not model.experts:
        changed |= {"capacity": 0.0, "dispatcher": "copies"}
    runtime = Runtime(
        **changed,
        **{name: draw(st.booleans()) for name in sorted(SAME_BYTES) if name.startswith(("overlap", "persist"))},
        graphs=draw(st.sampled_from(GRAPHS)),
        fp8_scaling=draw(st.sampled_from(FP8_SCALINGS)),
    )
    # The time takes both stages of a rank as full of mixture layers as the last one, which is exact from four on.
    assume(not (model.dense_layers and p == 2 and runtime.dual(p, strategy.interleave)))
    batch = d * strategy.micro_batch * p * draw(st.sampled_from((1, 2)))
    return model, strategy, batch, runtime, draw(st.sampled_from(("bf16", "fp8")))


def test_every_switch_is_drawn():
    assert {each.name for each in fields(Runtime)} == SAME_BYTES | set(CHANGED)
    drawn = {"sequence_parallel", "ends_as_layers", "keep_gathered", "whole_experts"}
    assert set(STRATEGY_SWITCHES) == drawn


def machine(precision, hb_domain_size, **changes):
    return catalog_machine("DGX H100", precision, hb_domain_size, **ONE | changes)


def most_by_stage(rows, strategy):
    """Bytes that a rank sends, on the stage that sends most."""
    return sum((row.sent_bytes * row.stage_weights(strategy) for row in rows), np.zeros(strategy.pipeline)).max()


def expected_bytes(job, hb_domain_size):
    """Bytes that a rank sends for each kind of traffic of `iteration_times`."""
    model, strategy, batch, runtime, precision = job
    rows = step_transfers(model, strategy, batch, runtime, precision, hb_domain_size)
    dual, p = runtime.dual(strategy.pipeline, strategy.interleave), strategy.pipeline
    layers = {
        kind: [row for row in rows if row.kind in kinds and row.stages == "every"] for kind, kinds in KINDS.items()
    }
    # The stage that sets the pace has as many layers as places, also where both of two stages have one fewer; layers
    # that predict further tokens count with the logits.
    most, further = 16 / p - (strategy.ends_as_layers and p == 2), model.mtp_layers / (1 + dual)
    sent = {kind: most_by_stage(some, strategy) / (most + further) for kind, some in layers.items()}
    found = {kind: 16 / p * size for kind, size in sent.items()}
    ends = [row for row in rows if row.kind in KINDS["tensor"] and row.stages in ("first", "last", "ends")]
    found["logits"] = sum(sent.values()) * further + sum(row.sent_bytes for row in ends if row.stages != "first")
    if dual and strategy.tensor > 1:  # that of the embedding is with the logits'
        u = strategy.micro_batch * model.sequence_length / strategy.context * model.hidden * 2
        found["logits"] -= strategy.microbatches(batch) * u * (strategy.tensor - 1) / strategy.tensor
    # A stage sends forward and backward, and gathers what it gets.
    found["pipeline"] = sum(row.sent_bytes for row in rows if row.stages.startswith("all but"))
    groups = [
        [row for row in rows if row.kind == "data" and row.group == name] for name in ("replica", "expert_replica")
    ]
    return found | {"data": sum(most_by_stage(some, strategy) for some in groups)}


def counted_bytes(job, hb_domain_size):
    model, strategy, batch, runtime, precision = job
    box = machine(precision, hb_domain_size)
    found = iteration_times(model, box, strategy, global_batch=batch, runtime=runtime)
    return {name.removesuffix("_link_s"): float(np.ravel(time)[0]) for name, time in found.links.items()}


@given(jobs())
@settings(max_examples=80)
def test_transfers_are_the_bytes_behind_the_links(job):
    """Kind by kind: all in one HB domain, and each GPU in a domain of its own."""
    for size in (job[1].gpus, 1):
        wanted, found = expected_bytes(job, size), counted_bytes(job, size)
        assert found == pytest.approx(wanted, rel=1e-9), size


@given(jobs(), st.sampled_from((2, 4, 8)))
@settings(max_examples=80)
def test_each_link_carries_its_part(job, K):
    """A ring's NIC part leaves over the x GPUs of a domain; what leaves to experts is forwarded in the domain."""
    model, strategy, batch, runtime, precision = job
    groups = strategy.group_levels()
    dual = runtime.dual(strategy.pipeline, strategy.interleave)
    assume(not (strategy.ends_as_layers or model.mtp_layers or model.dense_layers or dual))
    assume(strategy.gpus >= K and not any(levels.lie_unevenly(K) for levels in groups.values()))
    wanted = {"hb": 0.0, "nic": 0.0}
    data = {}
    for row in step_transfers(model, strategy, batch, runtime, precision, K):
        if (row.stages == "first" and row.kind != "data") or row.group == "ends":
            continue
        x, y = (int(n) for n in groups[row.group.split()[0]].in_domains(K))
        sent = row.sent_bytes
        if row.group in ("expert rail", "expert domain"):
            links = {"nic": sent} if row.group == "expert rail" else {"hb": sent}
        elif row.operation == "all_to_all":
            whole = row.calls * row.message_bytes
            links = {"hb": whole * (x - 1) / x, "nic": whole * (y - 1) / y}
        elif row.operation == "send_receive":
            links = {"hb" if y == 1 else "nic": sent}
        else:
            links = {"hb": sent * (x - 1) / x, "nic": sent / x} if y > 1 else {"hb": sent}
        for link, size in links.items():
            if row.kind == "data":
                data[row.group, link] = data.get((row.group, link), 0.0) + size * row.stage_weights(strategy)
            else:
                wanted[link] += size
    for (_, link), sizes in data.items():
        wanted[link] += sizes.max()
    found = iteration_times(model, machine(precision, K), strategy, global_batch=batch, runtime=runtime)
    for link, share in (("hb", found.hb_utilization), ("nic", found.nic_utilization)):
        assert (share * found.total_s).item() == pytest.approx(wanted[link], rel=1e-9), link
