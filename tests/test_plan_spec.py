"""The spec of a plan: what is read, what is refused and in which words, its template and schema, and no dead key."""

import copy
import json
import math
import re
import tomllib
from functools import cache

import numpy as np
import pytest
from pydantic import BaseModel
from test_plan import spec

from railcore import catalog
from railcore.planner.candidates import network_candidates
from railcore.planner.case import case_of
from railcore.planner.choice import missed_limits
from railcore.planner.planning import plan
from railcore.planner.power_places import power_places_of
from railcore.planner.spec import MeasuredSpec, Spec
from railcore.planner.spec_reading import read_spec
from railcore.planner.spec_template import spec_schema, spec_template
from railcore.training.transformer import Transformer

TEXT = """
title = "ours"
[cluster]
platform = "GB200 NVL72"
racks = 16
include = ["storage"]
[job]
model = "Llama-3 405B"
batch = "16M tokens"
search = {context = [1, 2]}
[[network.candidate]]
name = "mine"
layout = "Clos"
oversubscription = 2
[books.prices]
port = "600 USD"
transceiver = "0.4 kUSD"
rate = "400 Gbps"
[operation]
electricity = "0.08 USD/kWh"
checkpoint = "2 min"
[limits]
power = "40 MW"
"""
LINE = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
    "--ffn-hidden-size 14336 --swiglu --untie-embeddings-and-output-weights --disable-bias-linear "
    "--position-embedding-type rope --seq-length 8192 --vocab-size 128256 --micro-batch-size 1 --global-batch-size 512 "
    "--tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer"
)
SIZES = {
    **{"layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 16, "ffn_hidden": 4096, "vocabulary": 32000},
    **{"sequence_length": 2048, "ffn_matrices": 2},
}
OWN = {"name": "mine", "layout": "Clos", "oversubscription": 2, "planes": 1, "radix": 64}
PRICES = {"port": "600 USD", "transceiver": "400 USD", "dac": "90 USD", "circuit_port": "300 USD", "rate": "400 Gbps"}
POWERS = {"port": "30 W", "transceiver": "9 W", "dac": "1 W", "circuit_port": "1 W", "rate": "400 Gbps"}
MW = {"power": "1 MW"}
WITHIN = {"limits": {"days": 9, **MW}}


def faults(given):
    """Faults of a spec, a line each."""
    with pytest.raises(ValueError, match=r"has \d+ faults?:") as caught:
        read_spec(given)
    head, *lines = str(caught.value).split("\n  ")
    return lines or [head.partition(": ")[2]]


ARRAYS = {"candidate", "measured"}  # sections of which a spec has several


def dotted_of(place):
    """The key of the first of several, where a section is one."""
    return ".".join(f"{name}.0" if name in ARRAYS else name for name in place)


def sections_of(model, before=()):
    """Every section with the keys that lead to it, sections within sections too."""
    for name, field in model.model_fields.items():
        for each in _parts(field.annotation):
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield (*before, name), each
                yield from sections_of(each, (*before, name))


def _parts(annotation):
    return [annotation, *(part for each in getattr(annotation, "__args__", ()) for part in _parts(each))]


# Reading


def test_a_text_a_file_and_a_dictionary_are_the_same_spec(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text("\ufeff" + TEXT, encoding="utf-8")  # as some editors begin a file
    found = read_spec(TEXT)
    assert found == read_spec(path) == read_spec(str(path)) == read_spec(tomllib.loads(TEXT)) == read_spec(found)
    assert found.title == "ours" and found.cluster.racks == 16 and found.cluster.gpus is None
    assert found.books.prices.port == 600 and found.books.prices.transceiver == 400
    assert found.books.prices.rate == 5e10 and found.limits.power == 4e7
    assert found.operation.electricity == pytest.approx(0.08 / 3.6e6) and found.operation.checkpoint == 120
    assert found.network.candidate[0].oversubscription == 2 and found.job.search == {"context": [1, 2]}


def test_what_is_no_toml_and_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"spec 'nowhere\.toml' cannot be read \(No such file or directory\): give a"):
        read_spec("nowhere.toml")
    with pytest.raises(ValueError, match=r"spec is no TOML: .*: check that line"):
        read_spec("[cluster]\nplatform = \n")
    path = tmp_path / "bad.toml"
    path.write_text("a = b")
    with pytest.raises(ValueError, match=r"bad\.toml is no TOML: Invalid value"):
        read_spec(path)
    path.write_text('[cluster]\nplatform = "DGX H100"\ngpus = 8\nfoo = 1\n[job]\nmodel = "Llama-3 8B"\n')
    with pytest.raises(ValueError, match=r"bad\.toml has 1 fault: cluster\.foo"):
        read_spec(path)


def test_only_platform_size_and_model_are_needed():
    found = read_spec({"cluster": {"platform": "DGX H100", "gpus": 8}, "job": {"model": "Llama-3 8B"}})
    given = {key: value for key, value, is_given in found.entries() if is_given}
    assert given == {"cluster.platform": "DGX H100", "cluster.gpus": 8, "job.model": "Llama-3 8B"}
    assert {key for key, _, is_given in found.entries() if not is_given} >= {"network.candidates", "network.planes"}
    for left_out in ("cluster", "job"):
        kept = {name: part for name, part in spec().items() if name != left_out}
        assert faults(kept) == [f"{left_out} is missing: give it"]


# Refusals


def test_all_faults_are_told_at_once_each_by_its_key():
    found = faults(
        {
            "cluster": {"platform": "DGX H10", "gpu": 64, "power": "40 MB", "nic": "400 km"},
            "job": {"model": "Lama-3 8B", "precision": "bf61", "tokens": -1, "mapping": {}, "launch": ""},
            "network": {"candidate": [{"name": "a", "layout": "rail onli"}, {"layout": "Clos", "plane": 2}]},
            "books": {"prices": {"port": "600 W", "transciever": "400 USD", "rate": "400 Gbps"}},
            "operation": {"pue": 0.9, "load": 1.5, "failures": "hihg"},
            "limit": {"days": 3},
        }
    )
    told = dict(line.split(" is ", 1) for line in found)
    expected = {
        "cluster.platform": "'DGX H10': .*'DGX H100'",
        "cluster.gpu": "unknown: give 'gpus'",
        "cluster.power": "'40 MB': give a text with its unit, such as '40 MW'",
        "cluster.nic": "'400 km': give a text with its unit, such as '400 Gbps'",
        "job.model": "'Lama-3 8B': .*'Llama-3 8B'",
        "job.precision": "'bf61': give 'bf16'",
        "job.tokens": "-1: give .*greater than 0",
        "job.mapping": "given beside job.launch: give one of them",
        "network.candidate.0.layout": "'rail onli': give .*'rail-only'",
        "network.candidate.1.name": "missing: give it",
        "network.candidate.1.plane": "unknown: give 'planes'",
        "books.prices.port": "'600 W': give a text with its unit, such as '600 USD'",
        "books.prices.transciever": "unknown: give 'transceiver'",
        "books.prices.transceiver": "missing: give it",
        "operation.pue": "0.9: give .*greater than or equal to 1",
        "operation.load": "1.5: give .*less than or equal to 1",
        "operation.failures": "'hihg': give 'high'",
        "limit": "unknown: give 'limits'",
    }
    assert sorted(told) == sorted(expected) and len(found) == len(expected)
    for key, text in expected.items():
        assert re.match(text, told[key]), (key, told[key])
    assert not any(word in line for line in found for word in ("https", "validation", "pydantic", "Spec"))


@pytest.mark.parametrize(("place", "section"), [*sections_of(Spec)])
def test_a_typo_in_any_key_names_the_key_that_is_near(place, section):
    for key in section.model_fields:
        if len(key) < 4:
            continue
        typo = key[:-2] + key[-1] + key[-2] + "x"
        inner = {typo: 1}
        for name in reversed(place):
            inner = {name: [inner]} if name in ARRAYS else {name: inner}
        dotted = dotted_of(place)
        line = next(line for line in faults(spec(**inner)) if line.startswith(f"{dotted}.{typo} "))
        assert re.search(rf"is unknown: give .*'{key}'", line), line


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"cluster": {"power": "40"}}, r"cluster\.power.* is '40': give a text with its unit"),
        ({"cluster": {"power": "0 MW"}}, r"cluster\.power.* is '0 MW': give more than 0, such as '40 MW'"),
        ({"operation": {"pue": 1e300}}, r"operation\.pue is 1e\+300: give 1e\+60 at most"),
        ({"cluster": {"gpus": 0}}, r"cluster\.gpus.* is 0: give .*greater than 0"),
        ({"cluster": {"gpus": True}}, r"cluster\.gpus.* is True: give .*(integer|whole number)"),
        ({"cluster": {"include": ["storag"]}}, r"cluster\.include.* is 'storag': give 'storage'"),
        ({"job": {"tokens": float("inf")}}, r"job\.tokens.* is inf: give a finite number"),
        ({"job": {"runtime": "megatron2"}}, r"job\.runtime.* is .*'megatron20"),
        ({"network": {"candidate": 5}}, r"network\.candidate.* is 5: give a .*list"),
        (
            {"network": {"candidate": [{"name": "a", "layout": ["Clos"]}]}},
            r"network\.candidate\.0\.layout is \['Clos'\]: give 'Clos'",
        ),
        ({"network": {"circuit_switch": "Piezo"}}, r"network\.circuit_switch.* is .*'Piezo .Polatis.'"),
        ({"books": {"prices": "street2052"}}, r"books\.prices.* is 'street2052': give .*'street2025'"),
        ({"cluster": {"racks": 8}}, r"cluster\.gpus is given beside cluster\.racks: give one of them"),
        ({"find": {"gpus": "fewest"}, **WITHIN}, r"cluster\.gpus is given beside find: give one of them"),
        ({"gpus": None, "cluster": MW, "find": {"gpus": "fewest"}, **WITHIN}, r"cluster\.power is given beside find"),
        ({"gpus": None}, "cluster has no size: give gpus, racks, budget or power, or .find. with limits"),
        ({"gpus": None, "find": {}, **WITHIN}, "find has nothing: give one of gpus"),
        ({"gpus": None, "find": {"gpus": "fewest", "cost": "least"}, **WITHIN}, "find has gpus and cost: give one of"),
        ({"gpus": None, "find": {"gpus": "few"}, **WITHIN}, r"find\.gpus is 'few': give 'fewest'"),
        ({"gpus": None, "find": {"gpus": "fewest"}, "limits": MW}, r"find\.gpus needs limits\.days or limits\.cost"),
        ({"gpus": None, "find": {"days": "fewest"}, "limits": {"days": 9}}, r"find\.days needs limits\.power, limits"),
        (
            {"gpus": None, "find": {"gpus": "fewest"}, "limits": {"days": 9, "carbon": "5 t"}},
            r"limits\.carbon beside find needs operation\.carbon",
        ),
        (
            {"gpus": None, "find": {"gpus": "fewest"}, "limits": {"cost": "5 USD"}, "site": {"near": "Houston"}},
            r"limits\.cost beside find and site needs operation\.electricity",
        ),
        ({"candidates": []}, r"network\.candidates is \[\]: give names"),
        ({"network": {"candidate": [OWN, OWN]}}, r"network\.candidate 'mine' is given more than once"),
        (
            {"network": {"candidate": [{**OWN, "rails": 4, "switch": "102.4T"}]}},
            r"'mine': Clos takes no rails: leave it out\n.* 'mine': radix is given beside switch: give one of them",
        ),
        (
            {"network": {"candidate": [{**OWN, "layout": "rail-only"}]}},
            r"network\.candidate 'mine': rail-only takes no oversubscription: leave it out",
        ),
        (
            {"network": {"candidate": [{**OWN, "layout": "Rail Only"}]}},
            r"network\.candidate 'mine': rail-only takes no oversubscription: leave it out",
        ),
        ({"model": {"layers": 3}}, r"job\.model: hidden, heads, .* missing: give these sizes too"),
        (
            {"model": {name: SIZES[name] for name in SIZES if name != "ffn_matrices"}},
            r"ffn_matrices missing: .* \(3 for",
        ),
        (
            {"model": {**SIZES, "sequence_length": "8k"}},
            r"job\.model: sequence_length is '8k': give '8,000' or '8,192'",
        ),
        ({"model": {**SIZES, "hidden": True}}, r"job\.model: hidden is True: give a whole number"),
        ({"model": {**SIZES, "hidden": 0}}, r"job\.model: hidden is 0: give"),
        ({"model": {**SIZES, "layrs": 8}}, r"job\.model: .*layrs.* the nearest are .*'layers'"),
        ({"job": {"precision": "nvfp4"}}, r"job\.precision: precision is 'nvfp4': H100 has no"),
        ({"job": {"search": {"contxt": 1}}}, r"job\.search: .*'contxt' is unknown: name one of .*context"),
        ({"job": {"search": {"context": "x"}}}, r"job\.search: context is 'x': give whole numbers"),
        ({"job": {"mapping": {"tensr": 8}}}, r"job\.mapping: .*'tensr' does not exist: the nearest are .*'tensor'"),
        ({"job": {"mapping": {"tensor": 0}}}, r"job\.mapping: tensor is 0: give"),
        ({"job": {"mapping": {"data": 3}}}, r"job\.mapping: global_batch is 512: give a multiple of data"),
        ({"job": {"launch": "--tensor-model-parallel-size 3"}}, r"job\.launch: world size is 64: give a multiple of"),
        ({"network": {"radix": 1}}, "network.*radix is 1: give"),
        ({"cluster": {"platform": "GH200"}}, "catalog has no price of GH200: give books.server$"),
        *(
            ({"job": {"batch": batch}}, rf"job\.batch is '{batch}': give sequences, such as 2048, or a text such as")
            for batch in ("M tokens", "1.2.3M tokens", "16M GPUs", "0 sequences", "")
        ),
        ({"job": {"batch": "8k tokens"}}, r"job\.batch is '8k tokens': give a sequence of 8,192 tokens or more"),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_what_to_write(sections, text):
    with pytest.raises(ValueError, match=text):
        case_of(read_spec(spec(**sections)))


