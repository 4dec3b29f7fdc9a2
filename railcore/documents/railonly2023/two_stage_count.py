"""The two-stage model counted rank by rank, and link by link: the check of its equations.

Rank (m, s, f) is m + N_M (s + N_Ds f); its HB domain is rank // K with K = N_M N_Ds. Collectives send every piece
directly to the rank that needs it, which is optimal in bytes and in steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from railcore.facts.checks import whole
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.graph import route
from railcore.network.topology.rails import RailFabric, rail_only, rail_optimized
from railcore.training.iteration.two_stage import TERMS, TwoStage, TwoStageTime, equation_1, minimiser

Held = dict[int, np.ndarray]


def hierarchical_all_reduce(gradients: np.ndarray, n_m: int, n_ds: int, n_df: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum over data-parallel ranks on every rank, and the elements that each rank sent to each other one.

    ReduceScatter inside a domain, AllReduce of the piece across domains, AllGather inside.
    gradients [ranks, elements]: of the model-parallel shard of each rank; n_ds n_df must divide elements.
    Gives arrays [ranks, elements] and [from, to]. Raises ValueError for a shape that does not fit.
    """
    ranks = n_m * n_ds * n_df
    if gradients.ndim != 2 or len(gradients) != ranks or gradients.shape[1] % (n_ds * n_df):
        raise ValueError(
            f"gradients has shape {gradients.shape}: give {ranks} rows of a multiple of {n_ds * n_df} elements"
        )
    order = np.arange(ranks).reshape(n_df, n_ds, n_m)
    inside = [order[f, :, m] for f in range(n_df) for m in range(n_m)]
    across = [order[:, s, m] for s in range(n_ds) for m in range(n_m)]
    held, sent = dict(enumerate(gradients)), np.zeros((ranks, ranks))
    for groups, step in ((inside, _scatter), (across, _scatter), (across, _gather), (inside, _gather)):
        for group in groups:
            held |= step({rank: held[rank] for rank in group.tolist()}, sent)
    return np.stack([held[rank] for rank in range(ranks)]), sent


def _scatter(held: Held, sent: np.ndarray) -> Held:
    pieces = {rank: np.split(array, len(held)) for rank, array in held.items()}
    for place, target in enumerate(held):
        for source in held:
            sent[source, target] += pieces[source][place].size * (source != target)
    return {rank: np.sum([array[place] for array in pieces.values()], axis=0) for place, rank in enumerate(held)}


def _gather(held: Held, sent: np.ndarray) -> Held:
    for source, array in held.items():
        for target in held:
            sent[source, target] += array.size * (source != target)
    return {rank: np.concatenate(list(held.values())) for rank in held}


def counted_iteration(model: TwoStage, batch_tokens: float, n_m: int, n_ds: int, n_df: int) -> TwoStageTime:
    """T_iter from counted bytes: those of the busiest rank on the network over B_S, inside its domain over B_F.

    A block's gradient and a replica's activations are arrays that the ranks really exchange; what a send costs is
    decided by the two ranks' HB domains. batch_tokens b. Raises ValueError for sizes that are not whole.
    """
    for name, size in (("n_m", n_m), ("n_ds", n_ds), ("n_df", n_df)):
        whole(name, size)
    ranks, k = n_m * n_ds * n_df, n_m * n_ds
    domain = np.arange(ranks) // k
    same = domain[:, None] == domain
    _, sync = hierarchical_all_reduce(np.ones((ranks, n_ds * n_df)), n_m, n_ds, n_df)
    sync = sync * model.block_bytes / (n_m * n_ds * n_df)
    exchange = np.zeros((ranks, ranks))
    for group in np.arange(ranks).reshape(-1, n_m).tolist():
        _gather({rank: np.ones(1) for rank in group}, exchange)
    replica = batch_tokens / (n_ds * n_df) * model.hidden * model.element_bytes
    exchange *= model.collective_rounds * replica / n_m

    def busiest(sent: np.ndarray, where: np.ndarray, bandwidth: float) -> float:
        return model.layers * float((sent * where).sum(axis=1).max()) / bandwidth

    flops = batch_tokens * model.token_flops / ranks
    return TwoStageTime(
        compute_s=flops / model.gpu_flops,
        first_dp_s=busiest(sync, ~same, model.nic_Bps),
        second_dp_s=busiest(sync, same, model.hb_Bps),
        model_parallel_s=busiest(exchange, same, model.hb_Bps) + busiest(exchange, ~same, model.nic_Bps),
    )


