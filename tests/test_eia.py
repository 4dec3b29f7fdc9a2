"""What a user brings of EIA's: workbooks, six-month files and Parquet written here, and real files where at hand."""

import os
import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from railcore import catalog, siting
from railcore.catalog.units import MW
from railcore.siting import eia
from railcore.siting.grid import REQUIRED_COLUMNS, load_grid, with_unit_sizes

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")
real = pytest.mark.skipif(not FOLDER.is_dir(), reason="RAILCORE_EIA_DIR names no folder with EIA's files")
# EIA-860M's columns, and a generator a line
HEADER, *ROWS = (
    tuple(cell.strip() for cell in line.split("|"))
    for line in """\
Plant ID|Plant Name|Plant State|Balancing Authority Code|Generator ID|Nameplate Capacity (MW)|Net Summer Capacity (MW)|\
Energy Source Code|Prime Mover Code|Status|Latitude|Longitude
10|Bend|OR|BPAT|1|120|110|WAT|HY|(OP) Operating|45.6|-121.1
10|Bend|OR|BPAT|2|130|1,120.5|WAT|HY|(OA) Out|45.6|-121.1
10|Bend|OR|BPAT|3|50|50|WAT|PS|(OP) Operating|45.6|-121.1
11|Cove|TX|ERCO|1|80||NG|GT|(OP) Operating|29.7|-95.3
11|Cove|TX|ERCO|B|20|20|MWH|BA|(OP) Operating|29.7|-95.3
12|Deep|RI|ISNE|1|30|30|WND|WS|(OP) Operating|41.1|-71.5
13|Far|HI||1|30|30|DFO|IC|(OP) Operating|21.3|-157.8
14|Gap|OH|PJM|1|600|590|SUB|ST|(SB) Standby||
15|Hill|VA|PJM|1|900|880|NUC|ST|(OP) Operating|38.1|-77.8""".splitlines()
)


def workbook(tmp_path, rows=ROWS, header=HEADER, titles=2, sheet="Operating", note=True, planned=()):
    book = Workbook()
    page = book.active
    page.title = sheet
    for i in range(titles):
        page.append([f"title {i}"])
    for row in [header, *rows]:
        page.append(list(row))
    if note:
        page.append([])
        page.append(["NOTES: Capacity from facilities of 1 MW and more."])
    if planned:
        page = book.create_sheet("Planned")
        for row in planned:
            page.append(list(row))
    path = tmp_path / "may_generator2023.xlsx"
    book.save(path)
    return path


def test_a_workbook_becomes_plants_by_site_and_fuel(tmp_path):
    found = siting.plants(workbook(tmp_path))
    rows = found.set_index(["sub_id", "fuel"])
    assert sorted(rows.index) == [(10, "hydro"), (11, "gas"), (12, "wind_offshore"), (15, "nuclear")]
    bend = rows.loc[(10, "hydro")]
    assert (bend["units"], bend["state"], bend["authority"], bend["interconnect"]) == (2, "Oregon", "BPAT", "Western")
    assert (bend["power_w"], bend["largest_unit_w"]) == (1230.5 * MW, 1120.5 * MW)
    assert rows.loc[(11, "gas"), "power_w"] == 80 * MW and rows.loc[(11, "gas"), "interconnect"] == "Texas"
    said = " ".join(found.attrs["warnings"])
    for words in ("1 generator without net summer", "2 rows of storage, 70 MW", "1 row outside", "1 row without"):
        assert words in said, said
    assert list(found.columns) == REQUIRED_COLUMNS["plants"].split()
    assert load_grid().with_plants(found).plants["power_w"].sum() == found["power_w"].sum()


def test_a_sheet_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("railcore.siting.plant_files._MOST_ROWS", len(ROWS))
    with pytest.raises(
        ValueError, match=r"generator2023\.xlsx: sheet 'Operating' has more than 9 rows: give EIA-860M's"
    ):
        siting.plants(workbook(tmp_path))


