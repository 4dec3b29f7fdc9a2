"""photonic2025's measured run: its windows on four rails, and what a reconfiguration in each of them would cost."""

from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import files, units
from railcore.catalog.checks import Floats
from railcore.catalog.tables import read_csv

WINDOW_RAIL = 0  # the rail of the document's Fig. 3, Fig. 4(b) and Fig. 8
MESSAGES = 4  # of a send/receive: the authors add up those of all ranks of a rail


def measured_windows(rail: int | None = WINDOW_RAIL) -> pd.DataFrame:
    """Windows of the ten measured iterations on one rail, or on all four where `rail` is None.

    Columns rail, iteration, window (1 to 8), before, after (kind of traffic), start_s, duration_s, volume_after_bytes.
    """
    table = _every_window()
    if rail is None:
        return table.copy()
    return table[table["rail"] == rail].reset_index(drop=True)


@cache
def _every_window() -> pd.DataFrame:
    return pd.read_csv(files.data("measured/photonic_windows.csv"))


def measured_run() -> pd.Series:
    """Times of the measured run by quantity [s]: iteration_time, forward_time, backward_time, and others."""
    rows = read_csv(files.data("measured/photonic_run.csv"))
    return pd.Series({row["quantity"]: float(row["value"]) * units.unit(row["unit"])[1] for row in rows})


def measured_phases() -> pd.DataFrame:
    """Mean time of the traffic between two measured windows on each rail.

    Columns rail, phase (number of the window before it), traffic, duration_s, volume_bytes.
    """
    table = measured_windows(None)
    ends = table["start_s"] + table["duration_s"]
    table["phase_s"] = table.groupby("rail")["start_s"].shift(-1) - ends
    named = table.rename(columns={"window": "phase", "after": "traffic", "volume_after_bytes": "volume_bytes"})
    rows = named.dropna().groupby(["rail", "phase", "traffic"])
    means = rows.agg(duration_s=("phase_s", "mean"), volume_bytes=("volume_bytes", "first"))
    return means.reset_index()


@cache
def measured_rates() -> dict[str, float]:
    """Bytes that one rank sent over the time that it took, by operation, means of the measured run [bytes/s].

    Of two members a rank sends its shard in an AllGather and half of its buffer in a ReduceScatter. The ReduceScatters
    of stage 0 are those of rank 0 alone, since other traffic stands before them in their phase.
    """
    phases = measured_phases().set_index("phase")
    gathers, scatters, hops = (phases.loc[numbers] for numbers in ([2, 8], [4], [1, 3, 5]))
    scatter_s = scatters["duration_s"].mean() + measured_run()["reduce_scatter_time"]
    return {
        "all_gather": float(gathers["volume_bytes"].mean() / gathers["duration_s"].mean()),
        "reduce_scatter": float(scatters["volume_bytes"].mean() / scatter_s),  # half of the buffers of two stages
        "send_receive": float(hops["volume_bytes"].mean() / MESSAGES / hops["duration_s"].mean()),
    }


def window_distribution(windows: pd.DataFrame) -> pd.DataFrame:
    """Cumulative distribution of windows on each rail: columns rail, duration_s, share (of windows no longer)."""
    ordered = windows.sort_values(["rail", "duration_s"], kind="stable")[["rail", "duration_s"]]
    place = ordered.groupby("rail").cumcount() + 1
    return ordered.assign(share=place / ordered.groupby("rail")["duration_s"].transform("size")).reset_index(drop=True)


def window_classes(windows: pd.DataFrame) -> pd.DataFrame:
    """Windows of an iteration by the traffic after them, on each rail.

    Columns rail, after, windows (in an iteration), duration_s (mean), least_s, largest_s, volume_bytes (median).
    """
    rows = windows.groupby(["rail", "after"], sort=False)
    table = rows.agg(
        windows=("duration_s", "size"),
        duration_s=("duration_s", "mean"),
        least_s=("duration_s", "min"),
        largest_s=("duration_s", "max"),
        volume_bytes=("volume_after_bytes", "median"),
    ).reset_index()
    iterations = windows.groupby("rail")["iteration"].nunique()
    return table.assign(windows=table["windows"] / table["rail"].map(iterations))


def replayed_iteration_times(delays_s: ArrayLike, provisioning: bool, windows: pd.DataFrame | None = None) -> Floats:
    """Mean iteration time when every window holds one reconfiguration: T + n d, or T + sum of max(0, d - window).

    T is the iteration time of the run. Nothing but the windows reacts: what starts late is as long as before, and later
    windows stay.

    Parameters
    ----------
    delays_s
        Reconfiguration delays d [s], of any shape.
    provisioning
        Whether a reconfiguration starts as soon as the traffic before it ends, instead of when the next is due.
    windows
        Of one rail (columns iteration, duration_s), by default those measured on rail 0.

    Returns
    -------
    Seconds, of the shape of `delays_s`.

    References
    ----------
    photonic2025, section 4.2 and Fig. 8.
    """
    delays = np.asarray(delays_s, float)
    windows = measured_windows() if windows is None else windows
    lengths = windows["duration_s"].to_numpy() if provisioning else np.zeros(len(windows))
    stalls = np.maximum(delays[..., None] - lengths, 0.0).sum(axis=-1)
    return np.asarray(measured_run()["iteration_time"] + stalls / windows["iteration"].nunique())
