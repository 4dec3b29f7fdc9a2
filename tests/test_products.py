"""Matrix products: formats of linear layers, measured rates, sides that do not divide, and attention by its shape."""

import csv

import numpy as np
import pytest

from railcore import catalog
from railcore.catalog import files
from railcore.training.formats import BF16, FORMATS
from railcore.training.machine import catalog_machine
from railcore.training.machine_rows import product_share_row
from railcore.training.products import product_passes, product_time
from railcore.training.runtime import MODERN

BOXES = {"A100": "DGX A100", "H100": "DGX H100", "H200": "DGX H200", "B200": "DGX B200", "B300": "DGX B300"}
BOXES |= {"GB200": "GB200 NVL72", "MI300X": "MI300X full mesh"}
with files.data("measured/products.csv").open(encoding="utf-8") as text:
    MEASURED = list(csv.DictReader(text))


def sustained_share(machine, sizes, rate_flops, form):
    """Share of the dense peak with which `product_time` gives a measured rate of products [FLOP/s].

    A published rate counts operands that pass HBM and the start of the kernel, which product_time adds to the time of
    the processors; and part of its last wave is idle. The share is C / (sum 2 m n k / rate - rest), C the time of the
    processors at the peak.
    """
    form = form if form is BF16 else form._replace(cast_bytes=0)
    whole, half = (
        sum(float(product_time(machine.changed(linear_fraction=f, bf16_fraction=f), *mnk, form=form)) for mnk in sizes)
        for f in (1.0, 0.5)
    )
    at_peak = half - whole
    return at_peak / (sum(2.0 * m * n * k for m, n, k in sizes) / rate_flops - (whole - at_peak))


def sizes_of(row):
    """Rows, columns and inner sides: of the product, or of a layer's products forward and of both gradients."""
    each = [tuple(map(int, size.split("x"))) for size in row["products"].split()]
    return each if row["passes"] == "forward" else [s for m, n, k in each for s in ((m, n, k), (m, k, n), (k, n, m))]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row['gpu']} {row['precision']}")
def test_sustained_shares_of_the_catalog_follow_from_measured_products(row):
    machine, form = catalog_machine(BOXES[row["gpu"]], row["precision"]), FORMATS[row["precision"]]
    found = sustained_share(machine, sizes_of(row), float(row["rate_tflops"]) * 1e12, form)
    stored = catalog.item("efficiencies", row["gpu"])[f"matmul_sustained_{row['precision']}"]
    assert found == pytest.approx(stored, abs=6e-4)
    assert machine.rates.linear_fraction == stored


@pytest.mark.parametrize("precision", FORMATS)
def test_a_share_gives_back_the_time_that_it_was_solved_from(precision):
    machine, form = catalog_machine("DGX B200", precision), FORMATS[precision]
    sizes = [(8192, 8192, 8192), (4096, 16384, 8192)]
    bare = form if form is BF16 else form._replace(cast_bytes=0)
    took = sum(float(product_time(machine, *size, form=bare)) for size in sizes)
    rate = sum(2 * m * n * k for m, n, k in sizes) / took
    assert sustained_share(machine, sizes, rate, form) == pytest.approx(machine.rates.linear_fraction)


def test_a_gpu_without_a_measured_rate_takes_its_best_one_and_blocks_that_of_fp8():
    best = {"matmul_fraction_bf16", "matmul_fraction_fp8"}
    assert product_share_row(best, "bf16") == "matmul_fraction_bf16"
    assert product_share_row(best, "mxfp8") == "matmul_fraction_fp8"
    more = best | {"matmul_sustained_fp8"}
    assert product_share_row(more, "fp8") == product_share_row(more, "nvfp4") == "matmul_sustained_fp8"


def test_narrower_operands_are_faster_and_scales_of_blocks_cost():
    times = {
        precision: np.array(
            product_passes(
                catalog_machine("DGX B200", precision),
                16384,
                16384,
                8192,
                form=MODERN.linear_format(catalog_machine("DGX B200", precision)),
            )
        )
        for precision in FORMATS
    }
    assert (times["fp8"] < times["bf16"]).all() and (times["nvfp4"] < times["fp8"]).all()
    assert (times["mxfp8"] > times["fp8"]).all()


def test_sides_that_no_64_divides_cost_where_their_price_is_known():
    a100, h100 = catalog_machine("DGX A100"), catalog_machine("DGX H100")
    odd, even = (np.array(product_passes(a100, 4096, n, 14400)) for n in (1800, 1792))
    free = np.array(product_passes(a100.changed(unaligned_share=1.0), 4096, 1800, 14400))
    assert (odd > 1.2 * free).all() and (free >= even).all()
    assert np.array_equal(
        product_passes(h100, 4096, 1800, 14400), product_passes(h100.changed(unaligned_share=1.0), 4096, 1800, 14400)
    )


def test_a_gpu_without_scales_of_blocks_has_no_machine_of_them():
    for platform, precision in (("DGX H100", "mxfp8"), ("DGX H100", "nvfp4"), ("MI355X full mesh", "nvfp4")):
        with pytest.raises(ValueError, match=f"precision is '{precision}': .* has no products with scales of blocks"):
            catalog_machine(platform, precision)
    for platform in ("DGX B200", "MI355X full mesh"):
        assert (
            catalog_machine(platform, "mxfp8").rates.linear_rate == catalog_machine(platform, "fp8").rates.linear_rate
        )
