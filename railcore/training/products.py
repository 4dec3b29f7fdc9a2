"""Time of matrix products on a GPU: whole waves of tiles at the rate that products reach, and operands through HBM."""

from typing import Any

import numpy as np

from railcore.training.machine import FORMATS, Machine

ELEMENT_BYTES = 2  # of bf16
_TILE = (256, 128)  # rows and columns of the largest common tile of a matrix product
_TILE_STEP = 64  # a side shorter than the tile's takes the next multiple of this


def product_time(
    machine: Machine,
    m: Any,
    n: Any,
    k: Any,
    batch: Any = 1,
    linear: bool = False,
    weights: bool = True,
    result_bytes: int = ELEMENT_BYTES,
) -> np.ndarray:
    """Time of `batch` matrix products of m x k by k x n: 2 W P A k / R + bytes / B_HBM + kernel start.

    W whole waves, batch x tiles over the P processors, rounded up; A elements in a tile of _TILE, laid whichever way
    covers the result with fewer elements (the first of equals); a side shorter than the tile's takes the next multiple
    of _TILE_STEP. R the machine's rate. Operands and result pass HBM once.

    Parameters
    ----------
    machine
        Rates of the GPU.
    m, n, k, batch
        Sizes and number of the products; they broadcast.
    linear
        In the number format of the machine's linear layers, else in bf16. Operands are cast from bf16, and each cast
        serves two products.
    weights
        Whether the k x n operand is weights, whose cast serves all micro-batches; else it is cast too.
    result_bytes
        Moved for each element of the result: 2 to write it, twice its size where it is added to what is there.

    Returns
    -------
    Seconds.
    """
    tiles, area = _tiles(m, n)
    waves = np.ceil(tiles * batch / machine.rates.processors)
    form, rate = (machine.format, machine.linear_flops) if linear else (FORMATS["bf16"], machine.bf16_flops)
    cast = form.cast_bytes / 2 * (m * k + (0 if weights else k * n))
    moved = batch * ((m * k + k * n) * form.element_bytes + m * n * result_bytes + cast)
    starts = (1 + form.scale_kernels) * machine.host.kernel_s
    return waves * machine.rates.processors * area * 2 * k / rate + moved / machine.hbm_Bps + starts


def _tiles(m: Any, n: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of an m x n result and elements of a tile, laid whichever way needs less."""
    (upright, upright_area), (turned, turned_area) = (_tiling(m, n, *sides) for sides in (_TILE, _TILE[::-1]))
    less = turned * turned_area < upright * upright_area
    return np.where(less, turned, upright), np.where(less, turned_area, upright_area)


def _tiling(m: Any, n: Any, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of at most rows x columns on an m x n result, and elements of one."""
    a = np.minimum(rows, np.ceil(np.asarray(m) / _TILE_STEP) * _TILE_STEP)
    b = np.minimum(columns, np.ceil(np.asarray(n) / _TILE_STEP) * _TILE_STEP)
    return np.ceil(m / a) * np.ceil(n / b), a * b


def product_passes(
    machine: Machine, m: Any, n: Any, k: Any, batch: Any = 1, linear: bool = False, gradient_bytes: int = ELEMENT_BYTES
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times of a product forward, of its input's gradient, and of its weights' gradient.

    Parameters
    ----------
    machine, m, n, k, batch, linear
        As for `product_time`: m x k inputs by k x n weights.
    gradient_bytes
        Moved for each element of the weights' gradient, as result_bytes there.

    Returns
    -------
    Seconds of m x n by k, m x k by n, and k x n by m; the last one casts both operands.
    """
    forward, inputs = (product_time(machine, m, a, b, batch, linear) for a, b in ((n, k), (k, n)))
    return forward, inputs, product_time(machine, k, n, m, batch, linear, False, gradient_bytes)
