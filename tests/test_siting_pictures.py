"""Pictures of power siting: the projection, what is drawn, labels apart, size of files."""

import io
from itertools import combinations
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import PathCollection
from matplotlib.text import Text

from railcore import catalog
from railcore.network.globe import great_circle_distance, great_circle_way
from railcore.siting import grid as grids
from suite import plotting
from suite.charts import maps, timelines
from suite.drawing import symbols
from suite.outputs import DPI, MAX_SVG_B

EARTH = catalog.item("wide_area", "Earth")["radius"]
SQUARE = {"Square": [np.array([(-100, 30), (-80, 30), (-80, 45), (-100, 45), (-100, 30)], float)]}
latitudes, longitudes = st.floats(25, 49), st.floats(-124, -67)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def real():
    return grids.load_grid(), grids.state_outlines()


def small_grid(count=40):
    rng = np.random.default_rng(0)
    latitude, longitude = rng.uniform(31, 44, count), rng.uniform(-99, -81, count)
    fuels = ["gas", "coal", "wind", "wind_offshore", "hydro", "solar", "nuclear", "oil", "geothermal", "other"]
    plants = pd.DataFrame(
        {
            "latitude": latitude,
            "longitude": longitude,
            "fuel": np.resize(fuels, count),
            "power_w": rng.uniform(20e6, 3e9, count),
        }
    )
    substations = pd.DataFrame({"sub_id": np.arange(count) + 7, "latitude": latitude, "longitude": longitude})
    lines = pd.DataFrame(
        {"from_sub": [7, 8, 9, 10, 11], "to_sub": [17, 18, 19, 20, 21], "kv": [230, 345, 500, 765, 0]}
    ).assign(type=["AC"] * 4 + ["DC"])
    return SimpleNamespace(plants=plants, lines=lines, substations=substations)


def places(*rows):
    return pd.DataFrame(rows, columns=["name", "latitude", "longitude"]).assign(radius_m=100e3)


def ways(table):
    rows = [(a.latitude, a.longitude, b.latitude, b.longitude) for a, b in combinations(table.itertuples(), 2)]
    links = pd.DataFrame(rows, columns=["latitude", "longitude", "latitude_to", "longitude_to"], dtype=float)
    distance_m = great_circle_distance(*links.to_numpy().T) if len(links) else np.empty(0)
    return links.assign(distance_m=distance_m, delay_s=distance_m * 8.3e-9)


def texts(ax):
    return [text for text in ax.texts if text.get_text()]


def apart(figure):
    """No two labels of a panel share a pixel."""
    figure.dpi = DPI
    figure.canvas.draw()
    for ax in figure.axes:
        for one, other in combinations(texts(ax), 2):
            a, b = one.get_window_extent(), other.get_window_extent()
            assert not a.overlaps(b), (one.get_text(), other.get_text())


README_PX, BODY_PX = 830, 16  # width of a figure in README and size of the text around it


def readable(figure):
    """Every text is as large as README's where the figure is as wide as there, and inside the figure."""
    figure.dpi = DPI  # that of the published picture, whatever style another test has set
    figure.canvas.draw()
    every = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert len(every) > 3
    width = figure.get_size_inches()[0] * 72
    for text in every:
        assert text.get_fontsize() * README_PX / width >= BODY_PX, text.get_text()
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, text.get_text()
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, text.get_text()
    boxes = [text.get_window_extent() for text in figure.texts if text.get_text()]
    boxes += [legend.get_window_extent() for legend in figure.legends] + [ax.get_window_extent() for ax in figure.axes]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def svg_bytes(figure):
    stream = io.BytesIO()
    figure.dpi = DPI
    FigureCanvasSVG(figure).print_svg(stream)
    return stream.tell()


def test_albers_is_snyders_example():
    """His numerical example of the sphere: radius 1, parallels 29.5 and 45.5, origin 23 N 96 W, point 35 N 75 W."""
    assert np.allclose(np.divide(maps.albers(35, -75), EARTH), (0.2952720, 0.2416774), atol=5e-8)


@given(latitudes, longitudes)
def test_albers_keeps_areas_and_the_origin(latitude, longitude):
    x, y = maps.albers(latitude + np.array([0, 1e-4, 0]), longitude + np.array([0, 0, 1e-4]))
    area = abs((x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]))
    assert area == pytest.approx((EARTH * np.radians(1e-4)) ** 2 * np.cos(np.radians(latitude)), rel=1e-4)
    assert np.allclose(maps.albers(*maps.ORIGIN), 0)


@given(latitudes, longitudes, st.sampled_from([0, 90, 200, 300]))
def test_a_circle_looks_like_a_circle(latitude, longitude, azimuth):
    """So that circles may be round marks: 100 km in any direction are 100 km on the map to 1.6%."""
    d, z, phi = 100e3 / EARTH, np.radians(azimuth), np.radians(latitude)
    there = np.arcsin(np.sin(phi) * np.cos(d) + np.cos(phi) * np.sin(d) * np.cos(z))
    east = np.arctan2(np.sin(z) * np.sin(d) * np.cos(phi), np.cos(d) - np.sin(phi) * np.sin(there))
    x, y = maps.albers([latitude, np.degrees(there)], [longitude, longitude + np.degrees(east)])
    assert np.hypot(x[1] - x[0], y[1] - y[0]) == pytest.approx(100e3, rel=0.016)


