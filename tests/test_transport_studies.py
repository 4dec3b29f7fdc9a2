"""Questions to the packet model, split transfers, and what flops2024 says of transports."""

import numpy as np
import pandas as pd
import pytest

from railcore import catalog
from railcore.catalog.units import Gbps
from railcore.transport import delay, transports
from railcore.transport.fabric import LATENCIES, hop_latencies, leaf_spine
from railcore.transport.flows import permutation
from railcore.transport.levels import flow_level_times
from railcore.transport.optimum import optimum_s
from suite.flops2024 import transport_cases, transport_claims, transport_runs
from suite.flops2024 import transport_studies as studies
from suite.flops2024.transport_runs import CASE, case_grid, case_hash, case_inputs, run_case
from suite.ledger import claims
from suite.ledger.readings import claim_verdicts

LINK = 100 * Gbps
TINY = {"hosts": 16, "hosts_per_leaf": 4, "link_Bps": LINK, "flow_bytes": 65_536}


def test_a_grid_has_every_combination_once():
    cases = case_grid(transport=["NDP", "spraying"], **TINY, load=(0.5, 1.0), seed=range(3))
    assert len(cases) == len(set(map(case_hash, cases))) == 12
    assert [case["seed"] for case in cases[:4]] == [0, 1, 2, 0]