def test_storage_counts_as_other_where_it_is_asked_for(tmp_path):
    path = workbook(tmp_path)
    without, also = siting.plants(path), siting.plants(path, storage=True)
    assert also["power_w"].sum() - without["power_w"].sum() == 70 * MW
    assert set(also[~also["fuel"].isin(without["fuel"])]["fuel"]) == {"other"}


@pytest.mark.parametrize("titles", [0, 1, 2, 5])
def test_the_header_is_found_by_its_names_in_any_spelling_of_the_years(tmp_path, titles):
    expected = siting.plants(workbook(tmp_path))
    other = {"Plant State": "State", "Plant ID": "Plant  Code", "Status": "STATUS", "Latitude": " latitude"}
    header = [other.get(name, name.replace(" Capacity (MW)", " Capacity\n(Megawatts)")) for name in HEADER]
    header = [name.replace("\n(Megawatts)", " (MW)") for name in header]
    found = siting.plants(workbook(tmp_path, header=header, titles=titles))
    pd.testing.assert_frame_equal(found, expected)


def change(row, **cells):
    spelled = {name.replace(" ", "_").removesuffix("_(MW)"): name for name in HEADER}
    values = dict(zip(HEADER, row, strict=True)) | {spelled[name]: value for name, value in cells.items()}
    return tuple(values[name] for name in HEADER)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, [n.replace("Summer Capacity (MW)", "Summer Capacity (kW)") for n in HEADER], "is in kw, expected mw"),
        (ROWS, [n.replace("Latitude", "Lat.") for n in HEADER], "no column 'Latitude'"),
        (ROWS, [n.replace("Plant ID", "Site") for n in HEADER], "none of its first 20 rows has the columns 'Plant ID'"),
        ([change(ROWS[0], Net_Summer_Capacity="many")], HEADER, "holds 'many', expected a number"),
        ([ROWS[6]], HEADER, "no plant is left.*outside the contiguous states"),
    ],
)
def test_a_workbook_that_is_wrong_is_refused_by_name(tmp_path, rows, header, message):
    with pytest.raises(ValueError, match=r"may_generator2023\.xlsx.*" + message):
        siting.plants(workbook(tmp_path, rows=rows, header=header, note=False))


UNUSABLE = {
    "1 row of an unknown balancing authority, 590 MW; the first is plant 14 (Gap, authority BPTA)": {
        "Balancing_Authority_Code": "BPTA"
    },
    "1 row of an unknown energy source, 590 MW; the first is plant 14 (Gap, energy XYZ)": {"Energy_Source_Code": "XYZ"},
    "1 row outside the contiguous states, 590 MW; the first is plant 14 (Gap, state ZZ)": {"Plant_State": "ZZ"},
    "1 row at coordinates outside the contiguous states, 590 MW; the first is plant 14 (Gap, latitude 40.0, longitude "
    "84.0)": {"Longitude": 84.0},
    "1 row without coordinates, 590 MW; the first is plant 14 (Gap)": {"Latitude": "north"},
    "1 row without power, 0 W; the first is plant 14 (Gap)": {"Net_Summer_Capacity": 0},
    "1 row without a plant's code, 590 MW; the first is plant <NA> (Gap)": {"Plant_ID": "x"},
    "1 row out of service, 590 MW; the first is plant 14 (Gap)": {"Status": "(OS) Out of service"},
    "1 row of unknown status, 590 MW; the first is plant 14 (Gap)": {"Status": "running"},
}


@pytest.mark.parametrize("said", UNUSABLE)
def test_one_row_that_cannot_be_used_costs_itself_alone(tmp_path, said):
    placed = change(ROWS[7], Latitude=40.0, Longitude=-84.0)
    others, all_used = (siting.plants(workbook(tmp_path, rows=rows)) for rows in (ROWS[8:], [ROWS[8], placed]))
    assert others.attrs["warnings"] == all_used.attrs["warnings"] == () and len(all_used) == len(others) + 1
    found = siting.plants(workbook(tmp_path, rows=[change(placed, **UNUSABLE[said]), ROWS[8]]))
    pd.testing.assert_frame_equal(found, others)
    assert found.attrs["warnings"] == (f"left out: {said}",)