def test_sizes_that_go_together():
    for sizes in ({"gpus": 64, "budget": "1 MUSD"}, {"racks": 8, "budget": "1 MUSD", **MW}, MW):
        assert read_spec(spec(gpus=None, cluster=sizes)).cluster.model_fields_set == {"platform", *sizes}


def test_names_of_networks():
    with pytest.raises(catalog.UnknownName, match=r"network\.candidates: network 'rail-onli'.*'rail-only'"):
        plan(spec(candidates=["rail-only", "rail-onli"]))
    with pytest.raises(ValueError, match=r"network\.candidate 'Clos' has the name of another network: give it a name"):
        plan(spec(network={"candidate": [{**OWN, "name": "Clos"}]}))
    for candidates, names in ((["rail-only"], ["rail-only", "mine"]), ([], ["mine"])):
        found = network_candidates(case_of(read_spec(spec(candidates=candidates, network={"candidate": [OWN]}))))
        assert [each.name for each in found] == names
    every = network_candidates(case_of(read_spec(spec(network={"candidate": [OWN]}))))
    assert [each.name for each in every][-2:] == ["photonic rails", "mine"] and len(every) == 10
    for network in ({"radix": 64}, {"switch": "QM9700"}):  # whose switches are said: none of another generation
        said = network_candidates(case_of(read_spec(spec(network=network))))
        assert [each.name for each in said] == [each.name for each in every[:-1] if not each.switch]


