"""Where a plan's power is: three places, what limits them, what they do to the cost, and a grid of one's own."""

import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest

from railcore import catalog
from railcore.catalog.units import MW, day, kWh, show, year
from railcore.datacenter.ownership import ADDED
from railcore.planner import site_terms
from railcore.planner.answer import EnergyPrices, with_energy
from railcore.planner.command import run
from railcore.planner.costs import site_costs
from railcore.planner.planning import plan
from railcore.planner.power_places import power_places_of, weighted_mean
from railcore.planner.spec_reading import read_spec
from railcore.planner.sweep_chunk import planned_chunk
from railcore.planner.sweep_grid import sweep_points
from railcore.siting.areas import Area
from railcore.siting.authorities import authority_caps
from railcore.siting.grid import load_grid
from railcore.siting.places import find_places
from railcore.siting.split import find_split

NAME = load_grid().name
NEAR_HOUSTON = Area("Houston", 3e5, [], 1e5, 5e4, [])
OWN_PLANTS = """plant_code,name,state,ba,lat,lon,biomass_mw,coal_mw,geothermal_mw,hydro_mw,pumped_mw,battery_mw,gas_mw,\
nuclear_mw,oil_mw,solar_mw,wind_mw,other_mw
1,Alpha,TX,ERCO,29.5,-96.5,0,0,0,0,0,500,1500,0,0,0,0,0
2,Beta,TX,ERCO,29.6,-96.6,0,0,0,0,0,0,1500,0,0,0,0,0
3,Gamma,TX,ERCO,29.4,-96.6,0,0,0,0,0,0,1500,0,0,0,0,0
4,Delta,TX,ERCO,29.4,-96.5,0,0,0,0,0,0,1500,0,0,0,0,0
"""
OWN_LINES = "lat,lon,lat_to,lon_to,mw\n29.5,-96.5,31.5,-96.5,9000\n"


def spec(site=None, **sections):
    """A small spec with a site."""
    job = {"model": "Llama-3 8B", "tokens": 1e12, "batch": 512, "search": {"context": 1, "micro_batch": 1}}
    base = {"cluster": {"platform": "DGX H100", "gpus": 64}, "job": job, "network": {"candidates": ["rail-only"]}}
    return base | sections | ({} if site is None else {"site": site})


@cache
def houston():
    return plan(spec({"near": "Houston"}))


def section(planned, name="energy"):
    return next(part for part in planned.document(draws=False)["sections"] if part["id"] == name)


def hours_file(tmp_path, authority="ERCO", spare_mw=300.0, name="EIA930_BALANCE_2023_Jan_Jun.csv"):
    """A file of hours in which an authority generates so much more at most than its largest demand."""
    ends = pd.date_range("2023-01-01 06:00", periods=8800, freq="h")
    demand = 40e3 + 5e3 * np.sin(np.arange(8800) * 2 * np.pi / 24)
    columns = {"Balancing Authority": authority, "UTC Time at End of Hour": ends.strftime("%m/%d/%Y %I:%M:%S %p")}
    table = pd.DataFrame(columns | {"Demand (MW)": demand, "Net Generation (MW)": demand + spare_mw})
    table.to_csv(tmp_path / name, index=False)
    return name


def spec_file(tmp_path, site, name="plan.toml"):
    """A TOML file of the small spec with lines of [site]."""
    text = '[cluster]\nplatform = "DGX H100"\ngpus = 64\n[network]\ncandidates = ["rail-only"]\n[job]\n'
    text += 'model = "Llama-3 8B"\ntokens = 1e12\nbatch = 512\nsearch = {context = 1, micro_batch = 1}\n'
    path = tmp_path / name
    path.write_text(f"{text}[site]\n{site}\n")
    return str(path)


# Places.


