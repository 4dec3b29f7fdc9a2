"""railonly2023's two-stage model: its equations against a count, its table, what it leaves open, and its claims.

In the count rank (m, s, f) is m + N_M (s + N_Ds f). Its HB domain is rank // K with K = N_M N_Ds. Collectives
send every piece directly to the rank that needs it, which is optimal in bytes and in steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.documents.readings import Entries, with_prefix
from railcore.facts import catalog, claims, units
from railcore.facts.checks import Floats, whole
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.rails import rail_only, rail_optimized
from railcore.training import two_stage
from railcore.training.collective_algorithms import collective_schedule, hierarchical_schedule
from railcore.training.collective_schedules import count_bytes, domain_rail_bytes
from railcore.training.routed_flows import domain_ring, nic_bandwidth_share
from railcore.training.two_stage import (
    TIME_TERMS,
    TwoStage,
    TwoStageTime,
    collective_rounds,
    equation_1,
    two_stage_sweep,
)

DAYS = "intro.palm_days_one_gh200"
MODELS = ("GPT-3", "OPT3-175B", "PaLM-540B")
OPEN_CHOICES: dict[str, tuple] = {  # arguments of `two_stage.catalog_two_stage`
    "weight_bytes": (2, 4),
    "element_bytes": (1, 2, 4),
    "block": two_stage.BLOCK_SIZE_RULES,
    "flops": two_stage.TOKEN_FLOP_RULES,
    "group_rule": two_stage.GROUP_SIZE_RULES,
    "group_rounding": two_stage.GROUP_SIZE_ROUNDINGS,
}


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
    sent = domain_rail_bytes(reduce, model.block_bytes / n_m, n_ds)  # all ranks send alike
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
    pairs = [(float(getattr(time, term)), float(getattr(counted, term))) for term in TIME_TERMS]
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
    return table.assign(iteration_s=table[list(TIME_TERMS)].sum(axis=1))


def two_stage_variables(
    models: Mapping[str, TwoStage], gpus: float, hb_domain_size: float, batch_tokens: Mapping[str, float]
) -> pd.DataFrame:
    """The variables of railonly2023 Table 1 with their values for each model; times are of a whole iteration.

    Parameters
    ----------
    models
        By name.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b by model [tokens].

    Returns
    -------
    Columns symbol, description, unit, and one for each model.
    """
    found = {name: _variables(model, gpus, hb_domain_size, batch_tokens[name]) for name, model in models.items()}
    table = pd.DataFrame([row[:3] for row in next(iter(found.values()))], columns=["symbol", "description", "unit"])
    return table.assign(**{name: [float(value) for *_, value in rows] for name, rows in found.items()})


def _variables(model: TwoStage, n: float, k: float, b: float) -> list[tuple[str, str, str, Any]]:
    n_m, time = model.group_size(n, b, k), model.iteration(n, k, b)
    return [
        ("N", "GPUs of the cluster, N_M N_Df N_Ds", "GPUs", n),
        ("N_M", "GPUs of a model-parallel group", "GPUs", n_m),
        ("N_Df", "GPUs of a first-level data-parallel group, across HB domains", "GPUs", n / k),
        ("N_Ds", "GPUs of a second-level data-parallel group, inside", "GPUs", k / n_m),
        ("K", "GPUs of an HB domain, N_M N_Ds", "GPUs", k),
        ("d_model", "embedding dimension", "elements", model.hidden),
        ("M_flop", "FLOPs of an iteration", "FLOP", b * model.token_flops),
        ("M_cc", "model-parallel collectives of a block", "1", model.collective_rounds),
        ("l", "transformer blocks", "1", model.layers),
        ("B_F", "bandwidth of a GPU in its HB domain", "B/s", model.hb_Bps),
        ("B_S", "bandwidth of a GPU on its rail", "B/s", model.nic_Bps),
        ("C", "compute rate of a GPU", "FLOP/s", model.gpu_flops),
        ("S_T", "size of a block", "B", model.block_bytes),
        ("b", "batch", "tokens", b),
        ("T_c", "compute, all blocks", "s", time.compute_s),
        ("T_Df", "first-level data parallelism, all blocks", "s", time.first_dp_s),
        ("T_Ds", "second-level data parallelism, all blocks", "s", time.second_dp_s),
        ("T_M", "model parallelism, all blocks", "s", time.model_parallel_s),
    ]


def variables_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`two_stage_variables` for people: each value with its unit, whole numbers in full, others with four digits."""
    symbols = ["" if unit in ("1", "GPUs", "elements", "tokens") else unit for unit in table["unit"]]
    text = table.drop(columns="unit")
    for name in list(text)[2:]:
        text[name] = [
            units.show(value, symbol, 15 if not symbol and value == round(value) else 4)
            for value, symbol in zip(table[name], symbols, strict=True)
        ]
    return text


