"""The published training runs: every row is whole, divides, and names what the columns may hold."""

import re

import pandas as pd
import pytest

from railcore import catalog
from railcore.catalog import files
from railcore.training.transformer import RECOMPUTE, SHARDING

ROWS = pd.read_csv(files.data("measured/iterations.csv"), keep_default_na=False)
ARCHITECTURES = {
    *("DeepSeek-V3", "GPT-OSS 20B", "GPT-OSS 120B", "Grok-1", "Llama-4 Maverick", "Mixtral 8x7B"),
    *("Qwen3-30B-A3B", "Qwen3-235B-A22B"),
}


def stages(layout):
    """Chunks of a printed layout of the pipeline: "a*2" is aa, "(ab)*2" is abab, and | ends a chunk."""
    whole = re.sub(r"\(([^)]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), layout)
    return re.sub(r"(\w)\*(\d+)", lambda found: found[1] * int(found[2]), whole).strip("|").split("|")


def test_rows_divide():
    assert (ROWS["gpus"] == ROWS["tp"] * ROWS["cp"] * ROWS["pp"] * ROWS["dp"]).all()
    assert (ROWS["global_batch"] % (ROWS["dp"] * ROWS["microbatch"]) == 0).all()
    modelled = ROWS[ROWS["use"] != "outside"]
    # a mixture's tensor ranks that do not share an expert hold different ones
    holders = modelled["gpus"] // modelled["pp"] // modelled["expert_tensor"]
    dense = modelled["experts"] == 0
    assert (holders % modelled["ep"] == 0)[~dense].all() and modelled.loc[dense, "ep"].eq(1).all()


def test_rows_are_told_apart():
    settings = ROWS.drop(columns=["measured_iteration_s", "kind"])
    assert not settings.duplicated().any()
    assert ROWS["source"].str.len().gt(10).all() and ROWS["note"].ne("").all() and ROWS["kind"].ne("").all()
    assert (ROWS["measured_iteration_s"] > 0).all()


def test_columns_hold_known_names():
    known = {
        "use": {"fit", "solve", "check", "forward", "outside"},
        "precision": {"bf16", "fp8", "mxfp8", "nvfp4"},
        "recompute": RECOMPUTE,
        "sharding": SHARDING,
        "runtime": catalog.names("runtimes"),
        "dispatch": {"", "dropless", "drop"},
        "dispatcher": {"", "alltoall", "allgather", "deepep", "hybridep"},
        "expert_overlap": {"", "0", "1"},
        "graphs": {"", "none", "parts", "whole"},
        "gradient_bytes": {"", "2", "4"},
        "fp8_attention": {"", "0", "1"},
    }
    for name, values in known.items():
        assert set(ROWS[name].astype(str)) <= set(values), name
    assert "modern" not in set(ROWS["runtime"])


def test_mixtures_name_their_architecture_and_routing():
    mixture = ROWS["experts"] > 0
    assert set(ROWS.loc[mixture, "architecture"]) == ARCHITECTURES and (ROWS.loc[~mixture, "architecture"] == "").all()
    routed = ROWS[mixture & (ROWS["use"] != "outside")]
    assert (routed["dispatch"] != "").all() and (routed["dispatcher"] != "").all()
    assert ((ROWS["capacity"] > 0) == (ROWS["dispatch"] == "drop")).all()
    assert (ROWS.loc[~mixture, ["expert_tensor", "capacity"]] == [1, 0]).all(axis=None)


@pytest.mark.parametrize("layout", sorted(set(ROWS["pipeline_layout"])))
def test_layers_fill_the_stages(layout):
    rows = ROWS[ROWS["pipeline_layout"] == layout]
    chunks = rows["pp"] * rows["interleave"]
    if layout in ("even", "ends"):
        taken = rows["layers"] + (2 if layout == "ends" else 0)
        uneven = (rows["use"] == "fit") | (rows["runtime"] == "deepseek2024")  # 61 layers, not printed how
        uneven |= rows["flag"].str.contains("layers|stages|mapping|micro-batches") | (rows["use"] == "outside")
        assert (taken % chunks)[~uneven].eq(0).all()
        return
    found = stages(layout)
    assert len(found) == chunks.iloc[0] and chunks.nunique() == 1
    assert (rows["layers"] == "".join(found).count("t")).all()


def test_every_row_says_when_its_software_was_released():
    assert ROWS["released"].str.fullmatch(r"20\d\d-(0[1-9]|1[0-2])").all()
    named = ROWS["source"].str.extract(r"container NeMo (\d\d)\.(\d\d)").dropna()
    assert (ROWS.loc[named.index, "released"] == "20" + named[0] + "-" + named[1]).all()


def test_rows_that_the_columns_do_not_describe_say_why():
    assert ROWS.loc[ROWS["use"] == "outside", "flag"].ne("").all() and ROWS["flag"].ne("").sum() > 100
    assert not ROWS["note"].str.startswith("outside").any()
