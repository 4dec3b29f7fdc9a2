"""railonly2023's figures and introduction: what the text leaves open, what it quotes, and the claims.

Fig. 5, 7 and 8 are on iteration time. Fig. 3 and 4 are on the traffic of the document's plan: model parallel in groups
inside an HB domain, data parallel in two stages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import units
from railcore.catalog.checks import one_of
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.rails import rail_only, rail_optimized
from railcore.network.topology.routed_flows import domain_ring, nic_bandwidth_share
from railcore.training.parallelism import Strategy
from railcore.training.traffic import Traffic, from_transfers
from railcore.training.transfers import Transfer
from suite.ledger import claims
from suite.ledger.readings import Entries, with_prefix
from suite.railonly2023 import two_stage
from suite.railonly2023.two_stage import TIME_TERMS, TwoStage, two_stage_sweep

_DAYS = "intro.palm_days_one_gh200"
_MODELS = ("GPT-3", "OPT3-175B", "PaLM-540B")
_SIZES = "layers hidden heads kv_heads ffn_hidden ffn_matrices sequence_length vocabulary".split()
_BOUNDS = {"<": "under", ">": "over"}  # as the document has them
TRAFFIC_NAMES = {  # of kinds of traffic, as the document has them
    "tensor": "model parallel",
    "data within": "data parallel inside HB domains (second stage)",
    "data between": "data parallel between HB domains (first stage)",
}
MODEL_CHOICES: dict[str, tuple] = {  # arguments of `two_stage.catalog_two_stage` that the document leaves open
    "weight_bytes": (2, 4),
    "element_bytes": (1, 2, 4),
    "block": two_stage.BLOCK_SIZE_RULES,
    "flops": two_stage.TOKEN_FLOP_RULES,
    "group_rule": two_stage.GROUP_SIZE_RULES,
    "group_rounding": two_stage.GROUP_SIZE_ROUNDINGS,
}


def open_choices(
    gpu_flops: float, hb_Bps: float, printed_hb_Bps: float, clusters: Sequence[int]
) -> dict[str, Sequence]:
    """Everything that the document leaves open: MODEL_CHOICES, rates, M_cc of PaLM, and the clusters of its figures.

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
    return {**MODEL_CHOICES, **rates, "palm_rounds": [12, 8], **sizes}


def printed_rounds() -> dict[str, float]:
    """M_cc of each model as the document prints it."""
    return {name: catalog.item("models", name)["collective_rounds_railonly2023"] for name in _MODELS}


def printed_batches(palm_sequences: Sequence[int]) -> dict[str, np.ndarray]:
    """Batch of each model [tokens] as the document prints it; of PaLM every one of `palm_sequences`."""
    batches = {name: catalog.item("models", name)["batch_railonly2023"] for name in _MODELS[:2]}
    length = catalog.item("models", _MODELS[2])["sequence_length"]
    return batches | {_MODELS[2]: np.array(palm_sequences) * length}


def models_by_reading(tried: pd.DataFrame, nic_Bps: ArrayLike) -> dict[str, TwoStage]:
    """The document's models under every reading, a row each.

    tried: columns gpu_flops, hb_Bps, those of MODEL_CHOICES, and palm_rounds (M_cc of PaLM).
    """
    at = {key: np.array(tried[key].tolist()) for key in ("gpu_flops", "hb_Bps", *MODEL_CHOICES)}
    rounds = {**printed_rounds(), _MODELS[2]: tried["palm_rounds"].to_numpy()}
    return {name: two_stage.catalog_two_stage(name, nic_Bps=nic_Bps, rounds=rounds[name], **at) for name in _MODELS}


