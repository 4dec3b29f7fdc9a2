"""Parts of the iteration model read from the docstrings once more: numbers, loops and `math`, no arrays.

Where groups of ranks lie, collectives, products, what a rank keeps and holds, and what rules a strategy out: what the
readable model and the arrays have in common. Strategies are dicts of whole numbers.
"""

import itertools
import math

NAMED = (
    ("tensor", "context", "data", "pipeline"),
    ("tensor", "context", "pipeline", "data"),
    ("data", "tensor", "context", "pipeline"),
)
ORDERS = (*NAMED, *(order for order in itertools.permutations(NAMED[0]) if order not in NAMED))


def plain_groups(strategy):
    """Runs of each kind of group as [(ranks, GPUs apart)], the fastest first; those of one rank are left out."""
    apart, stride, order = {}, 1, ORDERS[strategy["placement"]]
    for name in order:
        apart[name] = stride
        stride *= strategy[name]

    def joined(names):
        runs = []
        for name in names:
            size, gap = strategy[name], apart[name]
            if size > 1 and runs and runs[-1][0] * runs[-1][1] == gap:
                runs[-1] = (runs[-1][0] * size, runs[-1][1])
            elif size > 1:
                runs.append((size, gap))
        return runs

    spread = [name for name in order if name in ("context", "data") or (name == "tensor" and strategy["whole_experts"])]
    left, near, same, runs = strategy["expert"], [], [], joined(spread)
    ranks = math.prod(size for size, _ in runs)
    if runs and left % runs[0][0] and runs[0][0] % left and ranks % left == 0:  # taken as ranks in domains of their own
        near, same, left, runs = [(left, math.inf)], [(ranks // left, math.inf)], 1, []
    for size, gap in runs:
        taken = math.gcd(left, size)
        near.append((taken, gap))
        same.append((size // taken, gap * taken))
        left //= taken
    groups = {name: joined([name]) for name in ("tensor", "context", "pipeline")}
    groups["replica"] = joined([name for name in order if name in ("context", "data")])
    return groups | {
        "expert": [run for run in near if run[0] > 1],
        "same experts": [run for run in same if run[0] > 1],
    }


def plain_spread(gpu, runs):
    """Ranks of a group in an HB domain, and domains."""
    if len(runs) == 2 and runs[0][0] * runs[0][1] == runs[1][1]:
        runs = [(runs[0][0] * runs[1][0], runs[0][1])]
    inside, ranks, whole = 1, 1, True
    for size, gap in runs:
        part = math.gcd(size, max(int(gpu.hb_domain_size // gap), 1)) if whole else 1
        inside, ranks, whole = inside * part, ranks * size, whole and part == size
    return inside, ranks // inside


def rates(gpu, share=1.0):
    return gpu.hb_Bps * gpu.links.hb_fraction, gpu.nic_Bps * gpu.links.nic_fraction * share


def plain_gather(gpu, size, runs, calls=1, share=1.0):
    """Time, HB busy, NIC busy of an AllGather of so many bytes, at a share of a NIC."""
    x, y = plain_spread(gpu, runs)
    n, (hb, nic), links = x * y, rates(gpu, share), gpu.links
    two = gpu.collectives.two_phase_collectives
    near, far = x - 1 if two else n - y, y - 1

    def start(call, hb_step, nic_step):
        return calls * (
            call * links.call_latency_s + near * hb_step * links.hb_latency_s + far * nic_step * links.nic_latency_s
        )

    steps = start(1, 1, 1) if n > 1 else 0.0
    if y == 1:
        steps = min(steps, calls * links.multicast_latency_s)
    other = start(14 / 8.4, 1.9 / 3.4, 4 / 14) if n > 1 else 0.0  # LL128
    if two:
        first, then = (y - 1) / n * size / nic, (x - 1) / x * size / hb
        return min(first + then + steps, (first + then) / 0.92 + other), then, first
    sent = (n - 1) / n * size
    rings = sent / (hb if y == 1 else min(hb, x * nic))
    time = min(rings + steps, rings / 0.92 + other)
    if x == 1 and y > 1:  # PAT
        start_s = links.call_latency_s * 8 / 8.4 + links.nic_latency_s * (math.ceil(math.log2(y)) / 3.5 + 0.2 * y)
        time = min(time, rings / 0.75 + calls * start_s)
    return (time, sent / hb, 0.0) if y == 1 else (time, sent * (x - 1) / x / hb, sent / x / nic)


def plain_exchange(gpu, size, runs, share=1.0, direct=0.0):
    """The same of an all-to-all of so many bytes a rank: forwarded, or straight to its rails where that is faster."""
    x, y = plain_spread(gpu, runs)
    start = (gpu.links.hb_latency_s if x > 1 else 0) + (gpu.links.nic_latency_s if y > 1 else 0)
    hb, nic = rates(gpu, share)
    near, away = (x - 1) / x * size / hb, (y - 1) / y * size / nic
    ways = [((max(near, away) if gpu.collectives.pipelined else near + away) + start, near, away)]
    if direct:
        near, away = (x - 1) / (x * y) * size / hb, (y - 1) / y * size / rates(gpu, direct)[1]
        ways.append((max(near, away) + start, near, away))
    return min(ways, key=lambda way: way[0])


def plain_places(experts, top_k, places, groups, drawn):
    """Places that hold the experts of a token, on average: one minus the chance that a place is missed, times places.

    Summed over every way in which the token's groups may be drawn.
    """
    G, g = (groups, drawn) if groups else (1, 1)
    pool = experts // G * g
    own, size = max(G // places, 1), min(experts // places, experts // G)
    missed = 0.0
    for j in range(g + 1):
        if j <= own and g - j <= G - own:
            chance = math.comb(own, j) * math.comb(G - own, g - j) / math.comb(G, g)
            missed += chance * math.comb(pool - j * size, top_k) / math.comb(pool, top_k)
    return min(max(places * (1 - missed), 1.0), top_k, places)


def plain_dispatch(model, gpu, runtime, runs, tokens, copies, element_bytes, share=1.0, direct=0.0):
    """Tokens to their experts, one way."""
    if runtime.dispatcher == "copies":
        return plain_exchange(gpu, element_bytes * tokens * model.hidden * copies, runs, share, direct)
    x, y = plain_spread(gpu, runs)
    hb, nic = rates(gpu, share)
    limits = model.expert_groups, model.token_groups
    of_domains = plain_places(model.experts, model.top_k, y, *limits)
    of_ranks = plain_places(model.experts, model.top_k, x * y, *limits)
    size = element_bytes * tokens * model.hidden
    size *= copies / model.top_k
    near, away = size * of_ranks * (1 - 1 / x) / hb, size * of_domains * (1 - 1 / y) / nic
    start = (gpu.links.hb_latency_s if x > 1 else 0) + (gpu.links.nic_latency_s if y > 1 else 0)
    return (max(near, away) if gpu.collectives.pipelined else near + away) + start, near, away


def plain_product(gpu, m, n, k, batch=1, form=None, weights=True, result_bytes=2, share=1.0):
    least = None
    for rows, columns in ((256, 128), (128, 256)):
        rows, columns = min(rows, math.ceil(m / 64) * 64), min(columns, math.ceil(n / 64) * 64)
        tiles = math.ceil(m / rows) * math.ceil(n / columns)
        if least is None or tiles * rows * columns < least[0] * least[1]:
            least = tiles, rows * columns
    tiles, area = least
    size, cast, rate = 2, 0, gpu.rates.bf16_rate * gpu.rates.bf16_fraction
    starts = 1
    if form and form.cast_bytes:
        size, starts = form.element_bytes, 1 + form.scale_kernels
        cast = form.cast_bytes / 2 * (m * k + (0 if weights else k * n))
        rate = gpu.rates.linear_rate * gpu.rates.linear_fraction
    flops = 2 * math.ceil(tiles * batch / gpu.rates.processors) * gpu.rates.processors * area * k
    moved = batch * (size * (m * k + k * n) + result_bytes * m * n) / gpu.memory.memory_fraction
    casts = batch * cast / gpu.memory.cast_fraction
    return flops / (rate * share) + (moved + casts) / gpu.memory.memory_Bps + starts * gpu.host.kernel_s


def plain_matrices(model, t):
    """Columns and inner side of each product of attention."""
    h, a, d, r = model.hidden, model.heads, model.head_dim, model.rope_dim
    if not model.kv_rank:
        return [(d * (a / t + 2 * max(model.kv_heads / t, 1)), h), (h, a * d / t)]
    up = [(a / t * (d + r), model.query_rank or h), (a / t * (d + model.value_dim), model.kv_rank)]
    down = [(model.query_rank, h)] if model.query_rank else []
    return [*down, (model.kv_rank + r, h), *up, (h, a / t * model.value_dim)]


def plain_keys(model):
    """Share of the layers and keys that a query meets at most."""
    s = model.sequence_length
    if not 0 < model.window < s:
        return [(1.0, s)]
    full = 0.0
    if model.full_attention_interval:
        full = model.layers // model.full_attention_interval / model.layers
    return [(1 - full, model.window), (full, s)]


def plain_states(model, runtime, strategy):
    """Bytes of weights, gradients and optimizer states on the first, a middle and the last stage."""
    t, c, e, p, d = (strategy[name] for name in ("tensor", "context", "expert", "pipeline", "data"))
    level, ends, whole = (strategy[name] for name in ("sharding", "ends_as_layers", "whole_experts"))
    places = model.layers + 2 * ends
    n = math.ceil(places / p)
    h, w, f_e, bias = model.hidden, model.ffn_matrices, model.expert_hidden, 1 if model.biases else 0
    norm = h * (1 + bias)
    rows, edge = model.vocabulary * h / t, (model.vocabulary + model.positions) * h / t

    def network(wide, slices):
        """Of a feed-forward; the bias behind its sum is whole on every tensor rank."""
        return w * h * wide / slices + bias * ((w - 1) * wide / slices + h) if wide else 0

    inner = norm * (1 if model.parallel_block else 2) + (1 + bias) * (model.query_rank + model.kv_rank)
    inner += sum(columns * (side + bias) for columns, side in plain_matrices(model, t))
    share = model.mixture_layers / model.layers
    inner += (1 - share) * network(model.ffn_hidden, t)
    inner += share * (model.experts * h + network(model.shared_hidden, t))
    mixtures = model.mixture_layers / model.layers
    if p > 1 and model.dense_layers:
        most = math.ceil(model.layers / p)
        mixtures = sum(layer >= model.dense_layers for layer in range(model.layers - most, model.layers)) / most
        mixtures /= model.expert_layer_interval
    experts = 0.0
    if model.experts:
        experts = mixtures * model.experts / e * network(f_e, 1 if whole else t)
    dual = runtime.schedule == "dualpipe" and p > 1 and strategy["interleave"] == 1
    last = norm + (0 if model.tied_embeddings and (p == 1 or dual) else rows)
    first, last = (edge + last, edge + last) if p == 1 else (edge, last)
    if dual:
        first, last, inner, experts = first + last, first + last, 2 * inner, 2 * experts
    held = {
        "first": ((n - ends) * inner + first, (n - ends) * experts),
        "middle": (n * inner, n * experts),
        "last": ((n - ends) * inner + last, (n - ends) * experts),
    }
    replicas = c * d * (2 if dual else 1)
    same = max(replicas * (t if whole else 1) // e, 1)
    states = {}
    for stage, (shared, own) in held.items():
        everything, shard = shared + own, shared / replicas + own / same
        several = shared * (replicas > 1) + own * (same > 1)  # what other ranks hold too
        passing = min(2, n) / n * several
        gradients = everything
        if level == 1 and runtime.sharded_gradients:
            gradients = min(shard + min(2 / strategy["interleave"], 1) * several, everything)
        if level >= 2:
            gradients = min(shard + passing, everything)
        weights = everything
        if level == 3:
            weights = min(shard * (not runtime.fp32_shards) + passing, everything)
        states[stage] = {
            "weights": 2 * weights,
            "gradients": runtime.accumulation_bytes * gradients,
            "optimizer": (2 * runtime.moment_bytes + runtime.master_bytes) * (shard if level else everything),
        }
    return {stage: states[stage] for stage in ("first", "last", "middle")[: 3 if p > 2 else 2]}


def plain_obstacles(model, strategy):
    b, t, c, e = (strategy[name] for name in ("micro_batch", "tensor", "context", "expert"))
    p, d, v, batch = (strategy[name] for name in ("pipeline", "data", "interleave", "global_batch"))
    sliced, ends, whole = (strategy[name] for name in ("sequence_parallel", "ends_as_layers", "whole_experts"))
    widths = model.heads, model.ffn_hidden, model.expert_hidden, model.shared_hidden
    m = math.ceil(batch / (d * b))
    found = {
        "heads": any(width % t for width in widths) or (model.kv_heads % t and t % model.kv_heads),
        "layers": model.layers + 2 * ends < p * v or (ends and p == 1),
        "batch": m * d * b != batch,
        "interleave": v > 1 and (p == 1 or m < p),
        "sequence": model.sequence_length % (c * t if sliced else c) or (sliced and t == 1),
        "experts": max(model.experts, 1) % e or c * d * (t if whole else 1) % e or (whole and not model.experts),
    }
    return [name for name, wrong in found.items() if wrong]


def plain_kept(model, gpu, runtime, strategy, mixed, recompute):
    b, t, c, sliced = (strategy[name] for name in ("micro_batch", "tensor", "context", "sequence_parallel"))
    u, share, copies = (
        model.sequence_length * b / c,
        1 / t if sliced else 1.0,
        model.top_k * (runtime.capacity or model.imbalance),
    )
    stream = u * model.hidden * share
    if recompute == 2:
        return 2 * stream
    eight = gpu.precision != "bf16"
    product, before, output = 1 if eight else 2, 2, 2  # inputs of products, of activation functions, attention's output
    if eight and runtime.fp8_activations:
        before, output = 1, 1.5
    again = set(runtime.recompute_modules) if recompute == 1 else set()
    norms = 1 if model.parallel_block else 2
    kept = 2 * stream * (norms + runtime.dropout)
    kept += stream * product * norms * ("layernorm" not in again)
    arrived = u * model.hidden / (t if strategy.get("whole_experts") else 1)  # gathered by ranks that split experts
    kept += arrived * product * mixed * copies * ("moe" not in again)
    heads = model.heads / t
    if model.kv_rank:
        queries = keys = heads * (model.head_dim + model.rope_dim)
        if "mla_up_proj" not in again:
            kept += 2 * u * (queries + keys + heads * model.value_dim)
        kept += 2 * u * (model.query_rank + model.kv_rank + model.rope_dim) * share
    else:
        kept += 2 * u * model.head_dim * (heads + 2 * max(model.kv_heads / t, 1))
    kept += output * u * heads * (model.value_dim if model.kv_rank else model.head_dim)

    def network(width, result):
        return u * width / t * ((model.ffn_matrices - 1) * before + product * result)

    if "mlp" not in again:
        kept += (1 - mixed) * network(model.ffn_hidden, 1)
    if "moe" not in again:
        kept += mixed * network(model.expert_hidden * copies, "moe_act" not in again)
        kept += mixed * network(model.shared_hidden, 1) * ("shared_experts" not in again)
    if "core_attn" not in again and runtime.attention == "unfused":
        scores = sum(part * most for part, most in plain_keys(model))
        kept += (5 if runtime.dropout else 2) * model.heads * scores * u / t
    return kept
