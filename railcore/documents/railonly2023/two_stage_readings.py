"""What railonly2023 leaves open of its two-stage model, and the numbers that it quotes, for every reading at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.training import two_stage
from railcore.training.two_stage import TwoStage

MODELS = ("GPT-3", "OPT3-175B", "PaLM-540B")
OPEN_CHOICES: dict[str, tuple] = {  # arguments of `two_stage.from_catalog`
    "weight_bytes": (2, 4),
    "element_bytes": (1, 2, 4),
    "block": two_stage.BLOCKS,
    "flops": two_stage.FLOPS,
    "group_rule": two_stage.GROUP_RULES,
    "group_rounding": two_stage.ROUNDINGS,
}


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
    return {name: two_stage.from_catalog(name, nic_Bps=nic_Bps, rounds=rounds[name], **at) for name in MODELS}


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
            saved = models[name].reduction(fig7_gpus, k, 2 * k, self.batch_tokens[name])
            found[f"fig7.{short}_k{k}_to_{2 * k}"] = saved
        first = {name: np.ravel(tokens)[0] for name, tokens in self.batch_tokens.items()}
        speedups = np.stack(
            [1 / each.relative(fig5_gpus, self.hb_domain_size, first[name]) for name, each in models.items()]
        )
        found |= {"fig5.ideal_speedup_min": speedups.min(axis=0), "fig5.ideal_speedup_max": speedups.max(axis=0)}
        palm = list(models)[-1]
        for sequences, tokens in zip((512, 2048), np.ravel(self.batch_tokens[palm])[[0, -1]], strict=True):
            found[f"fig8.palm_rel_b{sequences}"] = models[palm].relative(self.gpus, self.hb_domain_size, tokens)
        flops = models[palm].token_flops * self.training_tokens
        found["intro.palm_days_one_gh200"] = flops / (
            self.hb_domain_size * np.asarray(models[palm].gpu_flops) * units.day
        )
        return pd.DataFrame(found, index=range(np.broadcast(*found.values()).size))