@dataclass(frozen=True)
class FigureCase:
    """What the document's figures show, as the notebook's parameters have it.

    models: GPT-3, OPT3-175B and PaLM-540B in this order, with GPU and links.
    gpus: of Fig. 5 and 8.
    quoted_gpus: of Fig. 7's percentages.
    hb_domain_size: of Fig. 5 and 8.
    batch_tokens: of each model, for PaLM all of Fig. 8.
    training_tokens: of PaLM.
    radix: ports of a switch of the full networks.
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
        values, size = {}, self.hb_domain_size
        for k, (short, name) in product((32, 512), zip(("gpt3", "opt"), models, strict=False)):
            saved = models[name].time_reduction(fig7_gpus, k, 2 * k, self.batch_tokens[name])
            values[f"fig7.{short}_k{k}_to_{2 * k}"] = saved
        first = {name: np.ravel(tokens)[0] for name, tokens in self.batch_tokens.items()}
        relative = [model.relative_performance(fig5_gpus, size, first[name]) for name, model in models.items()]
        speedups = 1 / np.stack(relative)
        values |= {"fig5.ideal_speedup_min": speedups.min(axis=0), "fig5.ideal_speedup_max": speedups.max(axis=0)}
        palm = list(models)[-1]
        for sequences, tokens in zip((512, 2048), np.ravel(self.batch_tokens[palm])[[0, -1]], strict=True):
            values[f"fig8.palm_rel_b{sequences}"] = models[palm].relative_performance(self.gpus, size, tokens)
        flops = models[palm].token_flops * self.training_tokens
        values[_DAYS] = flops / (size * np.asarray(models[palm].gpu_flops) * units.day)
        return pd.DataFrame(values, index=range(np.broadcast(*values.values()).size))


def network_iteration_times(
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
    models, gpus, hb_domain_size, batch_tokens
        As in `two_stage_equations.group_size_rules`.
    wired
        (GPUs, radix and HB domain size) of small wired networks; the slowest one counts.

    Returns
    -------
    Columns model, network ("any-to-any" is rail-optimized, "trimmed" rail-only, "ideal" Eq. (3)), batch_tokens, the
    terms compute_s, first_dp_s, second_dp_s and model_parallel_s, and their sum iteration_s [s].
    """
    rows, networks = [], {"any-to-any": rail_optimized, "trimmed": rail_only}
    of_any = {"nic_Bps": 1.0, "hb_Bps": 1.0}  # shares are the same at every bandwidth
    shares = {  # of NIC bandwidth
        network: min(nic_bandwidth_share(build(n, k, k, **of_any), domain_ring(n, k)) for n, k in wired)
        for network, build in networks.items()
    }
    for name, model in models.items():
        time = model.iteration(gpus, hb_domain_size, batch_tokens[name])
        sent = model.layers * 2 * model.block_bytes * (1 / hb_domain_size - 1 / gpus)
        for network, share in shares.items():
            first = replace(time, first_dp_s=sent / (model.nic_Bps * share))
            rows.append({"model": name, "network": network, "batch_tokens": batch_tokens[name], **vars(first)})
        ideal = vars(model.ideal(gpus, batch_tokens[name]))
        rows.append({"model": name, "network": "ideal", "batch_tokens": batch_tokens[name], **ideal})
    table = pd.DataFrame(rows)
    return table.assign(iteration_s=table[list(TIME_TERMS)].sum(axis=1))


def structure_difference(first: str, second: str) -> float:
    """Largest relative difference between the sizes of two models of the catalog, which their papers print."""
    one, other = (catalog.item("models", name) for name in (first, second))
    return max(abs(one[size] / other[size] - 1) for size in _SIZES)


def links_removable(gpus: int, hb_domain_size: int, radix: int) -> float:
    """Share of the links of the any-to-any Clos over all GPUs that rail-only does without.

    (t - t') / t for t and t' tiers of N links each. Source: railonly2023, section 2.2.
    """
    rails, full = (rail_parts(gpus, hb_domain_size, radix, s).links for s in (np.inf, 1.0))
    return float(1 - rails / full)


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


def with_savings(sweep: pd.DataFrame) -> pd.DataFrame:
    """Fig. 7 with the column saving: by how much an HB domain of twice the size before it shortens the iteration.

    sweep: `two_stage_sweep`, sizes in order; not a number where the size before is not the half.
    """
    clusters = sweep.groupby(["model", "gpus"])
    saving = 1 - sweep["iteration_s"] / clusters["iteration_s"].shift()
    return sweep.assign(saving=saving.where(sweep["hb_domain_size"] == 2 * clusters["hb_domain_size"].shift()))


def fig5_network_names(nic_Bps: float, hb_Bps: float) -> dict[str, str]:
    """Networks of `network_iteration_times` by the document's names, with their link rates."""
    nic, hb = (units.show(rate, "bps", 3) for rate in (nic_Bps, hb_Bps))
    names = {"any-to-any": nic, "trimmed": f"{nic}\n(rail-only)"}
    return {name: f"{name}\n{rate}" for name, rate in names.items()} | {"ideal": f"any-to-any\n{hb}\n(ideal)"}


