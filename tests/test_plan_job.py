"""The job of a plan: a model by config.json or launch line, a mapping of one's own, and what the terminal says."""

import json
import re

import pytest
from test_hugging_face import PUBLIC
from test_plan import spec
from test_plan_spec import LINE, SIZES

from railcore.planner.case import case_of
from railcore.planner.planning import plan
from railcore.planner.report import terminal_text
from railcore.planner.spec_reading import read_spec
from railcore.training.transformer import Transformer, catalog_model

CONFIG = PUBLIC["Llama-3.1-8B"]["config"]
LLAMA = catalog_model("Llama-3 8B")
FASTER = {"micro_batch": 1, "context": 1, "pipeline": 1, "placement": "tensor first"}  # a short search
ALONE = {"model": None, "batch": None, "launch": LINE}


def case(**job):
    """The case of a job on 64 GPUs, Llama-3 8B by default."""
    return case_of(read_spec(spec(job=job)))


def test_a_catalog_model_takes_another_sequence_length():
    found = case(sequence_length=2048)
    assert found.model == catalog_model("Llama-3 8B", sequence_length=2048) and found.warnings == ()
    assert case(batch="16M tokens", sequence_length=2048).batch == 16e6 / 2048
    # A published batch of sequences keeps its tokens.
    longer = case(model="DeepSeek-V3", batch=None, sequence_length=8192)
    assert longer.batch * 8192 == case(model="DeepSeek-V3", batch=None).batch * 4096
    with pytest.raises(ValueError, match=r"job\.model: sequence_length is 2048, and another in job: leave one out"):
        case(model=SIZES, sequence_length=4096)
    assert case(model={**SIZES, "sequence_length": 4096}, sequence_length=4096).model.sequence_length == 4096


def test_a_model_of_a_config_file_beside_the_spec(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    text = '[cluster]\nplatform = "DGX H100"\ngpus = 64\n[job]\nconfig = "config.json"\ntokens = 1e12\nbatch = 512\n'
    path = tmp_path / "spec.toml"
    path.write_text(text)
    found = case_of(read_spec(path))
    assert found.model == Transformer.from_config(CONFIG) and "sequences are of 131,072 tokens" in found.warnings[0]
    path.write_text(text + "sequence_length = 8192\n")
    assert case_of(read_spec(path)).model == Transformer.from_config(CONFIG, sequence_length=8192)
    assert read_spec(path) == read_spec(spec(model=None, gpus=64, job={"config": CONFIG, "sequence_length": 8192}))
    path.write_text(text.replace("config.json", "other.json"))
    with pytest.raises(ValueError, match=r"job.config is '.*other.json' \(No such file or directory\): give a config"):
        read_spec(path)


def test_what_a_config_does_not_say_is_told():
    found = case(model=None, config=PUBLIC["DeepSeek-V3"]["config"], sequence_length=4096)
    assert found.warnings == ("job.config: 1 layer for further tokens (num_nextn_predict_layers) not modelled.",)
    with pytest.raises(ValueError, match=r"job\.config: config has model_type mamba2"):
        case(model=None, config={**CONFIG, "model_type": "mamba2"})
    with pytest.raises(ValueError, match=r"job.model: num_hidden_layers is layers here: give it, or the whole file"):
        case(model={"num_hidden_layers": 3})


@pytest.mark.parametrize(
    ("job", "text"),
    [
        ({"model": None}, "job has no model: give model, such as"),
        ({"config": CONFIG}, "job.model is given beside job.config: give one of them"),
    ],
)
def test_a_job_has_one_model(job, text):
    with pytest.raises(ValueError, match=text):
        read_spec(spec(job=job))


def test_a_launch_line_alone_says_the_model_and_the_batch():
    found = case(**ALONE)
    assert found.model.total_parameters == LLAMA.total_parameters and found.batch == 512
    assert found.own_strategy[0].tensor == 8 and found.own_strategy[1] == 512
    assert case(**ALONE | {"batch": 256}).batch == 256
    assert case(batch=None, launch=LINE).batch == 512  # where the catalog has none of the model
    assert case(model="Llama-3 405B", batch=None).batch != 512
    page = plan(spec(candidates=["rail-optimized"], job={**ALONE, "search": FASTER}))
    (table,) = [part for part in page.document(False)["sections"] if part["id"] == "assumptions"]
    assert ["job.batch", "512 sequences", "of the launch line"] in table["tables"][0]["rows"]
    with pytest.raises(ValueError, match=r"job.launch: .*no model: --num-layers.* missing.*: give job.model too"):
        case(**ALONE | {"launch": "--tensor-model-parallel-size 8 --micro-batch-size 1"})
    with pytest.raises(ValueError, match=r"job.sequence_length is 4096, --seq-length of job.launch 8192: leave one"):
        case(**ALONE | {"sequence_length": 4096})


def test_tokens_of_less_than_an_iteration_are_refused():
    with pytest.raises(
        ValueError, match=r"job\.tokens is 15, fewer than those of an iteration: give all, such as 15e12"
    ):
        case(tokens=15)


def test_a_mapping_says_its_batch_where_the_best_has_another():
    job = {"search": FASTER, "mapping": {"tensor": 8, "global_batch": 64}}
    text = terminal_text(plan(spec(candidates=["rail-optimized"], job=job)))
    assert "- Your own mapping, TP8 DP8, micro-batch 1 (batches of 64 sequences), on rail-optimized" in text


@pytest.mark.parametrize("line", ["", "  "])
def test_an_empty_launch_line_is_refused(line):
    with pytest.raises(ValueError, match=r"job\.launch is empty: give a line"):
        case(launch=line)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("--num-layers 32", "--num-layers 16", "layers is 16 in the line and 32 in job.model"),
        ("--seq-length 8192", "--seq-length 2048", "sequence_length is 2048 in the line and 8192 in job.model"),
        ("--swiglu", "--num-experts 8 --swiglu", "experts is 8 in the line and 0 in job.model"),
        ("--vocab-size 128256", "--vocab-size 32000", "vocabulary is 32000 in the line and 128256 in job.model"),
        ("--num-query-groups 8", "--num-query-groups 4", "kv_heads is 4 in the line and 8 in job.model"),
        ("--ffn-hidden-size 14336", "--ffn-hidden-size 16384", "ffn_hidden is 16384 in the line and 14336"),
        ("--untie-embeddings-and-output-weights", "", "tied_embeddings is True in the line and False"),
        ("--swiglu", "", "ffn_matrices is 2 in the line and 3 in job.model"),
        ("--vocab-size 128256", "", ""),  # a line that does not say it takes the model's
    ],
)
def test_a_line_beside_a_model_is_of_that_model(old, new, text):
    line = LINE.replace(old, new)
    if not text:
        assert case(launch=line).model == LLAMA and case(launch=line).warnings == ()
        return
    with pytest.raises(ValueError, match=f"job.launch: .*{text}.*: give the same, or leave job.model out"):
        case(launch=line)