def test_a_site_gives_the_price_and_carbon_of_energy():
    plain = {"leave_out": ADDED}
    planned = plan(spec({"near": "Houston"}, operation=plain))
    n, site = planned.best.numbers, planned.site
    alone = find_places(load_grid(), n["power_w"], 7.5e4, k=3, area=NEAR_HOUSTON)
    assert site.demand_w == n["power_w"] and site.note == "" and site.table.equals(alone.places)
    first = alone.places.iloc[0]
    assert [site.usd_per_J, site.carbon_kg_per_J] == pytest.approx([first["usd_per_J"], first["carbon_kg_per_J"]])
    assert n["carbon_kg"] == pytest.approx(n["energy_J"] * site.carbon_kg_per_J)
    wear = n["purchase_usd"] * n["days"] * day / (5 * year)
    assert n["cost_usd"] == pytest.approx(n["energy_J"] * site.usd_per_J + wear)
    own = plain | {"electricity": "0.5 USD/kWh", "carbon": "1 kg/kWh"}
    given = plan(spec({"near": "Houston"}, operation=own)).best.numbers
    assert given["cost_usd"] == pytest.approx(n["energy_J"] / kWh * 0.5 + wear)
    assert given["carbon_kg"] == pytest.approx(n["energy_J"] / kWh)
    with pytest.raises(ValueError, match=r"site: .*'Huston' does not exist: the nearest are .*'Houston, TX'"):
        plan(spec({"near": "Huston"}))


def test_a_site_that_cannot_feed_the_cluster_is_a_limit_that_is_missed():
    nowhere = plan(spec({"near": "Houston", "radius": "1 m"}))
    assert not nowhere.met and nowhere.site.note and "carbon_kg" not in nowhere.best.numbers
    assert nowhere.site.note[1:] in str(nowhere) and f"Grid: {NAME}." in str(nowhere)
    far = plan(spec({"near": "Chicago", "within": "1 m"}))
    told = "Not reachable: site: no place is left: .* within 0.001 km of Chicago, IL; the nearest is .* larger within. "
    assert re.match(f"{told}Without a site, rail-only trains Llama-3 8B in [^:]*[.]$", str(far).splitlines()[0])
    assert any(step.startswith("Change [site]: ") for step in far.document(draws=False)["next_steps"])
    both = plan(spec({"near": "Chicago", "within": "1 m"}, limits={"days": 1}))
    assert str(both).startswith("Not reachable: no network meets 1 days. The nearest, rail-only, ")
    assert far.site.note[1:] in str(both)


def test_the_section_shows_three_places_with_what_limits_each_and_names_the_grid():
    energy, table = section(houston()), houston().site.table
    listed, costs = energy["tables"][1:]
    columns = ["place", "state", "authority", "available", "limited by", "from Houston, TX", "USD/kWh", "lines out"]
    assert listed["head"] == [*columns, "fuels"]
    assert [row[0] for row in listed["rows"]] == [row[0] for row in costs["rows"]] == list(table["name"])
    assert len(table) == 3 and table["distance_m"].is_monotonic_increasing
    assert [row[4] for row in listed["rows"]] == list(table["limit"])
    assert f"Grid: {NAME}." in energy["notes"] and NAME in energy["places"]["caption"]
    assert [point["label"] for point in energy["places"]["points"]] == list(table["name"])
    assert houston().site.chosen["name"].tolist() == [table["name"][0]]


def test_the_terminal_names_the_place_in_one_line_with_its_grid():
    first = houston().site.table.iloc[0]
    (line,) = (line for line in str(houston()).splitlines() if line.startswith("- Site: "))
    has = f"{first['name']} (Texas, ERCO) has {show(first['available_w'], 'W', 3)} (limited by: {first['limit']})"
    searched = "Searched: places within 300 km of Houston, TX, with at most 100,000 people within 50 km."
    needs = show(houston().best.numbers["power_w"], "W", 4)
    assert line.startswith(f"- Site: needs {needs}: {has}. Its electricity, ")
    assert line.endswith(f" {searched} Grid: {NAME}.")
    document = houston().document(draws=False)
    assert line[2:] in [verdict["text"] for verdict in document["verdicts"]]
    risk, step = document["risks"][-1], document["next_steps"][-1]
    assert first["name"] in risk and f"Grid: {NAME}." in risk
    power = show(houston().best.numbers["power_w"], "W", 3)
    assert step == f"Ask ERCO for {power} at {first['name']}."


