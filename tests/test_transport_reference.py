"""The packet model beside published runs of a public simulator: what is compared, the rules, and the stored runs."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from railcore.catalog import files
from railcore.catalog.units import Gbps
from suite.flops2024 import transport_accuracy as reference
from suite.flops2024.transport_runs import (
    CASE,
    RESULTS,
    STORED,
    case_hash,
    case_inputs,
    packet_hops,
    run_case,
    runs_of_cases,
)

SMALL = {"transport": "UEC NSCC", "hosts": 16, "hosts_per_leaf": 4, "link_Bps": 100 * Gbps, "flow_bytes": 1e5,
         "entropies": 8, "mtu_bytes": 4086}  # fmt: skip


def stand_in(fabric, flows, transport, framing, **_):
    """Every flow at the rate of its port, one packet of ten sent twice."""
    wire_s = framing.packets(flows.size_bytes) * framing.packet_bytes / fabric.link_Bps
    done = wire_s + 2 * fabric.latency_s(flows.source, flows.destination)
    again = int(0.1 * framing.packets(flows.size_bytes).sum())
    return SimpleNamespace(completion_s=done, tallies={"sent": 11 * again, "retransmitted": again})


def test_published_rows_give_the_optimum_to_a_nanosecond():
    """Store and forward, the last packet as long as its payload, acknowledgement of a header back."""
    for row in reference.reference_rows().itertuples():
        rate, header = row.link_gbps * 1e9 / 8, row.header_bytes
        full, rest = divmod(row.flow_bytes, row.payload_bytes)
        last = rest + header if rest and row.transport != "roce" else row.payload_bytes + header
        packets = full + bool(rest) - 1
        sent = packets * (row.payload_bytes + header) + last
        behind = 3 * (row.payload_bytes + header)  # a full packet before the last one, on the next three ports
        optimum = (sent + behind + 4 * header) / rate + 8 * row.link_latency_us / 1e6
        assert optimum * 1e6 == pytest.approx(row.optimum_us, abs=2e-3), row.transport


def test_published_packets_are_those_of_the_payload():
    rows = reference.uec_rows()
    assert len(rows) == 314
    packets = np.ceil(rows["flow_bytes"] / reference.MTU_BYTES)
    flows = np.where(rows["pattern"] == "incast", rows["senders"], rows["hosts"])
    assert (packets * flows == rows["packets"]).all()


def test_no_published_run_is_below_its_optimum():
    """But for the leaves' own traffic: within a percent at full bisection and in incasts."""
    rows = reference.uec_rows().query("oversubscription == 1 or pattern == 'incast'")
    assert (rows["last_s"] > 0.995 * rows["optimum_s"]).all()


def test_a_case_reads_the_same_from_a_file(tmp_path):
    case = SMALL | {"link_latency_s": 1e-6 / 3}  # a file has ten digits
    row = run_case(case, stand_in)
    path = tmp_path / "runs.csv"
    pd.DataFrame([row]).to_csv(path, index=False, float_format="%.10g")
    found = runs_of_cases([case], pd.read_csv(path))
    assert found["last_s"].item() == pytest.approx(row["last_s"])
    assert row["first_s"] <= row["p50_s"] <= row["p99_s"] <= row["p999_s"] <= row["last_s"]
    with pytest.raises(ValueError, match=r"1 cases were not run, the first .*'seed': 1"):
        runs_of_cases([SMALL | {"seed": 1}], pd.read_csv(path))


def test_a_hash_is_of_all_that_a_run_is_computed_from():
    same = [SMALL, SMALL | {"seed": 0, "load": 1.0}, dict(reversed(SMALL.items())), SMALL | {"queue_packets": 0}]
    other = [{"seed": 1}, {"load": 0.5}, {"cut": 0.7}, {"tiers": 3}, {"transport": "UEC RCCC"}, {"slow_spines": 1}]
    assert len({case_hash(case) for case in same}) == 1
    assert len({case_hash(SMALL | each) for each in [{}, *other]}) == len(other) + 1


def test_runs_with_a_field_that_stored_ones_lack_have_each_column_once():
    stored, own = run_case(SMALL, stand_in), SMALL | {"cut": 0.7}
    table = pd.concat([pd.DataFrame([stored]), pd.DataFrame([run_case(own, stand_in)])])
    found = runs_of_cases([own], table)
    assert found.columns.is_unique and found["cut"].item() == 0.7


