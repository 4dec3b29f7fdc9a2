import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog import units

SYMBOLS = ("bps", "B", "B/s", "bit", "FLOP/s", "s", "h", "W", "J", "Wh", "m", "dB", "USD", "USD/kWh", "GPUs", "%")
SIGNED = st.builds(lambda sign, x: sign * x, st.sampled_from([-1, 1]), st.floats(1e-12, 1e24))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("400 Gbps", 5e10),
        ("80 GiB", 80 * 2**30),
        ("0.36 USD/kWh", 1e-7),
        ("37.5 %", 0.375),
        ("1 year", 365 * 86400),
        ("3.6 kg/kWh", 1e-6),
        ("16 Mt", 1.6e10),
        ("5 ms", 5e-3),
        ("5 min", 300),
        ("5 Mb", 5e6 / 8),
        ("  1e3Gbps ", 1.25e11),
        ("-2.5 us", -2.5e-6),
        ("16M tokens", 1.6e7),
        ("15T tokens", 1.5e13),
    ],
)
def test_quantities_in_si(text, value):
    assert units.parse(text) == pytest.approx(value, rel=1e-15)


@given(SIGNED, st.sampled_from(SYMBOLS))
def test_what_is_shown_reads_back_within_six_digits(value, symbol):
    shown = units.show(value, symbol).replace(",", "")
    assert units.parse(shown, like=symbol) == pytest.approx(value, rel=5.001e-6)


@given(SIGNED, st.sampled_from([*SYMBOLS, "Gbps", "KiB", "GB/s", "MW", "USD/year", "TFLOP/s"]))
def test_convert_undoes_parse(value, symbol):
    assert units.convert(units.parse(f"{value!r} {symbol}"), symbol) == pytest.approx(value, rel=1e-14)
    both = units.convert(np.array([value, 0.0]), symbol)
    assert both[0] == units.convert(value, symbol)
    assert both[1] == 0


@given(st.floats(1, 9e20), st.sampled_from(["bps", "B", "B/s", "W"]))
def test_prefix_leaves_one_to_a_thousand(value, symbol):
    digits = units.show(value * units.unit(symbol)[1], symbol).split()[0]
    assert 1 <= float(digits) < 1000


@given(st.floats())
def test_number_is_the_float_at_six_digits(value):
    text = units.number(value)
    if math.isnan(value):
        assert text == "nan"
        return
    assert float(text.replace(",", "")) == float(f"{float(f'{value:.12g}'):.6g}")
    if 1e-5 <= abs(value) < 9.99e14:
        assert re.fullmatch(r"-?\d{1,3}(,\d{3})*(\.\d*[1-9])?", text)


def test_numbers_as_a_person_writes_them():
    shown = [units.number(value) for value in (0, 65536, 1234567.8, 0.375, 2 / 3, -0.00002, 999999.7, math.inf)]
    assert shown == ["0", "65,536", "1,234,570", "0.375", "0.666667", "-0.00002", "1,000,000", "inf"]
    assert units.show(5e10, "bps") == "400 Gbps"
    assert units.show(0.99999999, "s") == "1 s"  # rounded before the prefix is chosen
    assert units.show(3e8, "USD") == "300 M USD"
    assert units.show(0.375) == "0.375" and units.show(math.inf, "bps") == "inf bps"


@pytest.mark.parametrize("tie", [6487.5, 0.125, 2.5, 1.0005, 99.95, 999.5, 1e15])
def test_the_last_bit_turns_no_tie(tie):
    near = [math.nextafter(tie, 0), tie, math.nextafter(tie, math.inf)]
    for digits in (1, 2, 3, 4, 6):
        assert len({units.number(value, digits) for value in near}) == 1
        assert len({units.show(value * units.giga, "W", digits) for value in near}) == 1
    assert len({f"{units.significant(value):.0f} {units.significant(value):.2%}" for value in near}) == 1


def test_significant_keeps_twelve_digits():
    assert units.significant(6487.499999999977) == units.significant(6487.500000000003) == 6487.5
    assert units.significant(1.00000000001) == 1.00000000001 and units.significant(-1.23456789012345) == -1.23456789012
    assert units.significant(0) == 0 and units.significant(math.inf) == math.inf


@pytest.mark.parametrize(
    "text",
    ["", "400", "Gbps", "O4 Gbps", "1e999 B", "1e308 EB", "1,000 Gbps", "nan s", "inf W", "1 2 GB", "--5 m", None, 5],
)
def test_what_is_no_quantity_is_named(text):
    with pytest.raises(ValueError, match="quantity") as error:
        units.parse(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("symbol", ["furlong", "kfurlong", "Gbps/s/s", "", "/s", "KiW", "mB", "kmin"])
def test_unknown_unit_is_named(symbol):
    with pytest.raises(ValueError, match=re.escape(f"unit {symbol!r} is unknown")):
        units.unit(symbol)


@pytest.mark.parametrize(("text", "like"), [("400 GB", "Gbps"), ("5 m", "s"), ("3 USD", "USD/kWh"), ("8 W", "Wh")])
def test_another_dimension_is_refused_by_its_text(text, like):
    with pytest.raises(ValueError, match=f"quantity '{text}' is in .* write it in {like}"):
        units.parse(text, like=like)


def test_dimensions():
    known = {"400 Gbps": "B/s", "5 GB": "B", "2 years": "s", "3 USD/kWh": "USD/J", "4 %": "1", "7 racks": "1"}
    assert {text: units.dimension_of(text) for text in known} == known
    assert [units.dimension_of(text) for text in ("railonly2025", "5 furlongs", "5", "", None, 5)] == [None] * 6


def test_a_noun_follows_its_count():
    found = [units.counted(count, "places") for count in (0, 1, 1.0, 2, 2000)]
    assert found == ["0 places", "1 place", "1 place", "2 places", "2,000 places"]
    singular = ["switch", "authority", "address", "node", "GPU", "rank"]
    nouns = ["switches", "authorities", "addresses", "nodes", "GPUs", "rank"]
    assert [units.counted(1, noun) for noun in nouns] == [f"1 {noun}" for noun in singular]


@given(st.lists(SIGNED.map(lambda value: float(f"{value:.11g}")), min_size=1))
def test_numbers_that_differ_in_the_last_bits_are_one(values):
    found = units.distinct([*np.nextafter(values, np.inf), *np.nextafter(values, -np.inf), *values])
    assert found == sorted(set(values))
