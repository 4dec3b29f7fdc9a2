"""One question has one answer through every door: Python, plan, sweep, the notebooks and their sliders."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import railcore as rc
from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.software import newest_runtime

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PLATFORM, MODEL, GPUS, BATCH, TOKENS = "DGX H100", "Llama-3 8B", 64, 512, 15e12
SPLIT = {"tensor": 2, "pipeline": 2, "interleave": 4}
JOB = {"model": MODEL, "tokens": TOKENS, "batch": BATCH}


def cells(notebook, *ids, names=None, **given):
    """Names after some code cells of a notebook, with parameters of its first one changed. names: to start with."""
    (path,) = NOTEBOOKS.glob(f"{notebook}_*.ipynb")
    sources = {cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]}
    names = dict(names or {})
    for each in ids:
        exec(compile(sources[each], f"{path.name} {each}", "exec"), names)
        if given and each == ids[0]:
            assert set(given) <= set(names)
            names |= given
    return names


@pytest.fixture(scope="module")
def mine():
    """The plan of the job, with a split of one's own."""
    mapping = {**SPLIT, "data": GPUS // 4, "sequence_parallel": True, "sharding": "optimizer"}
    cluster = {"platform": PLATFORM, "gpus": GPUS}
    return rc.plan({"cluster": cluster, "job": JOB | {"mapping": mapping}, "limits": {"days": 1000}})


def test_the_fastest_strategy_takes_the_same_through_every_door(mine, monkeypatch):
    """It takes 8 s: cells of two notebooks, sliders, two plans and a sweep."""
    found = rc.search(MODEL, PLATFORM, GPUS, BATCH)
    wanted = float(found.best["total_s"].iloc[0])
    days = wanted * TOKENS / (BATCH * rc.catalog_model(MODEL).sequence_length) / 86400
    times = [rc.iteration_times(MODEL, PLATFORM, found.best.iloc[0]).total_s.item()]
    times.append(rc.iteration_time(MODEL, PLATFORM, found.strategy(), BATCH).total_s)
    times.append(mine.best.numbers["iteration_s"])
    monkeypatch.setattr("suite.outputs.show_warnings", lambda *_: None)
    monkeypatch.setattr("suite.workspace.parameterized", lambda: True)
    own = {"platform": PLATFORM, "model": MODEL, "gpus": GPUS, "batch": BATCH}
    by_search = cells("08", "code-01", "code-02", "code-26", "code-04", **own)
    times.append(float(by_search["answer"].best["total_s"].iloc[0]))
    asked = {"batch": BATCH, "tokens": TOKENS, "days": 1000.0, "power": "40 MW", "near": ""}
    by_plan = cells("20", "code-01", "code-02", "code-03", **own | asked)
    times.append(by_plan["mine"].best.numbers["iteration_s"])
    assert times == pytest.approx([wanted] * len(times), rel=1e-9)

    drawn, spec = [], {"cluster": {"platform": PLATFORM}, "job": JOB, "limits": {"days": 1000}}

    def panel(draw, warn, **sliders):
        draw(**{name: first for name, (first, _) in sliders.items()})

    shown = SimpleNamespace(panel=panel)
    picture = SimpleNamespace(candidates_by_cost=lambda table, _: drawn.append(table))
    cells("20", "code-19", names=by_plan | {"explore": shown, "tradeoffs": picture})
    told = [
        mine.best.numbers["days"],
        by_plan["mine"].best.numbers["days"],
        drawn[0].set_index("network")["days"][mine.best.name],
    ]
    swept = rc.sweep(spec, {"cluster.gpus": [GPUS]}).set_index("candidate")["days"]
    told.append(swept[mine.best.name])
    assert told == pytest.approx([told[0]] * 4, rel=1e-9) and told[0] >= days * (1 - 1e-9)


def test_one_strategy_takes_the_same_through_every_door(mine, monkeypatch):
    monkeypatch.setattr("suite.outputs.show_warnings", lambda *_: None)
    monkeypatch.setattr("suite.workspace.parameterized", lambda: True)
    own = {
        "platform": PLATFORM,
        "model": MODEL,
        "gpus": GPUS,
        "batch": BATCH,
        "tokens": TOKENS,
        "ends_as_layers": False,
    }
    shown = cells("06", "code-01", "code-02", "code-11", **own | SPLIT)
    strategy = Strategy(2, pipeline=2, interleave=4, data=GPUS // 4, sequence_parallel=True, sharding="optimizer")
    assert shown["plan"] == strategy
    box = catalog_machine(PLATFORM)
    wanted = iteration_times(MODEL, box, strategy, newest_runtime(box), global_batch=BATCH).total_s.item()
    row = {name: value for name, value in strategy.columns(BATCH).items() if name != "global_batch"}
    searched = rc.search(MODEL, PLATFORM, GPUS, BATCH, **row).best["total_s"].iloc[0]
    times = [searched, shown["duration"].iteration_s, mine.own_strategy["iteration_s"].min()]
    times.append(rc.iteration_time(MODEL, PLATFORM, strategy, BATCH).total_s)
    assert times == pytest.approx([wanted] * 4, rel=1e-9)
