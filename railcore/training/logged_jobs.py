"""What a log says of its job, as cells of a file of runs (data/run_columns.csv)."""

import re
from collections.abc import Mapping

from railcore import catalog
from railcore.training.transformer import catalog_model

_COUNTS = (
    *("gpus", "tp", "cp", "pp", "dp", "ep", "interleave", "microbatch", "global_batch"),
    *("seq_len", "layers", "hidden", "heads", "ffn_hidden", "vocab", "experts", "top_k"),
)
_SIZES = ("hidden", "heads", "ffn_hidden", "experts", "top_k")
_OF_MESH = ("tp", "cp", "pp", "ep")  # columns, and names of torchtitan's mesh
_MOST_PADDING = 128 * 8  # tokens: to a multiple of 128 on each of 8 tensor ranks
_NO_RANKS = ("ep", "etp")  # they are among the others


def job_cells(said: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Cells of a job by column, and notes about what no column says.

    said: values by what they mean (data/log_settings.csv), and by group of data/log_lines.csv.
    """
    counts = {name: said[name] for name in _COUNTS if said.get(name, "").isdecimal()}
    counts = {name: text for name, text in counts.items() if int(text)}
    if "gpus" not in counts and {"nodes", "node_gpus"} <= {*said}:
        pair = said["nodes"], said["node_gpus"]
        counts |= {"gpus": str(int(pair[0]) * int(pair[1]))} if all(map(str.isdecimal, pair)) else {}
    cells, notes = counts | _of_model(said, counts) | _of_software(said), []
    latent = _true(said, "latent") and "architecture" not in cells
    if latent or "architecture" in cells:  # which says them, or alone can
        cells = {name: text for name, text in cells.items() if name not in (*_SIZES, "kv_heads", "ffn_matrices")}
    if said.get("recompute_method") == "block" and "recomputed_layers" in said:
        cells["recomputed_layers"] = said["recomputed_layers"]
    if latent:
        notes.append("latent attention: give an architecture")
    if "gpu" in said:
        notes.append(said["gpu"])
    return cells, tuple(notes)


def _true(said: Mapping[str, str], name: str) -> bool | None:
    """Whether a setting is on; None where it is not said."""
    return said[name].lower() == "true" if name in said else None


def _of_model(said: Mapping[str, str], counts: Mapping[str, str]) -> dict[str, str]:
    """The architecture where a model of the catalog has the sizes, else what the sizes leave open."""
    if "model" in said:
        name = said["model"]
        return {"model": name} | ({"architecture": found} if (found := architecture_of(name)) else {})
    if not {"layers", "hidden", "heads"} <= {*counts}:
        return {}
    if name := _model_of_sizes(said, counts):
        return {"architecture": name}
    cells = {}
    gated = _true(said, "gated")
    if gated is None and "activation" in said:
        gated = "glu" in said["activation"]
    if gated is not None:
        cells["ffn_matrices"] = "3" if gated else "2"
    if "experts" in counts and "expert_hidden" in said:
        cells["ffn_hidden"] = said["expert_hidden"]
    # Megatron-LM prints num_query_groups of 1 where heads share no keys and values.
    if _true(said, "grouped") is not False and said.get("kv_heads", "").isdecimal():
        cells["kv_heads"] = said["kv_heads"]
    return cells


def _model_of_sizes(said: Mapping[str, str], counts: Mapping[str, str]) -> str:
    """The one model of the catalog with these sizes: of several that with as many layers, then that whose tokens are
    padded to these; "" for none or several."""
    found = []
    for model in map(catalog_model, catalog.names("models")):
        widths = {model.ffn_hidden, model.expert_hidden} - {0}
        stated = {int(said[key]) for key in ("ffn_hidden", "expert_hidden") if said.get(key, "").isdecimal()}
        experts = int(counts.get("experts", 0))
        if (int(counts["hidden"]), int(counts["heads"]), experts) != (model.hidden, model.heads, model.experts):
            continue
        if (stated and not stated & widths) or (experts and int(counts.get("top_k", model.top_k)) != model.top_k):
            continue
        found.append(model)
    found = [model for model in found if int(counts["layers"]) == model.layers] or found
    if len(found) > 1 and "vocab" in counts:
        found = [model for model in found if 0 <= int(counts["vocab"]) - model.vocabulary < _MOST_PADDING]
    return found[0].name if len(found) == 1 else ""


def _of_software(said: Mapping[str, str]) -> dict[str, str]:
    """Precision, recompute and what the software splits."""
    cells = {}
    if precision := _precision(said):
        cells["precision"] = precision
    if said.get("recompute") in ("selective", "full"):
        cells["recompute"] = said["recompute"]
    for name, column, values in (
        ("sequence_parallel", "sequence_parallel", ("0", "1")),
        ("distributed_optimizer", "sharding", ("none", "optimizer")),
    ):
        if (on := _true(said, name)) is not None:
            cells[column] = values[on]
    if "experts" in said and said.get("experts", "").isdecimal():
        if said.get("dispatcher") in ("alltoall", "allgather"):
            cells["dispatcher"] = said["dispatcher"]
        if said.get("expert_tensor", "").isdecimal():
            cells["expert_tensor"] = said["expert_tensor"]
    return cells


def _precision(said: Mapping[str, str]) -> str:
    """Of the linear layers; "" where the log does not say it."""
    if "float8" in said:
        return "mxfp8" if "mxfp8" in said["float8"] else "fp8"
    if said.get("fp4", "false").lower() != "false":
        return "nvfp4"
    if said.get("fp8", "false").lower() != "false":
        return "mxfp8" if said.get("fp8_recipe") == "mxfp8" else "fp8"
    return "bf16" if _true(said, "bf16") else ""


def mesh_cells(said: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Cells of torchtitan's device mesh, and notes. said: the mesh's names and sizes, or its degrees."""
    if "mesh_sizes" in said:
        names = re.findall(r"\w+", said["mesh"])
        degrees = dict(zip(names, map(int, re.findall(r"\d+", said["mesh_sizes"])), strict=False))
    elif "degrees" in said:
        degrees = {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", said["degrees"])}
    else:
        return {}, ()
    gpus, dp, shard = 1, 1, 1
    for name, size in degrees.items():
        gpus *= 1 if name in _NO_RANKS else size
        dp *= size if name.startswith("dp_") else 1
        shard *= size if name.startswith("dp_shard") else 1
    cells = {name: str(degrees[name]) for name in _OF_MESH if name in degrees}
    cells |= {"gpus": str(gpus), "dp": str(dp), "sharding": "weights" if shard > 1 else "none"}
    notes = (f"weights are sharded over {shard} of {dp} data-parallel ranks",) if 1 < shard < dp else ()
    if "local_batch" in said and degrees.get("pp", 1) == 1:  # else its micro-batches are part of it
        cells["microbatch"] = said["local_batch"]
    return cells, notes


def architecture_of(name: str) -> str:
    """The model of the catalog that a name of a log means, such as "llama3.1 405b"; "" for none.

    Llama 3.1 and 3.3 have the sizes of Llama-3.
    """
    letters = re.sub("[^a-z0-9]", "", name.lower())
    known = {re.sub("[^a-z0-9]", "", model.lower()): model for model in catalog.names("models")}
    for text in (letters, re.sub(r"llama3[13](?=\d+b)", "llama3", letters)):
        if near := [key for key in known if text.startswith(key)]:
            return known[max(near, key=len)]
    return ""
