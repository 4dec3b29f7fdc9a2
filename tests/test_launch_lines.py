"""Launch lines of Megatron-LM: what of them is read, what is assumed and said, and what is refused."""

import dataclasses
import re
import tomllib

import pytest

from railcore.catalog import files
from railcore.training.launch_arguments import launch_arguments
from railcore.training.launch_lines import megatron_run
from railcore.training.parallelism import Strategy
from railcore.training.shell_words import shell_words
from railcore.training.transformer import catalog_model

GPT_1T = "--num-layers 128 --hidden-size 25600 --num-attention-heads 160 --seq-length 2048 --vocab-size 51200 "
SPLIT = "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --world-size 3072 "
BATCH = "--micro-batch-size 1 --global-batch-size 3072 "
DEEPSEEK = (
    "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 --seq-length 4096 --swiglu "
    "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
    "--v-head-dim 128 --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 "
    "--moe-shared-expert-intermediate-size 2048 --moe-layer-freq '([0]*3+[1]*58)' --moe-router-num-groups 8 "
    "--moe-router-group-topk 4 --position-embedding-type rope --disable-bias-linear "
    "--untie-embeddings-and-output-weights --vocab-size 129280 --micro-batch-size 1 "
)
SHORT = "--num-layers 12 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 99 --micro-batch-size 1 "
MIXED = SHORT + "--num-experts 4 --moe-router-topk 2 "
SCRIPTS = tomllib.loads((files.ROOT / "tests/launch_scripts.toml").read_text(encoding="utf-8"))


