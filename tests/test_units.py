import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog import readings, units

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
        ("40,000 kW", 4e7),
        ("40 000 kW", 4e7),
        ("40_000 kW", 4e7),
        ("1,200.5 kW", 1200500),
        ("1.234 kW", 1234),
        ("8 weeks", 8 * 7 * 86400),
        ("2 hours", 7200),
        ("25 \u03bcs", 25e-6),
        ("600 $", 600),
    ],
)
def test_quantities_in_si(text, value):
    assert units.parse(text) == pytest.approx(value, rel=1e-15)


@given(SIGNED, st.sampled_from(SYMBOLS))
def test_what_is_shown_reads_back_within_six_digits(value, symbol):
    assert units.parse(units.show(value, symbol), like=symbol) == pytest.approx(value, rel=5.001e-6)


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
    [
        "",
        "400",
        "Gbps",
        "O4 Gbps",
        "1e999 B",
        "1e308 EB",
        "1,00 Gbps",
        "0,100 Gbps",
        "nan s",
        "inf W",
        "1 2 GB",
        "--5 m",
        None,
        5,
    ],
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


# What people type

POWER, RATE, TIME, PRICE, ENERGY, SIZE = "40 MW", "400 Gbps", "25 ms", "600 USD", "0.08 USD/kWh", "141 GB"


@pytest.mark.parametrize(
    ("text", "example", "value"),
    [
        *(
            (text, POWER, 4e7)
            for text in ("40,000 kW", "40 000 kW", "40_000 kW", "40\u202f000 kW", "40'000 kW", "40 Mw")
        ),
        *((text, POWER, 4e4) for text in ("40 kw", "40 KW", "0.04 MW", "40 thousand W", "40000W", "40.0 kW", "4e1 kW")),
        *((text, POWER, 125.0) for text in ("0.125 kW", "0.1250 kW", "125 w")),
        *((text, RATE, 5e10) for text in ("400 gbps", "400 GBPS", "400 Gbit", "400 Gb/s", "400 gbit/s", "400 Gbits/s")),
        *((text, RATE, 5e10) for text in ("400G", "400 G", "400 Gb", "400GbE", "0.4 tbps", "0.4T", "400 Gb/sec")),
        *((text, RATE, 4e11) for text in ("400 GB/s", "0.4 TB/S")),
        *((text, TIME, 8 * 7 * 86400.0) for text in ("8 weeks", "8 wk", "8 Weeks", "56 days", "56 d", "1,344 hours")),
        *((text, TIME, 5400.0) for text in ("90 minutes", "90 min", "1.5 hr", "1.5 hours", "5,400 sec", "5400 s")),
        *((text, TIME, 25e-6) for text in ("25 us", "25 \u00b5s", "25 \u03bcs")),
        *((text, PRICE, 600.0) for text in ("600 usd", "$600", "600 $", "US$ 600", "0.6 k$", "$0.6k")),
        *((text, PRICE, 1.2e9) for text in ("$1.2B", "$1.2 billion", "1.2 billion USD", "1.2 GUSD", "1,200 m usd")),
        *((text, ENERGY, 0.08 / 3.6e6) for text in ("0.08 $/kWh", "$0.08/kWh", "0.08 USD/kwh", "80 usd/MWH")),
        *((text, SIZE, 141e9) for text in ("141 GB", "1128 Gbit", "0.141 TB", "141gB")),
        *((text, "300 km", 3e5) for text in ("300 KM", "300 Km", "300,000 m")),
        *((text, "16M tokens", 1.6e7) for text in ("16M tokens", "16m tokens", "16 million tokens", "16,000k tokens")),
    ],
)
def test_a_text_with_one_meaning_is_read(text, example, value):
    assert readings.quantity(text, example) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "example", "meanings"),
    [
        ("40.000 kW", POWER, ["40 kW", "40,000 kW"]),
        ("1.500 kW", POWER, ["1.5 kW", "1,500 kW"]),
        ("1.234 kW", POWER, ["1.2340 kW", "1,234 kW"]),
        ("40 mw", POWER, ["40 mW", "40 MW"]),
        ("40.000 mw", POWER, ["40 mW", "40 MW", "40,000 mW", "40,000 MW"]),
        ("400 GBps", RATE, ["400 Gbps", "400 GB/s"]),
        ("400 gb", RATE, ["400 Gbps", "400 GB/s"]),
        ("400 GB", RATE, ["400 Gbps", "400 GB/s"]),
        ("400 gb/s", RATE, ["400 GB/s", "400 Gbit/s"]),
        ("141 gb", SIZE, ["141 GB", "141 Gbit"]),
        ("141 Gb", SIZE, ["141 GB", "141 Gbit"]),
        ("$40.000", PRICE, ["40 $", "40,000 $"]),
        ("40,5 kW", POWER, ["40.5 kW"]),
        ("0,125 kW", POWER, ["0.125 kW"]),
        ("1.234,5 kW", POWER, ["1,234.5 kW"]),
        ("1.234.567 kW", POWER, ["1,234,567 kW"]),
    ],
)
def test_other_texts_are_refused_with_all_their_meanings_which_are_read(text, example, meanings):
    with pytest.raises(readings.SeveralMeanings) as error:
        readings.quantity(text, example)
    assert error.value.meanings == meanings and all(repr(meaning) in str(error.value) for meaning in meanings)
    values = {readings.quantity(meaning, example) for meaning in meanings}
    assert len(values) == len(meanings)


@pytest.mark.parametrize(
    "text", ["", "40", "kW", "1 2 kW", "40 kg", "2 months", "40 kW kW", "1e999 W", "US 40 MW", None, 40, True]
)
def test_what_no_quantity_is_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="give a text with its unit, such as '40 MW'"):
        readings.quantity(text, POWER)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        *((text, 16384) for text in ("16384", "16,384", "16 384", "16_384", " 16384 ")),
        *(("1e5", 100_000), ("100 thousand", 100_000), ("1.5 million", 1_500_000)),
        *(("16k", "'16,000' or '16,384'"), ("8K", "'8,000' or '8,192'"), ("16M", "'16,000,000' or '16,777,216'")),
        *(("16.384", "give '16,384'"), ("16.000", "'16' or '16,000'")),
        *((text, "give a whole number") for text in ("", "x", "1.5", "16 kk", "16 GPUs", "1e300")),
    ],
)
def test_counts(text, read):
    if isinstance(read, int):
        assert readings.count(text) == read
        return
    with pytest.raises(ValueError, match=re.escape(read)):
        readings.count(text)


@given(st.floats(1e-9, 1e12))
def test_a_written_number_has_one_meaning(value):
    assert readings.typed_number(readings.one_meaning(value)) == float(f"{value:.9g}")
