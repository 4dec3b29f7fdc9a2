"""What railonly2023 leaves open of its two-stage model, and the numbers that it quotes, for every reading at once."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import units
from railcore.training.iteration import two_stage
from railcore.training.iteration.two_stage import TwoStage

OPEN_CHOICES: dict[str, tuple] = {  # arguments of `two_stage.from_catalog`
    "weight_bytes": (2, 4),
    "element_bytes": (1, 2, 4),
    "block": two_stage.BLOCKS,
    "flops": two_stage.FLOPS,
    "group_rule": two_stage.GROUP_RULES,
    "group_rounding": two_stage.ROUNDINGS,
}


def models_by_reading(tried: pd.DataFrame, nic_Bps: ArrayLike, rounds: Mapping[str, ArrayLike]) -> dict[str, TwoStage]:
    """The models named in `rounds` (with their M_cc) under every reading.

    tried: columns gpu_flops, hb_Bps and those of OPEN_CHOICES, a row for each reading.
    """
    at = {key: np.array(tried[key].tolist()) for key in ("gpu_flops", "hb_Bps", *OPEN_CHOICES)}
    return {name: two_stage.from_catalog(name, nic_Bps=nic_Bps, rounds=many, **at) for name, many in rounds.items()}


def quoted_values(
    models: Mapping[str, TwoStage],
    fig7_gpus: ArrayLike,
    fig5_gpus: ArrayLike,
    gpus: float,
    hb_domain_size: float,
    batch_tokens: Mapping[str, ArrayLike],
    training_tokens: float,
) -> pd.DataFrame:
    """What the document quotes of its Fig. 5, 7 and 8 and of training time, by claim.

    Parameters
    ----------
    models
        GPT-3, OPT3-175B and PaLM-540B, in this order.
    fig7_gpus, fig5_gpus
        Cluster of each reading.
    gpus, hb_domain_size
        Cluster of Fig. 8; HB domain of Fig. 5 and 8.
    batch_tokens
        Of each model; for PaLM all of Fig. 8, of which Fig. 5 has the first.
    training_tokens
        Of PaLM, for the days that one HB domain takes at perfect utilization.

    Returns
    -------
    A column for each claim, a row for each reading.
    """
    found = {}
    for k, (short, name) in product((32, 512), zip(("gpt3", "opt"), models, strict=False)):
        saved = models[name].reduction(fig7_gpus, k, 2 * k, batch_tokens[name])
        found[f"fig7.{short}_k{k}_to_{2 * k}"] = saved
    first = {name: np.ravel(tokens)[0] for name, tokens in batch_tokens.items()}
    speedups = np.stack([1 / each.relative(fig5_gpus, hb_domain_size, first[name]) for name, each in models.items()])
    found |= {"fig5.ideal_speedup_min": speedups.min(axis=0), "fig5.ideal_speedup_max": speedups.max(axis=0)}
    palm = list(models)[-1]
    for sequences, tokens in zip((512, 2048), np.ravel(batch_tokens[palm])[[0, -1]], strict=True):
        found[f"fig8.palm_rel_b{sequences}"] = models[palm].relative(gpus, hb_domain_size, tokens)
    flops = models[palm].token_flops * training_tokens
    found["intro.palm_days_one_gh200"] = flops / (hb_domain_size * np.asarray(models[palm].gpu_flops) * units.day)
    return pd.DataFrame(found, index=range(np.broadcast(*found.values()).size))