# What people type


def key_of(place, key):
    """Values of a spec in which one key of a place is given."""

    def given(value):
        inner = {key: value}
        for name in reversed(place):
            inner = {name: [inner]} if name in ARRAYS else {name: inner}
        return inner

    return given


def read_key(dotted, value, si_numbers=True):
    """What a spec reads at a dotted key."""
    *place, key = dotted.split(".")
    given = spec(gpus=None, find={"gpus": "fewest"}, limits={"days": 90}) if place == ["cluster"] else spec()
    inner = given
    for name in place:
        inner = inner.setdefault(name, {})
    inner[key] = value
    if place == ["cluster"] and key in ("gpus", "racks", "budget", "power"):
        given.pop("find")
    found = read_spec(given, si_numbers)
    for name in (*place, key):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("cluster.power", "40,000 kW", 4e7),
        ("cluster.nic", "400 gbps", 5e10),
        ("cluster.nic", "400 Gbit", 5e10),
        ("cluster.nic", "800G", 1e11),
        ("cluster.budget", "$1.2 billion", 1.2e9),
        ("cluster.gpus", "16,384", 16384),
        ("cluster.platform", "gb200 nvl72", "GB200 NVL72"),
        ("cluster.platform", "GB200-NVL72", "GB200 NVL72"),
        ("cluster.use", "At Most", "at most"),
        ("cluster.include", ["Storage"], ("storage",)),
        ("job.model", "llama 3 405b", "Llama-3 405B"),
        ("job.tokens", "15 trillion", 15e12),
        ("job.tokens", "15e12 tokens", 15e12),
        ("job.tokens", "1,000,000,000", 1e9),
        ("job.precision", "BF16", "bf16"),
        ("operation.restart", "90 minutes", 5400),
        ("operation.checkpoint", "2 hours", 7200),
        ("operation.electricity", "$0.08/kWh", 0.08 / 3.6e6),
        ("operation.years", "5 years", 5),
        ("operation.failures", "High", "high"),
        ("operation.pue", "1.25", 1.25),
        ("books.prices", "Street 2025", "street2025"),
        ("network.circuit_switch", "piezo (polatis)", "Piezo (Polatis)"),
        ("site.within", "300 KM", 3e5),
        ("site.demand", "1 GW", 1e9),
        ("site.most_people", "100,000", 1e5),
        ("site.states", ["TX", "new mexico"], ["Texas", "New Mexico"]),
        ("site.authorities", ["erco"], ["ERCO"]),
        ("limits.days", "8 weeks", 56),
        ("limits.days", "8", 8),
        ("wishes.rank", "Cost", "cost"),
    ],
)
def test_a_text_with_one_meaning_is_read(key, value, read):
    assert read_key(key, value) == (read if isinstance(read, str | list | tuple) else pytest.approx(read, rel=1e-14))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("cluster.power", "40.000 kW", "is '40.000 kW': give '40 kW' or '40,000 kW', as it may mean each"),
        ("cluster.power", "40 mw", "is '40 mw': give '40 mW' or '40 MW'"),
        ("cluster.power", "40,5 kW", "is '40,5 kW': give '40.5 kW'"),
        ("cluster.nic", "400 GBps", "is '400 GBps': give '400 Gbps' or '400 GB/s'"),
        ("cluster.gpus", "16k", "is '16k': give '16,000' or '16,384'"),
        ("job.tokens", "1.500T", "is '1.500T': give '1.5 T tokens' or '1,500 T tokens'"),
        ("operation.pue", "1.250", "is '1.250': give '1.25' or '1,250'"),
        ("limits.days", "1.500 weeks", "is '1.500 weeks': give '1.5 weeks' or '1,500 weeks'"),
        ("limits.days", "2 months", "is '2 months': give a number of days, or a text with its unit, such as '3 days'"),
        ("operation.restart", "2 months", "is '2 months': give a text with its unit, such as '25 ms'"),
    ],
)
def test_a_text_with_several_meanings_is_refused_with_each(key, value, text):
    with pytest.raises(ValueError, match=re.escape(f"{key} {text}")):
        read_key(key, value)