def fig5_marks(fig5: pd.DataFrame, quoted: Mapping[str, float]) -> pd.DataFrame:
    """The document's Fig. 5 by our times of its any-to-any network: columns model, network, iteration_s, verdict, text.

    The trimmed network takes no longer; the ideal's least and largest speedup belong to the models that have ours.

    Parameters
    ----------
    fig5
        `network_iteration_times`.
    quoted
        A row of `FigureCase.quoted`.

    Returns
    -------
    A row for each mark.
    """
    time = fig5.pivot(index="model", columns="network", values="iteration_s")
    rows = []
    for model, slower in (time["trimmed"] / time["any-to-any"] - 1).items():
        for mark in _marks({"fig5.trimmed_slowdown": slower}).values():
            rows.append((model, "trimmed", time["any-to-any"][model] * (1 + mark.value), mark.verdict, ""))
    speedup = time["any-to-any"] / time["ideal"]
    models = {"fig5.ideal_speedup_min": speedup.idxmin(), "fig5.ideal_speedup_max": speedup.idxmax()}
    for name, mark in _marks({name: quoted[name] for name in models}).items():
        place = models[name], "ideal", time["any-to-any"][models[name]] / mark.value
        rows.append((*place, mark.verdict, f"document:\n{mark.text}x"))
    return pd.DataFrame(rows, columns=["model", "network", "iteration_s", "verdict", "text"])


def _marks(values: Mapping[str, float]) -> dict[str, claims.Mark]:
    """`claims.marks` by names of claims without the document's."""
    marks = claims.marks({f"railonly2023.{name}": value for name, value in values.items()})
    return {claim_id.partition(".")[2]: mark for claim_id, mark in marks.items()}


def _percent(share: float) -> str:
    return f"{units.number(100 * share)}%"


def fig7_marks(quoted: Mapping[str, float]) -> pd.DataFrame:
    """The document's savings of Fig. 7: columns model, hb_domain_size (the larger one), share, verdict, text.

    quoted: a row of `FigureCase.quoted`.
    """
    cases = product({"gpt3": _MODELS[0], "opt": _MODELS[1]}.items(), (32, 512))
    places = {f"fig7.{short}_k{k}_to_{2 * k}": (model, 2 * k) for (short, model), k in cases}
    rows = [
        (*places[name], mark.value, mark.verdict, f"document: {_percent(mark.value)}")
        for name, mark in _marks({name: quoted[name] for name in places}).items()
    ]
    return pd.DataFrame(rows, columns=["model", "hb_domain_size", "share", "verdict", "text"])


def relative_marks(quoted: Mapping[str, float]) -> pd.DataFrame:
    """The document's performance relative to the ideal in Fig. 8: columns batch_sequences, relative, verdict, text.

    quoted: a row of `FigureCase.quoted`.
    """
    batches = {f"fig8.palm_rel_b{sequences}": sequences for sequences in (512, 2048)}
    rows = [
        (batches[name], mark.value, mark.verdict, f"document: {_percent(mark.value)}")
        for name, mark in _marks({name: quoted[name] for name in batches}).items()
    ]
    return pd.DataFrame(rows, columns=["batch_sequences", "relative", "verdict", "text"])


def readings_as_text(scores: pd.DataFrame) -> pd.DataFrame:
    """`readings.reading_scores` for people: the numbers of a figure in one column, in percent or as ratios."""
    share, ratio = "{:.3g}%".format, "{:.3g}x".format
    gains = {
        f"{model}: gain of 64 and of 1,024 GPUs": [f"fig7.{short}_k32_to_64", f"fig7.{short}_k512_to_1024"]
        for short, model in {"gpt3": _MODELS[0], "opt": _MODELS[1]}.items()
    }
    gains["PaLM-540B: share of ideal, batch 512 and 2,048"] = ["fig8.palm_rel_b512", "fig8.palm_rel_b2048"]
    shown = scores[["reading"]].assign(**{"numbers met": scores["claims_met"].astype(int)})
    shown["mean deviation"] = [share(100 * off) for off in scores["mean_deviation"]]
    for name, (first, second) in gains.items():
        pairs = zip(scores[first], scores[second], strict=True)
        shown[name] = [f"{share(100 * one)}, {share(100 * two)}" for one, two in pairs]
    pairs = zip(scores["fig5.ideal_speedup_min"], scores["fig5.ideal_speedup_max"], strict=True)
    shown["speedup of the ideal, least and largest"] = [f"{ratio(one)}, {ratio(two)}" for one, two in pairs]
    return shown.assign(**{"PaLM-540B on 256 GPUs [days]": scores[_DAYS]})