DATED = (*HEADER, "Planned Retirement Month", "Planned Retirement Year")
PLANNED = (*HEADER, "Planned Operation Month", "Planned Operation Year")


def dated_workbook(tmp_path):
    operating = [(*ROWS[8], 6, 2027), (*change(ROWS[8], Generator_ID=2), "", 2028), (*ROWS[0], " ", " ")]
    new = {code: change(ROWS[5], Status=f"({code}) text", Net_Summer_Capacity=mw) for code, mw in STAGES.items()}
    planned = [(*row, 7, 2027) for row in new.values()] + [(*new["U"], "", 2027), (*new["U"], 1, 2031)]
    return workbook(tmp_path, rows=operating, header=DATED, planned=[PLANNED, *planned])


STAGES = {"U": 1, "V": 2, "TS": 4, "P": 8, "L": 16, "T": 32}  # MW


@pytest.mark.parametrize(
    ("as_of", "nuclear_mw", "wind_mw"),
    [
        ("", 1760, 0),
        ("2027-05", 1760, 0),
        ("2027-06", 880, 0),
        ("2027-07", 880, 7),
        ("2027-12", 880, 8),
        ("2028-01", 0, 8),
        ("2031-01", 0, 9),
    ],
)
def test_units_that_retire_go_and_those_under_construction_come(tmp_path, as_of, nuclear_mw, wind_mw):
    found = siting.plants(dated_workbook(tmp_path), as_of=as_of)
    power = found.groupby("fuel")["power_w"].sum()
    assert power.get("nuclear", 0.0) == nuclear_mw * MW and power.get("wind_offshore", 0.0) == wind_mw * MW
    assert power["hydro"] == 110 * MW
    said = " ".join(found.attrs["warnings"])
    assert ("to retire by then" in said) == (nuclear_mw < 1760) and ("counted: " in said) == (wind_mw > 0)
    assert ("3 rows not under construction, 56 MW" in said) == bool(as_of)


def test_a_month_that_is_none_and_a_file_without_dates_are_refused(tmp_path):
    for as_of in ("2027", "2027-13", "June 2027"):
        with pytest.raises(ValueError, match=r"as_of is .* expected a month"):
            siting.plants(dated_workbook(tmp_path), as_of=as_of)
    with pytest.raises(ValueError, match="no sheet 'Planned'"):
        siting.plants(workbook(tmp_path), as_of="2027-06")
    with pytest.raises(ValueError, match="no column 'Planned Retirement Year'"):
        siting.plants(workbook(tmp_path, planned=[PLANNED, (*ROWS[5], 1, 2027)]), as_of="2027-06")
    with pytest.raises(ValueError, match=r"plants\.csv: as_of needs the dates"):
        siting.plants(plant_table(tmp_path), as_of="2027-06")


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no sheet 'Operating'; it has Planned"):
        siting.plants(workbook(tmp_path, sheet="Planned"))
    (tmp_path / "text.xlsx").write_text("no workbook")
    (tmp_path / "empty.csv").write_text("")
    for read, name, said in (
        (siting.plants, "text.xlsx", r"text\.xlsx: cannot be read as a workbook"),
        (siting.plants, "none.xlsx", "is no file"),
        (siting.plants, "empty.csv", r"empty\.csv"),
        (siting.balance_series, "empty.csv", r"empty\.csv"),
    ):
        with pytest.raises(ValueError, match=said):
            read(tmp_path / name)


SOURCES = list(eia.code_meanings("plant column"))


def plant_table(tmp_path, **change):
    row = dict.fromkeys((f"{source}_mw" for source in SOURCES), 0.0)
    site = {"plant_code": 7, "name": "Elm", "state": "Ohio", "lat": 40.0, "lon": -82.0, "nerc": "RFC", "ba": "PJM"}
    table = pd.DataFrame([site | row | {"coal_mw": 500.5, "biomass_mw": 5, "other_mw": 1, "battery_mw": 50.0} | change])
    table = table.drop(columns=[name for name, value in change.items() if value is None])
    table.to_csv(tmp_path / "plants.csv", index=False)
    return tmp_path / "plants.csv"


