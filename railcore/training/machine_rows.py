"""Which rows of the catalog a machine's shares and memory are read from."""

from collections.abc import Container

from railcore import catalog
from railcore.training.formats import FORMATS

RESERVED = ("context_memory", "communication_memory", "fragmentation_memory")  # rows of "all" in efficiencies


def product_share_row(shares: Container[str], precision: str) -> str:
    """The row of a GPU with the share of the dense peak that large products sustain in a precision.

    In training products follow each other, and power limits their clocks: they take matmul_sustained, measured on
    large products one after the other, and not matmul_fraction, the best of any shape. Where a GPU has no sustained
    row, it is matmul_fraction; where it has none in MXFP8 or NVFP4, that of FP8.
    """
    return _first_row(shares, precision, "matmul_sustained", "matmul_fraction")


def full_clock_row(shares: Container[str], precision: str) -> str:
    """The row with the share of the dense peak that products reach at full clock; else that which they sustain.

    Kernels of MXFP8 and NVFP4 are others than those of FP8, so that these never take its full clock.
    """
    row = f"matmul_full_clock_{precision}"
    return row if row in shares else product_share_row(shares, precision)


def epilogue_row(shares: Container[str], precision: str) -> str:
    """The row with the rate at which the ends of a product's tiles write results; of a GPU without it they are free."""
    return _first_row(shares, precision, "epilogue_rate")


def _first_row(shares: Container[str], precision: str, *kinds: str) -> str:
    """The first row of these kinds that is there, in a precision or else in FP8; the last where none is."""
    formats = ("bf16",) if precision == "bf16" else (precision, "fp8")
    names = [f"{kind}_{name}" for name in formats for kind in kinds]
    return next((name for name in names if name in shares), names[-1])


def cast_share_row(precision: str) -> str:
    """The row of the catalog with the share of the memory's bandwidth that casts to a precision reach."""
    return "block_cast_fraction" if FORMATS[precision].scale_kernels else "memory_fraction"


def shared_memory(gpu: catalog.Item) -> float:
    """Memory of a GPU of the catalog that its programs share [bytes].

    It is driver_memory, what nvidia-smi shows: makers round it down to a name of the part. It is `memory` where the GPU
    has no such row, or where a folder of the user's own has another `memory` and no driver_memory for it.
    """
    named = gpu.row("memory")
    driver = gpu.row("driver_memory") if "driver_memory" in gpu else named
    return (named if named.own and not driver.own else driver).value


def reserved_memory() -> float:
    """Memory of a GPU that is not for states and activations [bytes]: context, communication buffers and fragments.

    The sum of the catalog's rows `RESERVED` of "all", or reserved_memory where a folder of the user's own has that row.
    """
    common = catalog.item("efficiencies", "all")
    return common["reserved_memory"] if "reserved_memory" in common else sum(common[part] for part in RESERVED)