def test_patterns_have_their_flows():
    assert len(case_inputs(SMALL | {"pattern": "incast", "senders": 5})["flows"]) == 5
    assert len(case_inputs(SMALL | {"load": 0.5})["flows"]) == 8
    assert (case_inputs(SMALL | {"degraded": 0.5})["fabric"].rates == 0).sum() == 16
    assert (case_inputs(SMALL | {"slow_spines": 1, "degraded_rate": 0.5})["fabric"].rates == 0.5).sum() == 8
    assert case_inputs(SMALL | {"tiers": 3, "hosts_per_leaf": 2})["fabric"].tiers == 3
    assert 25 * 16 * 2 <= packet_hops(SMALL) <= 25 * 16 * 4


def published_runs():
    """The published rows as if they were ours."""
    rows = reference.uec_rows()
    run = run_case(SMALL, stand_in)
    table = pd.DataFrame([run | {"hash": case_hash(case)} for case in reference.uec_cases()])
    return table.assign(first_s=rows["first_s"], last_s=rows["last_s"], retransmitted=rows["retransmitted_packets"],
                        packets=rows["packets"])  # fmt: skip


def test_published_runs_meet_their_own_rules():
    compared = reference.compare_with_uec(published_runs().drop_duplicates())
    assert len(compared) == 314 and (compared["last_error"] == 0).all()
    rules = rules_met(reference.compare_with_reference(reference_runs(1.0), 3), compared)
    assert rules["met"].all() and (rules.loc[list(reference.UEC_RULES), "within"] == 1).all()
    assert rules.loc[list(reference.UEC_RULES), "rows"].sum() + (compared["rule"] == "").sum() == 314
    assert compared["excess_error"].max() == 0 and (compared["optimum_error"] == 1).all()
    assert 0 < compared["constant_error"].median() < 1
    pairs = reference.pairs_in_order(compared)
    assert pairs["within"].all() and set(pairs["rule"]) == {"fewer paths, longer", "load balancing"}
    paths = pairs[pairs["rule"] == "fewer paths, longer"]
    few, many = (compared.loc[paths[name], "paths"].to_numpy() for name in ("first", "second"))
    assert (few < many).all() and (paths["reference"] > 1).all()  # theirs have no exception


def rules_met(compared, uec):
    return reference.accuracy_rules(compared, uec).set_index("rule")


def test_a_wrong_run_is_found():
    ours = reference.compare_with_reference(reference_runs(1.3), 3)
    runs = published_runs()
    met = rules_met(ours, reference.compare_with_uec(runs.assign(last_s=1.3 * runs["last_s"])))["met"].astype(bool)
    orders = ["permutations: order of the transports", "fewer paths, longer", "load balancing"]
    assert set(met.index[met]) - {"error above the optimum: below that of the optimum"} == set(orders)
    late = rules_met(ours, reference.compare_with_uec(runs.assign(last_s=1.0)))
    assert not late["met"].astype(bool).drop(orders[0]).any()
    ours.loc[ours["transport"] == "roce", "ours"] = 0.1
    assert not rules_met(ours, reference.compare_with_uec(runs)).loc[orders[0], "met"]


def reference_runs(scale):
    """Each published row's statistics, times a scale, as runs of ours."""
    rows, found = reference.reference_rows(), []
    for case in reference.reference_cases(3):
        named = rows["transport"].map(reference.NAMES)
        group = rows[(named == case["transport"]) & (rows["hosts"] == case["hosts"])]
        row = group.iloc[case["seed"] % len(group)]
        times = {column: scale * row[f"{name}_over_optimum"] * row["optimum_us"] / 1e6
                 for name, column in reference.STATISTICS.items()}  # fmt: skip
        found.append(run_case(SMALL, stand_in) | {"hash": case_hash(case)} | times)
    return pd.DataFrame(found)


def test_published_slowdowns_meet_their_own_rules():
    compared = reference.compare_with_reference(reference_runs(1.0), 3)
    assert len(compared) == 7 * len(reference.STATISTICS)
    assert compared["error"].abs().max() < 1e-9
    assert compared.dropna(subset="within")["within"].all() and compared["within"].isna().sum() == 7
    assert reference.single_draws(compared) == "9 of 9 published values of one draw lie in our 5% to 95% range."
    wide = compared.query("transport == 'single_path' and hosts == 1024 and statistic == 'last'")
    assert wide["tolerance"].item() > 0.10  # the spread of three published tails
    wrong = reference.compare_with_reference(reference_runs(1.3), 3)
    assert not wrong.dropna(subset="within")["within"].any()
    told = reference.single_draws(wrong)
    assert told.startswith("0 of 9") and "RoCEv2 at 128 hosts, mean 2.35 (ours 3.06 to 3.06)" in told


def simulated(rows, **changes):
    """Runs of some published rows of Ultra Ethernet, beside them."""
    found = []
    for place in rows:
        run = run_case(reference.uec_cases()[place] | changes)
        found.append({**reference.uec_rows().loc[place], "ours_last_s": run["last_s"],
                      "ours_share": run["retransmitted"] / run["packets"]})  # fmt: skip
    return pd.DataFrame(found)


