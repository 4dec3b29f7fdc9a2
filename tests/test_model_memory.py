"""Memory of models and the GPUs that hold them: by hand, against the transformer's own states, and its limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import MiB
from railcore.training import transformer
from suite.nwktimes2025 import model_memory
from suite.nwktimes2025.model_memory import gpus_to_hold, model_memory_table


def test_bytes_are_bits_of_the_format():
    assert [model_memory.format_bytes(name) for name in ("fp32", "bf16", "int8", "fp4")] == [4, 2, 1, 0.5]
    with pytest.raises(ValueError, match="number_format is 'half'"):
        model_memory.format_bytes("half")


def test_training_keeps_what_a_transformer_says_that_it_keeps():
    model = transformer.catalog_model("Llama-3 8B")
    row = model_memory_table({"8B": model.total_parameters}, ["bf16"], "H100", 8, ["training"]).iloc[0]
    states = model.state_bytes()
    assert row["memory_bytes"] == pytest.approx(float(sum(states.values())))  # 2 + 4 + 12 bytes either way
    assert row["gradients_bytes"] == pytest.approx(float(states["gradients"]))


@given(st.floats(1, 1e14), st.sampled_from(["A100", "H100", "H200", "GB200"]))
def test_gpus_are_the_fewest_that_hold_it(memory, gpu):
    count = int(gpus_to_hold(memory, gpu))
    room = model_memory.gpu_memory(gpu)
    assert count * room >= memory * (1 - 1e-9) and (count == 1 or (count - 1) * room < memory)


@given(st.integers(1, 10_000))
def test_a_byte_more_is_a_gpu_more_but_the_last_bit_of_a_product_is_not(gpus):
    full = gpus * 81559 * MiB  # as the driver shows a GPU named 80 GB
    assert gpus_to_hold([np.nextafter(full, np.inf), full + 1000], "H100").tolist() == [gpus, gpus + 1]


def test_table_has_servers_and_the_network_that_its_gpus_need():
    table = model_memory_table({"8B": 8e9, "70B": 70e9, "405B": 405e9}, ["bf16"], "H100", 8, ["inference"])
    assert table["gpus"].to_list() == [1, 2, 10] and table["servers"].to_list() == [1, 1, 2]
    assert table["network"].to_list() == ["none", "scale-up", "scale-up and scale-out"]
