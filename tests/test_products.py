"""Matrix products: formats of linear layers, measured rates, sides that do not divide, and attention by its shape."""

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog import files
from railcore.training.formats import BF16, FORMATS
from railcore.training.machine import catalog_machine
from railcore.training.machine_rows import full_clock_row, product_share_row
from railcore.training.measured_products import TABLE_FORMATS, product_errors
from railcore.training.products import at_spare_power, expert_way, product_passes, product_time
from railcore.training.runtime import EXPERT_PRODUCTS, MODERN

BOXES = {"A100": "DGX A100", "H100": "DGX H100", "H200": "DGX H200", "B200": "DGX B200", "B300": "DGX B300"}
BOXES |= {"GB200": "GB200 NVL72", "MI300X": "MI300X full mesh"}
BOXES |= {"H100 PCIe": "H100 PCIe pair", "H100 HBM2e 96GB": "Grand Teton H100 HBM2e"}
PARTS = pd.read_csv(files.data("measured/gpu_parts.csv"))
with files.data("measured/products.csv").open(encoding="utf-8") as text:
    MEASURED = list(csv.DictReader(text))


def sustained_share(machine, sizes, rate_flops, form):
    """Share of the dense peak with which `product_time` gives a measured rate of products [FLOP/s].

    A published rate counts the ends of tiles and the start of the kernel, which product_time adds to the time of the
    processors. The share is C / (sum 2 m n k / rate - rest), C the time of the processors at the peak.
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
    solved = sustained_share(machine, sizes_of(row), float(row["rate_tflops"]) * 1e12, form)
    stored = catalog.item("efficiencies", row["gpu"]).row(f"matmul_sustained_{row['precision']}")
    assert machine.rates.linear_fraction == stored.value
    if row["gpu"] == "H100":  # measured on another card too, in many more shapes
        card = card_share(row["precision"])
        mean = (solved + card) / 2 if row["precision"] == "bf16" else card
        assert mean == pytest.approx(stored.value, abs=2e-3) and stored.low <= card <= solved <= stored.high
    else:
        assert solved == pytest.approx(stored.value, abs=6e-4)


def card_share(precision):
    """Median of the shares that solve the products of data/measured/gpu_parts.csv."""
    machine, form = catalog_machine("DGX H100", precision), FORMATS[precision]
    products = [
        (2.0 * m * n * k / seconds, (m, n, k))
        for row in PARTS[PARTS["kind"] == ("product" if precision == "bf16" else "product_fp8")].itertuples()
        for (m, n, k), seconds in (
            ((row.m, row.n, row.k), row.forward_s),
            ((row.m, row.k, row.n), row.input_gradient_s),
            ((row.k, row.n, row.m), row.weight_gradient_s),
        )
        if np.isfinite(seconds)
    ]
    return np.median([sustained_share(machine, [size], rate, form) for rate, size in products])


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
    assert full_clock_row(more, "fp8") == "matmul_sustained_fp8"
    assert full_clock_row(more | {"matmul_full_clock_fp8"}, "fp8") == "matmul_full_clock_fp8"
    assert full_clock_row(more | {"matmul_full_clock_fp8"}, "mxfp8") == "matmul_sustained_fp8"


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


def test_a_product_takes_the_longer_of_processors_and_memory():
    """Both limits of the law: the rate where the inner side is long, the memory's bandwidth where it is short."""
    machine = catalog_machine("DGX H100").changed(kernel_s=0.0)
    m = n = 16384
    long, short = 2**24, 64
    assert float(product_time(machine, m, n, long)) == pytest.approx(2.0 * m * n * long / machine.bf16_flops, rel=1e-4)
    thin = machine.changed(bf16_epilogue_rate=np.inf)
    moved = 2 * (m * short + short * n + m * n)
    assert float(product_time(thin, m, n, short)) == pytest.approx(moved / machine.hbm_Bps)
    more = product_time(machine, m, n, 8192, result_bytes=8) - product_time(machine, m, n, 8192)
    assert float(more) == pytest.approx(3 * m * n / machine.rates.bf16_epilogue_rate, rel=1e-9)


def test_whole_waves_never_need_less_and_cost_nothing_where_tiles_fill_them():
    machine = catalog_machine("DGX A100")
    split, sides = machine.changed(whole_waves=False), np.arange(256, 6000, 37)
    assert (product_time(machine, sides, 2048, 4096) >= product_time(split, sides, 2048, 4096)).all()
    full = 256 * machine.rates.processors, 128 * 3, 4096
    assert float(product_time(machine, *full)) == pytest.approx(float(product_time(split, *full)), rel=1e-12)


@given(time=st.floats(1e-6, 1.0), full_clock=st.floats(1e-6, 1.0), spare=st.floats(0.0, 1.0))
def test_spare_power_shortens_products_down_to_the_full_clock(time, full_clock, spare):
    taken = float(at_spare_power(time, full_clock, spare))
    assert min(time, full_clock) <= taken <= time
    assert at_spare_power(time, full_clock, 0.0) == time
    assert at_spare_power(time, time, spare) == time