def test_load_balancing_comes_near_the_published_runs():
    """1,024 hosts; `make slow` has the permutations of 8,192."""
    small = reference.uec_rows().query("hosts == 1024").index
    table = simulated(small)
    assert (table["ours_last_s"] / table["last_s"] - 1).abs().max() < 0.08
    named = table.assign(rule="", hosts=[1024] * 9 + [1025])
    assert reference.pairs_in_order(named)["within"].all()


def test_incasts_come_near_the_published_runs():
    rows = reference.uec_rows().query("senders in (2, 32) and flow_bytes == 2**20 and start_spread_s == 0")
    table = simulated(rows.index)
    assert (table["ours_last_s"] / table["last_s"] - 1).abs().max() < 0.05
    credits = table[table["control"] == "rccc"]
    assert (credits["ours_last_s"] / credits["last_s"] - 1).abs().max() < 0.01


def test_acknowledgements_take_time_on_the_links():
    """An acknowledgement of 64 bytes a packet slows the fastest flow by up to 1.5%, one for four packets by 0.4%."""
    case = next(each for each in reference.uec_cases() if each["hosts"] == 1024 and each["balancing"] == "oblivious")
    one, four = (run_case(case | {"sack_bytes": each})["first_s"] for each in (0, 16384))
    given = case_inputs(case)
    wire_s = given["framing"].wire_bytes(case["flow_bytes"]) / case["link_Bps"]
    assert 0.004 < one / four - 1 < 0.015 and wire_s < four < 1.005 * wire_s + 5e-6


@pytest.mark.parametrize("name", ["UEC RCCC", "UEC RCCC of July 2024"])
def test_receivers_that_slow_their_credits_send_less_again(name):
    case = {"transport": name, "hosts": 256, "hosts_per_leaf": 32, "link_Bps": 200 * Gbps, "flow_bytes": 4e6,
            "oversubscription": 4, "mtu_bytes": 4086}  # fmt: skip
    steady, paced = run_case(case | {"pacing": "steady"}), run_case(case)
    assert paced["retransmitted"] < steady["retransmitted"] / 3
    assert paced["last_s"] < 1.3 * steady["last_s"]
    full = [run_case(case | {"oversubscription": 1, "pacing": each})["last_s"] for each in ("steady", "marks", "trims")]
    assert full[0] == full[1] == full[2]  # nobody slows down where the fabric is not oversubscribed


def test_stored_runs_meet_the_rules_but_for_these():
    compared, uec = reference.compare_with_reference(), reference.compare_with_uec()
    missed = compared[compared["within"].eq(False)]
    assert list(missed[["transport", "hosts", "statistic"]].itertuples(index=False, name=None)) == [
        ("roce", 128, "p99"),  # one draw each, above our range
        ("roce", 128, "last"),
    ]
    incasts = uec[uec["within"].eq(False) & (uec["pattern"] == "incast")]
    columns = ["control", "senders", "flow_bytes", "start_spread_s", "oversubscription"]
    assert list(incasts[columns].itertuples(index=False, name=None)) == [  # ours end 4 to 5% earlier
        ("nscc", 8, 2**20, 16e-6, 1),
        ("nscc", 8, 2**20, 0.0, 4),
        ("nscc", 8, 2**20, 16e-6, 4),
    ]
    met = rules_met(compared, uec)["met"].astype(bool)
    assert set(met.index[~met]) == {"permutations: one draw, in our range", "incast, from 8 senders"}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_small_run_of_every_mechanism_comes_out_as_it_is_stored(every):
    """The smallest of each transport and balancing. every: of each pattern, oversubscribed and damaged fabric, too."""
    stored = pd.read_csv(files.data(STORED))
    damaged = stored["degraded"].gt(0) | stored["slow_spines"].gt(0)
    over = stored["oversubscription"].gt(1)
    kinds = [stored["transport"], stored["balancing"].fillna(""), stored["pattern"].fillna(""), damaged, over]
    rows = stored.loc[stored.groupby(kinds if every else kinds[:2])["packets"].idxmin()]
    assert len(rows) > (25 if every else 10)
    whole = [name for name, usual in CASE.items() if type(usual) is int]
    for _, row in rows.iterrows():
        case = row.drop(["hash", *RESULTS]).dropna().to_dict()
        found = run_case(case | {name: int(case[name]) for name in whole if name in case})
        expected = row[["hash", *RESULTS]].dropna().to_dict()
        assert found["hash"] == expected.pop("hash")
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6), case
