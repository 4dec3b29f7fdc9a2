"""Times of products and attention from SimuMax's system file: a JSON of the shares that an accelerator reaches.

SimuMax (GitHub MooreThreads/SimuMax) measures operators shape by shape and stores each as a share of the peak that
stands beside it, so that the times follow whatever the peak is:

- matmul, fp8_matmul: 2 b m n k FLOPs. Results in fp32 that are added to others move more than ours: left out.
- sdp_fwd, sdp_bwd: 2 and 5 times b s^2 a (d_qk + d_v) FLOPs, without the half that a causal mask leaves out.

What it says of bandwidths and networks is not read: its files have typed numbers there, of one direction or of both.
Shares without a shape (efficient_factor) are means or guesses, and are not read either.

Source: GitHub MooreThreads/SimuMax, docs/system.md@5c8e402, simu_tools/efficency_test/test_gemm_efficiency.py@afe4ef5
and test_fa_efficiency.py@4f5b293.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

_KINDS = {"matmul": "product", "fp8_matmul": "product_fp8"}
_ATTENTION = {"sdp_fwd": ("forward_s", 2), "sdp_bwd": ("backward_s", 5)}
_PAIR = re.compile(r"(\w+)=([^,\s]+)")


def looks_like_simumax(value: Any) -> bool:
    """Whether a JSON document is a system file of SimuMax."""
    return isinstance(value, dict) and isinstance(value.get("accelerator"), dict) and "op" in value["accelerator"]


def simumax_times(system: Mapping[str, Any], name: str) -> pd.DataFrame:
    """Times of the operators of a system file, in the columns of data/measured/gpu_parts.csv.

    system: the parsed file. name: of the file, for messages.
    Raises ValueError for a file without operators that were measured by their shape, and for a shape or a share that
    is none.
    """
    operators = system["accelerator"]["op"]
    rows = [*_products(operators, name), *_attention(operators, name)]
    if not rows:
        raise ValueError(
            f"{name} has no accurate_efficient_factor of matmul or sdp_fwd: its shares are typed, not measured; "
            "run SimuMax's efficiency test, or railcore's own script (`railcore measure script`)"
        )
    return pd.DataFrame(rows)


def _shares(operators: Mapping[str, Any], operator: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Shapes of an operator, and FLOP/s of each."""
    entry = operators.get(operator, {})
    for key, share in (entry.get("accurate_efficient_factor") or {}).items():
        shape, where = dict(_PAIR.findall(key)), f"{name}, {operator} {key!r}"
        try:
            rate = float(entry["tflops"]) * 1e12 * float(share)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{where}: share {share!r} of {entry.get('tflops')!r} TFLOP/s: give numbers") from None
        if not 0 < rate < 1e20:
            raise ValueError(f"{where}: share {share!r} gives no time: give one above 0")
        yield shape, rate


def _products(operators: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    for operator, kind in _KINDS.items():
        for shape, rate in _shares(operators, operator, name):
            if shape.get("accumulate") == "True" or shape.get("out_dtype", "bf16") != "bf16":
                continue
            b, m, n, k = (_count(shape, side, operator, name) for side in "bmnk")
            if b == 1:
                sizes = {"m": m, "n": n, "k": k}
                yield {"kind": kind, "name": shape.get("layout", ""), **sizes, "forward_s": 2.0 * m * n * k / rate}


def _attention(operators: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    for operator, (column, products) in _ATTENTION.items():
        for shape, rate in _shares(operators, operator, name):
            fields = ("batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim")
            batch, tokens, heads, kv_heads, query, value = (_count(shape, key, operator, name) for key in fields)
            seconds = products * batch * tokens**2 * max(heads, kv_heads) * (query + value) / rate
            sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": query, "value_dim": value}
            yield {"kind": "attention", "name": "fused", **sizes, "sequence": tokens, "batch": batch, column: seconds}


def _count(shape: Mapping[str, str], key: str, operator: str, name: str) -> int:
    text = shape.get(key, "")
    if not text.isdigit() or not int(text):
        raise ValueError(f"{name}, {operator}: {key} is {text!r} in a shape: give a whole number")
    return int(text)
