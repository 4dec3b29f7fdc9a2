"""The iteration time of one strategy read from the docstrings once more: numbers, loops and `math`, no arrays.

`plain_iteration` gives what `iteration_times` gives for one strategy, a dict of whole numbers. What it takes of
railcore are the fields of models, machines and runtimes, and the parameters that a model counts.
"""

import itertools
import math
from statistics import NormalDist

NAMED = (
    ("tensor", "context", "data", "pipeline"),
    ("tensor", "context", "pipeline", "data"),
    ("data", "tensor", "context", "pipeline"),
)
ORDERS = (*NAMED, *(order for order in itertools.permutations(NAMED[0]) if order not in NAMED))


# Where ranks lie, and links


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


def rates(gpu):
    return gpu.hb_Bps * gpu.hb_fraction, gpu.nic_Bps * gpu.nic_fraction


def plain_gather(gpu, size, runs, calls=1):
    """Time, HB busy, NIC busy of an AllGather of so many bytes."""
    x, y = plain_spread(gpu, runs)
    n, (hb, nic) = x * y, rates(gpu)
    steps = calls * (math.ceil(math.log2(x)) * gpu.hb_latency_s + math.ceil(math.log2(y)) * gpu.nic_latency_s)
    if gpu.two_phase_collectives:
        first, then = (y - 1) / n * size / nic, (x - 1) / x * size / hb
        return first + then + steps, then, first
    if y == 1:
        return (n - 1) / n * size / hb + steps, (n - 1) / n * size / hb, 0.0
    sent = (n - 1) / n * size
    return sent / min(hb, x * nic) + steps, sent * (x - 1) / x / hb, sent / x / nic


def plain_exchange(gpu, size, runs):
    """The same of an all-to-all of so many bytes a rank."""
    x, y = plain_spread(gpu, runs)
    hb, nic = rates(gpu)
    start = (gpu.hb_latency_s if x > 1 else 0) + (gpu.nic_latency_s if y > 1 else 0)
    away = (y - 1) / y * size / nic
    if gpu.routing == "direct":
        near = (x - 1) / (x * y) * size / hb
        layer = (x - 1) * (y - 1) / (x * y) * size * gpu.oversubscription / nic if x > 1 and y > 1 else 0.0
        return max(near, away, layer) + start, near, away
    near = (x - 1) / x * size / hb
    return (max(near, away) if gpu.pipelined else near + away) + start, near, away


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


def plain_dispatch(model, gpu, runtime, runs, tokens, copies, element_bytes):
    """Tokens to their experts, one way."""
    if runtime.dispatcher == "copies":
        return plain_exchange(gpu, element_bytes * tokens * model.hidden * copies, runs)
    x, y = plain_spread(gpu, runs)
    hb, nic = rates(gpu)
    limits = model.expert_groups, model.token_groups
    of_domains = plain_places(model.experts, model.top_k, y, *limits)
    of_ranks = plain_places(model.experts, model.top_k, x * y, *limits)
    size = element_bytes * tokens * model.hidden
    size *= copies / model.top_k
    near, away = size * of_ranks * (1 - 1 / x) / hb, size * of_domains * (1 - 1 / y) / nic
    start = (gpu.hb_latency_s if x > 1 else 0) + (gpu.nic_latency_s if y > 1 else 0)
    return (max(near, away) if gpu.pipelined else near + away) + start, near, away


def times(factor, link):
    return tuple(factor * part for part in link)


def plus(*links):
    return tuple(sum(parts) for parts in zip(*links, strict=True))


NO_TIME = (0.0, 0.0, 0.0)


# A layer


def plain_product(gpu, m, n, k, batch=1, fp8=False, weights=True, result_bytes=2):
    least = None
    for rows, columns in ((256, 128), (128, 256)):
        rows, columns = min(rows, math.ceil(m / 64) * 64), min(columns, math.ceil(n / 64) * 64)
        tiles = math.ceil(m / rows) * math.ceil(n / columns)
        if least is None or tiles * rows * columns < least[0] * least[1]:
            least = tiles, rows * columns
    tiles, area = least
    size, cast, rate = 2, 0, gpu.bf16_rate * gpu.bf16_fraction
    if fp8:
        size, cast, rate = 1, 2 * m * k + (0 if weights else 2 * k * n), gpu.linear_rate * gpu.linear_fraction
    flops = 2 * math.ceil(tiles * batch / gpu.processors) * gpu.processors * area * k
    moved = batch * (size * (m * k + k * n) + result_bytes * m * n + cast)
    return flops / (rate * gpu.sustained_fraction) + moved / (gpu.memory_Bps * gpu.memory_fraction) + gpu.kernel_s


