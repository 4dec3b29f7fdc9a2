"""GPUs that do not fill HB domains: whoever gives them is told."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import show
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import domain_warnings, fat_tree, rail_only, rail_optimized
from railcore.strategies.parts import search
from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.transformer import catalog_model

LLAMA, MACHINE = catalog_model("Llama-3 8B"), catalog_machine("GB200 NVL72")


def test_the_text_has_the_nearest_numbers_that_fill():
    assert domain_warnings(8192, 72) == (
        "8,192 GPUs do not fill HB domains of 72: the last of 114 has 56. 8,136 or 8,208 do.",
    )
    assert domain_warnings(64, 72) == ("64 GPUs do not fill an HB domain of 72. 72 do.",)


@given(st.integers(1, 10**6), st.integers(1, 600))
def test_numbers_that_are_offered_fill(gpus, hb_domain_size):
    texts = domain_warnings(gpus, hb_domain_size)
    assert bool(texts) == (gpus % hb_domain_size > 0)
    for offered in re.findall(r"[\d,]*\d", texts[0].rpartition(". ")[2]) if texts else ():
        near = int(offered.replace(",", ""))
        assert domain_warnings(near, hb_domain_size) == () and 0 < abs(near - gpus) < hb_domain_size


@pytest.mark.parametrize(
    "fabric",
    [
        rail_only(8192, 72, 128),
        rail_optimized(8192, 72, 128),
        rail_only(8192, 72, 128).with_layer(2.0),
        fat_tree(8192, 128, hb_domain_size=72),
        PhotonicRails(8192, 72, ocs_ports=320),
    ],
    ids=lambda fabric: type(fabric).__name__,
)
def test_a_fabric_says_so(fabric):
    assert fabric.warnings == domain_warnings(8192, 72)
    assert rail_only(8208, 72, 128).warnings == ()
    for smaller in (rail_only(64, 72, 64), rail_only(64, 72, 64).with_layer(1.0)):  # than a domain
        assert smaller.warnings == domain_warnings(64, 72)


TENSOR_FIRST = {"context": 1, "placement": "tensor first"}


def test_a_search_says_so_and_which_groups_of_the_best_strategy_straddle():
    box = catalog_machine("GB200 NVL72")
    found = search(LLAMA, box, 128, 128)
    first, *others = found.warnings
    assert first.startswith("128 GPUs do not fill HB domains of 72: the last of 2 has 56. ")
    assert tuple(others) == iteration_times(LLAMA, box, found.best.head(1)).warnings
    whole = search(LLAMA, box, 144, 144, tensor=16, pipeline=1, **TENSOR_FIRST)
    assert whole.warnings[0].startswith("Groups of tensor and data ranks lie unevenly in HB domains of 72:")
    assert search(LLAMA, box, 144, 144, tensor=[1, 2], pipeline=1).warnings == ()
    assert search(LLAMA, box.changed(hb_domain_size=64), 128, 128).warnings == ()


def test_an_estimate_says_where_groups_straddle_and_what_that_does():
    box = catalog_machine("GB200 NVL72")
    columns, even = Strategy(8, data=16).columns(16), Strategy(8, data=18).columns(18)
    (text,) = iteration_times(LLAMA, box, columns).warnings
    assert text.startswith("Groups of data ranks lie unevenly in HB domains of 72: the one with the fewest")
    assert "too long rather than too short. With hb_domain_size=64 of them in use they lie evenly." in text
    assert iteration_times(LLAMA, box, even).warnings == ()
    both = {name: np.array([value, even[name]]) for name, value in columns.items()}
    assert "HB domains of 72 in some strategies: " in iteration_times(LLAMA, box, both).warnings[0]
    (text,) = iteration_times(LLAMA, box, Strategy(16, data=9).columns(9)).warnings
    assert text.startswith("Groups of tensor and data ranks lie") and "perhaps too short. With hb_" in text


def calls(found):
    """Searches that the warnings print as calls, and their texts."""
    texts = [text for text in found.warnings if text.startswith("search(")]
    return [(eval(text.partition(": ")[0], {"search": search}), text) for text in texts]


def test_what_a_search_advises_works_as_printed_and_says_what_it_costs():
    """Each number once, and none of GPUs that fill HB domains but have no strategies, or only slow ones."""
    gpus = 12288
    found = search("Llama-3 405B", "GB200 NVL72", gpus, 1536, top=1, **TENSOR_FIRST)
    first, advised = found.warnings[0], calls(found)
    assert re.findall(r"[\d,]*\d", first) == [f"{gpus:,}", "72", f"{-(-gpus // 72)}", f"{gpus % 72}"]
    assert {other.machine.hb_domain_size for other, _ in advised} == {64, 72}
    assert len({(other.gpus, other.machine.hb_domain_size) for other, _ in advised}) == len(advised)
    rack_usd = catalog.item("platforms", "GB200 NVL72")["price"]
    for other, text in advised:
        K, mine, theirs = other.machine.hb_domain_size, found.best.iloc[0], other.best.iloc[0]
        racks, more = other.gpus // K, other.gpus // K - -(-gpus // 72)
        assert other.gpus % K == 0 and other.parts[0].allowed == found.parts[0].allowed
        assert show(theirs["total_s"], "s", 3) in text
        speed = mine["sequence_s"] / theirs["sequence_s"]
        compared = f"{max(speed, 1 / speed):.3g} times as {'fast' if speed > 1 else 'long'}"
        assert f", {compared}, on {racks} HB domains" in text and speed * 1.1 >= other.gpus / gpus
        usd = show(abs(more) * rack_usd, "USD", 3)
        assert text.endswith(f"({abs(more)} {'more' if more > 0 else 'fewer'}, {usd} by the catalog).")


def test_no_number_is_advised_where_none_does():
    """Llama-3 70B has no factor of 3 in its heads or batch of 2,048, and is not allowed any in its stages."""
    stages = [1, 2, 4, 5, 8, 10, 16, 20, 40, 80]
    found = search("Llama-3 70B", MACHINE, 8192, 2048, top=1, tensor=8, interleave=1, micro_batch=1, pipeline=stages)
    assert found.warnings[0].endswith("No number from half to twice as many fills them and trains about as well a GPU.")
    assert {other.machine.hb_domain_size for other, _ in calls(found)} <= {64}
    assert not search("Llama-3 70B", MACHINE, 8136, 2048, top=1, tensor=8).evaluated  # 113 divides nothing


def test_where_no_split_divides_the_call_that_is_advised_works():
    found = search("Llama-3 405B", "GB200 NVL72", 12312, 2048)
    with pytest.raises(ValueError, match="of 12312 GPUs divides Llama-3 405B and its batch") as caught:
        found.strategy()
    fewer, batch = re.findall(r"(search\(.*?\)): (.*? an iteration)", str(caught.value))
    for (call, takes), gpus, sequences in ((fewer, 12288, 2048), (batch, 12312, 2052)):
        other = eval(call, {"search": search})
        assert (other.gpus, other.parts[0].allowed[0]) == (gpus, found.parts[0].allowed[0]) and other.strategy()
        assert takes == f"{show(other.best['total_s'].iloc[0], 's', 3)} an iteration"
        assert dict(other.parts[0].allowed)["global_batch"] == (sequences,)
    for at_most in (False, True):
        nothing = search("Llama-3 405B", "GB200 NVL72", 12312, 2048, micro_batch=7, at_most=at_most)
        with pytest.raises(ValueError, match=r"allow other degrees, or change the batch$"):
            nothing.strategy()


def test_a_search_tells_of_fewer_gpus_of_each_domain_where_that_is_faster():
    """Racks of 72 hold no even groups of 16; 64 of their GPUs do, and 128 such racks are as many GPUs."""
    found = search("Llama-3 405B", MACHINE, 8192, 2048, **TENSOR_FIRST)
    fewer, text = calls(found)[-1]
    assert "on 128 HB domains, 64 of the 72 GPUs of each in use (14 more, 42 M USD by the catalog)." in text
    assert found.best["total_s"].iloc[0] / fewer.best["total_s"].iloc[0] > 1.05
    assert fewer.warnings == fewer.faster and fewer.machine == MACHINE.changed(hb_domain_size=64)
    prime = search(LLAMA, MACHINE, 73, 73)  # has no divisors
    assert not [text for text in prime.warnings if " in use" in text and text not in prime.faster]


def test_a_search_takes_the_gpus_in_use_of_a_domain():
    one, other = (search(LLAMA, *at, 64, 64).best for at in (["DGX H100"], [catalog_machine("DGX H100")]))
    some = search(LLAMA, "DGX H100", 64, 64, hb_domain_size=4)
    assert one.equals(other) and some.machine == catalog_machine("DGX H100", hb_domain_size=4)
    with pytest.raises(ValueError, match="hb_domain_size is 0"):
        search(LLAMA, "DGX H100", 64, 64, hb_domain_size=0)