def test_the_csv_form_becomes_plants_too(tmp_path):
    found = siting.plants(plant_table(tmp_path)).set_index("fuel")
    assert dict(found["power_w"]) == {"coal": 500.5 * MW, "other": 6 * MW}
    assert found.loc["other", "largest_unit_w"] == 5 * MW and set(found["interconnect"]) == {"Eastern"}
    assert siting.plants(plant_table(tmp_path, state="OH")).equals(siting.plants(plant_table(tmp_path)))
    blank = siting.plants(plant_table(tmp_path, ba="", nerc="WECC"))
    assert set(blank["interconnect"]) == {"Western"} and set(blank["authority"]) == {""}
    texas = siting.plants(plant_table(tmp_path, ba="", nerc="TRE"))
    assert set(texas["interconnect"]) == {"Texas"}
    with pytest.raises(ValueError, match=r"plants\.csv: no column 'coal_mw'"):
        siting.plants(plant_table(tmp_path, coal_mw=None))
    with pytest.raises(ValueError, match=r"plants\.csv: column 'fusion_mw' is of an unknown fuel"):
        siting.plants(plant_table(tmp_path, fusion_mw=3.0))
    with pytest.raises(ValueError, match=r"plants\.csv: column 'coal_kw' is in kw, expected mw"):
        siting.plants(plant_table(tmp_path, coal_mw=None, coal_kw=500500))


def test_a_table_without_generators_has_units_of_the_largest_size_of_their_fuel(tmp_path):
    size = catalog.item("fuels", "nuclear")["largest_unit"]
    found = siting.plants(plant_table(tmp_path, nuclear_mw=3937.0, gas_mw=44.0)).set_index("fuel")
    assert (found.loc["nuclear", "units"], found.loc["nuclear", "largest_unit_w"]) == (3, size)
    assert (found.loc["gas", "units"], found.loc["gas", "largest_unit_w"]) == (1, 44 * MW)
    assert sum("units are not given" in text for text in found.attrs["warnings"]) == 1
    assert not any("units" in text for text in siting.plants(workbook(tmp_path)).attrs["warnings"])


@given(st.sampled_from(catalog.names("fuels")), st.floats(1e3, 1e11))
def test_units_are_the_fewest_that_their_size_allows(fuel, power):
    made = with_unit_sizes(pd.DataFrame({"fuel": [fuel], "power_w": [power]})).iloc[0]
    size = catalog.item("fuels", fuel)["largest_unit"]
    assert made["largest_unit_w"] == min(power, size)
    assert (made["units"] - 1) * size < power and made["units"] * size >= power * (1 - 1e-9)


def test_units_stay_where_they_are_given_and_are_unknown_where_their_fuel_is():
    table = pd.DataFrame({"fuel": ["gas", "fusion"], "power_w": [2e9, 2e9]})
    made = with_unit_sizes(table)
    assert made["largest_unit_w"].isna().tolist() == [False, True] and made["units"].tolist() == [3, 1]
    assert "no largest_unit of fusion" in made.attrs["warnings"][-1] and "units" not in table
    assert with_unit_sizes(table.assign(largest_unit_w=5e8))["units"].tolist() == [4, 4]
    whole = table.assign(largest_unit_w=5e8, units=9)
    assert with_unit_sizes(whole).equals(whole)
    exact = 3 * catalog.item("fuels", "gas")["largest_unit"]
    for power in (exact, exact * (1 + 1e-12)):  # no unit more for a last bit
        assert with_unit_sizes(table.assign(power_w=power))["units"][0] == 3


def test_parquet_is_read_as_the_other_forms_are(tmp_path):
    def parquet(table, name="plants.parquet"):
        table.to_parquet(tmp_path / name)
        return tmp_path / name

    by_fuel = plant_table(tmp_path, name="", nuclear_mw=5.0)
    pd.testing.assert_frame_equal(siting.plants(parquet(pd.read_csv(by_fuel))), siting.plants(by_fuel))
    generators = pd.DataFrame(ROWS, columns=HEADER)
    generators.to_csv(tmp_path / "generators.csv", index=False)
    for path in (parquet(generators), tmp_path / "generators.csv"):
        pd.testing.assert_frame_equal(siting.plants(path), siting.plants(workbook(tmp_path)))
    hours = six_months(tmp_path)
    found = siting.balance_series(parquet(pd.read_csv(hours), "hours.parquet"))
    pd.testing.assert_frame_equal(found, siting.balance_series(hours))