@pytest.mark.parametrize(
    ("batch", "read"),
    [
        *(("2,048", 2048), ("2048 sequences", 2048), (" 2 048 sequences", 2048), ("16m tokens", 1953)),
        *(("16 million tokens", 1953), ("16,000,000 tokens", 1953)),
        ("16M", "give '16M tokens', '16,000,000 sequences' or '16,777,216 sequences', as it may mean each"),
        ("2k sequences", "give '2,000 sequences' or '2,048 sequences'"),
        ("1.500 M tokens", "give '1.5 M tokens' or '1,500 M tokens'"),
        ("2.048", "give '2,048 sequences'"),
        (True, "give a whole number"),
    ],
)
def test_batches_as_people_type_them(batch, read):
    if isinstance(read, int):
        assert case_of(read_spec(spec(job={"batch": batch}))).batches(64)[0] == read
        return
    with pytest.raises(ValueError, match=re.escape(f"job.batch is {batch!r}: {read}")):
        case_of(read_spec(spec(job={"batch": batch})))


EVERY = [".".join((*place, key)) for place, section in sections_of(Spec) for key in section.model_fields]


@pytest.mark.parametrize("true", [True, np.True_])
@pytest.mark.parametrize("key", EVERY)
def test_no_value_is_a_truth_value(key, true):
    *place, last = key.split(".")
    for value in (true, [true, true]):
        found = faults(spec(**key_of(place, last)(value)))
        assert any(line.startswith(f"{dotted_of(place)}.{last}") for line in found), found


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(
            (key, "give a whole number")
            for key in ("cluster.gpus", "network.radix", "uncertainty.draws", "site.places")
        ),
        *((key, "give a number") for key in ("job.tokens", "operation.contingency", "limits.days", "operation.pue")),
        *((key, "give a text with its unit, such as '") for key in ("cluster.power", "operation.restart")),
    ],
)
def test_a_truth_value_is_told_what_to_write(key, text):
    *place, last = key.split(".")
    assert any(line.startswith(f"{key} is True: {text}") for line in faults(spec(**key_of(place, last)(True))))


