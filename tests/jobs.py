"""Training jobs of a few GPUs for tests of the step's graph and its simulation."""

from dataclasses import asdict, replace

from hypothesis import strategies as st

from railcore.photonics.stage_program import StepOptions, fsdp_options
from railcore.training.machine import UNLIMITED_BANDWIDTH, catalog_machine
from railcore.training.machine_parts import DomainCollectives
from railcore.training.parallelism import Strategy
from railcore.training.transformer import SHARDING, Transformer

DENSE = Transformer("dense", 8, 1024, 16, 8, 4096, 32000, 2048, ffn_matrices=3, biases=False, tied_embeddings=False)
TIED = replace(DENSE, name="tied", tied_embeddings=True)
MIXTURE = replace(DENSE, name="mixture", experts=4, top_k=2, expert_layer_interval=2)
H100 = catalog_machine("DGX H100", hb_domain_size=4)
IDEAL_DOMAIN = asdict(DomainCollectives())  # collectives inside it start at once and have all of its bandwidth
FREE_LINKS = {
    **IDEAL_DOMAIN,
    "hb_Bps": UNLIMITED_BANDWIDTH,
    "nic_Bps": UNLIMITED_BANDWIDTH,
    "hb_latency_s": 0.0,
    "nic_latency_s": 0.0,
    "call_latency_s": 0.0,
}
A100_NODE = catalog_machine("DGX A100", hb_domain_size=4, nic_Bps="200 Gbps")
SOFTWARE = (
    StepOptions(),
    fsdp_options(),
    StepOptions(gradients_after_pass=True, detail=True),
    StepOptions(reshard_after_forward=False, sync_groups=("pipeline", "replica")),
)


def llama_8b(pipeline=2, interleave=1):
    """Strategy of the Llama-3 8B run on four nodes of four GPUs."""
    return Strategy(
        tensor=4,
        data=2,
        pipeline=pipeline,
        interleave=interleave,
        sharding="weights",
        sequence_parallel=True,
        recompute="selective",
    )


@st.composite
def jobs(draw, models=(DENSE, TIED, MIXTURE), most_gpus=16):
    """A model, its strategy on at most so many GPUs, and its batch."""
    model = draw(st.sampled_from(models))
    tensor, pipeline = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    context = draw(st.sampled_from([c for c in (1, 2) if tensor * pipeline * c <= most_gpus]))
    data = draw(st.sampled_from([d for d in (1, 2, 4) if tensor * pipeline * context * d <= most_gpus]))
    experts = model.experts > 0 and context * data % 2 == 0
    strategy = Strategy(
        tensor=tensor,
        context=context,
        pipeline=pipeline,
        data=data,
        expert=draw(st.sampled_from((1, 2) if experts else (1,))),
        interleave=draw(st.sampled_from((1, 2) if pipeline > 1 else (1,))),
        recompute=draw(st.sampled_from(("none", "selective", "full"))),
        sequence_parallel=tensor > 1 and draw(st.booleans()),
        sharding=draw(st.sampled_from(SHARDING)),
    )
    return model, strategy, data * pipeline * draw(st.sampled_from((1, 2)))
