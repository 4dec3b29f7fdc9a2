"""The spec as a JSON schema, and as a commented TOML file to fill in."""

from typing import Any

from railcore.planner.spec import LAYOUTS, Spec, section_in

_EXAMPLE = {"cluster.platform": '"GB200 NVL72"', "cluster.gpus": "12312", "job.model": '"Llama-3 405B"'}
_TABLES = {  # by section: tables in place of a key
    "job": (
        "# [job.model]  # Sizes of a model of your own, as of railcore.Transformer.",
        "# layers = 64                              # likewise hidden, heads, kv_heads, ffn_hidden, vocabulary, ...",
        "# ffn_matrices = 3                         # of the feed-forward: 3 where it is gated (SwiGLU), else 2",
        "",
    ),
    "network": (
        "# [[network.candidate]]  # A network of your own; as many as you like.",
        '# name = "Clos, leaves 3:1"',
        f'# layout = "Clos"                          # {", ".join(LAYOUTS)}',
        "# oversubscription = 3                     # also planes, rails, switch, radix",
        "",
    ),
    "books": (
        "# [books.prices]  # Your own; [books.powers] likewise, in W.",
        '# port = "600 USD"',
        '# transceiver = "400 USD"                  # one end of an optical link',
        '# rate = "400 Gbps"                        # of these links, one direction',
        "",
    ),
}
_ARRAYS = {  # sections of which a spec has as many as it likes
    "measured": (
        "# [[measured]]  # A run of your own. What it leaves out is of the job and the cluster.",
        '# seconds = "6.74 s"                       # of an iteration; or tokens_per_s of a GPU',
        "# gpus = 64",
        "# batch = 128                              # sequences",
        "# strategy = {tensor = 8}                  # as job.mapping; or launch, a Megatron-LM line",
        "# Also model, sequence_length, platform, precision, runtime.",
        '# A file of runs (railcore runs template) stands as measured = "runs.csv" above the first section.',
        "",
    ),
}


def spec_schema() -> dict[str, Any]:
    """JSON schema of a spec."""
    return Spec.model_json_schema()


def spec_template() -> str:
    """A commented spec: every key with its meaning and default."""
    lines = ["# A cluster and its job. Lines with # are the defaults; `railcore plan FILE` reads it.", ""]
    for name, field in Spec.model_fields.items():
        section = section_in(field.annotation)
        if section is None or name in _ARRAYS:
            continue
        heading = f"[{name}]"
        lines.append(heading if any(key.startswith(f"{name}.") for key in _EXAMPLE) else f"# {heading}")
        lines[-1] += f"  # {(section.__doc__ or '').splitlines()[0]}"
        for key, item in section.model_fields.items():
            value = _EXAMPLE.get(f"{name}.{key}")
            shown = f"{key} = {value}" if value else f"# {key} = {_toml(item.default, item.annotation)}"
            lines.append(f"{shown:<43} # {item.description}".rstrip())
        lines += ["", *_TABLES.get(name, ())]
    return "\n".join([*lines, *(line for table in _ARRAYS.values() for line in table)])


def _toml(value: Any, annotation: Any) -> str:
    if value is None or repr(value) == "PydanticUndefined":
        return "..."
    if isinstance(value, bool | str):
        return f'"{value}"' if isinstance(value, str) else str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(item, None) for item in value)}]"
    if isinstance(value, dict):
        return "{}"
    return f"{value:g}"
