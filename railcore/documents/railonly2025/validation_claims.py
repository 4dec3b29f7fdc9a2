"""Fig. 7's mean error and the introduction's days of Llama 3 405B, by the iteration-time model on published runs."""

import pandas as pd

from railcore.facts import catalog, claims
from railcore.facts.units import day
from railcore.training.validation import TrainingDuration

ERROR, DAYS = "railonly2025.fig7.mean_error", "railonly2025.intro.llama3_days"


def iteration_time_claims(
    llama: TrainingDuration, modelled: pd.DataFrame, left_out: pd.DataFrame
) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Values, reasons and readings for `claims.record`.

    llama: the training of Llama 3 405B. modelled: `predictions` of the runs that the document cites. left_out:
    `cross_validation` by half.
    """
    days, mfu = llama.training_s / day, llama.model_flops_utilization
    published = catalog.item("models", "Llama-3 405B").row("model_flops_utilization")
    errors = left_out["mean_absolute_error"]
    values = {DAYS: days, ERROR: float((errors * left_out["runs"]).sum() / left_out["runs"].sum())}
    reason = (
        f"by this model the published mapping reaches {mfu:.1%} of the peak rate, layers padded to whole chunks; "
        f"{published.low:.0%} to {published.high:.0%} are published, and the printed days need "
        f"{mfu * days / claims.paper_value(DAYS):.1%} for all tokens: they are the length of a part of the training"
    )
    reading = (
        f"our model on the {len(modelled)} published runs that the document cites, because its own are not public; "
        "mean absolute error of runs left out, one number fitted to every other run; fitted to all of them it is "
        f"{modelled['error'].abs().mean():.1%}, and {errors.min():.1%} to {errors.max():.1%} by paper and half"
    )
    return values, {DAYS: reason}, {ERROR: reading}
