"""Figures: what they show and say, and that nothing in users' data can break them."""

import io
from dataclasses import replace
from itertools import pairwise

import numpy as np
import PIL.Image
import pytest
from matplotlib.colors import to_hex

import fimsde
from fimsde.analysis.box import to_box
from fimsde.analysis.replay import replay
from fimsde.data.grid import regular_grid
from fimsde.errors import ConfigError
from fimsde.plots import BandSettings, plot, style, to_png
from fimsde.plots.bands import has_band
from fimsde.plots.layout import cell_of, panels_of
from fimsde.plots.narrow import to_pictures
from fimsde.plots.planes import WIDEN, _in_deviations, read_plane
from fimsde.plots.replays import plot_statistics
from fimsde.plots.style import DPI
from fitted import linear
from problems import OrnsteinUhlenbeck

FEW = BandSettings(resamples=4)


def texts(figure):
    """Every label in a figure."""
    found = [t.get_text() for axes in figure.axes for t in (axes.xaxis.label, axes.yaxis.label, axes.title)]
    return [*found, *(t.get_text() for legend in figure.legends for t in legend.get_texts())]


KINDS = {
    1: ("fields", "drift", "potential", "density", "paths", "statistics"),
    2: ("fields", "drift", "diffusion", "potential", "density", "paths", "statistics"),
    3: ("fields", "drift", "diffusion", "paths", "statistics"),
}


@pytest.mark.parametrize(("dim", "kind"), [(d, kind) for d, kinds in KINDS.items() for kind in kinds])
def test_every_figure_is_drawn_with_labels_on_every_outer_axis(dim, kind):
    result = linear(dim, names=["a (mm)", "b (mm)", "c (mm)"][:dim], time_unit="s")
    figure = plot(result, kind, bands=FEW)
    assert to_png(figure, dpi=40).startswith(b"\x89PNG")
    shown = texts(figure)
    if kind in ("fields", "drift", "diffusion"):
        assert any("/ s)" in t or "/ √s)" in t for t in shown), shown
    if kind == "paths":
        assert shown.count("time (s)") == 2
    bottom = [axes for axes in figure.axes if axes.get_subplotspec() and axes.get_subplotspec().is_last_row()]
    assert bottom
    assert all(axes.get_xlabel() for axes in bottom)


def test_the_curve_is_what_the_result_says_and_the_band_surrounds_it():
    result = linear(1)
    drift, diffusion = plot(result, bands=FEW).axes
    (curve,) = [line for line in drift.get_lines() if line.get_label() == "estimate"]
    x, f = curve.get_data()
    np.testing.assert_array_equal(f, result.fields(np.asarray(x)[:, None])[0][:, 0])
    low, high = result.observations.box()
    assert x[0] < low[0] < high[0] < x[-1]
    band = result.band(np.asarray(x)[:, None], resamples=4)
    drawn = drift.collections[0].get_paths()[0].vertices[:, 1]
    assert set(np.round(band.drift_low[:, 0], 12)) <= set(np.round(drawn, 12))
    (curve,) = [line for line in diffusion.get_lines() if line.get_label() == "estimate"]
    np.testing.assert_array_equal(curve.get_ydata(), result.fields(np.asarray(x)[:, None])[1][:, 0])


def test_the_map_of_certainty_shows_half_the_width_of_the_band_against_the_size_of_the_drift():
    result = linear(2)
    figure = plot(result, bands=FEW)
    shown = np.asarray(figure.axes[1].images[0].get_array()).T  # (first axis, second axis)
    low, high = to_box(None, 2, result.observations, WIDEN)
    band = result.band(regular_grid(low, high, len(shown)), resamples=FEW.resamples)
    plane = read_plane(result, (0, 1), low, high)
    size = np.sqrt(np.mean(plane.drift[plane.inside] ** 2, axis=0))
    half = (band.drift_high - band.drift_low) / 2 / size
    np.testing.assert_allclose(shown.ravel(), half.max(axis=1))


def test_lengths_of_vectors_are_in_deviations_of_their_own_components():
    rng = np.random.default_rng(0)
    obs = fimsde.read(rng.standard_normal((300, 3)) * [1.0, 10.0, 100.0], dt=0.1)
    result = fimsde.result(OrnsteinUhlenbeck(dim=3), obs)
    plane = read_plane(result, (0, 2), *to_box(None, 3, obs))
    field = plane.drift[..., [0, 2]]
    deviations = obs.values.std(axis=0)
    expected = np.hypot(field[..., 0] / deviations[0], field[..., 1] / deviations[2])
    np.testing.assert_allclose(_in_deviations(field, result, plane, (0, 2)), expected)