def test_every_study_names_transports_and_options_that_exist():
    every = [case for cases in studies.STUDIES.values() for case in cases()] + transport_cases.document_runs()
    assert {case["transport"] for case in every} == set(transports.transport_names()) - {"UEC RCCC of July 2024"}
    assert all(case_hash(case) for case in every)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Runs of two cases as if they were stored."""
    cases = case_grid(transport=["NDP", "spraying"], **TINY, seed=range(2))
    table = pd.DataFrame([run_case(case, flow_level_times) for case in cases])
    path = tmp_path / "runs.csv"
    table.to_csv(path, index=False)
    monkeypatch.setattr(transport_runs.files, "data", lambda name: path)
    return cases, table


def test_stored_runs_are_read_and_others_simulated(stored, monkeypatch):
    cases, table = stored
    simulated, told = [], []

    def run(case, simulate):
        simulated.append(case)
        assert simulate.keywords == {"progress": told.append}
        return run_case(case, flow_level_times)

    monkeypatch.setattr(transport_runs, "run_case", run)
    runs = transport_runs.study_runs(cases, told.append)
    assert not simulated and not told
    assert np.allclose(runs["last_s"], table["last_s"])
    assert np.all(runs["slowdown"] >= 1 - 1e-6)
    new = cases[0] | {"pattern": "incast", "senders": 5}
    both = transport_runs.study_runs([*cases, new], told.append)
    assert simulated == [new] and len(told) == 1 and len(both) == len(cases) + 1
    given = [case_inputs(case) for case in (*cases, new)]
    assert list(both["optimum_s"]) == [optimum_s(each["fabric"], each["flows"], each["framing"]) for each in given]


def test_runs_with_your_own_numbers_are_not_the_stored_ones(tmp_path, monkeypatch):
    case = {"transport": "NDP", **TINY}
    table = pd.DataFrame([run_case(case, flow_level_times)])
    assert len(transport_runs.runs_of_cases([case], table)) == 1
    rows = ",".join(catalog.COLUMNS) + "\nNDP,queue_packets,20,,,packets,datasheet,mine,2026,\n"
    (tmp_path / "transports.csv").write_text(rows)
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    assert case_inputs(case)["transport"].queues.queue_packets == 20
    with pytest.raises(ValueError, match=r"1 cases were not run, the first .*'NDP'"):
        transport_runs.runs_of_cases([case], table)


def test_shares_of_complete_flows_rise_to_all_at_the_last_flow(stored):
    runs = transport_runs.study_runs(stored[0])
    shares = transport_runs.completed_shares(runs)
    for (name, seed), part in shares.groupby(["transport", "seed"]):
        assert part["share"].is_monotonic_increasing and part["time_s"].is_monotonic_increasing
        mine = runs[(runs["transport"] == name) & (runs["seed"] == seed)]
        assert part["share"].iloc[-1] == 1 and part["time_s"].iloc[-1] == mine["last_s"].iloc[0]


def test_a_failed_link_leaves_single_paths_without_an_end():
    runs = pd.DataFrame([CASE | case | {"last_s": 2.0, "optimum_s": 1.0} for case in studies.failure_cases()])
    found = studies.recovery_slowdowns(runs)
    never = found[np.isinf(found["slowdown"])]
    assert set(never["way"]) == set(studies.SINGLE_PATH) and set(never["links"]) == {list(studies.LINKS)[-1]}
    assert set(found["links"]) == set(studies.LINKS)
    kept = {name for name in transports.transport_names() if transports.transport(name).balancing == "single path"}
    assert kept == set(studies.SINGLE_PATH)
    assert not found["way"].isna().any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": 1.5}, "hosts"),
        ({"load": np.nan}, "load is nan"),
        ({"degraded": 2.0}, "fraction is 2"),
        ({"slow_spines": 5}, "spines is 5"),
        ({"pattern": "incast", "senders": 16}, "senders is 16"),
        ({"oversubscription": 0.5}, "oversubscription is 0.5"),
        ({"transport": "TCP"}, "TCP"),
        ({"queue": 3}, r"'queue' does not exist.*queue"),
    ],
)
def test_a_case_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        case_inputs({"transport": "NDP", **TINY, **change})


def test_cases_run_on_three_tiers():
    case = {"transport": "NDP", **TINY, "tiers": 3}
    run, given = run_case(case), case_inputs(case)
    assert run["last_s"] >= optimum_s(given["fabric"], given["flows"], given["framing"]) * (1 - 1e-9)
    assert run["flows"] == 16 and run["packets"] == 16 * 16


def test_latencies_are_the_catalogs():
    found = hop_latencies("800 Gbps", cable_m=0)
    assert list(found) == list(LATENCIES)
    assert found["link_latency_s"] == pytest.approx(delay.correction_delay(800 * Gbps)[0]) and found["link_latency_s"]
    assert found["switch_latency_s"] == pytest.approx(catalog.item("latencies", "SN5600")["latency"])
    assert found["nic_latency_s"] == pytest.approx(catalog.item("latencies", "ConnectX-7")["latency"])
    usual = hop_latencies("800 Gbps", cable_m=catalog.item("wide_area", "fibre")["hall_length"])
    assert hop_latencies("800 Gbps") == usual != found
    longer = hop_latencies("800 Gbps", cable_m=100)["link_latency_s"] - found["link_latency_s"]
    assert longer == pytest.approx(100 * catalog.item("wide_area", "fibre")["delay"])
    fabric = leaf_spine(16, 4, LINK, **found)
    one_way = sum(count * each for count, each in zip((4, 3, 2), found.values(), strict=True))
    assert fabric.latency_s([0], [15])[0] == pytest.approx(one_way)
    with pytest.raises(ValueError, match="cable_m is -1"):
        hop_latencies("800 Gbps", cable_m=-1)


def test_explored_cases_have_full_bisection():
    for hosts in (128, 512, 1024, 2048, 8192):
        case = studies.explored_case("NDP", hosts, 1.0, 1e6, LINK)
        fabric = case_inputs(case)["fabric"]
        assert fabric.tiers == 2 and fabric.uplinks == case["hosts_per_leaf"]
    times = studies.explored_flow_times(transport="NDP", hosts=128, load=0.5, flow_bytes=1e6, link_Bps=LINK)
    last = times.groupby("model", sort=False)["time_s"].max().to_numpy()  # optimum, spraying, one path a flow
    assert last[0] <= last[1] * (1 + 1e-9) and last[1] < last[2]


def test_more_subflows_come_nearer_to_even():
    fabric = leaf_spine(256, 16, LINK)
    table = studies.subflow_slowdowns(fabric, [permutation(256, 1e6, seed=seed) for seed in range(3)], [1, 4, 64])
    over = table.groupby(["model", "subflows"])["slowdown"].median()
    assert over["most loaded link", 1] > over["most loaded link", 4] > over["most loaded link", 64] > 1
    assert set(table.loc[table["model"] == "fair sharing", "subflows"]) == {1, 4}
    assert over["fair sharing", 1] == pytest.approx(over["most loaded link", 1], rel=0.05)
    assert over["fair sharing", 4] == pytest.approx(over["most loaded link", 4], rel=0.15)


def stand_in(cases, factor):
    """Runs that take `factor` times the optimum, more for a later seed."""
    rows = [CASE | case | {"optimum_s": 1e-3, "last_s": 1e-3 * factor(case)} for case in cases]
    return pd.DataFrame(rows)


def entries(single=6.9, lossless=7.9, sprayed=1.04, ndp=1.04):
    factors = {"single path": single, "RoCEv2": lossless, "RoCEv2 with DCQCN": lossless, "flowlets": single}
    factors["NDP"] = ndp

    def factor(case):
        return factors.get(case["transport"], sprayed) * (1 + 0.01 * (case["seed"] - 4.5))

    large, small = transport_cases.document_network(), transport_cases.document_network(small=True)
    runs = [transport_cases.fig5_cases(large), transport_cases.fig6_cases(small), transport_cases.pause_cases(large)]
    tables = [stand_in(each, factor) for each in runs]
    tables[2] = transport_cases.pause_settings(tables[2])
    tables[:2] = [transport_cases.named_runs(*each) for each in zip(tables[:2], runs[:2], strict=True)]
    return tables, transport_claims.transport_claims(*tables, transport_cases.document_cases())


def test_every_claim_of_the_notebook_is_recorded_and_what_may_differ_has_a_reason():
    tables, found = entries(single=3.0, lossless=4.0, sprayed=1.2, ndp=1.2)  # far from what is printed
    wanted = {key for key, entry in claims.claims().items() if entry.notebook == "16_transports"}
    assert set(found.values) == wanted and set(found.readings) <= wanted
    always = {"flops2024.fig5.fct_optimal", "flops2024.transport.partial_load"}  # bounds, no draws
    drawn = transport_claims.drawn_times(tables[0])
    assert set(drawn) == {f"flops2024.fig5.{name}" for name in ("fct_single_path", "fct_roce", "roce_gap")}
    assert all(len(times) == 20 and found.values[key] == np.median(times) for key, times in drawn.items())
    assert set(found.reasons) == wanted - always
    differ = {f"flops2024.fig5.{name}" for name in ("fct_single_path", "fct_roce", "fct_spraying_overhead")}
    differ |= set(transport_claims.EXPOSED.values())  # sends of three times the optimum expose too little
    assert {key for key, verdict in claim_verdicts(found.values).items() if verdict == "differs"} == differ


def test_reasons_say_what_lies_behind_a_printed_time():
    tables, found = entries(single=6.8, ndp=1.2)
    assert "medians from 7.62 ms with 3 packets to 7.62 ms with 60" in found.reasons["flops2024.fig5.fct_roce"]
    assert found.reasons["flops2024.fig5.fct_roce"].startswith("1 of 20 seeds reach the printed value.")
    spraying = found.readings["flops2024.fig5.fct_spraying_overhead"]  # too late, but in time by other ways
    assert "spraying, all paths: 0.004" in spraying and "NDP, queues of 32: 0.158" in spraying
    best_s = tables[0]["optimum_s"].iloc[0]
    gaps = transport_claims.drawn_times(tables[0])["flops2024.fig5.roce_gap"]
    assert gaps == pytest.approx([(7.9 - 6.8) * (1 + 0.01 * (seed - 4.5)) * best_s for seed in range(20)])
    assert "the dense one, 217 MB: 2.23 ms" in found.readings["flops2024.fig5.fct_optimal"]


def test_the_send_is_the_mixtures_and_the_network_the_documents():
    network = transport_cases.document_network()
    models = transport_cases.document_cases()
    assert network["flow_bytes"] == round(models["moe"].times.pipeline_s * models["moe"].site.nic_Bps)
    assert network["hosts"] == network["hosts_per_leaf"] ** 2 * 2  # two tiers from one radix
    assert network["link_Bps"] == models["moe"].site.nic_Bps


def test_slower_sends_raise_the_exposed_share_and_none_leaves_it():
    for case in transport_cases.document_cases().values():
        assert transport_claims.share_with_slower_sends(case, 0.0) == pytest.approx(float(case.share), rel=1e-12)
        more = [transport_claims.share_with_slower_sends(case, extra) for extra in (0.0, 1e-3, 6e-3)]
        assert more == sorted(more) and more[0] < more[2] < 1
        times, extra = case.times, 6e-3
        exposed = float(times.exposed_s(case.rule)) + 2 * extra
        compute = float(times.forward_s + times.backward_s)
        assert more[2] == pytest.approx(exposed / (compute + exposed))


def test_the_document_lies_within_the_seeds_that_it_is_counted_in():
    (runs, *_), _ = entries(single=6.8)
    table = transport_claims.last_flow_times(runs).set_index("transport")
    assert list(table.index) == ["optimum", *transport_cases.FIG5_WAYS]
    assert table.loc["single path", "seeds_up_to_printed"] == 0.4
    assert table.loc["optimum", "over_optimum"] == 1
    exposed = transport_claims.exposed_by_transport(transport_cases.document_cases(), table.reset_index())
    shares = exposed.set_index(["model", "transport"])["share"]
    for model, case in transport_cases.document_cases().items():
        assert shares[model, "optimum"] == pytest.approx(float(case.share))
        assert shares[model, "RoCEv2"] > shares[model, "single path"] > shares[model, "NDP"]


def test_presets_take_shared_rows_and_changes():
    shared = catalog.item("transports", transports.SHARED)
    assert transports.transport("UEC NSCC").timeout_s == shared["timeout_s"]
    assert transports.transport("NDP").queues.queue_packets != shared["queue_packets"]
    changed = transports.transport("UEC NSCC", queue_packets=64, cut=0.5, sack_bytes=0)
    assert (changed.queues.queue_packets, changed.control.cut, changed.sack_bytes) == (64, 0.5, 0)
    assert transports.SHARED not in transports.transport_names()
    with pytest.raises(catalog.UnknownName, match="'NDP'"):
        transports.transport("NPD")
    with pytest.raises(catalog.UnknownName, match="queue_packets"):
        transports.transport("NDP", queue_packet=3)


def test_the_answer_has_the_first_transport_and_one_that_is_sold():
    over = {"optimum": 1.0, "spraying, all paths": 1.03, "UEC NSCC": 1.08, "single path": 7.0}
    times = pd.DataFrame({"transport": [*over], "over_optimum": [*over.values()]})
    text = transport_claims.transport_answer(times)
    assert "spraying (all paths) ends first: its last flow comes 3.0% after" in text
    assert "with Ultra Ethernet NSCC 8.0%" in text and text.endswith("sprays packets.")
    alone = transport_claims.transport_answer(times[times["transport"].isin(["optimum", "single path"])])
    assert "single path ends first" in alone and alone.endswith("One path a flow is enough here.")