def launch_line(script):
    """The line that a script starts."""
    gpus, words = script["gpus"], ["torchrun", "pretrain_gpt.py"]
    words[1:1] = ["--nproc_per_node", str(min(gpus, 8)), "--nnodes", str(max(gpus // 8, 1)), "--node_rank", "0"]
    for name, value in script["arguments"].items():
        quoted = f"'{value}'" if any(letter in str(value) for letter in "[|*") else str(value)
        words += [f"--{name}"] + [quoted] * (value is not True)
    return " ".join(words)


def test_a_launch_line_gives_strategy_model_and_batch():
    run = megatron_run(
        "torchrun pretrain_gpt.py " + GPT_1T + SPLIT + BATCH + "--sequence-parallel --lr 1e-4 -x \\\n --bf16"
    )
    assert run.strategy == Strategy(tensor=8, pipeline=64, data=6, sequence_parallel=True)
    assert dataclasses.replace(run.model, name="GPT-1T") == catalog_model("GPT-1T")
    assert run.global_batch == 3072
    assert run.warnings == run.strategy.warnings == ()
    assert megatron_run((GPT_1T + SPLIT + BATCH).split()).strategy.sequence_parallel is False


def test_a_launch_line_of_a_gated_mixture():
    line = (
        "torchrun --nproc_per_node=8 --nnodes=4 --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 4096 --swiglu "
        "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8 --pipeline-model-parallel-size 4 "
        "--num-virtual-stages-per-pipeline-rank 8 --micro-batch-size 1 --global-batch-size 256 --disable-bias-linear "
        "--use-distributed-optimizer --untie-embeddings-and-output-weights --position-embedding-type rope "
        "--vocab-size 32000 --recompute-granularity full --use-tp-pp-dp-mapping"
    )
    run = megatron_run(line)
    expected = Strategy(pipeline=4, data=8, expert=8, interleave=8, recompute="full", sharding="optimizer")
    assert run.strategy == dataclasses.replace(expected, order=("tensor", "context", "pipeline", "data"))
    assert run.model.total_parameters == pytest.approx(46.7e9, rel=0.001)  # Mixtral 8x7B
    assert run.model.top_k == 2 and run.warnings == ()


def test_what_a_line_leaves_open_is_said():
    run = megatron_run("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --swiglu", gpus=4)
    assert run.strategy == Strategy(data=4) and run.global_batch == 4
    assert run.model.ffn_hidden == 128 and run.model.vocabulary == 50257
    assert run.warnings == (
        "assumed, for the line does not say it: --micro-batch-size 1, --vocab-size 50257 (GPT-2's)",
    )
    empty = megatron_run("")
    assert empty.model is None and empty.strategy == Strategy() and len(empty.warnings) == 2
    assert (
        megatron_run("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64", 1, 99).model.vocabulary
        == 99
    )


def test_what_may_change_the_result_is_said_in_one_text():
    line = "--micro-batch-size 1 --lr 1e-4 --fp8-format hybrid --tp-comm-overlap --moe-token-dispatcher-type alltoall "
    text = megatron_run(line + "--enable-of-ours", gpus=8).warnings[0]
    assert text == (
        "not used: --fp8-format, --tp-comm-overlap (may change time or memory: precision and runtime are given apart); "
        "--enable-of-ours (no name of Megatron-LM)"
    )
    flex = megatron_run(line + "--moe-token-dispatcher-type flex", gpus=8).warnings[0]  # the last one counts
    assert "--tp-comm-overlap, --moe-token-dispatcher-type (may" in flex
    line = "--moe-token-dispatcher-type flex --moe-token-dispatcher-type alltoall --micro-batch-size 1"
    assert megatron_run(line, gpus=8).warnings == megatron_run("--micro-batch-size 1", gpus=8).warnings


@pytest.mark.parametrize("name", SCRIPTS)
def test_public_scripts_are_read_or_refused_by_one_argument(name):
    script = SCRIPTS[name]
    line = launch_line(script)
    if refused := script.get("refused"):
        with pytest.raises(ValueError, match=rf"--{refused} \(.*\) is not modelled: drop it, or give another model"):
            megatron_run(line)
        return
    run = megatron_run(line)
    assert len(run.warnings) <= 3, run.warnings
    assert run.strategy.gpus == script["gpus"]
    if "parameters" in script:
        counted = run.model.total_parameters - run.model.mtp_parameters
        assert counted == pytest.approx(script["parameters"], rel=script.get("within", 1e-4))


def test_scripts_that_say_the_model_of_the_catalog():
    for name, rows in {"DeepSeek-V3": {"mtp_layers": 1}, "GPT-OSS 20B": {"window": 129}, "Mixtral 8x7B": {}}.items():
        wanted = dataclasses.replace(catalog_model(name, sequence_length=4096), **rows)
        assert dataclasses.replace(megatron_run(launch_line(SCRIPTS[name])).model, name=name) == wanted
    run = megatron_run(launch_line(SCRIPTS["Qwen3-235B-A22B"]))
    wanted = Strategy(2, 1, 8, 16, 32, 4, 1, "selective", True, "optimizer", ends_as_layers=True, whole_experts=True)
    assert run.strategy == wanted and run.global_batch == 2048
    run = megatron_run(launch_line(SCRIPTS["DeepSeek-V3"]))  # 16 stages of a layout, of 16, 16, 16 and 13 layers
    assert run.strategy == Strategy(1, 1, 4, 64, 64, 4, 1, "selective", sharding="optimizer")


OTHERS = "no-position-embedding pad-vocab-size eval-global-batch-size eval-micro-batch-size no-rope-freq spec "
OTHERS += "moe-shared-expert-glu-interleave-size node-rank master-addr rampup-batch-size overlap-grad-reduce"


@pytest.mark.parametrize("name", OTHERS.split())
def test_names_of_megatron_that_change_nothing_are_silent(name):
    value = "" if name.startswith("no-pos") else " 1"
    assert megatron_run(f"--micro-batch-size 1 --{name}{value}", gpus=8) == megatron_run("--micro-batch-size 1", 8)


def test_every_known_argument_has_an_effect_and_is_listed_once():
    rows = launch_arguments()
    assert list(rows) == sorted(rows) and len(rows) > 900
    assert {row.effect for row in rows.values()} == {"used", "none", "cost", "refused", "gone", "launcher"}
    for row in rows.values():
        assert row.reads or row.effect != "used"
        assert bool(row.note) == (row.effect in ("refused", "gone"))
        assert not row.usual or row.effect in ("cost", "refused")
        assert row.effect != "gone" or rows[row.note].effect == "used"


OF_EFFECT = {
    effect: [row for row in launch_arguments().values() if row.effect == effect] for effect in ("refused", "gone")
}


@pytest.mark.parametrize("row", OF_EFFECT["refused"], ids=lambda row: row.argument)
def test_what_is_not_modelled_is_refused_by_name(row):
    with pytest.raises(ValueError, match=f"--{row.argument} .{row.note}. is not modelled: drop it"):
        megatron_run(f"{SHORT} --{row.argument} 8", 1)
    for usual in filter(None, row.usual.split(",")):
        assert megatron_run(f"{SHORT} --{row.argument} {usual}", 1) == megatron_run(SHORT, 1)


@pytest.mark.parametrize("row", OF_EFFECT["gone"], ids=lambda row: row.argument)
def test_what_is_gone_is_refused_with_what_stands_in_its_place(row):
    with pytest.raises(ValueError, match=f"--{row.argument} is gone from Megatron-LM: give --{row.note}"):
        megatron_run(f"{SHORT} --{row.argument} 8", 1)


def test_sequence_parallel_with_one_tensor_rank_is_dropped():
    run = megatron_run(SHORT + "--sequence-parallel", 4)
    assert run.strategy == Strategy(data=4)
    assert run.warnings == ("--sequence-parallel does nothing with --tensor-model-parallel-size 1",)


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("srun --nodes 4 --ntasks-per-node=8 pretrain_gpt.py --micro-batch-size 1", 32),
        ("srun -N 4 --gpus-per-node 8 --exclusive python pretrain_gpt.py --micro-batch-size 1", 32),
        ("srun -n 16 --mpi=pmix bash -c 'python pretrain_gpt.py --micro-batch-size 1' 2>&1 | tee log", 16),
        ("srun -N4 --ntasks-per-node=8 python pretrain_gpt.py --micro-batch-size 1", 32),
        ("mpirun -np 16 numactl -N 0 -m 0 python pretrain_gpt.py --micro-batch-size 1", 16),
        ("srun --container-image=a.io#b/c:1 -n 16 python pretrain_gpt.py --micro-batch-size 1", 16),
        ("srun --nodes 4 --ntasks-per-node 1 torchrun --nproc_per_node 8 a.py --micro-batch-size 1", 32),
        ("python -m torch.distributed.run --nproc-per-node=8 --nnodes=2 a.py --micro-batch-size 1", 16),
    ],
)
def test_launchers_say_the_gpus(line, gpus):
    run = megatron_run(line)
    assert run.strategy == Strategy(data=gpus) and run.warnings == megatron_run("--micro-batch-size 1", 1).warnings


SCRIPT = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NODES=${SLURM_NNODES:-4}   # of the job
CHECKPOINT=${1:-"checkpoints/ours"} #<Specify path>
MAIN="of/pretrain_gpt.py"
mkdir -p "$(dirname "$CHECKPOINT")" # if it isn't there
WORLD_SIZE=$(($GPUS_PER_NODE*$NODES))
LAUNCHER=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NODES
)
MODEL_ARGS=(
    --num-layers 12 --hidden-size 64   # small
    --num-attention-heads 4
    --seq-length 64 --vocab-size 99
)
MODEL_ARGS+=(--moe-layer-freq "([0]*2+[1]*10)" --num-experts 4 --moe-router-topk 2)
PARALLEL="--tensor-model-parallel-size 2 \\
    --pipeline-model-parallel-size 4 --sequence-parallel"
