"""Which reading of railonly2023 serves most of its numbers: all combinations of what it leaves open, against them.

A reading is a row of choices; the numbers are computed for all rows at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from railcore.facts import claims, units
from railcore.training.iteration.two_stage import CHOICES, TwoStage, from_catalog


def combinations(ours: Mapping, choices: Mapping[str, Sequence]) -> pd.DataFrame:
    """Every combination of `choices`, one row each, with the reading `ours` as row 0.

    Raises ValueError where `ours` and `choices` name different things.
    """
    if set(ours) != set(choices):
        raise ValueError(f"ours names {sorted(ours)}: give one choice for each of {sorted(choices)}")
    rows = pd.DataFrame(list(product(*choices.values())), columns=list(choices))
    return pd.concat([pd.DataFrame([ours])[list(choices)], rows]).drop_duplicates(ignore_index=True)


def models(readings: pd.DataFrame, nic_Bps: ArrayLike, rounds: Mapping[str, ArrayLike]) -> dict[str, TwoStage]:
    """The models named in `rounds` (with their M_cc) under every reading.

    Columns of readings: gpu_flops, hb_Bps and those of `two_stage.CHOICES`.
    """
    at = {key: np.array(readings[key].tolist()) for key in ("gpu_flops", "hb_Bps", *CHOICES)}
    bandwidths = {"gpu_flops": at.pop("gpu_flops"), "nic_Bps": nic_Bps, "hb_Bps": at.pop("hb_Bps")}
    return {name: from_catalog(name, **bandwidths, rounds=many, **at) for name, many in rounds.items()}


def quoted(
    fits: Mapping[str, TwoStage],
    fig7_gpus: ArrayLike,
    fig5_gpus: ArrayLike,
    gpus: float,
    hb_domain_size: float,
    batch_tokens: Mapping[str, ArrayLike],
    training_tokens: float,
) -> pd.DataFrame:
    """What the document quotes of its Fig. 5, 7 and 8 and of training time, by claim, one row for each reading.

    fits: GPT-3, OPT3-175B and PaLM-540B in this order; batch_tokens of each, for PaLM all of Fig. 8 of which Fig. 5
    has the first. fig7_gpus, fig5_gpus: cluster of each reading; gpus: that of Fig. 8. hb_domain_size: of Fig. 5 and 8.
    training_tokens: of PaLM, for the days that one HB domain takes at perfect utilization.
    """
    found = {}
    for k, (short, name) in product((32, 512), zip(("gpt3", "opt"), fits, strict=False)):
        saved = fits[name].reduction(fig7_gpus, k, 2 * k, batch_tokens[name])
        found[f"fig7.{short}_k{k}_to_{2 * k}"] = saved
    first = {name: np.ravel(tokens)[0] for name, tokens in batch_tokens.items()}
    speedups = np.stack([1 / fit.relative(fig5_gpus, hb_domain_size, first[name]) for name, fit in fits.items()])
    found |= {"fig5.ideal_speedup_min": speedups.min(axis=0), "fig5.ideal_speedup_max": speedups.max(axis=0)}
    palm = list(fits)[-1]
    for sequences, tokens in zip((512, 2048), np.ravel(batch_tokens[palm])[[0, -1]], strict=True):
        found[f"fig8.palm_rel_b{sequences}"] = fits[palm].relative(gpus, hb_domain_size, tokens)
    flops = fits[palm].token_flops * training_tokens
    found["intro.palm_days_one_gh200"] = flops / (hb_domain_size * np.asarray(fits[palm].gpu_flops) * units.day)
    return pd.DataFrame(found, index=range(np.broadcast(*found.values()).size))


def chosen(values: pd.DataFrame, document: str, used: Sequence[str]) -> NDArray[np.intp]:
    """Rows of the readings that meet most of the claims `used` and are nearest to them; several where they tie.

    values: of `quoted`, a row for each reading; used: some of its columns. Nearest: least mean relative deviation.
    """
    paper, tolerance = _printed(used, document)
    off = np.abs(values[list(used)].to_numpy() / paper - 1)
    met = (off <= tolerance + 1e-12).sum(axis=1)
    most = np.flatnonzero(met == met.max())
    mean = off[most].mean(axis=1)
    return most[mean <= mean.min() + 1e-9]


def null_test(
    values: pd.DataFrame, document: str, used: Sequence[str], spreads: Sequence[float], draws: int, seed: int = 0
) -> pd.DataFrame:
    """How much the best of many readings meets by chance: the same search against numbers that nobody printed.

    In each draw every printed value is multiplied by a factor uniform in 1 -/+ spread, its tolerance kept. If readings
    were many enough to meet anything, they would meet these as well as the printed ones.
    values, used: as of `chosen`. Columns spread, met (claims that the best reading meets for the printed values),
    share (of the draws in which the best reading meets as many), predicted (other claims that the reading chosen from
    `used` meets for the printed values), share_predicted (of the draws in which it meets as many), mean_met.
    """
    every = list(values)
    paper, tolerance = _printed(every, document)
    numbers = np.unique(values.round(9).to_numpy(), axis=0).T.copy()
    mine = np.isin(every, list(used))

    def best(targets: NDArray[np.float64]) -> tuple[int, int]:
        low, high = (targets * (1 + side * (tolerance + 1e-12)) for side in (-1, 1))
        met = (numbers >= low[:, None]) & (numbers <= high[:, None])
        of_used = met[mine].sum(axis=0)
        most = np.flatnonzero(of_used == of_used.max())
        off = np.abs(numbers[:, most][mine] / targets[mine, None] - 1).mean(axis=0)
        nearest = most[off.round(12).argmin()]
        return int(met.sum(axis=0).max()), int(met[~mine, nearest].sum())

    known, rng, rows = best(paper), np.random.default_rng(seed), []
    for spread in spreads:
        drawn = np.array([best(paper * rng.uniform(1 - spread, 1 + spread, len(paper))) for _ in range(draws)])
        share = (drawn >= known).mean(axis=0)
        rows.append((spread, known[0], share[0], known[1], share[1], drawn[:, 0].mean()))
    return pd.DataFrame(rows, columns=["spread", "met", "share", "predicted", "share_predicted", "mean_met"])


def _printed(names: Iterable[str], document: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and tolerances of claims as the document prints them."""
    entries = [claims.claim(f"{document}.{name}") for name in names]
    return np.array([e.paper_value for e in entries]), np.array([e.tolerance for e in entries])