def test_correlations_are_drawn_over_times_with_the_middle_nine_tenths_of_the_simulations():
    played = replay(linear(1), replicates=20)
    axes = plot_statistics(played).axes[1]
    simulated, observed, *_ = axes.get_lines()
    lags = np.asarray(observed.get_xdata())
    np.testing.assert_allclose(lags, 0.1 * np.arange(len(lags)))
    np.testing.assert_allclose(observed.get_ydata(), played.observed_correlation[: len(lags), 0])
    np.testing.assert_allclose(simulated.get_ydata(), np.median(played.correlation[:, : len(lags), 0], axis=0))
    corners = axes.collections[0].get_paths()[0].vertices
    for share, end in ((0.05, min), (0.95, max)):
        expected = np.quantile(played.correlation[:, : len(lags), 0], share, axis=0)
        drawn = [end(y for x, y in corners if np.isclose(x, lag)) for lag in lags[1:-1]]
        np.testing.assert_allclose(drawn, expected[1:-1])


def test_places_without_data_are_grey_and_others_are_not():
    values = np.concatenate([np.sin(np.arange(300)), 20 + np.sin(np.arange(300))])
    observations = fimsde.read([values[:300], values[300:]], dt=0.1)
    result = fimsde.result(OrnsteinUhlenbeck(), observations)
    drift = plot(result).axes[0]
    grey = [p for p in drift.patches if to_hex(p.get_facecolor()) == style.UNSUPPORTED]
    spans = [(p.get_x(), p.get_x() + p.get_width()) for p in grey]
    assert any(a < 10 < b for a, b in spans)  # the hole between the two clouds
    assert not any(a < x < b for a, b in spans for x in (0.0, 20.0))


def test_a_textbook_system_has_curves_without_a_band():
    system = fimsde.result(OrnsteinUhlenbeck())
    assert not has_band(system)
    labels = texts(plot(system, box=(-1.0, 1.0)))
    assert "estimate" in labels
    assert not any("band" in t for t in labels)
    with pytest.raises(ConfigError, match="needs observations"):
        plot(system, "paths")


def test_an_equation_that_was_not_fitted_has_no_band():
    assert not has_band(linear(1, refit=None))
    assert has_band(linear(1))


@pytest.mark.parametrize("name", ["$\\frac{$", "a$b$c", "_hidden", "<script>", "x" * 300, "温度", "two\nlines", "{}%s"])
def test_names_from_files_cannot_break_a_figure(name):
    result = linear(1, names=[name])
    assert to_png(plot(result, bands=BandSettings(resamples=0)), dpi=40).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "time_unit", "drift", "diffusion"),
    [
        ("x (mm)", "s", "drift of x (mm / s)", "diffusion √g of x (mm / √s)"),
        ("speed [m/s]", "h", "drift of speed ((m/s) / h)", "diffusion √g of speed\n((m/s) / √h)"),
        ("rate (%)", "D", "drift of rate (% / day)", "diffusion √g of rate\n(% / √day)"),  # was "% / D"
        ("price", None, "drift of price (price / time)", "diffusion √g of price\n(price / √time)"),
    ],
)
def test_labels_carry_the_units(name, time_unit, drift, diffusion):
    assert style.drift_label(name, time_unit) == drift
    assert style.diffusion_label(name, time_unit) == diffusion


def test_an_unknown_figure_is_refused_with_the_names_of_the_known_ones():
    with pytest.raises(ConfigError, match="expected fields, drift"):
        plot(linear(1), "nonsense")


def test_short_holes_of_the_support_are_no_stripes_and_long_ones_stay():
    inside = np.ones(100, bool)
    inside[[0, 50]] = False
    inside[70:80] = False
    closed = style.without_stripes(inside)
    assert closed[50]
    assert not closed[0]
    assert not closed[70:80].any()


def test_figures_leave_the_settings_of_matplotlib_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    to_png(plot(linear(1), bands=FEW), dpi=40)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("dim", "kind"),
    [
        (1, "fields"),
        (2, "fields"),
        (2, "potential"),
        (2, "density"),
        *(pytest.param(d, k, marks=pytest.mark.slow) for d, k in ((2, "paths"), (3, "drift"))),
    ],
)
def test_a_figure_is_drawn_once_and_its_panels_stand_below_each_other_for_a_phone(dim, kind):
    """The slow ones are large. What they buy: figures with legends outside and with slices."""
    figure = plot(linear(dim), kind, bands=FEW)
    panels = panels_of(figure)
    drawn = to_pictures(figure)
    wide = PIL.Image.open(io.BytesIO(drawn.wide))
    if len(panels) == 1:
        assert drawn.narrow is None
        return
    assert not drawn.has_many
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in panels)
    cells = figure.get_layout_engine().cells
    narrow = PIL.Image.open(io.BytesIO(drawn.narrow))
    assert narrow.width == round(np.diff(cells.columns).max() * DPI) < 0.6 * wide.width
    heights = [np.diff(cells.rows)[cell_of(axes)[0]] for axes in panels]
    assert narrow.height >= sum(heights) * DPI - len(panels)
    row, column = cell_of(panels[-1])  # the last panel is in the narrow picture as it is in the wide one
    corners = (cells.columns[column], cells.rows[row], cells.columns[column + 1], cells.rows[row + 1])
    last = np.asarray(wide.crop([round(c * DPI) for c in corners]))
    top = round(cells.rows[0] * DPI) + sum(round(h * DPI) for h in heights[:-1])
    places = [np.asarray(narrow)[top + d :][: len(last), : last.shape[1]] for d in range(-3, 4)]  # heights are rounded
    assert any(np.array_equal(place, last) for place in places)