def plain_interference(gpu, runtime):
    if runtime.persistent_kernels:
        return 1 - 1 / gpu.overlap_slowdown
    return min(gpu.collective_processors / gpu.processors, 1)


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


def plain_layer(model, gpu, runtime, strategy):
    """Of the average layer of the slowest stage and one micro-batch."""
    b, t, c, e, p = (strategy[name] for name in ("micro_batch", "tensor", "context", "expert", "pipeline"))
    sliced, recompute, whole = (strategy[name] for name in ("sequence_parallel", "recompute", "whole_experts"))
    h, a, k, f = model.hidden, model.heads, model.kv_heads, model.ffn_hidden
    d, s, w, V = model.head_dim, model.sequence_length, model.ffn_matrices, model.vocabulary
    E, groups, lost = model.experts, plain_groups(strategy), plain_interference(gpu, runtime)
    hbm, start, eight = gpu.memory_Bps * gpu.memory_fraction, gpu.kernel_s, gpu.precision == "fp8"
    u, share, blocks = s * b / c, 1 / t if sliced else 1.0, 1 if model.parallel_block else 2
    mixed = 1 / model.expert_layer_interval if p > 1 and model.dense_layers else model.mixture_layers / model.layers
    copies = model.top_k * (runtime.capacity or model.imbalance) if E else 1.0
    local = max(E // e, 1)

    def forward_network(wide):
        return [((w - 1) * wide, h), (h, wide)]

    matrices = [(1.0, u, n, inner) for n, inner in plain_matrices(model, t)]
    matrices += [(1 - mixed, u, n, inner) for n, inner in forward_network(f / t)]
    if E:
        slices = t if whole else 1
        tokens = u / slices * copies * e / E
        matrices += [(mixed * local, tokens, *shape) for shape in forward_network(model.expert_hidden * slices / t)]
        if model.shared_hidden:
            matrices += [(mixed, u, *shape) for shape in forward_network(model.shared_hidden / t)]
    added = 2 if runtime.eager else 2 * runtime.accumulation_bytes
    linear = [0.0, 0.0, 0.0]
    for weight, m, n, inner in matrices:
        if weight:
            linear[0] += weight * plain_product(gpu, m, n, inner, fp8=eight)
            linear[1] += weight * plain_product(gpu, m, inner, n, fp8=eight)
            linear[2] += weight * plain_product(gpu, inner, n, m, fp8=eight, weights=False, result_bytes=added)

    query, value = d + model.rope_dim, model.value_dim
    fused = runtime.attention != "unfused"
    if fused:
        kernels, long = dict(gpu.attention_kernels), gpu.attention_ramp
        best = kernels.get(runtime.attention, gpu.attention_fraction)
        rate = gpu.bf16_rate * best * (1 + long / 4096) / (1 + long / (s / c))
        pairs = sum(part * (keys * s - keys * keys / 2) for part, keys in plain_keys(model))
        forward = b * a / t * 2 * pairs / c * (query + value) / rate + start
        attention = forward, 2.5 * forward
    else:
        rows, heads = s / c, b * a / t
        forward = plain_product(gpu, rows, s, query, heads) + plain_product(gpu, rows, value, s, heads)
        backward = sum(plain_product(gpu, m, n, q, heads) for m, n, q in ((rows, query, s), (query, s, rows)))
        backward += sum(plain_product(gpu, m, n, q, heads) for m, n, q in ((rows, s, value), (s, value, rows)))
        softmax = [n * heads * rows * s / hbm + start for n in ((9, 11) if runtime.dropout else (4, 6))]
        attention = forward + softmax[0], backward + softmax[1]

    wide = u / t * (f * (1 - mixed) + (model.expert_hidden * copies + model.shared_hidden) * mixed)
    turned = model.rope_dim * (a + 1) if model.kv_rank else d * (a + k)
    once = 0.0 if model.positions else 4 * u * turned / t
    once += 8 * u * h * copies * mixed / t * (2 if local > 1 else 1)
    narrow = blocks * u * h * share
    starts = [start * max(gpu.forward_operators - 5, 0), start * max(gpu.backward_operators - 9, 0)]
    moved = narrow * (4 + (7 if runtime.dropout else 6)) + 2 * w * wide + once
    back = narrow * (8 + (5 if runtime.dropout else 0)) + (4 * w - 2) * wide + once
    if runtime.eager:
        joined = u * d * (a + 2 * k) / t
        back += narrow * (2 + 6) + 4 * joined
        back += 2 * (joined + (w - 1) * wide + blocks * u * h) if model.biases else 0.0
    elementwise = moved / hbm + starts[0], back / hbm + starts[1]

    gather = plain_gather(gpu, 2 * u * h, groups["tensor"])
    operators = blocks - (0 if model.shared_hidden else mixed)
    narrowed = 0.5 if runtime.fp8_tensor and eight else 1.0
    again = narrowed if sliced and not strategy["keep_gathered"] else 0.0
    there, home = times(operators * (1 + narrowed), gather), times(operators * (1 + narrowed + again), gather)
    if runtime.overlap_tensor_forward:
        shown = [
            max(link[0] - (t - 1) / t * work, link[0] / t)
            for link, work in ((there, linear[0]), (home, linear[1] + linear[2]))
        ]
    else:
        shown = [there[0], home[0] - (min(there[0], linear[2]) if runtime.overlap_tensor else 0.0)]
    routed = times(0.0 if whole else 2 * mixed * copies, gather)
    tensor = [time + lost * (link[0] - time) + routed[0] for time, link in zip(shown, (there, home), strict=True)]
    tensor_links = plus(there, routed), plus(home, routed)

    heads = a / t if model.kv_rank else max(k / t, 1)
    ring = plain_gather(gpu, 2 * s * b * heads * (query + value), groups["context"])
    context_links = ring, times(2, ring)
    context = [
        (1 - lost) * max(link[0] - hides, 0.0) + lost * link[0]
        for link, hides in zip(context_links, attention, strict=True)
    ]

    expert, expert_links = (0.0, 0.0), (NO_TIME, NO_TIME)
    if E:
        arguments = (model, gpu, runtime, groups["expert"], u / t, copies)
        out, back_home = (plain_dispatch(*arguments, size) for size in (runtime.dispatch_bytes, 2))
        expert_links = times(mixed, plus(out, back_home)), times(2 * mixed, back_home)
        expert = tuple(link[0] for link in expert_links)
        if runtime.overlap_expert:
            windows = linear[0] + attention[0] + elementwise[0], linear[1] + linear[2] + attention[1] + elementwise[1]
            shown = [
                max(link[0] - window, (1 - gpu.exchange_hidden_share) * link[0])
                for link, window in zip(expert_links, windows, strict=True)
            ]
            expert = tuple(time + lost * (link[0] - time) for time, link in zip(shown, expert_links, strict=True))

    kinds = ((linear[0], linear[1] + linear[2]), attention, elementwise, tensor, context, expert)
    forward, backward = (sum(kind[i] for kind in kinds) for i in (0, 1))
    host, dropless = [0.0, 0.0], E > 0 and not runtime.capacity and not runtime.host_ahead
    if runtime.eager or dropless:
        operators_of_host = [gpu.forward_operators, gpu.backward_operators]
        if E:
            casts = 2 * 3 * local + 2 if eight else 0
            both = casts + 2 * local * model.biases
            operators_of_host[0] += mixed * (28 + 2 * local + both)
            operators_of_host[1] += mixed * (14 + 6 * local + both)
        serial = gpu.dropless_serial_share if dropless else 0.0
        for i, time in enumerate((forward, backward)):
            starts = operators_of_host[i] * gpu.launch_s
            host[i] = max(time, starts) + serial * min(time, starts) - time
    forward, backward = forward + host[0], backward + host[1]
    repeated = {0: 0.0, 1: 0.0 if fused else attention[0], 2: forward}[recompute]
    full = 1 if recompute == 2 else 0
    links = {"tensor": tensor_links, "context": context_links, "expert": expert_links}
    logits = plain_product(gpu, u, V / t, h) + plain_product(gpu, u, h, V / t)
    added = 2 if runtime.eager else 2 * runtime.accumulation_bytes
    logits += plain_product(gpu, h, V / t, u, weights=False, result_bytes=added)
    logits_link = times(2, gather)
    gathered = not sliced and runtime.scatter_gather
    kept = plain_kept(model, gpu, runtime, strategy, mixed, recompute)
    if strategy["keep_gathered"] and sliced and recompute < 2:
        kept += operators * 2 * u * h * (1 - 1 / t)
    parts = {
        "linear": sum(linear),
        "attention": sum(attention),
        "elementwise": sum(elementwise),
        "recompute": repeated,
        "host": sum(host),
        "tensor": sum(tensor),
        "context": sum(context),
        "expert": sum(expert),
    }
    return {
        "parts": parts,
        "compute": sum(parts[name] for name in ("linear", "attention", "elementwise", "recompute")),
        "links": {name: plus(times(1 + full, first), then) for name, (first, then) in links.items()},
        "forward": forward,
        "backward": backward + repeated,
        "forward_busy": plus(*(first for first, _ in links.values())),
        "backward_busy": plus(*(plus(times(full, first), then) for first, then in links.values())),
        "logits": logits + 32 * u * V / t / hbm + logits_link[0],
        "logits_link": logits_link,
        "boundary": 2 * u * h / (t if runtime.scatter_gather or sliced else 1),
        "boundary_gather": gather if gathered else NO_TIME,
        "kept": kept,
        "working": plain_kept(model, gpu, runtime, strategy, mixed, 0) if full else 0.0,
        "logits_bytes": 6 * u * V / t,
    }


def plain_kept(model, gpu, runtime, strategy, mixed, recompute):
    b, t, c, sliced = (strategy[name] for name in ("micro_batch", "tensor", "context", "sequence_parallel"))
    u, share, copies = (
        model.sequence_length * b / c,
        1 / t if sliced else 1.0,
        model.top_k * (runtime.capacity or model.imbalance),
    )
    inputs = 2 * u * model.hidden * share
    if recompute == 2:
        return inputs
    eight = gpu.precision == "fp8"  # half of the inputs are those of products, and the last of the feed-forward's
    kept = inputs * (2 if model.parallel_block else 4) * (0.75 if eight else 1.0)
    kept += inputs * runtime.dropout + inputs * mixed * copies
    if model.kv_rank:
        heads = 2 * model.heads / t * (model.head_dim + model.rope_dim + model.value_dim)
        kept += 2 * u * (heads + (model.query_rank + model.kv_rank + model.rope_dim) * share)
    else:
        kept += 2 * u * model.head_dim * (2 * model.heads / t + 2 * max(model.kv_heads / t, 1))
    wide = model.ffn_hidden * (1 - mixed) + (model.expert_hidden * copies + model.shared_hidden) * mixed
    kept += (2 * model.ffn_matrices - eight) * u * wide / t
    if recompute == 0 and runtime.attention == "unfused":
        keys = sum(part * most for part, most in plain_keys(model))
        kept += (5 if runtime.dropout else 2) * model.heads * keys * u / t
    return kept


# A stage


def plain_stage(model, gpu, runtime, strategy, offload):
    t, c, e, p, d = (strategy[name] for name in ("tensor", "context", "expert", "pipeline", "data"))
    level, ends, whole = (strategy[name] for name in ("sharding", "ends_as_layers", "whole_experts"))
    places, groups, hbm = model.layers + 2 * ends, plain_groups(strategy), gpu.memory_Bps * gpu.memory_fraction
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
        mixtures = 1 / model.expert_layer_interval
    experts = 0.0
    if model.experts:
        experts = mixtures * model.experts / e * network(f_e, 1 if whole else t)
    last = norm + (0 if model.tied_embeddings and p == 1 else rows)
    first, last = (edge + last, edge + last) if p == 1 else (edge, last)
    held = {
        "first": ((n - ends) * inner + first, (n - ends) * experts),
        "middle": (n * inner, n * experts),
        "last": ((n - ends) * inner + last, (n - ends) * experts),
    }
    sizes = [held[stage] for stage in ("first", "last", "middle")[: 3 if p > 2 else 2]]
    fullest = tuple(max(parts) for parts in zip(*sizes, strict=True))
    replicas = c * d
    same = max(replicas * (t if whole else 1) // e, 1)
    states = {}
    for stage, (shared, own) in (held | {"fullest": fullest}).items():
        everything, shard = shared + own, shared / replicas + own / same
        passing = min(2, n) / n * everything if replicas > 1 else 0.0
        gradients = everything
        if level == 1 and runtime.sharded_gradients:
            gradients = shard
        if level >= 2:
            gradients = min(shard + passing, everything)
        states[stage] = {
            "weights": 2 * (shard if level == 3 else everything),
            "passing": 2 * passing * (level == 3),
            "gradients": runtime.accumulation_bytes * gradients,
            "optimizer": 12 * (shard if level else everything),
        }
    updated = states["fullest"]["optimizer"] / 12
    streamed = states.pop("fullest")["weights"] if "weights" in offload else 0.0
    states.pop("fullest", None)
    for kept in states.values():
        if "optimizer" in offload:
            kept["optimizer"] = 0.0
        passing = kept.pop("passing")
        own = kept["weights"]
        kept["weights"] = max(own * min(2 / n, 1), passing) if "weights" in offload else own + passing

    def exchange(size):
        shared, own = fullest
        found = plain_gather(gpu, size * shared, groups["replica"], n)
        return plus(found, plain_gather(gpu, size * own, groups["same experts"], n)) if own else found

    gradients = exchange(runtime.gradient_bytes)
    weights = exchange(1 if runtime.fp8_weights and gpu.precision == "fp8" else 2)
    after, before, in_forward, in_backward = {
        0: (times(2, gradients), NO_TIME, NO_TIME, NO_TIME),
        1: (gradients, weights, NO_TIME, NO_TIME),
        2: (NO_TIME, weights, NO_TIME, gradients),
        3: (NO_TIME, NO_TIME, weights, plus(gradients, weights)),
    }[level]
    ranks = t * c * d * p
    far = plain_spread(gpu, groups["pipeline"])[1] > 1
    host = (runtime.gradient_bytes + 2) / gpu.host_Bps + 46 / gpu.host_memory_Bps
    most = round(NormalDist().inv_cdf((ranks - 3 / 8) / (ranks + 1 / 4)), 6)
    return {
        "layers": n,
        "other_stages": places / n - 1,
        "hop_rate": rates(gpu)[1 if far else 0],
        "hop_latency": gpu.nic_latency_s if far else gpu.hb_latency_s,
        "far": far,
        "optimizer": 0.0 if "optimizer" in offload else (92 if runtime.eager else 46) * updated / hbm,
        "offload": host * updated if "optimizer" in offload else 0.0,
        "copies": 8 * sum(fullest) / hbm if runtime.eager and level >= 2 else 0.0,
        "once": 4 * plain_gather(gpu, 0.0, [(ranks, 1)])[0] + gpu.iteration_host_s,
        "spread": gpu.rank_spread * most,
        "streamed": streamed,
        "after": after,
        "before": before,
        "in_forward": in_forward,
        "in_backward": in_backward,
        "states": states,
    }


# The critical path


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


def in_pass(link, window, work, busy, n):
    """Exposed of an exchange in every pass: link times and what the layers keep each link busy for."""
    left = [link[0] - window * work, link[0] / n]
    left += [own - window * (work - other) for own, other in zip(link[1:], busy[1:], strict=True)]
    return max(left)


def after_pass(link, free, pass_s, n, v, grown):
    """Exposed of an exchange once an iteration, which goes on at the rate that the fuller link leaves."""
    rate = min([1.0] + [share for share, own in zip(free, link[1:], strict=True) if own])
    hides = rate * pass_s
    return max((link[0] - hides) / v, link[0] - hides * grown, link[0] / n)


def plain_iteration(model, gpu, strategy, runtime, offload=()):
    """Total, breakdown, links, memory, obstacles and busy shares of HB interconnect and NIC."""
    b, p, d, v = (strategy[name] for name in ("micro_batch", "pipeline", "data", "interleave"))
    layer, stage = plain_layer(model, gpu, runtime, strategy), plain_stage(model, gpu, runtime, strategy, offload)
    n, m, lost = stage["layers"], math.ceil(strategy["global_batch"] / (d * b)), plain_interference(gpu, runtime)
    hidden_data = 1.0 if runtime.overlap_data else 0.0
    work = {way: n * layer[way] for way in ("forward", "backward")}
    busy = {way: times(n, layer[f"{way}_busy"]) for way in work}
    stays = 0.0 if "activations" in offload else 1.0
    away = ((1 - stays) * n * layer["kept"] + stage["streamed"]) / gpu.host_Bps
    exposed, passes, waits = 0.0, {}, 0.0
    for way, time in work.items():
        link = stage[f"in_{way}"]
        shown = in_pass(link, hidden_data * (n - 1) / n, time, busy[way], n)
        shown += lost * (link[0] - shown)
        passes[way] = max(time + shown, away)
        waits += passes[way] - time - shown
        exposed += shown
    both = passes["forward"] + passes["backward"] + stage["copies"]
    links = plus(busy["forward"], busy["backward"], stage["in_forward"], stage["in_backward"])
    hop, hop_hb, hop_nic = 0.0, 0.0, 0.0
    if p > 1:
        on_link, gathered = layer["boundary"] / stage["hop_rate"], layer["boundary_gather"]
        hop = 2 * v * (on_link + stage["hop_latency"] + gathered[0])
        hop_hb = 2 * v * ((0 if stage["far"] else on_link) + gathered[1])
        hop_nic = 2 * v * ((on_link if stage["far"] else 0) + gathered[2])
    hiding = runtime.overlap_pipeline and v > 1
    hidden = (1 - lost) * min(hop, both - max(links[1:])) if hiding else 0.0
    hb, nic, steady = links[1] + hop_hb, links[2] + hop_nic, both + hop - hidden
    free, grown = (1 - hb / steady, 1 - nic / steady), (1 + (v - 1) * min(p, m)) / v
    once = 0.0
    for name, way in (("after", "backward"), ("before", "forward")):
        shown = after_pass(stage[name], free, hidden_data * passes[way] * steady / both, n, v, grown)
        once += shown + lost * (stage[name][0] - shown)
    logits = max(layer["logits"] - strategy["ends_as_layers"] * both / n, 0.0)
    others = stage["other_stages"]
    bubble = others * both / v + ((p * v - 1) * hop / v if hiding and p > 1 else others * hop / v)
    straggler = stage["spread"] * (m * (n * layer["compute"] + logits) + others / v * n * layer["compute"])
    breakdown = {f"{kind}_s": m * n * time for kind, time in layer["parts"].items()} | {
        "logits_s": m * logits,
        "pipeline_s": m * (hop - hidden),
        "bubble_s": bubble,
        "data_s": m * (exposed + stage["copies"]) + once,
        "optimizer_s": stage["optimizer"],
        "offload_s": m * waits + stage["offload"],
        "once_s": stage["once"],
        "straggler_s": straggler,
    }
    total = sum(breakdown.values())
    link_times = {f"{kind}_link_s": m * n * link[0] for kind, link in layer["links"].items()} | {
        "logits_link_s": m * layer["logits_link"][0],
        "pipeline_link_s": m * hop,
        "data_link_s": m * (stage["in_forward"][0] + stage["in_backward"][0]) + stage["after"][0] + stage["before"][0],
    }
    counted = m * logits / layer["logits"]
    utilization = tuple(
        (m * own + counted * layer["logits_link"][i] + stage["after"][i] + stage["before"][i]) / total
        for i, own in ((1, hb), (2, nic))
    )
    memory = plain_memory(layer, stage, strategy, m, stays)
    memory["reserved_bytes"] = gpu.reserved_bytes
    obstacles = plain_obstacles(model, strategy)
    if sum(memory.values()) > gpu.memory_bytes:
        obstacles.append("memory")
    return total, breakdown, link_times, memory, obstacles, utilization


def plain_memory(layer, stage, strategy, m, stays):
    """By kind, on the fullest of the stages: each micro-batch in flight keeps the stage's activations."""
    p, v, n, ends = (strategy["pipeline"], strategy["interleave"], stage["layers"], strategy["ends_as_layers"])
    best = None
    for place in range(p):
        kind = "first" if place == 0 else "last" if place == p - 1 else "middle"
        flight = p - place if v == 1 else (2 * (p - 1 - place) + (v - 1) * p + 1) / v
        flight = min(flight + m % p * (v - 1) / v, m)
        layers = n - ends if kind != "middle" else n
        activations = (flight * layers if stays else 2) * layer["kept"]
        activations += layer["logits_bytes"] if place == p - 1 else 0.0
        states = stage["states"][kind]
        found = {f"{name}_bytes": size for name, size in states.items()}
        found["activations_bytes"] = activations + layer["working"]
        if best is None or sum(found.values()) > sum(best.values()) * (1 + 1e-12):
            best = found
    return best