def test_quantities_are_plain_numbers_in_python_and_never_in_toml():
    values = {
        **{"cluster.power": 40e6, "cluster.nic": np.float64(5e10), "operation.restart": 90, "site.within": 3e5},
        **{"limits.carbon": np.int64(1000), "operation.electricity": 2e-8},
    }
    for key, value in values.items():
        assert read_key(key, value) == value and type(read_key(key, value)) is float
        with pytest.raises(ValueError, match=rf"{key} is .*: give a text with its unit, such as '"):
            read_key(key, value, si_numbers=False)
    for key, value in (("cluster.power", 0), ("operation.restart", -1.0), ("cluster.power", math.nan)):
        with pytest.raises(ValueError, match=rf"{key} is {value}: give "):
            read_key(key, value)
    text = '[cluster]\nplatform = "DGX H100"\npower = 40\n[job]\nmodel = "Llama-3 8B"\n'
    assert faults(text) == ["cluster.power is 40: give a text with its unit, such as '40 MW'"]


def test_unknown_authorities_and_states_are_refused_with_the_nearest():
    found = faults(spec(site={"states": ["Oho"], "authorities": ["ERCO", "ERCT"]}))
    assert re.match(r"site\.states\.0 is 'Oho': the nearest are 'Ohio'", found[0])
    assert re.match(r"site\.authorities\.1 is 'ERCT': the nearest are .*'ERCO'", found[1]) and len(found) == 2


def test_networks_are_named_in_any_spelling():
    case = case_of(read_spec(spec(candidates=["Rail Only", "clos"])))
    assert [each.name for each in network_candidates(case)] == ["Clos", "rail-only"]


