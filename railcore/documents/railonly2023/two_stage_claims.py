"""Values, reasons and readings of railonly2023's claims on its two-stage model: equations, figures, introduction."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore.documents.railonly2023.two_stage_readings import FigureCase
from railcore.documents.readings import Entries, with_prefix
from railcore.facts import catalog, claims, units
from railcore.network.topology.clos import rail_parts
from railcore.training.two_stage import collective_rounds

DAYS = "intro.palm_days_one_gh200"


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
    first_step = gpt.reduction(case.quoted_gpus, 32, 64, published)
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