def compared(readings: pd.DataFrame, values: pd.DataFrame, document: str, best: int = 8, **only) -> pd.DataFrame:
    """Readings worth a look, with claims met, mean deviation and values; the first row is the document's own.

    Then ours (row 0 of `readings`), the `best` of all (most claims met, then least mean deviation, those with the
    same values once), the two best with the choices of `only`, and every reading that differs from ours in one choice.
    values: a column for each claim of the document, named without it. Columns reading (what differs from ours),
    claims_met, mean_deviation, and those of `values`.
    """
    paper, tolerance = _printed(values, document)
    off = (values / paper - 1).abs()
    table = values.assign(claims_met=(off <= tolerance + 1e-12).sum(axis=1), mean_deviation=off.mean(axis=1))
    order = table.sort_values(["claims_met", "mean_deviation"], ascending=[False, True], kind="stable").index
    order = values.loc[order].round(6).drop_duplicates().index
    changed = readings.ne(readings.iloc[0])
    fits = np.logical_and.reduce(
        [readings[key] == value for key, value in only.items()] or [np.ones(len(readings), bool)]
    )
    picked = [0, *order[:best], *order[fits[order]][:2], *np.flatnonzero(changed.sum(axis=1) == 1)]
    picked = list(dict.fromkeys(int(row) for row in picked))
    said = [_said(readings.loc[row][changed.loc[row]]) for row in picked]
    printed = pd.DataFrame([paper], columns=list(values)).assign(claims_met=len(values.columns), mean_deviation=0.0)
    found = pd.concat([printed, table.loc[picked]], ignore_index=True)
    found.insert(0, "reading", ["the document", *said])
    return found[["reading", "claims_met", "mean_deviation", *values]]


def _said(changes: pd.Series) -> str:
    texts = []
    for key, value in changes.items():
        stem, _, suffix = str(key).rpartition("_")
        symbol = {"Bps": "B/s", "flops": "FLOP/s"}.get(suffix, "")
        text = value if isinstance(value, str) else units.show(value, symbol)
        texts.append(f"{units.words(stem if symbol and stem else str(key))} {text}")
    return ", ".join(texts) or "ours"