@pytest.mark.parametrize(
    ("section", "value", "wanted"),
    [
        ("limits", {"goodput": "95%"}, 0.95),
        ("operation", {"contingency": "10 %"}, 0.1),
        ("limits", {"goodput": "95.125%"}, 0.95125),
        ("network", {"nic_ports": 2.0}, 2),
        ("network", {"candidates": "rail only"}, ["rail only"]),
        ("network", {"candidates": "all"}, "all"),
        ("cluster", {"include": "storage"}, ("storage",)),
        ("site", {"states": "texas"}, ["Texas"]),
        ("site", {"authorities": "erco"}, ["ERCO"]),
        ("site", {"near": "29.7, -95.4"}, (29.7, -95.4)),
        ("site", {"near": "Houston, Texas"}, "Houston, Texas"),
    ],
)
def test_what_is_typed_in_short(section, value, wanted):
    ((key, _),) = value.items()
    found = getattr(getattr(read_spec(spec(**{section: value})), section), key)
    assert found == wanted and type(found) is type(wanted)


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({"job": {"batch": "-5"}}, r"job\.batch is '-5': give sequences, such as 2048"),
        ({"cluster": {"nic": "400 KBps"}}, r"cluster\.nic is '400 KBps': give '400 kbps' or '400 kB/s'"),
        ({"cluster": {"power": "1 mw" + "/mw" * 30}}, r"cluster\.power is .* give a text with its unit"),
        ({"operation": {"restart": "5 Ms"}}, r"operation\.restart is '5 Ms': give a text with its unit"),
        ({"limits": {"goodput": "x%"}}, r"limits\.goodput is 'x%': give a number"),
        ({"cluster": {"include": "all"}}, r"cluster\.include\.0 is 'all': give"),
        ({"cluster": {"include": 5}}, r"cluster\.include is 5: give a list"),
    ],
)
def test_what_is_typed_in_short_and_wrong(section, text):
    with pytest.raises(ValueError, match=text):
        case_of(read_spec(spec(**section)))


def test_a_price_of_energy_in_another_unit_is_refused():
    with pytest.raises(ValueError, match=r"electricity is 0\.08: give 36 USD/kWh at most, such as '0\.08 USD/kWh'"):
        read_spec(spec(operation={"electricity": 0.08}))
    assert read_spec(spec(operation={"electricity": 2e-8})).operation.electricity == 2e-8


# Batches, and models of one's own


@pytest.mark.parametrize(
    ("batch", "first"), [(2048, 2048), ("16M tokens", 1953), ("2048k tokens", 250), ("0.5G tokens", 61035)]
)
def test_batches(batch, first):
    found = case_of(read_spec(spec(job={"batch": batch}))).batches(64)  # Llama-3 8B: sequences of 8,192 tokens
    assert found[0] == first and (len(found) == 1 or not isinstance(batch, int))
    assert isinstance(batch, int) or any(each % 8 == 0 for each in found)  # near ones that divide


def test_batch_and_tokens_are_the_models_by_default():
    found = case_of(read_spec(spec(model="Llama-3 405B", job={"batch": None, "tokens": None})))
    assert found.tokens == catalog.item("models", "Llama-3 405B")["training_tokens"] and found.batches(64)[0] == 1953
    assert case_of(read_spec(spec(model="MoE-1.3B", job={"batch": None}))).batches(64) == [512]  # in sequences
    for key in ("tokens", "batch"):
        with pytest.raises(ValueError, match=rf"job\.{key} is missing, and the catalog has none of Llama-3 8B"):
            case_of(read_spec(spec(job={key: None})))


@pytest.mark.parametrize("size", [{"gpus": 64}, {"racks": 8}])
def test_a_launch_line_takes_the_clusters_gpus_and_is_of_its_model(size):
    strategy, batch = case_of(read_spec(spec(gpus=None, cluster=size, job={"launch": LINE}))).own_strategy
    assert (strategy.tensor, strategy.data, batch) == (8, 8, 512)
    with pytest.raises(ValueError, match=r"job\.launch: layers is 16 in the line and 32 in job\.model"):
        case_of(read_spec(spec(gpus=None, cluster=size, job={"launch": LINE.replace("layers 32", "layers 16")})))


def test_a_model_of_ones_own():
    found = case_of(read_spec(spec(model=SIZES))).model
    assert found == Transformer("own model", **SIZES)
    assert case_of(read_spec(spec(model={**SIZES, "name": "ours"}))).model.name == "ours"


# Template and schema


def parts_of(text):
    """Parts of the template that are tables of one's own, in place of a key above them, apart from the rest."""
    own, rest = {}, []
    for part in text.split("\n\n"):
        heading = re.match(r"# \[+(\w+\.\w+)\]|# \[\[(\w+)\]\]", part)
        if heading:
            own[heading[1] or heading[2]] = uncommented(part)
        else:
            rest.append(part)
    return own, "\n\n".join(rest)


def uncommented(text):
    """The template without the comment sign before its sections and before lines with a default value."""
    lines = []
    for line in text.splitlines():
        bare = line.removeprefix("# ")
        default = re.match(r"\w+ = ", bare) and " = ..." not in bare
        lines.append(bare if default or re.match(r"\[.*\]", bare) else line)
    return "\n".join(lines)


