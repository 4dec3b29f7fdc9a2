"""Iteration time under hybrid two-stage data and model parallelism, in closed form.

Symbols, of railonly2023 Table 1: N GPUs, K GPUs of an HB domain (scale-up or NVLink domain), N_M of a model-parallel
group (inside an HB domain), N_Ds of a second-level data-parallel group (inside too), N_Df of a first-level one (across
domains, over the rails), l blocks, d width, S_T bytes of a block, b batch [tokens], M_flop = b f FLOPs of an
iteration, M_cc collectives of a block, e bytes of an activation's element, C, B_S, B_F. N = N_M N_Ds N_Df and
K = N_M N_Ds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.checks import Floats, positive
from railcore.training import transformer

GROUP_SIZE_RULES = ("printed", "printed, in bytes", "minimiser")
GROUP_SIZE_ROUNDINGS = ("real", "integer", "power of two")
BLOCK_SIZE_RULES = ("published", "12 d^2", "parameters / layers")
TOKEN_FLOP_RULES = ("6 P", "6 P + scores", "8 P", "72 d^2 l")
TIME_TERMS = ("compute_s", "first_dp_s", "second_dp_s", "model_parallel_s")


@dataclass(frozen=True)
class TwoStageTime:
    """The terms of an iteration [s], arrays of one shape; none overlaps another.

    compute_s: T_c.
    first_dp_s: data parallelism across HB domains, l T_Df.
    second_dp_s: inside them, l T_Ds.
    model_parallel_s: l T_M.
    """

    compute_s: Any
    first_dp_s: Any
    second_dp_s: Any
    model_parallel_s: Any

    @property
    def iteration_s(self) -> Any:
        """T_iter, their sum [s]."""
        return self.compute_s + self.first_dp_s + self.second_dp_s + self.model_parallel_s


@dataclass(frozen=True)
class TwoStage:
    """A model on GPUs. Every field may be an array: all methods broadcast.

    layers: l.
    hidden: d [elements].
    block_bytes: S_T.
    token_flops: f, forward and backward [FLOP/token].
    collective_rounds: M_cc.
    element_bytes: e.
    gpu_flops: C [FLOP/s].
    nic_Bps: B_S, of a GPU, one direction [bytes/s].
    hb_Bps: B_F, likewise.
    group_rule, group_rounding: how N_M is chosen, of GROUP_SIZE_RULES and GROUP_SIZE_ROUNDINGS; see `group_size`.

    Raises ValueError naming the field that is not positive or not known.
    """

    layers: Any
    hidden: Any
    block_bytes: Any
    token_flops: Any
    collective_rounds: Any
    element_bytes: Any
    gpu_flops: Any
    nic_Bps: Any
    hb_Bps: Any
    group_rule: Any = "minimiser"
    group_rounding: Any = "real"

    def __post_init__(self) -> None:
        for field in fields(self)[:-2]:
            positive(field.name, getattr(self, field.name))
        _pick("group_rule", self.group_rule, dict.fromkeys(GROUP_SIZE_RULES, 0.0))
        _pick("group_rounding", self.group_rounding, dict.fromkeys(GROUP_SIZE_ROUNDINGS, 0.0))

    def printed_group_size(self, gpus: ArrayLike, batch_tokens: ArrayLike, bytes_of_b_d: ArrayLike = 1) -> Floats:
        """N_M of Eq. (2) as printed: sqrt(N S_T) / (2 sqrt(b M_cc d)). It is not the minimum of Eq. (1).

        bytes_of_b_d: 1 counts b d in elements and S_T in bytes; `element_bytes` counts both in bytes.
        Source: railonly2023, section 3.2.
        """
        n, b = np.asarray(gpus, float), np.asarray(batch_tokens, float) * bytes_of_b_d
        return np.sqrt(n * self.block_bytes) / (2 * np.sqrt(b * self.collective_rounds * self.hidden))

    def best_group_size(self, gpus: ArrayLike, batch_tokens: ArrayLike) -> Floats:
        """N_M of the least time by Eq. (1): sqrt(2 N S_T / (b M_cc d e)), where the derivative by N_M is 0."""
        n, b = np.asarray(gpus, float), np.asarray(batch_tokens, float)
        return np.sqrt(2 * n * self.block_bytes / (b * self.collective_rounds * self.hidden * self.element_bytes))

    def group_size(self, gpus: ArrayLike, batch_tokens: ArrayLike, most: ArrayLike) -> Floats:
        """N_M by `group_rule`, then by `group_rounding`, from 1 to `most` (K, so that a group fits in an HB domain).

        Rules: "printed" is Eq. (2), S_T in bytes and b d in elements; "printed, in bytes" has both in bytes;
        "minimiser" is the minimum of Eq. (1). Rounding to an integer or to a power of two takes the neighbour with the
        nearer logarithm. It is the better one, because T_iter is u / N_M + v N_M + const.
        """
        rules = (
            self.printed_group_size(gpus, batch_tokens),
            self.printed_group_size(gpus, batch_tokens, self.element_bytes),
            self.best_group_size(gpus, batch_tokens),
        )
        x = _pick("group_rule", self.group_rule, dict(zip(GROUP_SIZE_RULES, rules, strict=True)))
        low = np.floor(x)
        power = np.rint(np.round(np.log2(x), 9))  # the same of two that are as near, wherever log2 rounds
        rounded = (x, np.where(x * x > low * (low + 1), low + 1, low), np.ldexp(1.0, power.astype(int)))
        x = _pick("group_rounding", self.group_rounding, dict(zip(GROUP_SIZE_ROUNDINGS, rounded, strict=True)))
        return np.clip(x, 1.0, most)

    def iteration(
        self,
        gpus: ArrayLike,
        hb_domain_size: ArrayLike,
        batch_tokens: ArrayLike,
        group_size: ArrayLike | None = None,
        rails: ArrayLike | None = None,
    ) -> TwoStageTime:
        """Eq. (1) with K = N_M N_Ds and N_Df = N / K.

        Parameters
        ----------
        gpus, hb_domain_size
            N; K [GPUs].
        batch_tokens
            b [tokens].
        group_size
            N_M [GPUs], by default `self.group_size`.
        rails
            NICs of an HB domain, each on a rail of its own. With fewer than K a GPU has B_S rails / K. By default K.

        Returns
        -------
        The four terms of Eq. (1) [s].

        Raises
        ------
        ValueError
            Unless 1 <= N_M <= K <= N.
        """
        n, k, b = positive("gpus", gpus), positive("hb_domain_size", hb_domain_size), np.asarray(batch_tokens, float)
        if np.any(k > n):
            raise ValueError(f"hb_domain_size is {hb_domain_size!r}: give at most the {gpus!r} GPUs of the cluster")
        n_m = self.group_size(n, b, k) if group_size is None else np.asarray(group_size, float)
        if np.any((n_m < 1) | (n_m > k)):
            raise ValueError(f"group_size is {group_size!r}: give 1 to hb_domain_size {hb_domain_size!r}")
        share = 1.0 if rails is None else np.minimum(np.asarray(rails) / k, 1.0)
        return equation_1(self, n, k, b, n_m, k / n_m, n / k, share)

    def ideal(self, gpus: ArrayLike, batch_tokens: ArrayLike, group_size: ArrayLike | None = None) -> TwoStageTime:
        """Eq. (3): every GPU in one HB domain, one AllReduce that is not hierarchical.

        M_flop / (N C) + l / (B_F N) (2 S_T (N / N_M - 1) + M_cc b d e (N_M - 1)).
        Arguments as for `iteration`. Source: railonly2023, section 3.3.
        """
        n, b = np.asarray(gpus, float), np.asarray(batch_tokens, float)
        n_m = self.group_size(n, b, n) if group_size is None else np.asarray(group_size, float)
        seconds = self.layers / (self.hb_Bps * n)
        sync = seconds * 2 * self.block_bytes * (n / n_m - 1)
        exchange = seconds * self.collective_rounds * b * self.hidden * self.element_bytes * (n_m - 1)
        return TwoStageTime(b * self.token_flops / (n * self.gpu_flops), 0.0 * sync, sync, exchange)

    def relative_performance(self, gpus: ArrayLike, hb_domain_size: ArrayLike, batch_tokens: ArrayLike) -> Floats:
        """Performance relative to the ideal, T_ideal / T_iter. Source: railonly2023, section 3.4."""
        ideal, real = self.ideal(gpus, batch_tokens), self.iteration(gpus, hb_domain_size, batch_tokens)
        return ideal.iteration_s / real.iteration_s

    def time_reduction(self, gpus: ArrayLike, before: ArrayLike, after: ArrayLike, batch_tokens: ArrayLike) -> Floats:
        """Share of T_iter that a larger HB domain saves: 1 - T(after) / T(before).

        Parameters
        ----------
        gpus, batch_tokens
            N [GPUs]; b [tokens].
        before, after
            HB domain sizes [GPUs].

        Returns
        -------
        0 to 1 where it saves time.
        """
        old, new = (self.iteration(gpus, size, batch_tokens).iteration_s for size in (before, after))
        return 1 - new / old


def equation_1(model: TwoStage, n, k, b, n_m, n_ds, n_df, share=1.0) -> TwoStageTime:
    """Eq. (1) term by term, for any K and group sizes, whether they fit together or not; N_M may be complex.

    T_iter = M_flop / (N C) + l (2 S_T (N_Df - 1) / (N B_S)
    + (2 S_T (N_Ds - 1) / K + M_cc b d e (N_M - 1) / N) / B_F).
    With N = K N_Df the first-level term is 2 (S_T / K) (N_Df - 1) / N_Df bytes for each GPU.

    Parameters
    ----------
    model
        l, d, S_T, f, M_cc, e, C, B_S and B_F.
    n, k, n_m, n_ds, n_df
        N, K, N_M, N_Ds and N_Df [GPUs].
    b
        Batch [tokens].
    share
        Share of B_S that a GPU has.

    Returns
    -------
    The four terms [s].

    References
    ----------
    railonly2023, section 3.2.
    """
    exchange = model.collective_rounds * b * model.hidden * model.element_bytes * (n_m - 1) / n
    return TwoStageTime(
        compute_s=b * model.token_flops / (n * model.gpu_flops),
        first_dp_s=model.layers * 2 * model.block_bytes * (n_df - 1) / (n * model.nic_Bps * share),
        second_dp_s=model.layers * 2 * model.block_bytes * (n_ds - 1) / (k * model.hb_Bps),
        model_parallel_s=model.layers * exchange / model.hb_Bps,
    )


def collective_rounds(layers: int, parallel: bool = False) -> int:
    """M_cc of a block with so many attention and feed-forward layers.

    AllGather and ReduceScatter, each forward and backward, around every layer; layers that run in `parallel` on one
    input and add their outputs share them. Source: railonly2023, Table 1; Korthikanti et al. 2022, section 4.
    """
    return 4 if parallel else 4 * layers


def catalog_two_stage(
    name: str,
    gpu_flops: ArrayLike,
    nic_Bps: ArrayLike,
    hb_Bps: ArrayLike,
    rounds: ArrayLike | None = None,
    weight_bytes: ArrayLike = 2,
    element_bytes: ArrayLike = 2,
    block: ArrayLike = "published",
    flops: ArrayLike = "6 P",
    **group: ArrayLike,
) -> TwoStage:
    """A model of the catalog; every argument but the name may be an array, also the texts.

    Parameters
    ----------
    name
        Model of the catalog.
    gpu_flops, nic_Bps, hb_Bps
        C [FLOP/s]; B_S and B_F of a GPU, one direction [bytes/s].
    rounds
        M_cc, by default 4 for each attention and feed-forward layer.
    weight_bytes, element_bytes
        Bytes of an element of a gradient; of an activation.
    block
        How the weights of a block are counted, one of BLOCK_SIZE_RULES.
    flops
        FLOPs of a token, one of TOKEN_FLOP_RULES: P are the published parameters, scores counts attention in full, 8 P
        recomputes everything.
    group
        group_rule, group_rounding of `TwoStage`.

    Returns
    -------
    The model on these GPUs.

    Raises
    ------
    UnknownName
        For a model that the catalog lacks.
    ValueError
        For another unknown name and for a value that is not positive.
    """
    network, parameters = transformer.catalog_model(name), catalog.item("models", name)["parameters"]
    layers, d = network.layers, network.hidden
    scores = 3 * network.forward_flops(causal=False)["scores"] / network.sequence_length
    blocks = (network.attention_weights + network.ffn_weights, 12 * d * d, parameters / layers)
    tokens = (6 * parameters, 6 * parameters + scores, 8 * parameters, 72 * d * d * layers)
    weights = _pick("block", block, dict(zip(BLOCK_SIZE_RULES, blocks, strict=True)))
    return TwoStage(
        layers=layers,
        hidden=d,
        block_bytes=weights * np.asarray(weight_bytes),
        token_flops=_pick("flops", flops, dict(zip(TOKEN_FLOP_RULES, tokens, strict=True))),
        collective_rounds=collective_rounds(2, network.parallel_block) if rounds is None else rounds,
        element_bytes=element_bytes,
        gpu_flops=gpu_flops,
        nic_Bps=nic_Bps,
        hb_Bps=hb_Bps,
        **group,
    )


def two_stage_sweep(models: Mapping[str, TwoStage], **grid: Sequence | Mapping[str, Any]) -> pd.DataFrame:
    """Every model at every combination of `grid` (arguments of `TwoStage.iteration`), a row each.

    An argument is a list of values, or a mapping from the model's name to the one value that it takes.
    Columns model, those of the grid, group_size, compute_s, first_dp_s, second_dp_s, model_parallel_s, iteration_s,
    ideal_s and relative (ideal_s / iteration_s).
    """
    frames = []
    for name, model in models.items():
        axes = [[values[name]] if isinstance(values, Mapping) else values for values in grid.values()]
        cases = pd.DataFrame(list(product(*axes)), columns=list(grid))
        at = {key: column.to_numpy() for key, column in cases.items()}
        chosen = at.pop("group_size", None)
        if chosen is None:
            chosen = model.group_size(at["gpus"], at["batch_tokens"], at["hb_domain_size"])
        time = model.iteration(**at, group_size=chosen)
        rows = cases.assign(group_size=chosen, **{term: getattr(time, term) for term in (*TIME_TERMS, "iteration_s")})
        rows["ideal_s"] = model.ideal(at["gpus"], at["batch_tokens"]).iteration_s
        frames.append(rows.assign(relative=rows.ideal_s / rows.iteration_s, model=name))
    table = pd.concat(frames, ignore_index=True)
    return table[["model", *(column for column in table if column != "model")]]


def _pick(name: str, option: ArrayLike, values: Mapping[str, Any]) -> Floats:
    options = np.asarray(option, dtype=str)
    chosen = [options == key for key in values]
    if not np.all(matched := np.logical_or.reduce(chosen)):
        raise ValueError(f"{name} is {str(options[~matched][0])!r}: give one of {', '.join(map(repr, values))}")
    return np.select(chosen, [np.asarray(value, float) for value in values.values()])