@given(latitudes, longitudes, latitudes, longitudes)
def test_a_link_is_the_shortest_way(latitude, longitude, to, east):
    way = great_circle_way((latitude, longitude), (to, east))
    steps = great_circle_distance(way[0][:-1], way[1][:-1], way[0][1:], way[1][1:])
    whole = great_circle_distance(latitude, longitude, to, east)
    assert steps.sum() == pytest.approx(whole, rel=1e-6, abs=1)
    assert np.allclose([way[0][0], way[1][0], way[0][-1], way[1][-1]], [latitude, longitude, to, east], atol=1e-6)


def test_circles_have_the_radius_of_the_map():
    figure = plt.figure(figsize=(8, 4))
    ax = maps.state_map(figure, (0.5, 0.5, 7, 3), SQUARE)
    maps.draw_circles(ax, places(("a", 40, -90), ("b", 35, -95)).assign(radius_m=[50e3, 150e3]))
    metres_of_a_point = np.diff(ax.get_xlim())[0] / (7 * 72)
    assert [line.get_markersize() * metres_of_a_point / 2 for line in ax.get_lines()] == pytest.approx([50e3, 150e3])


@pytest.mark.parametrize("last_bits", [-1e-13, 1e-13])
def test_a_label_between_two_sides_takes_the_first(last_bits):
    figure = plt.figure(figsize=(8, 4))
    ax = maps.state_map(figure, (0.5, 0.5, 7, 3), SQUARE)
    middle = (np.mean(ax.get_xlim()), np.mean(ax.get_ylim()))
    assert maps.map_label(ax, "a name", [middle], [], away=(1e3, 1e3 + last_bits * 1e3))
    assert maps.map_label(ax, "a name", [middle], [], away=(1e3, last_bits * 1e3), reach=9)
    first, second = (text.xyann for text in ax.texts)
    assert first == pytest.approx((5.6, 5.6)) and second == (9, 0)
    taken = [maps.mark_box(ax, middle, 1)]
    taken[0].x1 = ax.get_window_extent().x1  # the right is not free
    assert maps.map_label(ax, "a name", [middle], taken, away=(1e3, last_bits * 1e3), reach=9)
    assert ax.texts[2].xyann == pytest.approx((7.2, 7.2))


def test_labels_make_way_and_say_when_they_cannot():
    figure = plt.figure(figsize=(8, 4))
    ax = maps.state_map(figure, (0.5, 0.5, 7, 3), SQUARE)
    middle, taken = (np.mean(ax.get_xlim()), np.mean(ax.get_ylim())), []
    assert all(maps.map_label(ax, "a name", [middle], taken) for _ in range(4))
    assert not any(a.overlaps(b) for a, b in combinations(taken, 2))
    taken.append(ax.get_window_extent())
    assert not maps.map_label(ax, "one more", [middle], taken, must=False)
    assert len(ax.texts) == 4 and not maps.map_label(ax, "one more", [middle], taken) and len(ax.texts) == 5


def test_a_grid_map_draws_each_plant_line_node_place_and_link():
    drawn, chosen = small_grid(), places(("East", 38, -83), ("West", 40, -97))
    nodes = pd.DataFrame({"latitude": [35, 36, 37], "longitude": [-90, -92, -94], "radius_m": 50e3})
    figure = maps.grid_map(drawn, SQUARE, nodes.assign(passes=[True, False, False]), chosen, ways(chosen), "t", "n")
    (ax,) = figure.axes
    plants = [mark for mark in ax.collections if isinstance(mark, PathCollection)]
    assert sum(len(mark.get_offsets()) for mark in plants) == len(drawn.plants) + len(chosen)
    assert len(plants) == len(plotting.FUELS) + 1
    kinds = [line for line in ax.get_lines() if line.get_zorder() == 2 and line.get_color() != maps.INK]
    assert [np.isnan(line.get_xdata()).sum() for line in kinds] == [1, 1, 1, 1]  # 230 kV is left out
    fails, _, passes = [line for line in ax.get_lines() if line.get_marker() == "o"][:3]
    assert len(fails.get_xdata()) == 2 and len(passes.get_xdata()) == 1
    kilometres = f"{ways(chosen)['distance_m'].iloc[0] / 1e3:,.0f} km"
    assert any(kilometres in text.get_text() for text in ax.texts)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [*plotting.FUELS] == [text for text in legend if text in plotting.FUELS]
    assert {"plants ≥ 10 MW", "lines", "nodes", "passes", "fails", "chosen place"} < set(legend)
    apart(figure)


def test_among_many_links_the_longest_is_named():
    every = places(("A", 32, -98), ("B", 44, -82), ("C", 38, -90), ("D", 33, -84))
    (ax,) = maps.grid_map(small_grid(), SQUARE, None, every, ways(every)).axes
    assert [text.get_text().split()[0] for text in ax.texts if "ms" in text.get_text()] == [
        f"{ways(every)['distance_m'].max() / 1e3:,.0f}"
    ]
    assert sum(line.get_zorder() == 5 for line in ax.get_lines()) == 5