def test_without_pyarrow_parquet_is_refused_with_the_remedy(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR")
    for read in (siting.plants, siting.balance_series):
        with pytest.raises(ValueError, match=r"x\.parquet: cannot be read as Parquet"):
            read(tmp_path / "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for read in (siting.plants, siting.balance_series):
        with pytest.raises(ValueError, match=r"x\.parquet: Parquet, unlike CSV, needs pyarrow, which is not installed"):
            read(tmp_path / "x.parquet")


def test_every_fuel_that_codes_name_is_in_the_catalog_or_storage():
    for kind in ("energy source", "prime mover", "plant column"):
        assert set(eia.code_meanings(kind).values()) <= {*catalog.names("fuels"), "storage"}
    states = {name for name in eia.code_meanings("state").values() if name}
    assert len(states) == 49 and set(load_grid().plants["state"]) <= states


def six_months(tmp_path, hours=30, name="EIA930_BALANCE_2023_Jan_Jun.csv", start="2023-01-01 06:00", **more):
    """A file as EIA writes it: thousands separated, local and UTC hours, columns that nothing here reads."""
    at = pd.date_range(start, periods=hours, freq="h")
    table = pd.DataFrame(
        {
            "Balancing Authority": ["SRP"] * hours + ["NEVP"] * hours,
            "Data Date": "01/01/2023",
            "Local Time at End of Hour": "01/01/2023 1:00:00 AM",
            "UTC Time at End of Hour": [f"{t:%m/%d/%Y} {int(f'{t:%I}')}:00:00 {t:%p}" for t in at] * 2,
            "Demand (MW)": [f"{2000 + i:,}" for i in range(hours)] + ["900"] * hours,
            "Net Generation (MW)": [f"{3000 + i:,}" for i in range(hours)] + [""] * hours,
            "Demand (MW) (Adjusted)": "2,001",
            "Net Generation (MW) from Coal": "1,500",
            "Region": "SW",
        }
        | more
    )
    table = table.drop(columns=[column for column, value in more.items() if value is None])
    table.to_csv(tmp_path / name, index=False)
    return tmp_path / name


def test_a_balance_file_becomes_a_long_series_in_watts(tmp_path):
    found = siting.balance_series(six_months(tmp_path))
    assert len(found) == 60 and list(found["authority"].cat.categories) == ["NEVP", "SRP"]
    first = found[found["authority"] == "SRP"].iloc[0]
    assert first["hour_utc"] == pd.Timestamp("2023-01-01 06:00")
    assert (first["demand_w"], first["net_generation_w"]) == (2000 * MW, 3000 * MW)
    assert found["net_generation_w"].isna().sum() == 30 and found["hour_utc"].nunique() == 30


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"Demand (MW)": None}, "no column 'Demand \\(MW\\)'; the nearest are"),
        ({"Demand (MW)": None, "Demand (MWh)": 5}, "column 'Demand \\(MWh\\)' is in mwh, expected mw"),
        ({"Balancing Authority": "SRPX"}, "balancing authority 'SRPX' does not exist.*'SRP'"),
        ({"Balancing Authority": ""}, "has blank cells"),
        ({"UTC Time at End of Hour": "01/01/2023 6:30:00 AM"}, "expected the end of an hour"),
        ({"Demand (MW)": "many"}, "'Demand \\(MW\\)' holds 'many', expected a number"),
    ],
)
def test_a_balance_file_that_is_wrong_is_refused_by_name(tmp_path, more, message):
    with pytest.raises(ValueError, match=r"EIA930_BALANCE_2023_Jan_Jun\.csv.*" + message):
        siting.balance_series(six_months(tmp_path, **more))


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_a_plain_table_of_hours_may_have_one_total(tmp_path, zone):
    at = pd.date_range("2023-01-01 06:00", periods=3, freq="h", tz="UTC").tz_convert(zone)
    table = pd.DataFrame({"ba": ["PJM"] * 3, "utc": at, "net_gen_mw": pd.array([5, None, 7], "Int32")})
    table.to_parquet(tmp_path / "hours.parquet")
    found = siting.balance_series(tmp_path / "hours.parquet")
    assert list(found["hour_utc"]) == list(pd.date_range("2023-01-01 06:00", periods=3, freq="h"))
    assert found["net_generation_w"].tolist()[::2] == [5 * MW, 7 * MW] and found["net_generation_w"].isna().sum() == 1
    assert found["demand_w"].isna().all() and list(found["authority"]) == ["PJM"] * 3
    table.rename(columns={"net_gen_mw": "demand_mw"}).to_csv(tmp_path / "hours.csv", index=False)
    again = siting.balance_series(tmp_path / "hours.csv")
    pd.testing.assert_series_equal(again["demand_w"], found["net_generation_w"], check_names=False)
    table[["ba", "utc"]].to_csv(tmp_path / "hours.csv", index=False)
    with pytest.raises(ValueError, match="no column 'Demand"):
        siting.balance_series(tmp_path / "hours.csv")