def against_count(model: TwoStage, batch_tokens: float, groups: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Eq. (1) and (3) beside the count, for each (N_M, N_Ds, N_Df) of `groups`.

    Columns n_m, n_ds, n_df; counted_s; eq1_error with K = N_M N_Ds and table1_error with K = N_M N_Df; domain, the K
    that gives the counted bytes inside a domain, and table1_domain_error of N_M N_Df against it (nan where N_Ds = 1);
    eq3_error of Eq. (3) against a count with all ranks in one domain. Errors of a time are relative, of its worst term.
    """
    rows = []
    for n_m, n_ds, n_df in groups:
        n, counted = n_m * n_ds * n_df, counted_iteration(model, batch_tokens, n_m, n_ds, n_df)
        flat = counted_iteration(model, batch_tokens, n_m, n_ds * n_df, 1)
        ours, table1 = (equation_1(model, n, n_m * m, batch_tokens, n_m, n_ds, n_df) for m in (n_ds, n_df))
        inside = counted.second_dp_s * model.hb_Bps / model.layers
        k = 2 * model.block_bytes * (n_ds - 1) / inside if inside else np.nan
        row = {"n_m": n_m, "n_ds": n_ds, "n_df": n_df, "counted_s": counted.iteration_s}
        row |= {"eq1_error": _worst(ours, counted), "table1_error": _worst(table1, counted)}
        row |= {"domain": k, "table1_domain_error": abs(n_m * n_df / k - 1)}
        rows.append(row | {"eq3_error": _worst(model.ideal(n, batch_tokens, n_m), flat)})
    return pd.DataFrame(rows)


def formula_errors(
    model: TwoStage,
    gpus: float,
    hb_domain_sizes: Sequence[float],
    batch_tokens: Sequence[float],
    groups: Sequence[Sequence[int]],
) -> dict[str, float]:
    """Largest relative error of each formula of railonly2023 over the cases given, by its place in the document.

    Eq. (1), Eq. (3) and Table 1's K against the count over `groups`; Eq. (2), S_T in bytes and b d in elements, against
    the numerical minimum of Eq. (1); that minimum's change as K runs over `hb_domain_sizes` and the bandwidths fall,
    and from b^(-1/2) as b runs over `batch_tokens`; Eq. (3) against Eq. (1) at K = N.
    """
    b = np.asarray(batch_tokens, float)
    counted = against_count(model, b[0], groups)
    slower = [replace(model, nic_Bps=model.nic_Bps / a, hb_Bps=model.hb_Bps / c) for a in (1, 4) for c in (1, 2)]
    minima = np.stack([minimiser(each, gpus, hb_domain_sizes, b[0]) for each in slower])
    least = minimiser(model, gpus, hb_domain_sizes[0], b)
    group = np.clip(least, 1, gpus)
    printed = model.printed_group_size(gpus, b)
    ideal, single = model.ideal(gpus, b, group), model.iteration(gpus, gpus, b, group)

    def worst(ratio: np.ndarray) -> float:
        return float(np.abs(ratio - 1).max())

    return {
        "eq1.iteration_time": counted["eq1_error"].max(),
        "eq2.optimal_model_parallel": worst(printed / least),
        "eq2.independence": worst(minima / minima.flat[0]),
        "eq2.batch_trend": worst(least * b**0.5 / (least[0] * b[0] ** 0.5)),
        "eq3.ideal_iteration_time": counted["eq3_error"].max(),
        "eq3.limit": worst(ideal.iteration_s / single.iteration_s),
        "table1.hb_domain_product": counted["table1_domain_error"].max(),
    }


def _worst(time: TwoStageTime, counted: TwoStageTime) -> float:
    pairs = [(float(getattr(time, term)), float(getattr(counted, term))) for term in TERMS]
    return max(abs(ours - theirs) / (theirs or 1.0) for ours, theirs in pairs)


def ring_time(fabric: RailFabric, sent_bytes: float) -> float:
    """Time [s] of the busiest link when GPUs of equal rank pass `sent_bytes` each around a ring of all HB domains.

    Every flow takes its route of the wired graph, without forwarding; each direction of a link is loaded on its own.
    What any AllReduce across domains costs that sends as much from every GPU and keeps to neighbours.
    """
    net, loads = fabric.graph(), dict[tuple[str, str], float]()
    for domain in range(1, fabric.domains + 1):
        for rank in range(1, fabric.hb_domain_size + 1):
            after = domain % fabric.domains + 1
            path = route(net, f"D{domain}.GPU{rank}", f"D{after}.GPU{rank}", forward=False)
            for link in pairwise(path):
                loads[link] = loads.get(link, 0.0) + sent_bytes
    return max((load / net.edges[link]["bandwidth_Bps"] for link, load in loads.items()), default=0.0)


def on_networks(
    models: Mapping[str, TwoStage],
    gpus: float,
    hb_domain_size: float,
    batch_tokens: Mapping[str, float],
    wired: Sequence[tuple[int, int]],
) -> pd.DataFrame:
    """Iteration time where the busiest link of a wired network sets the first-level AllReduce, and the ideal.

    Networks are "any-to-any" (rail-optimized), "trimmed" (rail-only) and "ideal", Eq. (3); wired: (GPUs, radix and HB
    domain size) of small fabrics, the slowest of which counts. What a GPU sends is that of the cluster of `gpus`.
    Columns model, network, the terms and iteration_s [s].
    """
    rows, networks = [], {"any-to-any": rail_optimized, "trimmed": rail_only}
    crowding = {  # time of the busiest link over that of a NIC
        network: max(ring_time(build(n, k, k, nic_Bps=1.0), 1.0) for n, k in wired)
        for network, build in networks.items()
    }
    for name, model in models.items():
        time = model.iteration(gpus, hb_domain_size, batch_tokens[name])
        sent = model.layers * 2 * model.block_bytes * (1 / hb_domain_size - 1 / gpus)
        for network, factor in crowding.items():
            first = replace(time, first_dp_s=sent / model.nic_Bps * factor)
            rows.append({"model": name, "network": network, **vars(first)})
        rows.append({"model": name, "network": "ideal", **vars(model.ideal(gpus, batch_tokens[name]))})
    table = pd.DataFrame(rows)
    return table.assign(iteration_s=table[list(TERMS)].sum(axis=1))


def links_removable(gpus: int, hb_domain_size: int, radix: int) -> float:
    """Share of the links of the any-to-any Clos over all GPUs that rail-only does without.

    (t - t') / t for t and t' tiers of N links each. Source: railonly2023, section 2.2.
    """
    rails, full = (rail_parts(gpus, hb_domain_size, radix, s).links for s in (np.inf, 1.0))
    return float(1 - rails / full)
