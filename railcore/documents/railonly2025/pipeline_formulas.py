"""The formulas of railonly2025 for bubble, last stage and parameter synchronization, each beside a count.

Symbols as in `railcore.training.pipeline_schedule`; D_p bytes of one micro-batch between two stages, D_t and D_d of a
collective, AGtime(D) the time of a ring AllGather. Sizes and rates are arbitrary: every formula is linear in them.
"""

import itertools
from collections.abc import Iterable, Iterator

import pandas as pd

from railcore.training import collective_schedules, collectives, pipeline_schedule

_D, _RATE_BPS, _OPERATORS = 1e6, 1e11, 4


def formula_checks(
    stages: Iterable[int], microbatches: Iterable[int], ratios: Iterable[float], ranks: Iterable[int]
) -> pd.DataFrame:
    """Each formula as printed and as counted in 1F1B, a row for each combination of cases.

    - bubble_compute (p - 1) (t_f + t_b): against the mean idle time;
    - bubble_volume 2 D_p (p - 1): against messages on the critical path outside the last stage;
    - pls_compute m (t_f + t_b): against the last stage's computes;
    - pls_pp_volume 2 m D_p: against messages out of and into the last stage;
    - pls_tp_time sum of AGtime(D_t) over the operators of a stage: against an AllGather and a ReduceScatter for every
      operator in every pass of the last stage;
    - sync_time 2 AGtime(D_d): against a ring AllReduce, send by send.

    Parameters
    ----------
    stages, microbatches
        p, from 2, and m.
    ratios
        t_b / t_f.
    ranks
        Of a collective.

    Returns
    -------
    Columns formula, stages, microbatches, ratio, ranks, printed, counted, error (|printed / counted - 1|).

    References
    ----------
    railonly2025, "Iteration time modeling".
    """
    ranks = list(ranks)
    cases = itertools.product(stages, microbatches, ratios, ranks)
    rows = [(name, *case, *pair) for case in cases for name, *pair in _pipeline(*case)]
    rows += [("sync_time", 1, 1, 1.0, n, 2 * _all_gather(n), _counted("all_reduce", n)) for n in ranks]
    columns = ["formula", "stages", "microbatches", "ratio", "ranks", "printed", "counted"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(error=(table["printed"] / table["counted"] - 1).abs())


def pipeline_claims(checks: pd.DataFrame) -> tuple[dict[str, float], dict[str, str]]:
    """Values of the claims and reasons, for `claims.record`, from `formula_checks`."""
    tensor = checks[checks["formula"] == "pls_tp_time"]
    factor = tensor["counted"] / tensor["printed"] / tensor["microbatches"]
    cases = ["stages", "microbatches", "ratio", "ranks"]
    volumes = [checks[checks["formula"] == name].set_index(cases) for name in ("bubble_volume", "pls_pp_volume")]
    sends = (volumes[0]["printed"] + volumes[1]["printed"]) / _D
    twice = sends - 2 * (sends.index.get_level_values("stages") + sends.index.get_level_values("microbatches") - 2)
    values = checks.groupby("formula", sort=False)["error"].max().add_prefix("railonly2025.fig6.").to_dict()
    reasons = {
        "railonly2025.fig6.pls_tp_time": "printed is one AllGather of one micro-batch for each operator; a stage has "
        "AllGather and ReduceScatter, forward and backward, in each of m micro-batches: the count is "
        f"{factor.min():.6g} m times as long in every case (here m = {tensor['microbatches'].min()} to "
        f"{tensor['microbatches'].max()}), and with that factor the error is "
        f"{abs(factor / factor.min() - 1).max():.1g}",
        "railonly2025.fig6.pls_pp_volume": "right for the last stage alone; its first receive and last send are the "
        "bubble's last hop too, so that both printed volumes together exceed the path through the last stage by "
        f"{twice.min():.6g} D_p in every case",
        "railonly2025.fig6.sync_time": "holds for a ring, counted send by send; overlap with the backward pass is not "
        "part of the formula",
    }
    return values, reasons


def _pipeline(p: int, m: int, ratio: float, n: int) -> Iterator[tuple[str, float, float]]:
    """Name, printed value and count of the formulas of the pipeline, at t_f = 1."""
    pair = 1 + ratio
    table = pipeline_schedule.schedule("1f1b", p, m, 1.0, ratio)
    last = table.events[(table.events["event"] == "compute") & (table.events["stage"] == p - 1)]
    path = pipeline_schedule.schedule("1f1b", p, m, 1.0, ratio, send_s=0.01).critical_path()
    moved = table.peer_to_peer_bytes(_D)
    outside = int(((path["event"] == "send") & (path["part"] != "last stage")).sum())
    operator = _counted("all_gather", n) + _counted("reduce_scatter", n)
    yield "bubble_compute", (p - 1) * pair, float(table.bubble_s.mean())
    yield "bubble_volume", 2 * _D * (p - 1), _D * outside
    yield "pls_compute", m * pair, float((last["end_s"] - last["start_s"]).sum())
    yield "pls_tp_time", _OPERATORS * _all_gather(n), len(last) * _OPERATORS * operator
    yield "pls_pp_volume", 2 * m * _D, float(moved[-1].sum() + moved[:, -1].sum())


def _all_gather(n: int) -> float:
    return float(collectives.all_gather_time(_D, n, _RATE_BPS))


def _counted(operation: str, n: int) -> float:
    """Time of a ring [s], from the bytes of every step of its schedule."""
    ring = collective_schedules.collective_schedule(operation, "ring", n)
    return float(collective_schedules.count_bytes(ring, _D / ring.blocks).step_bytes.sum() / _RATE_BPS)