def test_places_close_together_keep_their_names_apart():
    close = places(*[(f"N{i}", 38 + 0.6 * (i % 2), -90 + 0.9 * (i // 2)) for i in range(6)])
    figure = maps.places_by_k(close.assign(k=6), ways(close).assign(k=6), SQUARE)
    apart(figure)
    assert {f"N{i}" for i in range(6)} < {text.get_text() for text in figure.axes[0].texts}


def test_places_by_k_names_the_longest_link_of_each():
    every = places(("A", 32, -98), ("B", 44, -82), ("C", 38, -90))
    table = pd.concat([every.head(k).assign(k=k) for k in (1, 2, 3)])
    links = pd.concat([ways(every.head(k)).assign(k=k) for k in (1, 2, 3)])
    figure = maps.places_by_k(table, links, SQUARE)
    assert [ax.get_title() for ax in figure.axes] == ["(a) 1 place", "(b) 2 places", "(c) 3 places"]
    longest = f"{links['distance_m'].max() / 1e3:,.0f} km"
    assert [sum(longest in text.get_text() for text in ax.texts) for ax in figure.axes] == [0, 1, 1]
    apart(figure)
    readable(figure)


def test_pictures_of_the_whole_grid_are_small_enough_and_labels_apart(real):
    whole, outlines = real
    chosen = places(("Washington, D.C.", 39, -77), ("Washington State, BPAT", 46.25, -122.25))
    figure = maps.grid_map(whole, outlines, None, chosen, ways(chosen), "a title " * 15, "a note " * 40)
    apart(figure)
    readable(figure)
    assert svg_bytes(figure) < MAX_SVG_B


def test_a_line_breaks_after_a_semicolon_and_never_after_a_number():
    first = "places of 100 km with 2.09 GW by a rule of which the name is rather long"
    lines = maps._lines_of(f"{first}; nodes of 50 km", "", "grid")
    assert [line.replace("\u00a0", " ") for line in lines] == [f"{first};", "nodes of 50 km; grid"]
    long = maps._lines_of("word 100 km " * 30)
    assert len(long) > 3 and max(map(len, long)) <= maps._CHARACTERS
    assert not any(line[-1].isdigit() for line in long) and maps._lines_of("", "") == []


def test_a_line_leads_to_a_label_far_off():
    figure = plt.figure(figsize=(8, 4))
    ax = maps.state_map(figure, (0.5, 0.5, 7, 3), SQUARE)
    middle = (np.mean(ax.get_xlim()), np.mean(ax.get_ylim()))
    taken = [maps.mark_box(ax, middle, 12)]
    assert maps.map_label(ax, "a name", [middle], taken, 9)
    (line,) = ax.get_lines()
    near, far = ax.transData.transform(line.get_xydata())
    text = ax.texts[0].get_window_extent()
    assert np.allclose(near, ax.transData.transform(middle)) and text.padded(2).contains(*far)


def test_texts_of_one_artist_stand_where_they_belong():
    figure = plt.figure(figsize=(8, 4))
    ax = figure.add_axes((1 / 8, 1 / 4, 6 / 8, 2 / 4))
    ax.set(xlim=(0, 3), ylim=(2, 0))
    outlines = [symbols.text_outline(text, 10)[0] for text in ("88", "8")]
    symbols.draw_marks(ax, outlines, [(0.5, 0.5), (2.5, 1.5)], facecolors="black")
    (marks,) = ax.collections
    for path in marks.get_paths():
        box = path.get_extents(marks.get_transform())  # around the place
        assert box.height / figure.dpi == pytest.approx(0.75 * 10 / 72, rel=0.02)  # height of a digit of 10 points
        assert np.allclose([box.x0 + box.x1, box.y0 + box.y1], 0, atol=0.05 * figure.dpi)
    assert ax.get_xlim() == (0, 3) and ax.get_ylim() == (2, 0)


def test_hours_beyond_the_axis_are_marked():
    hours = 200
    clean = 5e9 + 1e9 * np.sin(np.arange(hours) / 4)
    raw = clean.copy()
    raw[[50, 90]] = 70e9, 30e9
    data = pd.DataFrame({"hour_utc": pd.date_range("2023-01-01", periods=hours, freq="h"), "demand_w": raw})
    figure = timelines.hourly_demand(data.assign(demand_screened_w=clean))
    (ax,) = figure.axes
    spikes = [line for line in ax.get_lines() if line.get_marker() == "^"]
    assert len(spikes[0].get_xdata()) == 2 and "70 GW reported" in [text.get_text() for text in ax.texts]
    assert ax.get_lines()[0].get_ydata().max() == pytest.approx(ax.get_ylim()[1])
    both = data.assign(demand_screened_w=clean, net_generation_w=raw, net_generation_screened_w=clean)
    assert [ax.get_ylabel() for ax in timelines.hourly_demand(both).axes] == ["demand [GW]", "net generation [GW]"]