def group_size_rules(
    models: Mapping[str, TwoStage], gpus: float, hb_domain_size: float, batch_tokens: Mapping[str, float]
) -> pd.DataFrame:
    """N_M by Eq. (2) as printed (b d in elements or in bytes), at the minimum of Eq. (1), and as the model takes it.

    Parameters
    ----------
    models
        By name.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b by model [tokens].

    Returns
    -------
    Columns model, rule, group_size (1 to K), over_minimum (of the size before it is limited to 1 to K), iteration_s,
    slowdown over the minimum.
    """
    least, tables = "minimum of Eq. (1)", []
    for name, model in models.items():
        b = batch_tokens[name]
        sizes = {
            "Eq. (2)": model.printed_group_size(gpus, b),
            "Eq. (2), all in bytes": model.printed_group_size(gpus, b, model.element_bytes),
            least: numerical_optimum(model, gpus, hb_domain_size, b),
            "our reading": model.group_size(gpus, b, hb_domain_size),
        }
        size = pd.Series({rule: float(x) for rule, x in sizes.items()})
        table = pd.DataFrame({"group_size": size.clip(1, hb_domain_size), "over_minimum": size / size[least]})
        table["iteration_s"] = model.iteration(gpus, hb_domain_size, b, table["group_size"]).iteration_s
        table = table.assign(slowdown=table["iteration_s"] / table["iteration_s"][least], model=name)
        tables.append(table.rename_axis("rule").reset_index())
    columns = ["model", "rule", "group_size", "over_minimum", "iteration_s", "slowdown"]
    return pd.concat(tables, ignore_index=True)[columns]