def test_products_between_copies_are_as_measured():
    """Copies of 0.3, 1 and 3 times a product's time beside it: the product's time, as near as its time alone is."""
    machine = catalog_machine("DGX H100")
    rows = PARTS[PARTS["kind"] == "product_between_copies"]
    for _, some in rows.groupby("n"):
        without = some["forward_s"].iloc[0]
        for row in some.itertuples():
            spare_s = machine.rates.spare_power * float(row.name.split()[2]) * row.forward_s
            full_clock = product_time(machine.at_full_clock, row.m, row.n, row.k)
            assert float(at_spare_power(without, full_clock, spare_s)) == pytest.approx(row.forward_s, rel=0.065)


def test_rows_of_the_catalog_are_the_laws_of_the_public_table():
    laws = pd.read_csv(files.data("derived/product_laws.csv"))
    for law in laws[laws["precision"] != "fp8_block"].itertuples():
        shares, precision = catalog.item("efficiencies", law.gpu), TABLE_FORMATS[law.precision]
        assert shares[f"matmul_full_clock_{precision}"] == pytest.approx(law.full_clock)
        row = shares.row(f"epilogue_rate_{precision}")
        if law.gpu == "H100":  # measured on another card too
            assert row.low <= law.epilogue_rate <= row.high
        else:
            assert row.value == pytest.approx(law.epilogue_rate)


def test_errors_of_the_public_table_are_those_of_its_laws():
    table = pd.read_csv(files.data("measured/products_public.csv"))
    errors = product_errors(pd.concat([table, table]).sample(frac=1, random_state=1))
    means = errors["error"].abs().groupby([errors["gpu"], errors["precision"]]).mean()
    stored = pd.read_csv(files.data("derived/product_laws.csv")).set_index(["gpu", "precision"])["mean_error"]
    assert means.to_dict() == pytest.approx(stored.to_dict(), rel=1e-6)
    with pytest.raises(ValueError, match="table has products of H100 in nvfp4: give those of A100 in bfloat16, "):
        product_errors(table.head(1).assign(gpu="H100", precision="nvfp4"))


def test_the_share_of_ones_own_card_is_one_argument():
    box = catalog_machine("DGX B200", sustained_share=0.48)
    assert box.rates.linear_fraction == box.rates.bf16_fraction == 0.48
    narrow = catalog_machine("DGX B200", "fp8", sustained_share=0.48)
    assert narrow.rates.linear_fraction == 0.48
    assert narrow.rates.bf16_fraction == catalog_machine("DGX B200").rates.bf16_fraction
    for share in (0.0, 1.1):
        with pytest.raises(ValueError, match="sustained_share"):
            catalog_machine("DGX B200", sustained_share=share)


def test_experts_one_after_another_do_not_share_waves():
    machine = catalog_machine("DGX A100")
    one = float(product_time(machine, 64, 768, 2048))
    assert float(product_time(machine, 64, 768, 2048, **expert_way("loop", 128))) == pytest.approx(128 * one)
    assert float(product_time(machine, 64, 768, 2048, **expert_way("grouped", 128))) < 64 * one
    for way in EXPERT_PRODUCTS:
        assert float(product_time(machine, 64, 768, 2048, **expert_way(way, 1))) == pytest.approx(one)


def test_the_ways_to_start_experts_differ_where_they_are_small():
    """One kernel for all is the fastest for many small experts; for a few large ones the ways are alike."""
    machine = catalog_machine("DGX H100")

    def times(experts, *size):
        return {way: float(product_time(machine, *size, **expert_way(way, experts))) for way in EXPERT_PRODUCTS}

    small, large = times(128, 64, 768, 2048), times(8, 8192, 14336, 4096)
    assert small["grouped"] < small["streams"] < small["loop"]
    assert max(large.values()) == pytest.approx(min(large.values()), rel=0.03)
    assert expert_way("grouped", 1)["grouped"].item() is False


def test_experts_of_the_pull_request_that_priced_them_over_streams():
    """GitHub NVIDIA/TransformerEngine pull request 2045, TE 2.7: TFLOP/s of 8 and of 16 experts on H100."""
    machine = catalog_machine("DGX H100")
    for (experts, m, n, k), streams, grouped in (
        ((8, 4096, 768, 2048), 627.9, 650.6),
        ((16, 2048, 768, 2048), 553.9, 636.9),
    ):
        flops = 2e-12 * experts * m * n * k
        for way, rate in (("streams", streams), ("grouped", grouped)):
            time = float(product_time(machine, m, n, k, **expert_way(way, experts)))
            assert flops / time == pytest.approx(rate, rel=0.17)