def test_places_that_share_the_power_count_by_what_each_carries():
    planned = plan(spec({"states": ["TX", "LA"], "places": 2}))
    n, site = planned.best.numbers, planned.site
    alone = find_split(load_grid(), n["power_w"], 7.5e4, area=Area(None, None, ["TX", "LA"], 1e5, 5e4, []))
    assert site.table.equals(alone.places) and len(site.chosen) == 2
    x = site.table["power_w"]
    assert x.sum() == pytest.approx(n["power_w"])
    assert site.usd_per_J == pytest.approx((x * site.table["usd_per_J"]).sum() / x.sum())
    assert site.carbon_kg_per_J == pytest.approx((x * site.table["carbon_kg_per_J"]).sum() / x.sum())
    text = f"Site: needs {show(n['power_w'], 'W', 4)}: 2 places share it: "
    (line,) = (line for line in str(planned).splitlines() if text in line)
    assert " Searched: places in Texas or Louisiana, with at most 100,000 people within 50 km. " in line
    assert all(f"{name} (" in line for name in site.table["name"]) and line.count(" carries ") == 2
    assert section(planned)["tables"][2]["rows"][0][0] == "; ".join(site.table["name"])
    asked = site.table.groupby("authority", sort=False)["power_w"]
    codes = (f"{code} for {show(power, 'W', 3)} at " for code, power in asked.sum().items())
    step = planned.document(draws=False)["next_steps"][-1]
    assert all(text in step for text in codes) and step.count(" for ") == len(asked)
    uneven = site.table.assign(power_w=[3 * MW, 1 * MW], usd_per_J=[1e-8, 2e-8])
    assert weighted_mean(uneven, "usd_per_J") == pytest.approx(1.25e-8)
    assert weighted_mean(uneven.assign(usd_per_J=[1e-8, np.nan]), "usd_per_J") is None
    many = power_places_of(read_spec(spec({"places": 40})).site, 1e6)
    assert re.match(r"site: places is 40: ", many.note)


@pytest.mark.parametrize("places", [1, 2])
def test_a_demand_of_the_spec_is_what_the_place_must_have(places):
    site = {"states": ["TX"], "places": places}
    plain, more = plan(spec(site)), plan(spec(site | {"demand": "1.5 GW"}))
    drawn, has = show(plain.best.numbers["power_w"], "W", 4), more.site.chosen
    assert more.site.demand_w == has["power_w"].sum() == pytest.approx(1500 * MW)
    assert (has["available_w"] >= has["power_w"] * (1 - 1e-9)).all()
    assert f"- Site: needs 1.5 GW (the plan draws {drawn}): " in str(more)
    assert f"- Site: needs {drawn}: " in str(plain)
    assert "for 1.5 GW at" in more.document(draws=False)["next_steps"][-1] or places > 1
    assert more.best.numbers["power_w"] == plain.best.numbers["power_w"]  # what is paid for is what is drawn
    assert not any("site.demand" in text for text in more.warnings)


def test_a_demand_below_what_the_plan_draws_does_not_count_and_is_warned_of():
    site = read_spec(spec({"near": "Houston", "demand": "2 MW"})).site
    places, equal = power_places_of(site, 3 * MW), power_places_of(site, 2 * MW)
    text = "site.demand is 2 MW, but the plan draws 3 MW, which counts: give more, or leave it out"
    assert places.demand_w == 3 * MW and places.warnings == (text,)
    assert equal.demand_w == 2 * MW and equal.warnings == ()
    planned = plan(spec({"near": "Houston", "demand": "1 kW"}))
    assert f"- site.demand is 1 kW, but the plan draws {show(planned.best.numbers['power_w'], 'W', 4)}" in str(planned)


def test_a_demand_that_no_place_has_is_a_limit_that_is_missed():
    planned = plan(spec({"near": "Houston", "demand": "1 TW"}))
    assert not planned.met and re.match(r"site: no place has 1 TW: the most is ", planned.site.note)
    assert str(planned).startswith("Not reachable: site: no place has 1 TW: ")


@pytest.mark.parametrize(
    ("site", "searched"),
    [
        ({}, "in the whole country, with at most 100,000 people within 50 km"),
        (
            {"authorities": ["ERCO"], "most_people": 2e5},
            "with at most 200,000 people within 50 km, with most power of ERCO",
        ),
    ],
)
def test_the_line_of_the_site_says_where_was_searched(site, searched):
    assert f" Searched: places {searched}. Grid: " in str(plan(spec(site)))


