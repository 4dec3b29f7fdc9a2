"""Time of matrix products on a GPU: whole waves of tiles at the rate that products reach, and operands through HBM."""

from typing import Any

import numpy as np

from railcore.training.formats import BF16, ELEMENT_BYTES, LinearFormat
from railcore.training.machine import Machine

_TILE = (256, 128)  # rows and columns of the largest common tile of a matrix product
_ALIGNED = 64  # elements of 2 bytes that a side should be a multiple of (NVIDIA, Matrix Multiplication Background)
_TILE_STEP = 64  # a side shorter than the tile's takes the next multiple of this


def product_time(
    machine: Machine,
    m: Any,
    n: Any,
    k: Any,
    batch: Any = 1,
    form: LinearFormat = BF16,
    weights: bool = True,
    result_bytes: float = ELEMENT_BYTES,
    share: Any = 1.0,
) -> np.ndarray:
    """Time of `batch` matrix products of m x k by k x n: 2 W P A k / R + bytes / B_HBM + kernel start.

    - W: waves of tiles over the P processors, rounded up to whole ones.
    - A: elements of a tile, _TILE or _TILE turned, whichever covers the result with fewer elements. A side of the
      result that is shorter than the tile's takes the next multiple of _TILE_STEP.
    - R: the machine's rate.

    Operands and result pass HBM once.

    Parameters
    ----------
    machine
        Rates of the GPU.
    m, n, k, batch
        Sizes and number of the products; they broadcast.
    form
        Number format of the operands, bf16 or that of the machine's linear layers. They are cast from bf16, and each
        cast serves two products.
    weights
        Whether the k x n operand is weights, whose cast serves all micro-batches and is not counted here.
    result_bytes
        Moved for each element of the result: 2 to write it, twice its size where it is added to what is there.
    share
        Of the machine's rate that the product reaches.

    Returns
    -------
    Seconds.
    """
    tiles, area = _tiles(m, n)
    waves = np.ceil(tiles * batch / machine.rates.processors)
    rate = machine.bf16_flops if form is BF16 else machine.linear_flops
    moved = batch * ((m * k + k * n) * form.element_bytes + m * n * result_bytes) / machine.hbm_Bps
    cast = batch * form.cast_bytes / 2 * (m * k + (0 if weights else k * n)) / machine.cast_Bps
    starts = (1 + form.scale_kernels) * machine.host.kernel_s
    return waves * machine.rates.processors * area * 2 * k / (rate * share) + moved + cast + starts


def _tiles(m: Any, n: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of an m x n result and elements of a tile, of the two ways to lay it the one that needs fewer elements."""
    (upright, upright_area), (turned, turned_area) = (_tiling(m, n, *sides) for sides in (_TILE, _TILE[::-1]))
    less = turned * turned_area < upright * upright_area
    return np.where(less, turned, upright), np.where(less, turned_area, upright_area)


def _tiling(m: Any, n: Any, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of at most rows x columns on an m x n result, and elements of one."""
    a = np.minimum(rows, np.ceil(np.asarray(m) / _TILE_STEP) * _TILE_STEP)
    b = np.minimum(columns, np.ceil(np.asarray(n) / _TILE_STEP) * _TILE_STEP)
    return np.ceil(m / a) * np.ceil(n / b), a * b


def product_passes(
    machine: Machine,
    m: Any,
    n: Any,
    k: Any,
    batch: Any = 1,
    form: LinearFormat = BF16,
    gradient_bytes: int = ELEMENT_BYTES,
    aligned: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times of a product forward, of its input's gradient, and of its weights' gradient.

    Parameters
    ----------
    machine, m, n, k, batch, form
        As for `product_time`: m x k inputs by k x n weights.
    gradient_bytes
        Moved for each element of the weights' gradient.
    aligned
        Whether sides are taken as aligned: those of keys and values, and of a vocabulary, which software pads.

    Returns
    -------
    Seconds of m x n by k, m x k by n, and k x n by m; the last one casts both operands. Weights with a side that no
    _ALIGNED divides take the machine's unaligned_share.
    """
    odd = (np.asarray(n) % _ALIGNED != 0) | (np.asarray(k) % _ALIGNED != 0)
    share = np.where(odd & (not aligned), machine.rates.unaligned_share, 1.0)
    forward, inputs = (product_time(machine, m, a, b, batch, form, share=share) for a, b in ((n, k), (k, n)))
    return forward, inputs, product_time(machine, k, n, m, batch, form, False, gradient_bytes, share)
