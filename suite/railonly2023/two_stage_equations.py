"""railonly2023's equations and Table 1: Eq. (1) to (3) against a count, the variables, and their claims.

In the count rank (m, s, f) is m + N_M (s + N_Ds f). Its HB domain is rank // K with K = N_M N_Ds. Collectives
send every piece directly to the rank that needs it, which is optimal in bytes and in steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import units
from railcore.catalog.checks import Floats
from suite.emulator.collective_schedules import (
    collective_schedule,
    count_bytes,
    domain_rail_bytes,
    hierarchical_schedule,
)
from suite.ledger.readings import Entries, with_prefix
from suite.railonly2023.two_stage import TIME_TERMS, TwoStage, TwoStageTime, collective_rounds, equation_1


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


def numerical_optimum(
    model: TwoStage, gpus: ArrayLike, hb_domain_size: ArrayLike, batch_tokens: ArrayLike, as_table1: bool = False
) -> Floats:
    """N_M at which Eq. (1) is least: the slope by a complex step, and its root. No closed form goes in.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b [tokens].
    as_table1
        Whether K is N_M N_Df, as Table 1 prints it, and not N_M N_Ds.

    Returns
    -------
    Any positive real number, beyond K too.
    """
    from scipy.optimize.elementwise import find_root

    def slope(log_n_m, n, k, b):
        n_m = np.exp(log_n_m) * (1 + 1e-30j)
        groups = (n / k, k / n_m) if as_table1 else (k / n_m, n / k)
        return np.imag(equation_1(model, n, k, b, n_m, *groups).iteration_s) * 1e30

    sizes = tuple(np.asarray(size, float) for size in (gpus, hb_domain_size, batch_tokens))
    return np.exp(find_root(slope, (np.log(1e-6), np.log(1e12)), args=sizes).x)


def equation_errors_by_group(model: TwoStage, batch_tokens: float, groups: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Eq. (1) and (3) beside the count, for each (N_M, N_Ds, N_Df) of `groups`.

    Columns n_m, n_ds, n_df; counted_s; eq1_error with K = N_M N_Ds and table1_error with K = N_M N_Df, the largest
    relative error of a term; counted_hb_domain_size, the K that gives the counted bytes inside a domain, and
    table1_hb_domain_error of N_M N_Df against it (nan where N_Ds = 1); eq3_error against a count in one domain.
    """
    rows = []
    for n_m, n_ds, n_df in groups:
        n, counted = n_m * n_ds * n_df, counted_iteration(model, batch_tokens, n_m, n_ds, n_df)
        one_domain = counted_iteration(model, batch_tokens, n_m, n_ds * n_df, 1)
        eq1, table1 = (equation_1(model, n, n_m * m, batch_tokens, n_m, n_ds, n_df) for m in (n_ds, n_df))
        inside = counted.second_dp_s * model.hb_Bps / model.layers
        k = 2 * model.block_bytes * (n_ds - 1) / inside if inside else np.nan
        errors = (_largest_term_error(eq1, counted), _largest_term_error(table1, counted))
        eq3_error = _largest_term_error(model.ideal(n, batch_tokens, n_m), one_domain)
        rows.append((n_m, n_ds, n_df, counted.iteration_s, *errors, k, abs(n_m * n_df / k - 1), eq3_error))
    columns = "n_m n_ds n_df counted_s eq1_error table1_error counted_hb_domain_size table1_hb_domain_error eq3_error"
    return pd.DataFrame(rows, columns=columns.split())