# What the place does to the cost.


def moved(*usd_per_kWh):
    """What prices move of the cost of the plan without a site."""
    planned = plan(spec())
    prices = pd.DataFrame({"place": [str(price) for price in usd_per_kWh], "usd_per_J": np.array(usd_per_kWh) / kWh})
    return site_costs(planned.case, planned.best, prices)


def test_the_usual_price_moves_nothing_and_the_cost_is_linear_in_the_price():
    usual = catalog.item("prices", "energy")["electricity_price"] * kWh
    table = moved(usual, usual + 0.01, usual + 0.03, np.nan)
    assert table["moved_usd"].tolist()[0] == pytest.approx(0, abs=1e-6) and table["moved_usd"][3] == 0
    assert table["moved_usd"][2] == pytest.approx(3 * table["moved_usd"][1]) and table["moved_usd"][1] > 0
    assert table["moved_share"].tolist() == pytest.approx((table["moved_usd"] / table["cost_usd"][3]).tolist())


def test_the_site_moves_the_cost_by_its_price_of_electricity():
    planned = houston()
    n, usual = planned.best.numbers, catalog.item("prices", "energy")["electricity_price"]
    first = planned.site_costs.iloc[0]
    plain = with_energy(planned.case, planned.best, EnergyPrices(None, None)).numbers["cost_usd"]
    assert first["cost_usd"] == pytest.approx(n["cost_usd"])
    assert first["moved_usd"] == pytest.approx(n["cost_usd"] - plain)
    assert plan(spec()).best.numbers["cost_usd"] == pytest.approx(plain)
    texas, us = (f"{price * kWh:.3g} USD/kWh" for price in (planned.site.usd_per_J, usual))
    way = "lowers" if planned.site.usd_per_J < usual else "raises"
    amount = f"{show(abs(first['moved_usd']), 'USD', 3)} ({100 * abs(first['moved_share']):.2g}%)"
    told = f"Its electricity, {texas} against the catalog's {us}, {way} the training cost by {amount}."
    assert told in str(planned)
    others = planned.site.table["name"].tolist()[1:]
    assert re.search(r" Next best: (.*), [+-][\d.]+%; (.*), [+-][\d.]+%\. Searched", str(planned)).groups() == (
        *others,
    )


def test_a_price_that_is_given_is_moved_by_no_site():
    planned = plan(spec({"near": "Houston"}, operation={"electricity": "0.05 USD/kWh"}))
    assert planned.site_costs["moved_usd"].tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert "It moves no cost: operation.electricity is given." in str(planned) and "Next best" not in str(planned)
    assert len(section(planned)["tables"]) == 2


def test_a_state_without_a_price_is_said():
    planned = plan(spec({"states": ["WY"], "rule": "installed"}))
    assert planned.site.usd_per_J is None
    assert "Its price of electricity is not known: the catalog's is taken." in str(planned)


# A grid of one's own.


def test_plants_lines_and_hours_of_ones_own_stand_beside_the_spec(tmp_path):
    (tmp_path / "plants.csv").write_text(OWN_PLANTS)
    (tmp_path / "lines.csv").write_text(OWN_LINES)
    files = f'plants = "plants.csv"\nlines = "lines.csv"\nhours = ["{hours_file(tmp_path)}"]'
    planned = plan(spec_file(tmp_path, files))
    grid = planned.site.places.points.grid
    assert grid.plants["power_w"].sum() == 6000 * MW and len(grid.lines) == 1
    assert planned.site.grid_name == grid.name == f"plants and lines of your own, loads: {NAME}"
    assert any(text.startswith("site.plants: left out: 1 row of storage, 500 MW") for text in planned.warnings)
    assert "- site.plants: left out: 1 row of storage, 500 MW" in str(planned)
    first = planned.site.table.iloc[0]
    assert first["limit"] == "bound of ERCO" and first["available_w"] == pytest.approx(300 * MW)
    assert any("given with the grid for" in note for note in section(planned)["notes"])
    assert f"Grid: plants and lines of your own, loads: {NAME}" in str(planned)
    assert f"Grid: plants and lines of your own, loads: {NAME}." in planned.document(draws=False)["risks"][-1]
    assert "plants.csv" in [row[1] for row in section(planned, "assumptions")["tables"][0]["rows"]]


