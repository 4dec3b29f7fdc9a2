"""Time of matrix products on a GPU: the processors' work at the rate that products reach, or operands through HBM."""

from typing import Any

import numpy as np

from railcore.training.formats import BF16, ELEMENT_BYTES, LinearFormat
from railcore.training.machine import Machine

# Rows and columns of the tiles that libraries choose from where they cannot split a wave, and the share of the rate
# that each reaches, for smaller tiles read their operands more often: solved from the products of A100 in
# data/measured/products_public.csv.
_TILES = ((256, 128, 1.0), (128, 128, 0.87), (256, 64, 0.87), (128, 64, 0.74))
_STREAMS = 4  # of Transformer Engine's grouped products (GitHub NVIDIA/TransformerEngine, common/util/multi_stream.cpp)
_ALIGNED = 64  # elements of 2 bytes that a side should be a multiple of (NVIDIA, Matrix Multiplication Background)


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
    starts: Any = 1.0,
    grouped: Any = False,
) -> np.ndarray:
    """Time of `batch` matrix products of m x k by k x n, one kernel after the other without a pause.

        max(2 A k / R + A r / (2 E), bytes / B_HBM) + casts + starts of kernels

    - A: elements of the results, m n each. On a GPU whose libraries run whole waves of tiles it is those of the waves.
    - R: the machine's rate: what the GPU sustains at its limit of power (`at_spare_power` has it with pauses).
    - E: results of 2 bytes that the ends of tiles write a second; nothing else runs on the processor then. It takes
      as many times longer as a result moves more than 2 bytes, r: taken so, for only 2 bytes were measured.

    Operands and results pass HBM once, while the processors work.

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
    starts
        Kernels that start one after the other for the whole batch.
    grouped
        Whether the kernel takes sizes that differ from product to product, as those of experts do: it starts later and
        ends tiles more slowly.

    Returns
    -------
    Seconds.
    """
    rates = machine.rates
    narrow = form is not BF16
    rate = machine.linear_flops if narrow else machine.bf16_flops
    epilogue_rate = rates.linear_epilogue_rate if narrow else rates.bf16_epilogue_rate
    written = epilogue_rate * np.where(grouped, rates.grouped_epilogue_share, 1.0)
    results = _whole_waves(m, n, batch, starts, rates.processors) if rates.whole_waves else batch * m * n
    moved = batch * ((m * k + k * n) * form.element_bytes + m * n * result_bytes) / machine.hbm_Bps
    cast_s = form.cast_bytes / 2 / machine.cast_Bps
    cast = cast_s * batch * (m * k + (0 if weights else k * n)) if cast_s else 0.0
    start = np.where(grouped, rates.grouped_start_s, machine.host.kernel_s)
    work = results * (2 * k / (rate * share) + result_bytes / (ELEMENT_BYTES * written))
    return np.maximum(work, moved) + cast + starts * (start + form.scale_kernels * machine.host.kernel_s)


def expert_way(expert_products: str, experts: Any) -> dict[str, Any]:
    """How the products of so many experts start, as arguments of `product_passes`.

    expert_products: of the runtime, one of its EXPERT_PRODUCTS. A single expert is a product as any other.
    """
    if expert_products == "grouped":
        return {"batch": experts, "grouped": np.asarray(experts) > 1}
    streams = _STREAMS if expert_products == "streams" else 1
    return {"batch": experts, "starts": np.ceil(np.asarray(experts) / streams)}


def _whole_waves(m: Any, n: Any, batch: Any, starts: Any, processors: int) -> Any:
    """Elements of `batch` m x n results that processors work on in whole waves of tiles, of the tiles that need fewest.

    W P r c over the tiles' share of the rate: W waves of P processors, r x c tiles, one of _TILES or turned. Kernels
    that start one after the other do not share waves: W = starts ceil(tiles of a kernel / P).
    """
    m, n = np.asarray(m, float), np.asarray(n, float)

    def elements(rows: int, columns: int, share: float) -> Any:
        tiles = np.ceil(m / rows) * np.ceil(n / columns) * (batch / starts)
        return starts * np.ceil(tiles / processors) * processors * rows * columns / share

    sides = [turned for rows, columns, share in _TILES for turned in ((rows, columns, share), (columns, rows, share))]
    return np.minimum.reduce([elements(*tile) for tile in sides])


def at_spare_power(time_s: Any, full_clock_s: Any, spare_s: Any) -> np.ndarray:
    """Time of products that other work interrupts: max(F, T - s), and T where F is no shorter.

    A GPU that multiplies without a pause is at its limit of power, and lowers its clock. What other kernels leave of
    that limit the products take back, up to the full clock: two products reach 658 and 703 TFLOP/s on H100 without a
    pause, 775 and 802 beside copies in memory of three times their time (data/measured/gpu_parts.csv).

    Parameters
    ----------
    time_s
        T, without a pause [s].
    full_clock_s
        F, of `Machine.at_full_clock` [s].
    spare_s
        s, by which the spare power shortens them [s]: of a layer's other kernels their time times the machine's
        `layer_spare_power`.

    Returns
    -------
    Seconds.
    """
    return np.minimum(time_s, np.maximum(full_clock_s, np.asarray(time_s) - spare_s))


def product_passes(
    machine: Machine,
    m: Any,
    n: Any,
    k: Any,
    batch: Any = 1,
    form: LinearFormat = BF16,
    gradient_bytes: int = ELEMENT_BYTES,
    aligned: bool = False,
    starts: Any = 1.0,
    grouped: Any = False,
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
    starts, grouped
        As for `product_time`.

    Returns
    -------
    Seconds of m x n by k, m x k by n, and k x n by m; the last one casts both operands. Weights with a side that no
    _ALIGNED divides take the machine's unaligned_share.
    """
    share: Any = 1.0
    if machine.rates.unaligned_share < 1 and not aligned:
        odd = (np.asarray(n) % _ALIGNED != 0) | (np.asarray(k) % _ALIGNED != 0)
        share = np.where(odd, machine.rates.unaligned_share, 1.0)
    ways: dict[str, Any] = {"batch": batch, "form": form, "share": share, "starts": starts, "grouped": grouped}
    forward, inputs = (product_time(machine, m, *sides, **ways) for sides in ((n, k), (k, n)))
    return forward, inputs, product_time(machine, k, n, m, **ways, weights=False, result_bytes=gradient_bytes)