def terms_by_hb_domain_size(
    model: TwoStage, gpus: int, hb_domain_size: int, batch_tokens: float, nic_Bps: float, rails: int
) -> pd.DataFrame:
    """Eq. (1) at the HB domain size and at a quarter, half, twice and four times of it, as far as the cluster goes.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b [tokens].
    nic_Bps
        Of a GPU, one direction [bytes/s].
    rails
        NICs of an HB domain.

    Returns
    -------
    A row for each size, columns of `two_stage_sweep`.
    """
    sizes = [k for k in (hb_domain_size * 2**i // 4 for i in range(5)) if 1 <= k <= gpus]
    grid = {"gpus": [gpus], "hb_domain_size": sizes, "batch_tokens": [batch_tokens], "rails": [rails]}
    return two_stage_sweep({"": replace(model, nic_Bps=nic_Bps)}, **grid)


def open_choices(
    gpu_flops: float, hb_Bps: float, printed_hb_Bps: float, clusters: Sequence[int]
) -> dict[str, Sequence]:
    """Everything that the document leaves open: OPEN_CHOICES, rates, M_cc of PaLM, and the clusters of its figures.

    Parameters
    ----------
    gpu_flops
        Dense rate of the GPU [FLOP/s]; the rate with sparsity is twice as high.
    hb_Bps, printed_hb_Bps
        HB bandwidth of a GPU, one direction, and as the document prints it [bytes/s].
    clusters
        GPUs of Fig. 7's clusters, in order; the first one is left out for Fig. 5.

    Returns
    -------
    The choices by name, for `reading_combinations`.
    """
    rates = {"gpu_flops": [gpu_flops, 2 * gpu_flops], "hb_Bps": [hb_Bps, 2 * hb_Bps, printed_hb_Bps]}
    sizes = {"fig7_gpus": clusters, "fig5_gpus": clusters[1:]}
    return {**OPEN_CHOICES, **rates, "palm_rounds": [12, 8], **sizes}


def printed_rounds() -> dict[str, float]:
    """M_cc of each model as the document prints it."""
    return {name: catalog.item("models", name)["collective_rounds_railonly2023"] for name in MODELS}


def printed_batches(palm_sequences: Sequence[int]) -> dict[str, np.ndarray]:
    """Batch of each model [tokens] as the document prints it; of PaLM every one of `palm_sequences`."""
    found = {name: catalog.item("models", name)["batch_railonly2023"] for name in MODELS[:2]}
    length = catalog.item("models", MODELS[2])["sequence_length"]
    return found | {MODELS[2]: np.array(palm_sequences) * length}


def models_by_reading(tried: pd.DataFrame, nic_Bps: ArrayLike) -> dict[str, TwoStage]:
    """The document's models under every reading, a row each.

    tried: columns gpu_flops, hb_Bps, those of OPEN_CHOICES, and palm_rounds where PaLM's M_cc is open.
    """
    at = {key: np.array(tried[key].tolist()) for key in ("gpu_flops", "hb_Bps", *OPEN_CHOICES)}
    rounds: dict[str, ArrayLike] = {**printed_rounds()}
    if "palm_rounds" in tried:
        rounds[MODELS[2]] = tried["palm_rounds"].to_numpy()
    return {name: two_stage.catalog_two_stage(name, nic_Bps=nic_Bps, rounds=rounds[name], **at) for name in MODELS}


@dataclass(frozen=True)
class FigureCase:
    """What the document's figures show, as the notebook's parameters have it.

    models: GPT-3, OPT3-175B and PaLM-540B in this order, with GPU and links. gpus: of Fig. 5 and 8; quoted_gpus: of
    Fig. 7's percentages. hb_domain_size: of Fig. 5 and 8. batch_tokens: of each model, for PaLM
    all of Fig. 8. training_tokens: of PaLM. radix: ports of a switch of the full networks.
    """

    models: Mapping[str, TwoStage]
    gpus: int
    quoted_gpus: int
    hb_domain_size: int
    batch_tokens: Mapping[str, Sequence[float]]
    training_tokens: float
    radix: int

    def quoted(self, models: Mapping[str, TwoStage], fig7_gpus: ArrayLike, fig5_gpus: ArrayLike) -> pd.DataFrame:
        """What the document quotes of its Fig. 5, 7 and 8 and of training time: a column for each claim.

        models: as in this case, under every reading; fig7_gpus, fig5_gpus: clusters of each reading. A row for each.
        """
        found = {}
        for k, (short, name) in product((32, 512), zip(("gpt3", "opt"), models, strict=False)):
            saved = models[name].time_reduction(fig7_gpus, k, 2 * k, self.batch_tokens[name])
            found[f"fig7.{short}_k{k}_to_{2 * k}"] = saved
        first = {name: np.ravel(tokens)[0] for name, tokens in self.batch_tokens.items()}
        speedups = np.stack(
            [
                1 / each.relative_performance(fig5_gpus, self.hb_domain_size, first[name])
                for name, each in models.items()
            ]
        )
        found |= {"fig5.ideal_speedup_min": speedups.min(axis=0), "fig5.ideal_speedup_max": speedups.max(axis=0)}
        palm = list(models)[-1]
        for sequences, tokens in zip((512, 2048), np.ravel(self.batch_tokens[palm])[[0, -1]], strict=True):
            found[f"fig8.palm_rel_b{sequences}"] = models[palm].relative_performance(
                self.gpus, self.hb_domain_size, tokens
            )
        flops = models[palm].token_flops * self.training_tokens
        found[DAYS] = flops / (self.hb_domain_size * np.asarray(models[palm].gpu_flops) * units.day)
        return pd.DataFrame(found, index=range(np.broadcast(*found.values()).size))


def equation_claims(errors: Mapping[str, float], rules: pd.DataFrame, gpt_layers: int, palm_layers: int) -> Entries:
    """Values, reasons and readings of the claims on Eq. (1) to (3) and Table 1.

    Parameters
    ----------
    errors
        `formula_errors`.
    rules
        `group_size_rules`.
    gpt_layers, palm_layers
        Layers of a block with collectives, of GPT and of PaLM as the document counts them.

    Returns
    -------
    For `claims.record`.
    """
    cost = rules[rules["rule"] == "Eq. (2)"]
    counts = {"eq1.mcc_gpt": collective_rounds(gpt_layers), "eq1.mcc_palm": collective_rounds(palm_layers)}
    reasons = {
        "eq2.optimal_model_parallel": "Eq. (1) is least at (2 N S_T / (b M_cc d))^(1/2) in consistent units, of which "
        f"the printed expression is 8^(-1/2); taken so it costs {cost['slowdown'].min() - 1:.1%} to "
        f"{cost['slowdown'].max() - 1:.1%} of iteration time",
        "table1.hb_domain_product": "misprint: Eq. (1) gives the counted bytes with K = N_M N_Ds, and N_M N_Df equals "
        "that only where N_Df = N_Ds",
    }
    taken = {
        "eq2.optimal_model_parallel": "S_T in bytes and b d in elements, as in all numbers of the document here: "
        f"{cost['over_minimum'].max():.4g} of the minimum; with both in bytes {8**-0.5:.4g}",
        "eq1.mcc_palm": "as the document has the block; PaLM's own, one attention and one feed-forward layer in "
        f"parallel, takes {collective_rounds(2, parallel=True)} rounds",
    }
    return with_prefix("railonly2023", {**errors, **counts}, reasons, taken)


def figure_claims(
    case: FigureCase, quoted: Mapping[str, float], fig5: pd.DataFrame, fig7: pd.DataFrame, fig8: pd.DataFrame
) -> Entries:
    """Values, reasons and readings of the claims on Fig. 5, 7 and 8.

    Parameters
    ----------
    case
        What the figures show.
    quoted
        Numbers that the document quotes, by our reading; the days of the introduction are left to
        `introduction_claims`.
    fig5
        `times_on_networks`.
    fig7, fig8
        `two_stage_sweep` over HB domain sizes; over batches.

    Returns
    -------
    For `claims.record`.
    """
    gpt, palm = case.models["GPT-3"], case.batch_tokens["PaLM-540B"]
    time = fig5.set_index(["network", "model"])["iteration_s"]
    bends = np.diff(fig7.pivot_table("iteration_s", ["model", "gpus"], "hb_domain_size"), 2)
    rises = np.diff(fig8.pivot_table("relative", "hb_domain_size", "batch_tokens"))
    removable = {k: links_removable(case.gpus, case.hb_domain_size, k) for k in sorted({32, 64, 128, 256, case.radix})}
    published = catalog.item("models", "GPT-3")["batch"]
    values = {name: value for name, value in quoted.items() if name != DAYS} | {
        "fig5.links_removable": removable[case.radix],
        "fig5.trimmed_slowdown": (time["trimmed"] / time["any-to-any"] - 1).max(),
        "fig5.ideal_bandwidth_ratio": gpt.hb_Bps / gpt.nic_Bps,
        "fig7.diminishing": np.mean(bends <= 0),
        "fig7.gpt3_batch": published,
        "fig8.relative_rises": np.mean(rises <= 0),
        "fig8.palm_tokens_min": min(palm),
        "fig8.palm_tokens_max": max(palm),
    }
    least = values["fig5.ideal_speedup_min"]
    first_step = gpt.time_reduction(case.quoted_gpus, 32, 64, published)
    reasons = {
        "fig5.ideal_speedup_min": f"{least:.4f} is printed as {least // 0.01 / 100:g} if digits are cut off, as Table "
        "2 does",
        "fig5.ideal_speedup_max": f"the cluster of Fig. 5 is not printed: {units.number(_fig5_gpus(case), 3)} GPUs in "
        f"place of {units.number(case.gpus)} would give it",
        "fig7.gpt3_batch": f"contradiction: Brown et al. publish {published / 1e6:.3g}M tokens; with them Fig. 7(a)'s "
        f"first step would be {first_step:.0%}",
    }
    others = [f"{share:.0%} with {k}" for k, share in removable.items() if k != case.radix]
    taken = {"fig5.links_removable": f"switches of radix {case.radix}; {', '.join(others)}"}
    return with_prefix("railonly2023", values, reasons, taken)


def _fig5_gpus(case: FigureCase) -> float:
    """The cluster that comes nearest to Fig. 5's largest speedup."""
    sizes = np.arange(0.75, 1.1, 0.001) * case.gpus
    speedup = case.quoted(case.models, case.quoted_gpus, sizes)["fig5.ideal_speedup_max"]
    return sizes[(speedup - claims.paper_value("railonly2023.fig5.ideal_speedup_max")).abs().argmin()]


def introduction_claims(case: FigureCase, quoted_days: float, year_s: float) -> Entries:
    """Values, reasons and readings of the claims of the introduction on training time.

    case: what the figures show; quoted_days: for PaLM by 6 FLOP a parameter and token; year_s: of a GPU-year [s].
    """
    gpt, palm = (catalog.item("models", name)["training_flops"] for name in ("GPT-3", "PaLM-540B"))
    rate = float(case.models["PaLM-540B"].gpu_flops)
    days = palm / rate / (units.day * case.hb_domain_size)
    v100 = catalog.item("gpus", "V100")["fp16_rate"]
    reason = (
        f"{palm / 1e24:.3g}e24 FLOP, the total of PaLM's own paper as a secondary source quotes it, at "
        f"{units.show(rate, 'FLOP/s', 4)}"
    )
    taken = (
        f"the rate without sparsity; with it {days / 2:.3g} days, and {quoted_days:.4g} days by 6 FLOP a parameter and "
        "token, without attention"
    )
    values = {DAYS: days, "intro.gpt3_v100_years": gpt / v100 / year_s}
    return with_prefix("railonly2023", values, {DAYS: reason}, {DAYS: taken})


def links_removable(gpus: int, hb_domain_size: int, radix: int) -> float:
    """Share of the links of the any-to-any Clos over all GPUs that rail-only does without.

    (t - t') / t for t and t' tiers of N links each. Source: railonly2023, section 2.2.
    """
    rails, full = (rail_parts(gpus, hb_domain_size, radix, s).links for s in (np.inf, 1.0))
    return float(1 - rails / full)