FURTHER_ARGS=()
if [[ "$WORLD_SIZE" == "32" ]]; then
    FURTHER_ARGS+=(
        "--fp8-format hybrid"
        "--tokenizer-type NullTokenizer"
        "--split '99,1,0'"
    )
else
    FURTHER_ARGS+=("--tokenizer-type HuggingFaceTokenizer")
fi
FURTHER_ARGS+=("${MODEL_ARGS[@]}")
if [ ! -f "$MAIN" ]; then
    echo "Please run this where pretrain_gpt.py is, not there: $MAIN"
fi
CUDA_VISIBLE_DEVICES=0 torchrun ${LAUNCHER[@]} "$MAIN" \\
    ${FURTHER_ARGS[@]} \\
    $PARALLEL --wandb-exp-name run#3 --micro-batch-size 1 --global-batch-size 64 --save "$CHECKPOINT" 2>&1 | tee log
"""


def test_a_script_is_read_with_its_variables():
    run = megatron_run(SCRIPT)
    assert run.strategy == Strategy(2, pipeline=4, data=4, sequence_parallel=True) and run.global_batch == 64
    assert (run.model.layers, run.model.dense_layers, run.model.vocabulary) == (12, 2, 99)
    assert "--fp8-format (may change" in run.warnings[0]
    assert megatron_run(SCRIPT.partition("CUDA_VIS")[0] + "--micro-batch-size 1", 32).strategy == run.strategy
    words = ["torchrun", "a.py", "--num-layers 12", "--tensor-model-parallel-size", "2", "--micro-batch-size=1"]
    assert megatron_run(words, 4).strategy == Strategy(2, data=2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a 'b c' # d --e", ["a", "b c"]),
        ("a#b --c", ["a#b", "--c"]),
        ("A='x y'\n$A ${A} ${Z} ${Z:-3}", "x y x y ${Z} 3".split()),
        ("A=(--x 1)", ["--x", "1"]),
        ('A=(--x 1)\nB="$A --y"\n${B[@]}', ["--x", "1", "--y"]),
        ("\N{EM DASH}tensor 8 \N{EN DASH}x -1", ["--tensor", "8", "--x", "-1"]),
        ("bash -c \"a --b 'c d'\"", ["bash", "-c", "a", "--b", "c d"]),
        ("--name 'run #3' --b 1 --c 'a --d 2'", ["--name", "run #3", "--b", "1", "--c", "a --d 2"]),
        ("A='1'\nA=\"$A 2\"\nA+=(3)\n$A # don't", ["1", "2", "3"]),
        ("A=(--x 'a b')\n\"${A[@]}\" y", ["--x", "a b", "y"]),
    ],
)
def test_words_of_a_shell(line, words):
    assert shell_words(line) == words


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            SHORT + "${MODEL_ARGS[@]}",
            r"\$\{MODEL_ARGS\[@\]\} is a variable that the line does not set: give its arguments",
        ),
        ("torchrun a.py $MORE " + SHORT, r"\$MORE is a variable"),
        (SHORT + "--bf16 $TRAINING_ARGS", r"\$TRAINING_ARGS is a variable"),
        (SHORT + "--swiglu $MORE", r"\$MORE is a variable"),
        (
            SHORT.replace("12", "$LAYERS"),
            r"--num-layers is '\$LAYERS': give a positive whole number \(a variable's value\)",
        ),
        (
            SHORT + "-tensor-model-parallel-size 2",
            "--tensor-model-parallel-size is unknown|is unknown: Megatron-LM has",
        ),
        ("--is-hybrid-model " + SHORT + "--config-logger-dir a.py", "--is-hybrid-model .Mamba layers. is not modelled"),
        ("srun --nodes=4 --ntasks=32 --gpus-per-node=4 a.py " + SHORT, "give one number of GPUs"),
        (MIXED + "--moe-layer-freq 5", "--moe-layer-freq is 5: give a divisor of --num-layers 12"),
    ],
)
def test_what_a_shell_leaves_open_is_refused(line, text):
    with pytest.raises(ValueError, match=text):
        megatron_run(line, None if line.startswith("srun") else 8)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A=1\nA=2\n--x $A", "A is set twice, to '1' and '2': keep one"),
        ("a=--xx\n" + 'a="$a $a"\n' * 60, "more than 65,536 letters with its variables"),
        ("--x 'a", "open quote"),
    ],
)
def test_shells_that_are_refused(text, told):
    with pytest.raises(ValueError, match=told):
        shell_words(text)


def test_a_misspelt_launcher_is_told():
    with pytest.raises(ValueError, match=r"--nproc-per-nod is unknown: the launcher has --nproc-per-node"):
        megatron_run("torchrun --nproc-per-nod 8 a.py " + SHORT)
    for number in ("9" * 5000, "99999999999999999"):
        with pytest.raises(ValueError, match=r"--num-layers is '9{1,40}': give a positive"):
            megatron_run(SHORT.replace("12", number))
    with pytest.raises(ValueError, match="--moe-layer-freq is"):
        megatron_run(MIXED + FREQUENCY + "+".join(["[0]"] * 3000))


def test_variables_that_do_not_matter():
    run = megatron_run(
        "torchrun --nproc_per_node ${GPUS} --nnodes $N a.py --save $X --data-path 1 $Y 2 $Z " + SHORT, 16
    )
    assert run.strategy == megatron_run(SHORT, 16).strategy
    # Without the value the line does not say its GPUs.
    run = megatron_run("torchrun --nproc_per_node 8 --nnodes $N a.py " + SHORT)
    assert "data-parallel size 1 (no number of GPUs)" in run.warnings[0]
    zeros = "--num-experts 0 --mtp-num-layers 0 --moe-shared-expert-intermediate-size 0"
    assert megatron_run(SHORT + zeros, 4) == megatron_run(SHORT, 4)


SIXTEEN = SHORT.replace("12", "16")


LAYOUT = f"{SIXTEEN} --global-batch-size 8 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "


@pytest.mark.parametrize(
    ("layout", "interleave", "text"),
    [
        ("Etttt|tttt|tttt|ttttL", 1, ""),
        ("Et*2|(tt|)*6ttL", 2, ""),
        ("Ettt|ttttt,|ttttt|tttL", 1, "of 3, 5, 5, 3 layers are modelled as 4 on the first, 4 on the last and 5 on"),
        ("Ettt|t*5|t*4|tttL", 1, "of 3, 5, 4, 3 layers are modelled as 4 on the first, 4 on the last and 5 on"),
        ("Et|(tt|)*6t*3L", 2, "of 3, 4, 4, 5 layers are modelled as 4 on the first, 4 on the last and 5 on"),
        ("Et|t*4|t*4|t*7L", 1, "of 1, 4, 4, 7 layers are modelled as 4 on the first"),
    ],
)
def test_layouts_of_a_pipeline(layout, interleave, text):
    line = LAYOUT.replace("16", str(15 if layout.count("t*5") else 16), 1)
    run = megatron_run(f"{line} '{layout}'", 4)
    assert run.strategy.interleave == interleave
    assert [text in warning for warning in run.warnings] == [True] * bool(text)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("Ettt|(ttt|)*3tttL", "has 5 stages: give a multiple of 4"),
        ("Etttt|tttt|tttt|tttL", "has 15 x t: give as many as --num-layers, 16"),
        ("Etttt|tttt|tttt|ttttmL", "has 1 x m: give as many as --mtp-num-layers, 0"),
        ("tttt|tttt|tttt|ttttL", "give stages of E, t, m and L"),
        ("E(t*9999999999)*999999999L", "give one of fewer layers"),
        ("E(" + "t" * 300 + ")*9999", "give one of fewer layers"),
        ("Et*000000001000000000L", "give one of fewer layers"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(layout, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        megatron_run(f"{LAYOUT} '{layout}'", 4)


@pytest.mark.parametrize(
    ("layers", "first", "last", "ends", "text"),
    [
        (14, 3, 3, True, ""),
        (16, 4, 4, False, ""),
        (15, None, 3, False, "modelled as"),
        (14, 4, 4, False, ""),
    ],
)
def test_layers_of_the_ends_of_a_pipeline(layers, first, last, ends, text):
    line = SHORT.replace("12", str(layers)) + "--global-batch-size 4 --pipeline-model-parallel-size 4 "
    for end, count in (("first", first), ("last", last)):
        line += f"--decoder-{end}-pipeline-num-layers {count} " * bool(count)
    run = megatron_run(line, 4)
    assert run.strategy.ends_as_layers == ends
    assert [text in warning for warning in run.warnings] == [True] * bool(text)


def test_a_launch_line_like_deepseek_v3s_gives_the_model_of_the_catalog():
    run = megatron_run(DEEPSEEK + "--expert-model-parallel-size 64", gpus=64)
    assert dataclasses.replace(run.model, name="DeepSeek-V3") == catalog_model("DeepSeek-V3")
    assert run.strategy == Strategy(data=64, expert=64) and run.warnings == ()


def test_ends_that_count_as_layers():
    ends = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
    line = SHORT.replace("12", "14") + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
    run = megatron_run(line + "--global-batch-size 4 " + ends, 4)
    assert run.strategy.ends_as_layers and run.strategy.interleave == 2 and run.model.layers == 14
    assert run.strategy.warnings == ()
    one = megatron_run(SHORT + ends.split()[0], 4).strategy
    assert not one.ends_as_layers
    assert one.warnings == ("--account-for-embedding-in-pipeline-split is not used without the other end's",)
    assert not megatron_run(SHORT, 4).strategy.ends_as_layers


FREQUENCY, WINDOW = "--moe-layer-freq ", "--window-size 15,0 "


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (MIXED + FREQUENCY + "1", {"dense_layers": 0, "expert_layer_interval": 1, "mixture_layers": 12}),
        (MIXED + FREQUENCY + "'([0] * 2 + [1] * 10)'", {"dense_layers": 2, "expert_layer_interval": 1}),
        (MIXED + FREQUENCY + "2*([1]+3*[0])+[1,0,0,0]", {"expert_layer_interval": 4, "mixture_layers": 3}),
        (MIXED + FREQUENCY + "[0]*2+([1]+[0])*5", {"dense_layers": 2, "expert_layer_interval": 2}),
        (SHORT + WINDOW, {"window": 16, "full_attention_interval": 0}),
        (SHORT + WINDOW + "--window-attn-skip-freq 2", {"window": 16, "full_attention_interval": 2}),
        (SHORT + WINDOW + "--window-attn-skip-freq [1,1,1,0]*3", {"window": 16, "full_attention_interval": 4}),
        (SHORT + "--window-attn-skip-freq 2", {"window": 0, "full_attention_interval": 0}),
        (SHORT + "--multi-latent-attention --v-head-dim 48", {"query_rank": 0, "kv_rank": 32, "head_dim": 128}),
        (SHORT + "--multi-latent-attention", {"rope_dim": 64, "value_dim": 128}),
        (SHORT, {"ffn_matrices": 2, "ffn_hidden": 256, "biases": True, "positions": 64, "mtp_layers": 0}),
        (SHORT + "--quick-geglu --disable-bias-linear", {"ffn_matrices": 3, "ffn_hidden": 256, "biases": False}),
        (SHORT + "--swiglu", {"ffn_matrices": 3, "ffn_hidden": 128}),
        (SHORT + "--position-embedding-type yarn --mtp-num-layers 1", {"positions": 0, "mtp_layers": 1}),
        (SHORT + "--no-position-embedding", {"positions": 0}),
        (MIXED + "--activation-func-clamp-value 7.0", {"clamped": True}),
        (SHORT.replace("--vocab-size 99", "--tokenizer-model Qwen/Qwen3-30B-A3B-Base"), {"vocabulary": 151936}),
        (SHORT.replace("--vocab-size 99", "--tokenizer-type Llama2Tokenizer"), {"vocabulary": 32000}),
        (SHORT.replace("--vocab-size 99", "--tokenizer-model a/Llama-3.1-8B/"), {"vocabulary": 128256}),
        (SHORT.replace("--vocab-size 99", "--tokenizer-model a/of-ours"), {"vocabulary": 50257}),
    ],
)
def test_a_line_gives_the_models_fields(line, fields):
    model = megatron_run(line, gpus=1).model
    assert {name: getattr(model, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("--use-torch-fsdp2", "sharding", "weights"),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "sharding", "gradients"),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy no_shard", "sharding", "none"),
        ("--use-distributed-optimizer", "sharding", "optimizer"),
        ("--use-megatron-fsdp", "sharding", "weights"),
        (
            "--tensor-model-parallel-size 2 --expert-model-parallel-size 2 --expert-tensor-parallel-size 1",
            "whole_experts",
            True,
        ),
        (
            "--tensor-model-parallel-size 2 --expert-model-parallel-size 2 --expert-tensor-parallel-size 2",
            "whole_experts",
            False,
        ),
        ("--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1", "whole_experts", False),
        ("--recompute-activations", "sharding", "none"),
        ("--recompute-activations", "recompute", "selective"),
        ("--recompute-activations --recompute-granularity selective", "recompute", "selective"),
    ],
)
def test_a_line_gives_the_strategys_fields(line, field, value):
    assert getattr(megatron_run(line, gpus=4).strategy, field) == value


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("--tensor-model-parallel-size 8 --world-size 12", "world size"),
        ("--world-size 16 --nnodes 4 --nproc-per-node 8", "one number of GPUs"),
        ("--recompute-activations --recompute-granularity full", "contradict"),
        ("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3 --num-layers 8", "divide"),
        ("--num-layers-per-virtual-pipeline-stage 3 --num-virtual-stages-per-pipeline-rank 2", "both"),
        ("--tensor-model-parallel-size 2 --tensor-model-parallel-size 4", "twice"),
        ("--recompute-granularity some", "recompute-granularity.*'some'.*selective.*full"),
        ("--use-torch-fsdp2 --pipeline-model-parallel-size 2", "fsdp2"),
        (MIXED + "--expert-tensor-parallel-size 2 --tensor-model-parallel-size 4", "expert-tensor.*give 1 or 4"),
        (SHORT + "--swiglu --quick-geglu", "--swiglu and --quick-geglu are both given"),
        ("--tensor-model-parallel-size '2", "open quote"),
        (MIXED + "--expert-model-parallel-size 4", "the line has no number of GPUs: give gpus"),
        ("--virtual-pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2", "both given"),
        (
            SHORT + "--decoder-first-pipeline-num-layers 2 --pipeline-model-parallel-size 4",
            "other pipeline ranks divide",
        ),
        ("--expert-model-parallel-size 2 --world-size 8 --num-layers 4", "num-experts"),
        ("--tp 8", "is unknown: Megatron-LM has --tensor-model"),
        ("--tensor-parallel-size 8", "is unknown: Megatron-LM has --tensor-model"),
        (GPT_1T + "--num-query-groups 8", "group-query"),
        (GPT_1T + "--tensor-model-parallel-size 7 --world-size 7", "heads"),
        (SHORT + "--kv-lora-rank 8", "--kv-lora-rank needs --multi-latent-attention"),
        (SHORT + "--multi-latent-attention --group-query-attention", "drop one"),
        (SHORT + "--window-size 15", "window-size is 15: give tokens before and after"),
        (SHORT + WINDOW + "--window-attn-skip-freq [1,0,0]*4", "no pattern"),
        (MIXED + "--moe-router-num-groups 3 --moe-router-group-topk 2", "expert_groups is 3: give a divisor"),
        (MIXED + FREQUENCY + "[1]*3+[0]*9", "moe-layer-freq.*give 12, after"),
        (MIXED + FREQUENCY + "[1]*10**9", "moe-layer-freq.*give a whole number, or a list"),
        (MIXED + FREQUENCY + "__import__('os')", "moe-layer-freq"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(line, word):
    with pytest.raises(ValueError, match=word):
        megatron_run(line)


RECOMPUTED = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 "
    "--vocab-size 50304 --micro-batch-size 1 --global-batch-size 64 --pipeline-model-parallel-size 4 "
)


@pytest.mark.parametrize(
    ("line", "layers", "group"),
    [
        ("--recompute-granularity full", 0, 1),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 4", 0, 4),
        ("--recompute-granularity full --recompute-method uniform", 0, 1),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 3", 3, 1),
        (
            "--recompute-granularity full --recompute-method block --recompute-num-layers 1 "
            "--num-layers-per-virtual-pipeline-stage 4",  # of each of two chunks
            *(2, 1),
        ),
        (
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 8 "
            "--num-layers-per-virtual-pipeline-stage 2",  # at most a chunk
            *(0, 2),
        ),
    ],
)
def test_recompute_of_some_layers_and_of_groups(line, layers, group):
    strategy = megatron_run(RECOMPUTED + line, gpus=8).strategy
    assert (strategy.recompute, strategy.recomputed_layers, strategy.recompute_group) == ("full", layers, group)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--recompute-method block --recompute-num-layers 2", "--recompute-num-layers is of full recompute"),
        ("--recompute-granularity selective --recompute-method uniform", "--recompute-method is of full recompute"),
        ("--recompute-granularity full --recompute-method block", "has no number"),
    ],
)
def test_recompute_that_contradicts_itself_is_refused(line, message):
    with pytest.raises(ValueError, match=message):
        megatron_run(RECOMPUTED + line, gpus=8)