def test_the_template_is_read_and_has_every_key_with_its_meaning():
    found = read_spec(spec_template())
    minimal = {"cluster": {"platform": "GB200 NVL72", "gpus": found.cluster.gpus}, "job": {"model": "Llama-3 405B"}}
    assert found == read_spec(minimal)
    place, seen = "", []
    for line in parts_of(spec_template())[1].splitlines():
        if match := re.match(r"(?:# )?\[([\w.]+)\]", line):
            place = match[1]
        elif match := re.match(r"(?:# )?(\w+) = ", line):
            seen.append(f"{place}.{match[1]}")
            assert re.search(r" # \S", line[2:]), f"{seen[-1]} has no meaning"
    top = {place[0]: section for place, section in sections_of(Spec) if len(place) == 1}
    del top["measured"]  # whose table is one of one's own
    assert sorted(seen) == sorted(f"{name}.{key}" for name, section in top.items() for key in section.model_fields)


def test_defaults_without_the_comment_sign_are_the_same_spec():
    text = uncommented(parts_of(spec_template())[1]).replace("[find]", "# [find]")
    assert text.count("\n# ") < spec_template().count("\n# ") / 1.5
    found, plain = read_spec(text), read_spec(spec_template())
    assert found.site is not None  # its section is there now
    assert found.model_copy(update={"site": None}) == plain


def test_tables_of_ones_own_in_the_template_are_read():
    own, _ = parts_of(spec_template())
    assert {"network.candidate", "books.prices", "measured"} <= set(own)
    for name in ("network.candidate", "books.prices", "measured"):
        found = read_spec(f"{spec_template()}\n{own[name]}\n")
        assert found != read_spec(spec_template()) and case_of(found)


def test_the_schema_is_json_and_has_every_key():
    schema = json.loads(json.dumps(spec_schema()))
    assert schema["additionalProperties"] is False and set(schema["properties"]) == set(Spec.model_fields)
    for place, section in sections_of(Spec):
        listed = schema["$defs"][section.__name__]
        assert set(listed["properties"]) == set(section.model_fields), place
        assert listed["additionalProperties"] is False
        assert all("description" in each for each in listed["properties"].values()), place
    assert set(schema["required"]) == {"cluster", "job"}
    assert schema["$defs"]["ClusterSpec"]["properties"]["power"]["anyOf"][0]["examples"] == ["40 MW"]
    assert schema["$defs"]["SiteSpec"]["properties"]["within"]["default"] == "300 km"  # of the type that it has


# No dead keys

EFFECTS = {  # a value of each key that changes what a plan says
    **{"cluster.platform": "DGX H200", "cluster.gpus": 128, "cluster.hb_domain_size": 4, "cluster.nic": "800 Gbps"},
    **{"cluster.include": ["storage"], "job.model": "Llama-3 70B", "job.tokens": 2e12, "job.batch": 96},
    **{"job.precision": "fp8", "job.runtime": "megatron2022", "job.offload": "optimizer", "job.search": {"tensor": 4}},
    **{"job.mapping": {"tensor": 8, "data": 8}, "job.launch": LINE, "job.sequence_length": 4096, "job.lora_rank": 16},
    **{"network.candidates": ["rail-only"], "network.candidate": [OWN], "network.switch": "N9510-64D"},
    "network.technology": "InfiniBand",
    **{"network.radix": 16, "network.oversubscriptions": [3.0], "network.planes": 1, "network.nic_ports": 4},
    **{"network.circuit_switch": "Polatis 6000N", "network.reconfiguration": "10 s"},
    **{"network.candidate.name": "x", "network.candidate.layout": "rail-optimized", "network.candidate.planes": 2},
    **{"network.candidate.oversubscription": 4, "network.candidate.radix": 16},
    **{"books.prices": "railonly2025", "books.powers": "railonly2025", "books.server": "1 MUSD"},
    **{"books.server_power": "1 MW", "books.basis": "reseller", "operation.leave_out": ["interest"]},
    **{f"books.prices.{key}": "200 USD" for key in ("port", "transceiver", "circuit_port")},
    **{f"books.powers.{key}": "2 W" for key in ("port", "transceiver", "circuit_port")},
    **{f"books.{book}.rate": "200 Gbps" for book in ("prices", "powers")},
    **{f"books.{book}.name": "another" for book in ("prices", "powers")},
    **{"operation.years": 3, "operation.electricity": "1 USD/kWh", "operation.pue": 1.5, "operation.load": 0.5},
    **{"operation.carbon": "1 kg/kWh", "operation.failures": "low", "operation.checkpoint": "50 s"},
    **{"operation.restart": "50 s", "operation.contingency": 0.5},
    **{"operation.checkpoint_interval": "2 h", "operation.spares": 8, "operation.stops": 1},
    **{"site.near": "Chicago", "site.within": "20 km", "site.states": ["Ohio"], "site.authorities": ["MISO"]},
    **{"site.most_people": 10, "site.people_within": "500 km", "site.radius": "5 km", "site.places": 2},
    **{"site.rule": "installed", "site.demand": "2 GW", "wishes.rank": "power"},
    **{f"{goals}.power": "1 W" for goals in ("limits", "wishes")},
    **{f"{goals}.{key}": "1 USD" for goals in ("limits", "wishes") for key in ("purchase", "cost")},
    **{f"{goals}.{key}": 1 for goals in ("limits", "wishes") for key in ("days", "goodput", "gpus")},
    **{f"{goals}.carbon": "1 t" for goals in ("limits", "wishes")},
}
ELSEWHERE = {  # keys whose effect another test has, and why others have none
    **dict.fromkeys(("cluster.racks", "cluster.budget", "cluster.power", "cluster.use"), "in test_plan.py"),
    **dict.fromkeys(("network.candidate.rails", "network.candidate.switch"), "in test_plan.py"),
    **dict.fromkeys(("find.gpus", "find.cost", "find.days"), "in test_plan_find.py"),
    **dict.fromkeys(("uncertainty.draws", "uncertainty.seed"), "in test_plan_uncertainty.py"),
    "title": "in test_plan_command.py",
    **{f"measured.{key}": "in test_measured_runs.py" for key in MeasuredSpec.model_fields},
    "measured": "in test_measured_runs.py",
    "job.config": "in test_plan_job.py",
    "cluster.measured": "in test_own_gpu.py",
    "books.file": "in test_price_list.py",
    **dict.fromkeys(("site.plants", "site.lines", "site.hours", "site.flexible"), "in test_plan_site.py"),
    **dict.fromkeys(("job.lora_targets", "job.frozen_bytes"), "in test_lora.py"),
    **dict.fromkeys(("books.prices.dac", "books.powers.dac"), "no network of a plan has copper cables"),
}
QUICK = {"micro_batch": 1, "context": 1, "pipeline": 1, "placement": "tensor first"}
BOTH = {"candidates": ["Clos", "photonic rails"], "job": {"search": QUICK}}
BASES = {  # in which keys have an effect, by how they begin
    "network.candidate.": {"gpus": 136, "network": {"candidate": [OWN], "candidates": []}},
    "network.reconfiguration": {"candidates": ["photonic rails"], "job": {"search": {**QUICK, "pipeline": 2}}},
    "network.": {"gpus": 136},
    "books.prices.": {**BOTH, "books": {"prices": PRICES, "powers": POWERS}},
    "books.powers.": {**BOTH, "books": {"prices": PRICES, "powers": POWERS}},
    "site.": {"site": {"near": "Houston"}},
    "wishes.rank": BOTH,
    "": {"candidates": ["Clos"], "job": {"search": QUICK}},
}