def formula_errors(
    model: TwoStage, gpus: float, hb_domain_sizes: ArrayLike, batch_tokens: ArrayLike, groups: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Largest relative error of each formula over the cases given, by its claim.

    Eq. (1), Eq. (3) and Table 1's K against the count; Eq. (2), S_T and b d both in bytes, against the numerical
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
    b, sizes = np.asarray(batch_tokens, float), np.asarray(hb_domain_sizes, float)
    counted = equation_errors_by_group(model, b[0], groups)
    minima = _minima_by_link(model, gpus, sizes, b[0])
    least = numerical_optimum(model, gpus, sizes[0], b)
    group = np.clip(least, 1, gpus)
    printed = model.printed_group_size(gpus, b, model.element_bytes)
    ideal, single = model.ideal(gpus, b, group), model.iteration(gpus, gpus, b, group)

    return {
        "eq1.iteration_time": counted["eq1_error"].max(),
        "eq2.optimal_model_parallel": _largest_error(printed / least),
        "eq2.independence": _largest_error(minima / minima.flat[0]),
        "eq2.batch_trend": _largest_error(least * b**0.5 / (least[0] * b[0] ** 0.5)),
        "eq3.ideal_iteration_time": counted["eq3_error"].max(),
        "eq3.limit": _largest_error(ideal.iteration_s / single.iteration_s),
        "table1.hb_domain_product": counted["table1_hb_domain_error"].max(),
    }


def table1_errors(model: TwoStage, gpus: float, hb_domain_sizes: ArrayLike, batch_tokens: float) -> dict[str, float]:
    """`formula_errors` of what would not hold if K were N_M N_Df, as Table 1 prints it.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus, hb_domain_sizes
        N; K [GPUs].
    batch_tokens
        b [tokens].

    Returns
    -------
    Errors by the last parts of the claims' ids.
    """
    group = np.clip(numerical_optimum(model, gpus, gpus, batch_tokens), 1, gpus)
    single = equation_1(model, gpus, gpus, batch_tokens, group, 1.0, gpus / group)
    minima = _minima_by_link(model, gpus, np.asarray(hb_domain_sizes, float), batch_tokens, as_table1=True)
    ideal = model.ideal(gpus, batch_tokens, group)
    return {
        "eq2.independence": _largest_error(minima / minima.flat[0]),
        "eq3.limit": _largest_error(ideal.iteration_s / single.iteration_s),
    }


def _minima_by_link(
    model: TwoStage, gpus: float, sizes: Floats, batch_tokens: float, as_table1: bool = False
) -> Floats:
    """`numerical_optimum` by HB domain size, with NICs and HB links as they are and slower, a row each."""
    slower = [replace(model, nic_Bps=model.nic_Bps / a, hb_Bps=model.hb_Bps / c) for a in (1, 4) for c in (1, 2)]
    return np.stack([numerical_optimum(each, gpus, sizes, batch_tokens, as_table1) for each in slower])


def _largest_error(ratio: Floats) -> float:
    return float(np.abs(ratio - 1).max())


def _largest_term_error(time: TwoStageTime, counted: TwoStageTime) -> float:
    pairs = [(float(getattr(time, term)), float(getattr(counted, term))) for term in TIME_TERMS]
    return max(abs(ours - theirs) / (theirs or 1.0) for ours, theirs in pairs)


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


def latency_share(
    model: TwoStage, gpus: float, hb_domain_size: float, batch_tokens: ArrayLike, latencies_s: tuple[float, float]
) -> Floats:
    """Latency of an iteration's collectives over the time of their bytes.

    Each collective sends directly to all ranks, in one step: l (M_cc a_F + 2 a_F + 2 a_S), with an AllReduce as two
    collectives, over l (T_M + T_Ds + T_Df).

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b [tokens].
    latencies_s
        Of a step in an HB domain, a_F, and between domains, a_S [s].

    Returns
    -------
    By batch.

    References
    ----------
    railonly2023, section 3.2.
    """
    inside_s, across_s = latencies_s
    time = model.iteration(gpus, hb_domain_size, batch_tokens)
    steps_s = model.layers * (model.collective_rounds * inside_s + 2 * (inside_s + across_s))
    return steps_s / np.asarray(time.iteration_s - time.compute_s)


def equation_claims(
    errors: Mapping[str, float], misread: Mapping[str, float], rules: pd.DataFrame, gpt_layers: int, palm_layers: int
) -> Entries:
    """Values, reasons and readings of the claims on Eq. (1) to (3) and Table 1.

    Parameters
    ----------
    errors
        `formula_errors`, and "eq1.latency_share".
    misread
        `table1_errors`.
    rules
        `group_size_rules`.
    gpt_layers, palm_layers
        Layers of a block with collectives, of GPT and of PaLM as the document counts them.

    Returns
    -------
    For `claims.record`.
    """
    cost, mixed = (rules[rules["rule"] == rule] for rule in ("Eq. (2), all in bytes", "Eq. (2)"))
    counts = {"eq1.mcc_gpt": collective_rounds(gpt_layers), "eq1.mcc_palm": collective_rounds(palm_layers)}
    reasons = {
        "eq2.optimal_model_parallel": "Eq. (1) is least at (2 N S_T / (b M_cc d))^(1/2); Eq. (2) has "
        f"{cost['over_minimum'].max():.3g} of this size, and groups of its size make an iteration "
        f"{cost['slowdown'].min() - 1:.1%} to {cost['slowdown'].max() - 1:.1%} longer; with S_T in "
        f"bytes and b d in elements, as the figures need it, it has {mixed['over_minimum'].max():.3g}",
        "table1.hb_domain_product": "misprint: Eq. (1) gives the counted bytes with K = N_M N_Ds; N_M N_Df is the same "
        "only where N_Df = N_Ds",
    }
    readings = {
        name: f"K = N_M N_Ds, as Eq. (1) counts right; with Table 1's N_M N_Df off by {_off_by(error)}"
        for name, error in misread.items()
    } | {
        "eq1.mcc_palm": "the block as the document has it; in PaLM's own paper one attention and one feed-forward "
        f"layer run in parallel, which takes {collective_rounds(2, parallel=True)} rounds",
    }
    return with_prefix("railonly2023", {**errors, **counts}, reasons, readings)


def two_stage_variables(
    models: Mapping[str, TwoStage], gpus: float, hb_domain_size: float, batch_tokens: Mapping[str, float]
) -> pd.DataFrame:
    """The variables of railonly2023 Table 1 with their values for each model; times are of a whole iteration.

    Parameters
    ----------
    models, gpus, hb_domain_size, batch_tokens
        As in `group_size_rules`.

    Returns
    -------
    Columns symbol, description, unit, and one for each model.
    """
    variables = {name: _variables(model, gpus, hb_domain_size, batch_tokens[name]) for name, model in models.items()}
    table = pd.DataFrame([row[:3] for row in next(iter(variables.values()))], columns=["symbol", "description", "unit"])
    return table.assign(**{name: [float(value) for *_, value in rows] for name, rows in variables.items()})


def _variables(model: TwoStage, n: float, k: float, b: float) -> list[tuple[str, str, str, Any]]:
    n_m, time = model.group_size(n, b, k), model.iteration(n, k, b)
    real, rule = replace(model, group_rounding="real").group_size(n, b, k), str(model.group_rule)
    return [
        ("N", "GPUs of the cluster, N_M N_Df N_Ds", "GPUs", n),
        ("N_M*", f"N_M of {'Eq. (2)' if 'printed' in rule else 'the least Eq. (1)'}, before rounding", "GPUs", real),
        ("N_M", f"GPUs of a model-parallel group, N_M* as {model.group_rounding}", "GPUs", n_m),
        ("N_Df", "GPUs of a first-level data-parallel group, across HB domains", "GPUs", n / k),
        ("N_Ds", "GPUs of a second-level data-parallel group, inside", "GPUs", k / n_m),
        ("K", "GPUs of an HB domain, N_M N_Ds (document: N_M N_Df, a misprint)", "GPUs", k),
        ("d_model", "embedding dimension [elements]", "elements", model.hidden),
        ("M_flop", "FLOPs of an iteration", "FLOP", b * model.token_flops),
        ("M_cc", "model-parallel collectives of a block (the document's values)", "1", model.collective_rounds),
        ("l", "transformer blocks", "1", model.layers),
        ("B_F", "bandwidth of a GPU in its HB domain, one direction", "bps", model.hb_Bps),
        ("B_S", "bandwidth of a GPU on its rail, one direction", "bps", model.nic_Bps),
        ("C", "compute rate of a GPU", "FLOP/s", model.gpu_flops),
        ("S_T", "gradients of a block", "B", model.block_bytes),
        ("e", "an element of b d_model in T_M (solved by us; not in the document)", "B", model.element_bytes),
        ("b", "batch [tokens], the smallest of a range", "tokens", b),
        ("T_c", "compute, all blocks (document: of a block)", "s", time.compute_s),
        ("T_Df", "first-level data parallelism, all blocks", "s", time.first_dp_s),
        ("T_Ds", "second-level data parallelism, all blocks", "s", time.second_dp_s),
        ("T_M", "model parallelism, all blocks", "s", time.model_parallel_s),
        ("T_iter", "iteration, T_c + T_Df + T_Ds + T_M", "s", time.iteration_s),
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


def equation_errors_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`equation_errors_by_group` for people: how far each expression is from the count, in percent."""
    named = {
        "n_m": "GPUs of a model-parallel group",
        "n_ds": "of a data-parallel group inside",
        "n_df": "and across HB domains",
        "counted_s": "counted iteration [s]",
    }
    errors = {
        "eq1_error": "Eq. (1) off by",
        "table1_error": "Eq. (1) with Table 1's K off by",
        "table1_hb_domain_error": "Table 1's K off by",
        "eq3_error": "Eq. (3) off by",
    }
    texts = {name: [_off_by(share) for share in table[name]] for name in errors}
    return table.assign(**texts)[[*named, *errors]].rename(columns=named | errors)


def _off_by(share: float) -> str:
    """An error in percent; 0 for what rounding leaves."""
    return "–" if np.isnan(share) else f"{units.number(100 * share if share > 1e-12 else 0.0, 3)}%"
