"""Measured times of matrix products, and what the law of `products` gives for them."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog import files
from railcore.training.formats import BF16, FORMATS
from railcore.training.machine import Machine, machine_of_gpu
from railcore.training.products import at_spare_power, product_time

# Precisions of the public table, and the number format that each computes in.
TABLE_FORMATS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"}
_LAWS = "derived/product_laws.csv"


class ProductLaw(NamedTuple):
    """How a table of products was measured, by GPU and precision: what is solved from its rows.

    full_clock, sustained: share of the dense peak at full clock, and without a pause.
    spare_s: by which a short measurement is shorter than one without a pause: the state of power [s].
    epilogue_rate: results that the ends of tiles write [1/s].
    start_s: of the kernels of a product [s].
    cast_rate, token_s: elements of the m x k operand that are cast to the precision [1/s], and what each of its m rows
        takes besides [s]; infinite and 0 where it is measured as it is.
    host_s: that the host takes to start a product; the GPU waits for it [s].
    """

    full_clock: float
    sustained: float
    spare_s: float
    epilogue_rate: float
    start_s: float
    cast_rate: float = np.inf
    token_s: float = 0.0
    host_s: float = 0.0


def measured_product_times(machine: Machine, law: ProductLaw, m: Any, n: Any, k: Any) -> np.ndarray:
    """Time of products as a table measured them: max(host, product at its state of power + cast + starts).

    Parameters
    ----------
    machine
        The GPU, in the number format of the products.
    law
        How they were measured.
    m, n, k
        Sizes of m x k by k x n.

    Returns
    -------
    Seconds.
    """
    form = FORMATS[machine.precision]._replace(cast_bytes=0.0, scale_kernels=0)
    rates = {"fraction": law.sustained, "full_clock": law.full_clock, "epilogue_rate": law.epilogue_rate}
    both = {f"{kind}_{name}": value for name, value in rates.items() for kind in ("linear", "bf16")}
    machine = machine.changed(**both, kernel_s=0.0)
    sustained_s, full_clock_s = (
        product_time(box, m, n, k, form=form if box.narrow else BF16) for box in (machine, machine.at_full_clock)
    )
    product = at_spare_power(sustained_s, full_clock_s, law.spare_s)
    cast = np.asarray(m) * np.asarray(k) / law.cast_rate + np.asarray(m) * law.token_s
    return np.maximum(law.host_s, product + cast + law.start_s)


def product_laws() -> pd.DataFrame:
    """Laws solved from the public table of products, by GPU and precision; data/README.md has the columns."""
    return pd.read_csv(files.data(_LAWS))


def product_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Errors of the law of products on a table of measured ones, each in the state of power of the public table.

    Parameters
    ----------
    table
        Columns gpu, precision (of TABLE_FORMATS), m, n, k and seconds, as data/measured/products_public.csv has them.

    Returns
    -------
    The table with modelled_s and error = modelled / measured - 1.

    Raises
    ------
    ValueError
        For a GPU and precision of which `product_laws` has no row.

    Examples
    --------
    >>> import pandas as pd
    >>> from railcore import training
    >>> rows = {"gpu": ["H200"], "precision": ["bfloat16"], "m": [8192], "n": [8192], "k": [8192], "seconds": [1.5e-3]}
    >>> error = training.product_errors(pd.DataFrame(rows))["error"].item()
    >>> abs(error) < 0.05
    True
    """
    laws = product_laws().set_index(["gpu", "precision"])
    modelled = np.zeros(len(table))
    for key, places in table.groupby(["gpu", "precision"]).indices.items():
        if key not in laws.index:
            solved = ", ".join(" in ".join(pair) for pair in laws.index)
            raise ValueError(f"table has products of {key[0]} in {key[1]}: give those of {solved}")
        law = ProductLaw(*(laws.loc[key, name] for name in ProductLaw._fields))
        machine = machine_of_gpu(key[0], TABLE_FORMATS[key[1]])
        sizes = table.iloc[places][["m", "n", "k"]].to_numpy(float).T
        modelled[places] = measured_product_times(machine, law, *sizes)
    return table.assign(modelled_s=modelled, error=modelled / table["seconds"] - 1)
