"""The two-stage model counted send by send, and on wired networks: the check of its equations.

Rank (m, s, f) is m + N_M (s + N_Ds f); its HB domain is rank // K with K = N_M N_Ds. Collectives send every piece
directly to the rank that needs it, which is optimal in bytes and in steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, whole
from railcore.network.topology.rails import rail_only, rail_optimized
from railcore.training.collective_schedules import collective_schedule, count_bytes, grid_bytes, hierarchical_schedule
from railcore.training.routed_flows import domain_ring, nic_bandwidth_share
from railcore.training.two_stage import TERMS, TwoStage, TwoStageTime, equation_1


def counted_iteration(model: TwoStage, batch_tokens: float, n_m: int, n_ds: int, n_df: int) -> TwoStageTime:
    """T_iter from the counted bytes of a rank: those between domains over B_S, those inside its domain over B_F.

    The gradients of a shard take a hierarchical AllReduce of N_Ds x N_Df ranks; a replica's activations are gathered
    among N_M ranks, all of one HB domain.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    batch_tokens
        b [tokens].
    n_m, n_ds, n_df
        N_M, N_Ds and N_Df, whole [GPUs].

    Returns
    -------
    The four terms [s].
    """
    for name, size in (("n_m", n_m), ("n_ds", n_ds), ("n_df", n_df)):
        whole(name, size)
    reduce = hierarchical_schedule("all_reduce", n_ds, n_df, "direct", "direct")
    sent = grid_bytes(reduce, model.block_bytes / n_m, n_ds)  # all ranks send alike
    replica = batch_tokens / (n_ds * n_df) * model.hidden * model.element_bytes
    gathered = count_bytes(collective_schedule("all_gather", "direct", n_m), replica / n_m).bytes
    return TwoStageTime(
        compute_s=batch_tokens * model.token_flops / (n_m * n_ds * n_df) / model.gpu_flops,
        first_dp_s=model.layers * sent.by_rail[0] / n_df / model.nic_Bps,
        second_dp_s=model.layers * sent.by_domain[0] / n_ds / model.hb_Bps,
        model_parallel_s=model.layers * model.collective_rounds * gathered / model.hb_Bps,
    )


def numerical_optimum(model: TwoStage, gpus: ArrayLike, hb_domain_size: ArrayLike, batch_tokens: ArrayLike) -> Floats:
    """N_M at which Eq. (1) is least: the slope by a complex step, and its root. No closed form goes in.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b [tokens].

    Returns
    -------
    Any positive real number, beyond K too.
    """
    from scipy.optimize.elementwise import find_root

    def slope(log_n_m, n, k, b):
        n_m = np.exp(log_n_m) * (1 + 1e-30j)
        return np.imag(equation_1(model, n, k, b, n_m, k / n_m, n / k).iteration_s) * 1e30

    given = tuple(np.asarray(size, float) for size in (gpus, hb_domain_size, batch_tokens))
    return np.exp(find_root(slope, (np.log(1e-6), np.log(1e12)), args=given).x)


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
    """Largest relative error of each formula over the cases given, by its claim.

    Eq. (1), Eq. (3) and Table 1's K against the count; Eq. (2), S_T in bytes and b d in elements, against the numerical
    minimum of Eq. (1); the change of that minimum with K and with slower links, and its difference from b^(-1/2);
    Eq. (3) against Eq. (1) at K = N.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus
        N [GPUs].
    hb_domain_sizes, batch_tokens
        K [GPUs]; b [tokens].
    groups
        (N_M, N_Ds, N_Df) of the counts.

    Returns
    -------
    Errors by the last parts of the claims' ids.
    """
    b = np.asarray(batch_tokens, float)
    counted = against_count(model, b[0], groups)
    slower = [replace(model, nic_Bps=model.nic_Bps / a, hb_Bps=model.hb_Bps / c) for a in (1, 4) for c in (1, 2)]
    minima = np.stack([numerical_optimum(each, gpus, hb_domain_sizes, b[0]) for each in slower])
    least = numerical_optimum(model, gpus, hb_domain_sizes[0], b)
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


def times_on_networks(
    models: Mapping[str, TwoStage],
    gpus: float,
    hb_domain_size: float,
    batch_tokens: Mapping[str, float],
    wired: Sequence[tuple[int, int]],
) -> pd.DataFrame:
    """Fig. 5: iteration time where the busiest link of a wired network sets the first-level AllReduce, and the ideal.

    The AllReduce is a ring of the HB domains on every rail. A GPU sends what it sends in the cluster of `gpus`.

    Parameters
    ----------
    models
        By name.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b by model [tokens].
    wired
        (GPUs, radix and HB domain size) of small wired networks; the slowest one counts.

    Returns
    -------
    Columns model, network ("any-to-any" is rail-optimized, "trimmed" rail-only, "ideal" Eq. (3)), the terms and
    iteration_s [s].
    """
    rows, networks = [], {"any-to-any": rail_optimized, "trimmed": rail_only}
    shares = {  # of NIC bandwidth
        network: min(nic_bandwidth_share(build(n, k, k), [domain_ring(n, k)]) for n, k in wired)
        for network, build in networks.items()
    }
    for name, model in models.items():
        time = model.iteration(gpus, hb_domain_size, batch_tokens[name])
        sent = model.layers * 2 * model.block_bytes * (1 / hb_domain_size - 1 / gpus)
        for network, share in shares.items():
            first = replace(time, first_dp_s=sent / (model.nic_Bps * share))
            rows.append({"model": name, "network": network, **vars(first)})
        rows.append({"model": name, "network": "ideal", **vars(model.ideal(gpus, batch_tokens[name]))})
    table = pd.DataFrame(rows)
    return table.assign(iteration_s=table[list(TERMS)].sum(axis=1))