def test_a_table_that_is_left_out_stays_that_of_the_synthetic_grid(tmp_path):
    (tmp_path / "plants.csv").write_text(OWN_PLANTS)
    site = read_spec(spec_file(tmp_path, 'plants = "plants.csv"')).site
    grid, _ = site_terms.grid_of(site)
    assert grid.lines.equals(load_grid().lines) and grid.name == f"plants of your own, lines and loads: {NAME}"
    assert grid.authority_caps is None
    assert site_terms.grid_of(site)[0] is grid  # read once


def test_hours_bound_only_the_authorities_that_they_have(tmp_path):
    site = read_spec(spec_file(tmp_path, f'hours = "{hours_file(tmp_path, "ERCO", 123.0)}"')).site
    caps = site_terms.grid_of(site)[0].authority_caps
    published = authority_caps()
    assert caps["ERCO"] == pytest.approx(123 * MW) and caps["PJM"] == pytest.approx(published["PJM"])


def own_hours(tmp_path, name, hours=8800, **columns):
    """A plain table of hours of ERCO, as CSV or Parquet."""
    end = pd.date_range("2023-01-01 06:00", periods=hours, freq="h")
    table = pd.DataFrame({"ba": "ERCO", "utc_end": end} | columns)
    table.to_parquet(tmp_path / name) if name.endswith("parquet") else table.to_csv(tmp_path / name, index=False)
    return name


@pytest.mark.parametrize("name", ["hours.csv", "hours.parquet"])
def test_hours_may_be_tables_of_ones_own(tmp_path, name):
    demand = 40e3 + 5e3 * np.sin(np.arange(8800) * 2 * np.pi / 24)
    own_hours(tmp_path, name, demand_mw=demand, net_generation_mw=demand + 123)
    grid, warnings = site_terms.grid_of(read_spec(spec_file(tmp_path, f'hours = "{name}"')).site)
    assert grid.authority_caps["ERCO"] == pytest.approx(123 * MW) and warnings == ("site.hours: the hours bound ERCO",)


@pytest.mark.parametrize(
    ("hours", "columns"),
    [
        (8800, {"demand_mw": 4e4}),
        (8800, {"net_generation_mw": 4e4}),
        (7000, {"demand_mw": 4e4, "net_generation_mw": 4e4}),
    ],
)
def test_hours_that_bound_no_authority_are_refused(tmp_path, hours, columns):
    own_hours(tmp_path, "hours.csv", hours, **columns)
    told, message = [], "no authority has a year of hours of both demand and generation: give more files"
    with pytest.raises(ValueError, match=rf"site\.hours: {message}"):
        plan(spec_file(tmp_path, 'hours = "hours.csv"'), told.append)
    assert told == []