def test_a_line_of_parallel_sizes_alone_goes_with_any_model():
    found = case(launch="--tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64")
    assert found.model == LLAMA and found.warnings == () and found.own_strategy[0].data == 32


def test_a_line_in_part_is_refused_beside_a_model():
    for part in ("--hidden-size 999 ", "--num-experts 8 "):
        with pytest.raises(
            ValueError, match=r"job\.launch has no --num-layers, .*--seq-length: give all sizes, or none"
        ):
            case(launch=part + "--tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64")


def test_layers_for_further_tokens_are_the_lines():
    line = "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --v-head-dim 128 "
    line += "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --seq-length 4096 "
    line += "--num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 --moe-router-num-groups 8 --swiglu "
    line += "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq [0]*3+[1]*58 --moe-router-group-topk 4 "
    line += "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights "
    line += "--micro-batch-size 1 --expert-model-parallel-size 64 --mtp-num-layers 1 --global-batch-size 64"
    assert case(model="DeepSeek-V3", launch=line).model == catalog_model("DeepSeek-V3", mtp_layers=1)
    config = PUBLIC["DeepSeek-V3"]["config"]
    found = case(model=None, config=config, sequence_length=4096, launch=line)
    assert found.model.mtp_layers == 1 and found.warnings == ()


def test_a_config_of_a_name_of_the_catalog_has_no_tokens_of_it():
    with pytest.raises(ValueError, match=r"job\.tokens is missing, and the catalog has none of Llama-3 405B"):
        case(model=None, config={**CONFIG, "_name_or_path": "Llama-3 405B"}, tokens=None)


def test_windows_that_count_the_token_itself_apart_are_the_same_model():
    model = catalog_model("GPT-OSS 20B")
    config = PUBLIC["gpt-oss-20b"]["config"]
    line = (
        "--num-layers 24 --hidden-size 2880 --ffn-hidden-size 2880 --num-attention-heads 64 --kv-channels 64 "
        "--group-query-attention --num-query-groups 8 --seq-length 4096 --untie-embeddings-and-output-weights "
        "--quick-geglu --activation-func-clamp-value 7.0 --window-attn-skip-freq 2 --window-size 128,0 "
        "--position-embedding-type yarn --num-experts 32 --moe-router-topk 4 --micro-batch-size 1 "
    )
    job = {"launch": line, "batch": 64, "sequence_length": 4096}
    assert case(model=model.name, **job).model == model
    assert case(model=None, config=config, **job).model == Transformer.from_config(config, sequence_length=4096)


def test_a_mapping_without_data_takes_all_gpus():
    strategy, batch = case(mapping={"tensor": 8}).own_strategy
    assert (strategy.data, strategy.gpus) == (8, 64) and batch == 512
    with pytest.raises(
        ValueError, match=r"job.mapping: data is missing, and 64 GPUs are no multiple of .* = 3: give data"
    ):
        case(mapping={"tensor": 3})
    budget = spec(gpus=None, cluster={"budget": "10 MUSD"}, job={"mapping": {"tensor": 8}})
    with pytest.raises(ValueError, match=r"job.mapping: data is missing, and the cluster has no number of GPUs"):
        case_of(read_spec(budget))


def test_the_terminal_says_what_does_not_fit_and_what_is_not_used():
    job = {"search": FASTER, "launch": LINE.replace("--use-distributed-optimizer", "--fp8-format hybrid")}
    found = plan(spec(candidates=["rail-optimized"], job=job))
    text = terminal_text(found)
    assert "- job.launch: not used: --fp8-format (may change time or memory" in text
    assert "- Your own mapping, TP8 DP8, micro-batch 1, sequence parallel, on rail-optimized: " in text
    assert "; it fits.\n" in text
    job["launch"] = LINE.partition("--tensor-model-parallel-size")[0]
    found = plan(spec(candidates=["rail-optimized"], job=job))
    needed, has = found.own_strategy["memory_bytes"].iloc[0], found.case.machine.memory_bytes
    (line,) = [each for each in terminal_text(found).splitlines() if "Your own mapping" in each]
    told = re.search(r"; it does not fit: ([\d.]+) GB on the fullest GPU, of ([\d.]+) GB, (\d+)% too much\.$", line)
    assert [float(each) for each in told.groups()] == pytest.approx(
        [needed / 1e9, has / 1e9, needed / has * 100 - 100], rel=0.05
    )