def says(place, given):
    """What a plan says of what keys of a place are about: networks, sites, limits, or all candidates and books."""
    read = read_spec(given)
    if place in ("network.", "network.candidate."):
        case = case_of(read)
        return repr([(each.name, each.build(136), each.cost(case, 136)) for each in network_candidates(case)])
    if place == "site.":
        site = power_places_of(read.site, 1e6)
        return repr((site.table.to_dict("records"), site.note))
    found = plan(read)
    names = [found.case.prices.name, found.case.powers.name, found.case.radix]
    return repr([*names, *(table.to_dict("records") for table in (found.candidates, found.own_strategy))])


@cache
def base():
    """An answer that limits and wishes are held against."""
    return plan(spec(**BASES[""])).best


@cache
def before(place):
    return says(place, spec(**BASES[place]))


def test_every_key_has_an_effect_or_a_place_where_it_is_tested():
    every = {".".join((*place, key)) for place, section in sections_of(Spec) for key in section.model_fields}
    assert every | {"title", "measured"} == set(EFFECTS) | set(ELSEWHERE) and not set(EFFECTS) & set(ELSEWHERE)


@pytest.mark.parametrize("key", EFFECTS)
def test_no_key_is_dead(key):
    place = next(place for place in BASES if key.startswith(place))
    given = copy.deepcopy(spec(**BASES[place]))
    inner, (*around, last) = given, key.split(".")
    for name in around:
        inner = inner.setdefault(name, {})
        inner = inner[0] if isinstance(inner, list) else inner
    inner[last] = EFFECTS[key]
    if around[0] in ("limits", "wishes") and last != "rank":
        assert list(missed_limits(base(), getattr(read_spec(given), around[0]))) == [last]
    else:
        assert says(place, given) != before(place)


@pytest.mark.parametrize(("sequences", "near"), [(500, 504), (3, 24), (24, 24)])
def test_a_mapping_takes_the_nearest_batch_that_it_divides(sequences, near):
    job = {"model": "Llama-3 8B", "tokens": 1e12, "mapping": {"tensor": 2, "data": 24}}
    job["batch"] = f"{sequences * 8192} tokens"
    case = case_of(read_spec({"cluster": {"platform": "DGX H100", "gpus": 48}, "job": job}))
    assert case.own_strategy[1] == near