def test_hours_say_which_authorities_they_bound(tmp_path):
    short = hours_file(tmp_path, "PJM", name="EIA930_BALANCE_2023_Jul_Dec.csv")
    text = (tmp_path / short).read_text().splitlines()
    (tmp_path / short).write_text("\n".join(text[:5000]))
    site = read_spec(spec_file(tmp_path, f'hours = ["{hours_file(tmp_path)}", "{short}"]')).site
    few = "the others have less than a year of hours with both demand and generation"
    assert site_terms.grid_of(site)[1] == (f"site.hours: the hours bound ERCO; {few}",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('plants = "none.csv"', r"site\.plants: .*none\.csv does not exist: give a file beside the spec"),
        ('hours = ["none.csv"]', r"site\.hours: .*none\.csv does not exist"),
        ('plants = "bad.csv"', r"site\.plants: bad\.csv: no column 'plant_code'"),
        ('lines = "bad.csv"', r"site\.lines: bad\.csv: no column 'lat': give lat, lon, lat_to, lon_to, mw"),
        ('hours = ["bad.csv"]', r"site\.hours: bad\.csv: no column 'Balancing Authority'"),
        ("plants = 3", r"site\.plants is 3: give "),
        ('plants = {file = "a.csv"}', r"site\.plants is .*: give the name of a file beside the spec"),
        ("flexible = 1.5", r"site\.flexible is 1\.5: give"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key_before_anything_is_planned(tmp_path, line, message):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    told = []
    with pytest.raises(ValueError, match=message):
        plan(spec_file(tmp_path, line), told.append)
    assert told == []


def test_what_the_files_hold_counts_in_a_sweep_and_in_what_plans_share(tmp_path):
    text = spec_file(tmp_path, 'lines = "lines.csv"')
    lines, bases = tmp_path / "lines.csv", []
    for power in (9000, 100):
        lines.write_text(OWN_LINES.replace("9000", str(power)))
        bases.append(sweep_points(text, {"cluster.gpus": [64]}).base["site"]["lines"])
    assert bases[0]["sha256"] != bases[1]["sha256"] and bases[0]["file"] == bases[1]["file"]
    read = read_spec(text)
    lines.write_text(OWN_LINES)
    with pytest.raises(ValueError, match=r"site\.lines: .*lines\.csv has changed since the spec was read: read the"):
        plan(read)
    over = sweep_points(spec_file(tmp_path, 'near = "Houston"'), {"site.lines": ["lines.csv"]})
    assert over.rows[0]["site.lines"]["file"] == str(lines) and over.shown(0) == {"site.lines": "lines.csv"}


def test_a_sweep_names_the_place_of_each_point():
    rows = planned_chunk(spec({"near": "Houston"}), {0: {}}).rows
    assert rows["site"].tolist() == [houston().site.table["name"][0]]


# A datacenter that gives way.


@pytest.fixture
def headroom(monkeypatch):
    """In place of a study of hours: 100 GW for all of a year's energy, of the codes that are asked."""
    asked = []

    def authority_flexible_headroom(codes, share):
        asked.append((list(codes), share))
        if share > 0.5:
            raise ValueError(f"share is {share:g}: give 0.5 at most")
        return {"ERCO": share * 100e9}

    monkeypatch.setattr(site_terms, "authority_flexible_headroom", authority_flexible_headroom)
    return asked


def test_a_datacenter_that_gives_way_has_more_and_the_plan_says_so(tmp_path, headroom):
    hours = hours_file(tmp_path)
    plain, flexible = (
        plan(spec_file(tmp_path, f'near = "Houston"\nhours = ["{hours}"]\n{line}')) for line in ("", 'flexible = "1%"')
    )
    tables = [planned.site.table for planned in (plain, flexible)]
    bounds = [table["available_w"][table["authority"] == "ERCO"].max() for table in tables]
    assert bounds == pytest.approx([300 * MW, 1300 * MW]) and {share for _, share in headroom} == {0.01}
    assert "The datacenter gives way for 1% of a year's energy." in str(flexible) and "gives way" not in str(plain)
    told = "The demand gives way in hours of high load, which adds to the bound: "
    assert any(note.startswith(told) and "ERCO 1 GW" in note for note in section(flexible)["notes"])


def test_a_share_that_is_refused_is_named_by_its_key(headroom):
    with pytest.raises(ValueError, match=r"site\.flexible: share is 0\.6: give 0\.5 at most"):
        plan(spec({"near": "Houston", "flexible": "60%"}))
    plan(spec({"near": "Houston", "flexible": 0}))
    assert len(headroom) == 1


def test_json_has_the_places_their_costs_and_the_grid(tmp_path):
    written = dict.fromkeys(("html", "json", "markdown", "csv", "xlsx")) | {"json": str(tmp_path / "plan.json")}
    assert run([spec_file(tmp_path, 'near = "Houston"')], written, 0) == 0
    (whole,) = json.loads((tmp_path / "plan.json").read_text())
    tables = whole["tables"]
    assert len(tables["places"]) == len(tables["site_costs"]) == 3
    assert {"limit", "distance_m", "state", "authority", "usd_per_J", "lines_w", "fuels"} <= tables["places"][0].keys()
    assert any(f"Grid: {NAME}." in verdict["text"] for verdict in whole["verdicts"])
