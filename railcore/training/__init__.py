"""Training: models and their memory, parallelism, collectives, traffic, the time of an iteration, and published runs.

How the time of an iteration is put together:

1. A `Strategy` says how many ranks split the model in each way (tensor, context, pipeline, data, expert), and
   `rank_order` which GPUs each group of ranks is on. A `Machine` says how fast a GPU and its links are.
2. One layer, one micro-batch: the times of its matrix products, attention and other kernels; of the traffic between
   tensor, context and expert ranks, less what compute hides; and of what the backward pass computes again.
3. One pipeline stage: its layers and states (weights, gradients, optimizer), its traffic with ranks that hold the same
   parameters, its sends to the next stage, and the optimizer's step.
4. The whole iteration: m micro-batches of the fullest stage, filling and draining of the pipeline, what is done once,
   and waiting for the slowest GPU.

Read the modules in this order:

    transformer, transformer_memory     the model: parameters, FLOPs, bytes of activations and states
    rank_order, parallelism             where groups of ranks lie in HB domains; strategies
    formats, machine_parts, machine     number formats; a GPU, its links and its host
    collectives, link_times             time of a collective in general, and as NCCL runs it on a machine's links
    domain_links                        the same inside an HB domain
    group_shares                        the share of its NIC that each kind of traffic gets on a fabric
    runtime, software                   what the training software overlaps, fuses and keeps
    rank, exchanges, expert_dispatch    what a rank has of a job, and what it sends: the one table of traffic
    products, layer_products,
    layer_work, recompute               step 2: the work of a layer, and what is computed again
    layer_traffic, layer                step 2: the traffic of a layer, and both together
    pipeline_schedule, stage            step 3
    critical_path, iteration            step 4, and `iteration_time` with its breakdown

Bytes of a step go on from `exchanges` (a micro-batch on one rank) to `transfers` (the step), `traffic` (each pair of
GPUs, each NIC) and `network.topology.routed_flows` (each link). Beside them stand published runs and the model's
errors (`runs`, `run_file`, `run_cells`, `error_spreads`, `prediction_error`), what software logs of its runs
(`step_logs`, `logged_jobs`), parts of a step against measured times (`measured_parts`, `measured_products`,
`measured_collectives`), a GPU of one's own (`gpu_script` times it; `measured_files`, `nccl_logs` and `simumax_files`
read what was timed; `own_gpu` makes rows of the catalog of it; `measuring` is the command), what people paste (launch
lines of Megatron-LM: `launch_lines`, `launch_arguments`; a config.json: `hugging_face`), and scaling laws
(`scaling_laws`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