def test_a_balance_file_without_rows_and_no_file_at_all_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no rows below the header"):
        siting.balance_series(six_months(tmp_path, hours=0))
    with pytest.raises(ValueError, match="paths is empty"):
        siting.balance_series()


def grid_file(name):
    from railcore.catalog import files

    return files.data(f"grid/{name}")


def test_every_region_of_the_embedded_grid_has_a_lead():
    regions = pd.read_csv(grid_file("regions.csv"))
    plants = pd.read_csv(grid_file("plants.csv.gz"))
    assert list(regions.columns) == ["ipm_region", "authority", "note"]
    assert not regions["ipm_region"].duplicated().any()
    assert set(plants["ipm_region"]) == set(regions["ipm_region"])
    about = eia.authority_codes()
    west = regions["authority"].map(lambda code: about[code]["interconnect"] == "Western")
    assert list(west) == list(regions["ipm_region"].str.startswith(("WEC_", "WECC_")))


# the real files


@real
def test_real_plants_have_the_capacity_of_the_table():
    every = siting.plants(FOLDER / "plants.csv.gz", storage=True)
    table = pd.read_csv(grid_file("balancing_authorities.csv"), index_col="ba")
    ours = every.groupby("authority")["power_w"].sum() / MW
    assert (ours.reindex(table.index) - table["net_summer_capacity_mw"]).abs().max() <= 0.51
    assert every["sub_id"].nunique() > 11000 and not (every["interconnect"] == "").any()
    produced = siting.plants(FOLDER / "plants.csv.gz")
    assert "of storage" in " ".join(produced.attrs["warnings"])
    assert produced["power_w"].sum() == pytest.approx((1161163.9 - 9435.0 - 23166.5) * MW)
    assert all(a <= b for a, b in pairwise(every["sub_id"]))


@real
def test_real_plants_have_units_of_a_size_that_exists():
    """Two places within 100 km have the demand of the document by "firm minus largest"; one unit a fuel finds none."""
    table = siting.plants(FOLDER / "plants.csv.gz")
    palo_verde = table[(table["sub_id"] == 6008) & (table["fuel"] == "nuclear")].iloc[0]
    assert (palo_verde["units"], palo_verde["largest_unit_w"]) == (3, 1400.5 * MW)
    sizes = table["fuel"].map(lambda fuel: catalog.item("fuels", fuel)["largest_unit"])
    assert (table["largest_unit_w"] <= sizes).all() and (table["largest_unit_w"] <= table["power_w"]).all()


@real
def test_real_generation_in_parquet_is_the_sum_of_its_sources():
    found = siting.balance_series(FOLDER / "ba_netgen_hourly_2019_2022.parquet")
    assert len(found) == 281112 and found["net_generation_w"].notna().all() and found["demand_w"].isna().all()
    assert found["net_generation_w"].max() == 155263 * MW and found["authority"].nunique() == 9