def null_test_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`readings.reading_null_test` for people."""
    shares = {
        "spread": "largest change of a number",
        "share": "drawn sets with as many met",
        "share_predicted": "drawn sets with as many of the others met",
    }
    texts = {name: [f"{100 * share:.3g}%" for share in table[name]] for name in shares}
    counts = {"met": "numbers met", "predicted": "of the others met", "mean_met": "met of a drawn set, mean"}
    return table.assign(**texts).rename(columns=shares | counts)


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
        `network_iteration_times`.
    fig7, fig8
        `two_stage_sweep` over HB domain sizes; over batches.

    Returns
    -------
    For `claims.record`.
    """
    gpt, palm = case.models["GPT-3"], case.batch_tokens["PaLM-540B"]
    time = fig5.set_index(["network", "model"])["iteration_s"]
    steps = np.diff(fig8.pivot_table("iteration_s", "hb_domain_size", "batch_tokens"))
    bends = np.diff(fig7.pivot_table("iteration_s", ["model", "gpus"], "hb_domain_size"), 2)
    rises = np.diff(fig8.pivot_table("relative", "hb_domain_size", "batch_tokens"))
    removable = {k: links_removable(case.gpus, case.hb_domain_size, k) for k in sorted({32, 64, 128, 256, case.radix})}
    published = catalog.item("models", "GPT-3")["batch"]
    values = {name: value for name, value in quoted.items() if name != _DAYS} | {
        "fig5.links_removable": removable[case.radix],
        "fig5.trimmed_slowdown": (time["trimmed"] / time["any-to-any"] - 1).max(),
        "fig5.ideal_bandwidth_ratio": gpt.hb_Bps / gpt.nic_Bps,
        "fig7.diminishing": np.mean(bends <= 0),
        "fig7.gpt3_batch": published,
        "fig7.one_structure": structure_difference(*_MODELS[:2]),
        "fig8.relative_rises": np.mean(rises <= 0),
        "fig8.same_trajectory": np.abs(steps / steps[0] - 1).max(),
        "fig8.palm_tokens_min": min(palm),
        "fig8.palm_tokens_max": max(palm),
    }
    least = values["fig5.ideal_speedup_min"]
    first_step = gpt.time_reduction(case.quoted_gpus, 32, 64, published)
    reasons = {
        "fig5.ideal_speedup_min": f"ours is {least:.3f}, which cut off after two digits, as in Table 2, is "
        f"{least // 0.01 / 100:g}",
        "fig5.ideal_speedup_max": "the document does not say how many GPUs Fig. 5 has: "
        f"{units.number(_fig5_gpus(case), 3)} in place of {units.number(case.gpus)} would give its number",
        "fig7.gpt3_batch": f"contradiction: GPT-3's own paper has {published / 1e6:.3g}M tokens, and with them the "
        f"gain from 32 to 64 GPUs would be {first_step:.0%}",
    }
    others = [f"{share:.0%} with {k}" for k, share in removable.items() if k != case.radix]
    readings = {"fig5.links_removable": f"switches of radix {case.radix}; {', '.join(others)}"}
    return with_prefix("railonly2023", values, reasons, readings)


def _fig5_gpus(case: FigureCase) -> float:
    """The cluster that comes nearest to Fig. 5's largest speedup."""
    sizes = np.arange(0.75, 1.1, 0.001) * case.gpus
    speedup = case.quoted(case.models, case.quoted_gpus, sizes)["fig5.ideal_speedup_max"]
    return sizes[(speedup - claims.paper_value("railonly2023.fig5.ideal_speedup_max")).abs().argmin()]


def introduction_claims(case: FigureCase, quoted: Mapping[str, float], year_s: float) -> Entries:
    """Values, reasons and readings of the claims of the introduction on training time.

    case: what the figures show; quoted: a row of `FigureCase.quoted`; year_s: of a GPU-year [s].
    """
    gpt, palm = (catalog.item("models", name)["training_flops"] for name in ("GPT-3", "PaLM-540B"))
    rate = float(case.models["PaLM-540B"].gpu_flops)
    days = palm / rate / (units.day * case.hb_domain_size)
    v100 = catalog.item("gpus", "V100")["fp16_rate"]
    reason = f"{palm / 1e24:.3g}e24 FLOP in all, from PaLM's own paper as a secondary source quotes it"
    reading = (
        f"{units.show(rate, 'FLOP/s', 4)} a GPU, the rate without sparsity; with sparsity {days / 2:.3g} days; by 6 "
        f"FLOP a parameter and token, without attention, {quoted[_DAYS]:.4g} days"
    )
    years, gpu_days = "intro.gpt3_v100_years", gpt / v100 / units.day
    values = {_DAYS: days, years: gpu_days * units.day / year_s}
    readings = {_DAYS: reading, years: f"a year of {year_s / units.day:g} days (of 365: {gpu_days / 365:.5g} years)"}
    return with_prefix("railonly2023", values, {_DAYS: reason}, readings)


