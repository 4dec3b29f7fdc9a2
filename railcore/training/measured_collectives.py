"""Measured times of collectives inside an HB domain beside those of the model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import checks
from railcore.training.formats import ELEMENT_BYTES
from railcore.training.machine import Machine, machine_of_gpu

_LINKS: dict[str, Callable[..., Any]] = {
    "all_gather": Machine.gather_links,
    "reduce_scatter": Machine.gather_links,
    "all_reduce": Machine.all_reduce_links,
    "alltoall": Machine.all_to_all_links,
}


def collective_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Modelled times and errors of collectives that were measured inside an HB domain.

    Parameters
    ----------
    table
        Columns of data/measured/collectives.csv: gpu, a GPU of the catalog; collective, one of all_gather, all_reduce,
        reduce_scatter, alltoall; gpus, all in one HB domain; message, the full buffer of a GPU in elements of 2 bytes;
        seconds.

    Returns
    -------
    The table with modelled_s, and error = modelled_s / seconds - 1.

    Raises
    ------
    ValueError
        For another collective, and for a GPU that no platform of the catalog has.

    Examples
    --------
    >>> import pandas as pd, railcore as rc
    >>> rows = pd.DataFrame({"gpu": ["H100"], "collective": ["all_gather"], "gpus": [8], "message": [2**28],
    ...                      "seconds": [1.4e-3]})
    >>> bool(abs(rc.training.collective_errors(rows).error[0]) < 0.05)
    True
    """
    modelled = np.zeros(len(table))
    for (gpu, collective), rows in table.groupby(["gpu", "collective"]).indices.items():
        part = table.iloc[rows]
        message_bytes = ELEMENT_BYTES * part["message"].to_numpy(float)
        modelled[rows] = measured_collective_time(
            machine_of_gpu(gpu), str(collective), message_bytes, part["gpus"].to_numpy()
        )
    return table.assign(modelled_s=modelled, error=modelled / table["seconds"] - 1)


def measured_collective_time(
    machine: Machine, collective: str, message_bytes: Any, inside: Any, domains: Any = 1
) -> Any:
    """Time of a collective alone.

    Parameters
    ----------
    machine
        Of the GPUs.
    collective
        As `collective_errors` names them.
    message_bytes
        The full buffer of a GPU [bytes].
    inside, domains
        GPUs in each of so many HB domains.

    Returns
    -------
    Seconds.
    """
    checks.one_of("collective", collective, tuple(_LINKS))
    return _LINKS[collective](machine, message_bytes, inside, domains).time_s