@pytest.mark.parametrize(("dim", "kind"), [(1, "fields"), (2, "fields"), (2, "density"), (2, "paths"), (3, "fields")])
def test_labels_and_bars_of_colours_stay_in_the_cell_of_their_panel(dim, kind):
    figure = plot(linear(dim, names=["a long name of a column (µmol / l)", "speed (m/s)", "z"][:dim]), kind, bands=FEW)
    to_pictures(figure)
    cells, height = figure.get_layout_engine().cells, figure.get_figheight()
    panels = panels_of(figure)
    assert {cell_of(axes)[1] for axes in panels} == {0, 1}
    for axes in panels:
        (row, column), bars = cell_of(axes), [bar for bar in figure.axes if _belongs(bar, axes)]
        for part in (axes, *bars):
            (left, below), (right, above) = part.get_tightbbox(for_layout_only=True).get_points() / figure.dpi
            assert left > cells.columns[column] - 0.02
            assert right < cells.columns[column + 1] + 0.02
            assert height - above > cells.rows[row] - 0.02
            assert height - below < cells.rows[row + 1] + 0.02
        assert axes.get_position().width * figure.get_figwidth() > 1.0
    for legend in figure.legends:
        assert legend.get_window_extent().y1 / figure.dpi < height - cells.rows[-1] + 0.02


def test_a_panel_had_more_ticks_after_it_was_measured_than_before():
    """Their labels were wider, and that of the axis stood in the next panel."""
    for height in np.linspace(2.0, 7.0, 11):
        figure = style.new_figure(height)
        for axes in figure.subplots(2, 2).flat:
            axes.plot([0, 1], [-1.3, 1.3])
            axes.set(xlabel="time", ylabel="state")
        to_png(figure, dpi=60)
        cells = figure.get_layout_engine().cells
        for axes in panels_of(figure):
            box = axes.get_tightbbox(for_layout_only=True).get_points() / figure.dpi
            assert box[0, 0] > cells.columns[cell_of(axes)[1]], height


@pytest.mark.parametrize("dim", [2, 3])
def test_the_heading_of_a_figure_was_cut_on_a_phone_and_reached_into_the_next_panel(dim):
    """A phone shows one column below the other: the heading fits the first, and ends above the panels."""
    figure = plot(linear(dim), "diffusion", bands=BandSettings(resamples=0))
    to_pictures(figure)
    cells, (heading,) = figure.get_layout_engine().cells, figure.texts
    (left, below), (right, above) = heading.get_window_extent().get_points() / figure.dpi
    assert 0 <= left < right < np.diff(cells.columns).max()
    assert below > figure.get_figheight() - cells.rows[0]
    assert above < figure.get_figheight()


@pytest.mark.parametrize("first", [2000.0, 2000.5])
def test_years_below_paths_ran_into_each_other(first):
    """2000.0, 2002.5, 2005.0, ...: eight labels where five have room."""
    result = linear(1, num_points=20)
    moved = replace(result.observations, times=first + np.arange(20.0), time_unit="year")
    figure = plot(fimsde.result(result.sde, moved), "paths", bands=BandSettings(resamples=0))
    to_pictures(figure)
    for axes in panels_of(figure):
        boxes = sorted(
            (label.get_window_extent().x0, label.get_window_extent().x1)
            for label in axes.get_xticklabels()
            if label.get_text() and axes.bbox.x0 - 1 <= label.get_window_extent().x1 <= axes.bbox.x1 + 40
        )
        assert len(boxes) >= 2
        assert all(b[0] - a[1] > 2 for a, b in pairwise(boxes))


@pytest.mark.parametrize(("num", "bins"), [(20, 5), (100, 25), (400, 50)])
def test_a_histogram_of_twenty_states_had_fifty_bins(num, bins):
    figure = plot(linear(1, num_points=num), "statistics", bands=BandSettings(resamples=0))
    seen = next(patch for patch in panels_of(figure)[0].patches if patch.get_label() == "observed")
    assert len(seen.get_data().values) == bins
    drawn = panels_of(plot(linear(1, num_points=num), "density"))[0].patches[0].get_data()
    assert len(drawn.values) <= bins
    assert np.sum(drawn.values * np.diff(drawn.edges)) == pytest.approx(1.0), "a density"


def _belongs(bar, axes):
    return axes in getattr(bar, "_colorbar_info", {"parents": []})["parents"]


def test_a_table_of_many_panels_is_one_wide_picture():
    drawn = to_pictures(plot(linear(4), "drift", bands=FEW))
    assert drawn.narrow is None
    assert drawn.has_many