def two_stage_cases(names: Iterable[str], **options: Any) -> dict[str, tuple[TwoStage, float]]:
    """Models of the catalog with the batches [tokens] that railonly2023 trains them with, by name.

    Where the document gives a range of batches the model is there with the smallest and the largest, its name followed
    by a line with the sequences. options: of `two_stage.catalog_two_stage`. Raises UnknownName.
    """
    entries = {}
    for name in names:
        item = catalog.item("models", name)
        batch, s = item.row("batch_railonly2023"), item["sequence_length"]
        rounds = item["collective_rounds_railonly2023"]
        model = two_stage.catalog_two_stage(name, 1.0, 1.0, 1.0, rounds, **options)  # rates do not change bytes
        tokens = {f"{name}\nbatch {b:,.0f}": b * s for b in (batch.low, batch.high) if b} or {name: batch.value}
        entries.update({case: (model, size) for case, size in tokens.items()})
    return entries


def two_stage_matrix(
    model: TwoStage,
    gpus: int,
    hb_domain_size: int,
    batch_tokens: float,
    group_size: int | None = None,
    algorithm: str = "direct",
) -> Traffic:
    """Traffic of an iteration, N = N_M N_Ds N_Df and K = N_M N_Ds, as Eq. (1) has it.

    A GPU sends l M_cc b d e (N_M - 1) / N bytes to its model group, then 2 l S_T (N_Ds - 1) / K within its HB domain
    and 2 l S_T (N_Df - 1) / N between domains.

    Parameters
    ----------
    model
        A transformer in the document's terms.
    gpus, hb_domain_size
        GPUs N, and GPUs of an HB domain K.
    batch_tokens
        Tokens of an iteration, b.
    group_size
        GPUs of a model-parallel group N_M, by default the model's own.
    algorithm
        "direct", as in the document, or "ring".

    Returns
    -------
    Kinds "tensor", "data within" (the second stage) and "data between" (the first).

    Raises
    ------
    ValueError
        Where N_M does not divide K, or K does not divide N.

    References
    ----------
    railonly2023, Section 3.2, Eq. (1).
    """
    n_m = float(model.group_size(gpus, batch_tokens, hb_domain_size)) if group_size is None else group_size
    if gpus % hb_domain_size or n_m < 1 or hb_domain_size % n_m:
        raise ValueError(
            f"gpus {gpus}, hb_domain_size {hb_domain_size}, group_size {n_m:g}: each must divide the one before"
        )
    one_of("algorithm", algorithm, ("direct", "ring"))
    strategy = Strategy(tensor=int(n_m), data=gpus // int(n_m))
    gathered = batch_tokens * model.hidden * model.element_bytes * n_m / gpus
    calls, gradients = model.layers * model.collective_rounds, model.layers * model.block_bytes / n_m
    rows = [
        Transfer("tensor", "forward", "all_gather", "layer", "tensor", "every", calls, gathered, strategy.tensor),
        Transfer("data", "after", "all_reduce", "model", "data", "every", 1, gradients, strategy.data),
    ]
    data = "hierarchical_direct" if algorithm == "direct" else "hierarchical"
    return from_transfers(
        strategy, [row for row in rows if row.ranks > 1], {"tensor": algorithm, "data": data}, hb_domain_size
    )


def fig4_panels(nets: Mapping[str, Traffic], sizes: Mapping[str, int]) -> dict[str, pd.DataFrame]:
    """Entries between the first GPUs, by the panel's title: a letter for each size and model, as the document's.

    sizes: GPUs, by words for them.
    """
    cases = zip("abcdef", product(sizes.items(), nets), strict=False)
    return {f"({letter}) {name}, {words}": nets[name].entries(0, size) for letter, ((words, size), name) in cases}


def pair_traffic_marks(values: Mapping[str, float]) -> dict[float, tuple[str, str]]:
    """Entries that the document gives for Fig. 4 [bytes]: our verdict, and its words. values: ours, by claim id."""
    inside = "railonly2023.fig4.hb_pair_traffic"  # the largest one
    names = inside, "railonly2023.fig4.cross_hb_pair_traffic"
    marks = claims.marks({name: values[name] for name in names})
    return {mark.value: (mark.verdict, "up to " * (name == inside) + mark.text) for name, mark in marks.items()}


def traffic_bounds(values: Mapping[str, float]) -> pd.DataFrame:
    """Bounds that the document gives for Fig. 3, with our verdicts. values: ours, by claim id.

    Columns panel (pairs or volume), share, relation (< or >), verdict, text.
    """
    silent, few, most = (f"railonly2023.fig3.{name}" for name in ("no_traffic_pairs", "mp_dp2_pairs", "mp_dp2_volume"))
    rows = []
    for name, mark in claims.marks({name: values[name] for name in (silent, few, most)}).items():
        words = f"{_BOUNDS[mark.relation]} {_percent(mark.value)}"
        share, relation, text = mark.value, mark.relation, f"↓ {words}"
        if name == silent:  # the others have traffic, and are drawn
            share, relation = 1 - mark.value, "<"
            text = f"no traffic {words},\nso traffic {_BOUNDS[relation]} {_percent(share)}"
        rows.append(("volume" if name == most else "pairs", share, relation, mark.verdict, text))
    return pd.DataFrame(rows, columns=["panel", "share", "relation", "verdict", "text"])


def two_stage_traffic_claims(
    cases: Mapping[str, tuple[TwoStage, float]],
    nets: Mapping[str, Traffic],
    summaries: pd.DataFrame,
    hb_domain_size: int,
) -> Entries:
    """Values and reasons of the claims on Fig. 3 and 4, no readings; Fig. 4 draws the first two cases.

    Parameters
    ----------
    cases, nets
        Models with their batches [tokens], and their traffic, by name.
    summaries
        Of `traffic.traffic_summaries`.
    hb_domain_size
        GPUs of an HB domain.

    Returns
    -------
    For `claims.record`.
    """
    by_kind = summaries.set_index(["kind", "case"])
    whole, heavy = by_kind.loc["all"], by_kind.loc["tensor"] + by_kind.loc["data within"]
    names = list(cases)[:2]
    net, drawn = nets[names[0]], whole.loc[names]
    groups = [block.group_size(net.gpus, tokens, net.gpus) for block, tokens in cases.values()]  # not cut to a domain
    inside, across = "fig4.hb_pair_traffic", "fig4.cross_hb_pair_traffic"
    values = {
        "fig3.gpus": net.gpus,
        "fig3.no_traffic_pairs": whole["silent_pairs"].min(),
        "fig3.mp_dp2_pairs": heavy["share_of_pairs"].max(),
        "fig3.mp_dp2_volume": heavy["share_of_bytes"].min(),
        "fig3.dp_stage_ratio": (by_kind.loc["data within", "bytes"] / by_kind.loc["data between", "bytes"]).min(),
        "fig3.overlapping_pairs": max(network.shared_pairs for network in nets.values()),
        "fig3.mp_group": max(map(float, groups)),
        inside: drawn["domain_pair_bytes"].max(),
        across: drawn["network_pair_bytes"].max(),
        "fig4.four_domain_gpus": net.entries(0, 4 * hb_domain_size)["source"].nunique(),
        "fig4.cross_rail_traffic": whole["cross_rail_bytes"].max(),
    }
    block = cases[names[0]][0]
    blocks = {
        name: block.layers * claims.paper_value(f"railonly2023.{name}") / values[name] for name in (inside, across)
    }
    largest = [f"{size:.3g} GB" for size in units.convert(drawn["domain_pair_bytes"], "GB")]
    least = values[inside] / block.element_bytes, 2 * block.layers * 12 * block.hidden**2 / net.gpus
    one_byte = [f"still {units.show(size, 'B', 3)} with one byte" for size in least]
    reasons = {
        inside: f"contradicts Eq. (1), which has {largest[0]} of GPT-3 and {largest[1]} of OPT3-175B in an iteration, "
        f"{one_byte[0]} an element; {blocks[inside]:.3g} of {block.layers:g} blocks would give the printed value",
        across: f"contradicts Eq. (1), 2 l S_T / N in an iteration, {one_byte[1]} a weight; {blocks[across]:.3g} of "
        f"{block.layers:g} blocks would give the printed value",
    }
    return with_prefix("railonly2023", values, reasons, {})
