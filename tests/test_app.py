"""The local app: the road of the command line under a page; what it shows, refuses and leaves behind."""

import csv
import io
import socket
import tempfile
import time
import zipfile
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

import fimsde
from browser import new_tab
from children import running_app
from fimsde.errors import ConfigError, FimsdeError
from fimsde.interface.app import curves, start, work
from fimsde.interface.app.choose import NO_CLOCK, NO_PATH
from fimsde.interface.cli import main
from fimsde.interface.cli.table import Columns
from fimsde.plots import BandSettings
from problems import OrnsteinUhlenbeck

NO_BANDS = BandSettings(resamples=0)
SEEN = "[...document.querySelectorAll('.{}-page')].filter(i => i.offsetParent && i.naturalWidth > 0).length"
SCRIPT = Path(work.__file__).with_name("main.py")


def a_table(head=("t", "x"), num=150, seed=0):
    """The content of a CSV file."""
    walk = np.random.default_rng(seed).standard_normal((num, len(head) - 1))
    for i in range(1, num):
        walk[i] = 0.9 * walk[i - 1] + 0.3 * walk[i]
    target = io.StringIO()
    csv.writer(target).writerows([head, *([0.1 * i, *row] for i, row in enumerate(walk.tolist()))])
    return target.getvalue().encode()


def sentence_of_the_command_line(name, content, folder, monkeypatch, capsys):
    """What `fimsde estimate` says about a table."""
    (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as stop:
        main(["estimate", name])
    assert stop.value.code == 2
    return capsys.readouterr().err.removeprefix("fimsde: ").strip()


def test_the_app_gives_what_estimate_gives(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    head = ["t", "=a, b (mm)"]
    shares = []
    upload = work.Upload("../data.csv", a_table(head, num=100))
    done = work.run(upload, Columns("t", tuple(head[1:])), NO_BANDS, lambda share, label: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert set(done.files) == {"report.html", "result.json", "fields.csv", "fields.png", "result.zip"}
    zipfile.ZipFile(io.BytesIO(done.files["result.zip"])).extractall(tmp_path)
    assert b"<title>" in done.files["report.html"]
    assert b"99 steps between observations are few" in done.files["report.html"]
    table = next(csv.reader(io.StringIO(done.files["fields.csv"].decode())))
    assert table[0] == "'=a, b (mm)", "a name in a download became a formula"
    again = fimsde.load(tmp_path / "result" / "saved")
    x = np.linspace(-0.5, 0.5, 5)[:, None]
    np.testing.assert_allclose(again.fields(x), done.result.fields(x), rtol=1e-5)
    assert not list((tmp_path / "temporary").glob("fimsde-app-*"))


@pytest.mark.parametrize(
    "content",
    [b"", b"t,x\n0,1\n1,oops\n2,3\n", b"t,x\n0,1\n", b"t,x\n0,1\n0,2\n1,3\n", b"t,x\n0,5\n1,5\n2,5\n", b"\xff\xfe\x00"],
)
def test_a_wrong_table_is_the_sentence_of_the_command_line(content, tmp_path, monkeypatch, capsys):
    upload = work.Upload("data.csv", content)
    with pytest.raises(FimsdeError) as refused:  # noqa: PT012 — either step may be the one that refuses
        upload.look(None, None)
        work.run(upload, Columns(), NO_BANDS, lambda share, label: None)
    assert str(refused.value) == sentence_of_the_command_line("data.csv", content, tmp_path, monkeypatch, capsys)


def test_the_command_that_does_the_same_is_complete_and_quoted():
    columns = Columns("t", ("x", "y z"), dt=None, separator=";", missing="drop")
    assert (
        work.command_line("my data.csv", columns, BandSettings(0.8, 50, 3))
        == "fimsde estimate 'my data.csv' --time t --values 'x,y z' --separator ';' --missing drop --level 0.8 --seed 3"
    )


def test_the_script_that_does_the_same_does_the_same(tmp_path, monkeypatch, capsys):
    (tmp_path / "my data.csv").write_bytes(a_table(["t", "x y"]).replace(b",", b";"))
    monkeypatch.chdir(tmp_path)
    columns = Columns("t", ("x y",), separator=";", time_unit="s")
    exec(compile(work.python_script("my data.csv", columns, BandSettings(resamples=0)), "script", "exec"), {})
    assert "Equation" in capsys.readouterr().out
    assert "Bands were not asked for" in (tmp_path / "report.html").read_text()
    again = fimsde.load(tmp_path / "saved")
    assert again.names == ("x y",)
    assert again.time_unit == "s"


def test_a_port_in_use_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} is in use.*--port"):
            start.find_port(port)


def test_a_missing_extra_is_one_sentence_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr(start, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        main(["app"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'fimsde[app]'" in error


@pytest.fixture
def page():
    """The page without a browser, and a function that finds an element by its label."""
    testing = pytest.importorskip("streamlit.testing.v1", reason="the extra app is not installed")
    return testing.AppTest.from_file(str(SCRIPT), default_timeout=300).run()


def labelled(elements, label):
    return next(element for element in elements if element.label.startswith(label))


def upload(page, head):
    return page.file_uploader[0].set_value(("data.csv", a_table(head), "text/csv")).run()


@pytest.mark.filterwarnings("default")  # of streamlit, about itself
def test_the_page_estimates_and_shows_names_as_they_are(page):
    upload(page, ["when", "<b>x</b> $y$"])
    assert labelled(page.selectbox, "Time").value == "when"
    assert page.multiselect[0].value == ["<b>x</b> $y$"]
    labelled(page.checkbox, "Draw bands").uncheck().run()
    labelled(page.button, "Estimate").click().run()
    assert not page.exception
    assert not page.error
    assert [tab.label for tab in page.tabs][:3] == ["Fields", "Dynamics", "Checks"]
    texts = [m.value for m in page.markdown]
    assert any(text.startswith("Sparse polynomials") for text in texts)
    assert page.metric[0].label == "Mean exit time"
    assert float(page.metric[0].value.split()[0]) > 0
    assert "No column of this table tells data sets apart" in page.info[0].value
    assert "fimsde.read('data.csv', time='when', values=['<b>x</b> $y$'])" in page.code[-2].value + page.code[-1].value
    assert any("--time when" in code.value for code in page.code)
    assert not any("<b>" in text for text in texts), "a name became markup"


@pytest.mark.filterwarnings("default")
def test_dates_of_an_office_need_no_word_and_are_drawn_as_they_are(page):
    rows = a_table(num=150).decode().split()[1:]
    days = [str(day) for day in np.arange("2021-03-01", "2021-07-29", dtype="datetime64[D]")]
    cells = [
        f"{day[8:]}.{day[5:7]}.{day[:4]};{row.split(',')[1].replace('.', ',')}"
        for day, row in zip(days, rows, strict=True)
    ]
    content = "\n".join(["Datum;Höhe (m)", *cells]).encode("cp1252")
    page.file_uploader[0].set_value(("data.csv", content, "text/csv")).run()
    assert labelled(page.selectbox, "Time").value == "Datum"
    assert labelled(page.text_input, "Unit of time").value == "D", "as on the command line"
    assert page.multiselect[0].value == ["Höhe (m)"]
    assert "semicolons and decimal commas" in page.caption[0].value
    look = work.Upload("data.csv", content).look(None, None)
    shown = curves.series(look.columns, "Datum", None, ["Höhe (m)"]).data["time"]
    assert [str(shown.min())[:10], str(shown.max())[:10]] == ["2021-03-01", "2021-07-28"]
    labelled(page.checkbox, "Draw bands").uncheck().run()
    labelled(page.button, "Estimate").click().run()
    assert not page.exception
    assert not page.error
    assert not any("read as" in warning.value for warning in page.warning)
    assert any("--time-unit D" in code.value for code in page.code)


@pytest.mark.filterwarnings("default")
def test_the_page_compares_methods_and_estimates_every_data_set(page):
    lines = a_table(["t", "x"], num=120).decode().split()
    rows = [f"{who},{line}" for who in ("a", "b") for line in lines[1:]]
    table = "\n".join(["who,t,x", *rows]).encode()
    page.file_uploader[0].set_value(("data.csv", table, "text/csv")).run()
    labelled(page.selectbox, "Column that tells paths").select("who").run()
    labelled(page.checkbox, "Draw bands").uncheck().run()
    labelled(page.button, "Estimate").click().run()
    labelled(page.multiselect, "Methods").set_value(["kramers-moyal"]).run()
    labelled(page.button, "Compare").click().run()
    labelled(page.button, "Estimate each").click().run()
    assert not page.exception
    assert not page.error
    tables = {next(iter(frame.value.columns)): frame.value for frame in page.dataframe}
    assert len(tables["method"]) == 1
    assert np.isfinite(tables["method"]["likelihood"]).all()
    assert list(tables["data_set"]["data_set"]) == ["a", "b"]
    assert tables["data_set"]["equation"].str.startswith("dx = ").all()
    assert any("--by who --no-report" in code.value and "--path" not in code.value for code in page.code)


@pytest.mark.filterwarnings("default")
def test_the_page_guesses_clock_ids_and_numbers(page):
    """So that most tables need no choice; what is guessed wrong can be changed."""
    rows = "".join(f"cell {i % 2},{i},{0.1 * i},red,{i * i}\n" for i in range(20))
    table = ("data.csv", b"Track_ID,time,x,colour,y\n" + rows.encode(), "text/csv")
    page.file_uploader[0].set_value(table).run()
    assert labelled(page.selectbox, "Time").value == "time"
    assert labelled(page.selectbox, "Column that tells").value == "Track_ID"
    assert page.multiselect[0].value == ["x", "y"]


def cells(head="cell,minutes,x,y"):
    """Four cells, followed one after the other; the content of a CSV file."""
    walk = np.random.default_rng(1).standard_normal((4 * 60, 2)).cumsum(axis=0)
    rows = [f"{i // 60},{2.5 * (i % 60)},{x},{y}\n" for i, (x, y) in enumerate(walk.tolist())]
    return ("data.csv", (head + "\n" + "".join(rows)).encode(), "text/csv")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("head", ["cell,minutes,x,y", "zelle,wann,länge,breite"])
def test_a_clock_was_preselected_as_a_state_with_one_path_and_a_constant_gap(page, head):
    """By its name or, without one that helps, because it is the one that increases within another's values."""
    names = head.split(",")
    page.file_uploader[0].set_value(cells(head)).run()
    assert labelled(page.selectbox, "Time").value == names[1]
    assert labelled(page.selectbox, "Column that tells").value == names[0]
    assert page.multiselect[0].value == names[2:]
    assert not any("read as" in warning.value for warning in page.warning)
    assert not labelled(page.button, "Estimate").disabled
    shown = " ".join(c.value for c in page.caption).replace("\\", "")
    assert f"'{names[1]}'" in shown
    assert f"'{names[0]}'" in shown


@pytest.mark.filterwarnings("default")
def test_a_constant_gap_beside_a_clock_was_estimated_without_objecting(page):
    page.file_uploader[0].set_value(cells()).run()
    labelled(page.selectbox, "Time").select(NO_CLOCK).run()
    labelled(page.selectbox, "Column that tells").select(NO_PATH).run()
    page.multiselect[0].set_value(["minutes", "x", "y"]).run()
    said = [w.value.replace("\\", "") for w in page.warning]
    assert any("'minutes' looks like a clock, but is chosen as a state" in sentence for sentence in said)
    assert any("'cell' looks like path ids" in sentence for sentence in said)
    assert labelled(page.button, "Estimate").disabled
    labelled(page.checkbox, "Yes").check().run()
    assert not labelled(page.button, "Estimate").disabled


@pytest.mark.filterwarnings("default")
def test_the_first_of_many_columns_were_taken_without_asking(page):
    upload(page, ["t", *"abcdefghi"])
    assert page.multiselect[0].value == []
    assert "9 columns can be the state" in page.info[0].value
    assert labelled(page.button, "Estimate").disabled


def test_a_table_beyond_the_limit_is_one_sentence(monkeypatch):
    monkeypatch.setattr(work, "LARGEST", 1)
    upload = work.Upload("big.csv", b"t,x\n" + b"1,2\n" * 300_000)
    with pytest.raises(FimsdeError, match=r"'big.csv' has 1 MB; this page takes at most 1\. Use the command line"):
        upload.look(None, None)


@pytest.mark.filterwarnings("default")
def test_the_limit_of_uploads_is_on_the_page_and_the_server_keeps_it(page):
    server = pytest.importorskip("fimsde.interface.app.server")
    assert f"at most {work.LARGEST} MB" in page.file_uploader[0].label
    assert server.OPTIONS["server.maxUploadSize"] == work.LARGEST


@pytest.mark.filterwarnings("default")
def test_the_page_refuses_with_a_sentence(page):
    page.file_uploader[0].set_value(("data.csv", b"t,x\n0,1\n1,oops\n2,3\n", "text/csv")).run()
    labelled(page.button, "Estimate").click().run()
    assert not page.exception
    assert len(page.error) == 1
    assert "'oops' at line 3" in page.error[0].value.replace("\\", "")
    assert not page.tabs


@pytest.mark.filterwarnings("default")
def test_advice_named_options_of_the_command_line(page):
    lines = a_table(["t", "x"], num=120).decode().split()
    lines[7] = lines[7].split(",")[0] + ","
    page.file_uploader[0].set_value(("data.csv", "\n".join(lines).encode(), "text/csv")).run()
    labelled(page.button, "Estimate").click().run()
    said = page.error[0].value.replace("\\", "")
    assert "Drop them (How the file is written)" in said
    assert "--" not in said


@pytest.mark.filterwarnings("default")
def test_a_column_that_never_changes_was_taken_for_none(page):
    page.file_uploader[0].set_value(("data.csv", b"t,x\n0,1\n1,1\n2,1\n3,1\n", "text/csv")).run()
    assert "'x': the same number in every row" in page.info[0].value.replace("\\", "")


@pytest.mark.filterwarnings("default")
def test_the_reason_of_a_data_set_stood_outside_the_window(page):
    lines = a_table(["t", "x"], num=120).decode().split()[1:]
    rows = [f"a,{line}" for line in lines] + [f"b,{line.split(',')[0]},1" for line in lines]
    page.file_uploader[0].set_value(("data.csv", "\n".join(["who,t,x", *rows]).encode(), "text/csv")).run()
    labelled(page.selectbox, "Column that tells paths").select("who").run()
    labelled(page.checkbox, "Draw bands").uncheck().run()
    labelled(page.button, "Estimate").click().run()
    labelled(page.button, "Estimate each").click().run()
    assert not page.exception
    table = next(frame.value for frame in page.dataframe if "data_set" in frame.value)
    assert list(table)[:2] == ["data_set", "failure"]
    assert "is constant" in table.failure[1]
    assert table.failure[0] == ""


def test_the_grey_that_the_text_promises_was_missing_from_the_curves():
    """Where no data are nearby, as in the figures: between two clouds of states, say."""
    curves = pytest.importorskip("fimsde.interface.app.curves", reason="the extra app is not installed")
    rng = np.random.default_rng(0)
    ends = [0.1 * rng.standard_normal((300, 1)).cumsum(axis=0) + 50 * i for i in (-1, 1)]
    result = fimsde.result(OrnsteinUhlenbeck(1.5, 0.7), fimsde.read(ends, dt=0.1, names=["x"]))
    found = curves.curve_table(result, NO_BANDS, 0, np.zeros(1))
    chart = curves.chart(result, found, 0, "drift", 0).to_dict()
    grey = chart["layer"][0]
    assert grey["mark"]["type"] == "rect"
    assert (grey["mark"]["color"], grey["mark"]["opacity"] < 0.5) == ("gray", True)  # on pages of any colour
    stretches = chart["datasets"][grey["data"]["name"]]
    assert len(stretches) == 3, "between the clouds and, as the axis reaches a little beyond the data, at both ends"
    rows = found[found["field"] == "drift"]
    low, high = chart["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert low < rows["value"].min() < rows["value"].max() < high
    covered = [any(part["from"] <= x <= part["to"] for part in stretches) for x in rows["x"]]
    np.testing.assert_array_equal(covered, rows["near"] == "no")


@pytest.fixture
def server(tmp_path):
    """The address of a running app."""
    pytest.importorskip("streamlit", reason="the extra app is not installed")
    port = start.find_port(None)
    address = f"http://127.0.0.1:{port}"
    with running_app(port, tmp_path):
        _wait_until_healthy(address)
        yield address


def _wait_until_healthy(address):
    deadline = time.monotonic() + 120
    while True:
        try:
            with urlopen(f"{address}/_stcore/health", timeout=10):
                return
        except OSError:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.5)


def arrived(file, seconds=60):
    """What a browser has downloaded: it renames the file when it is complete."""
    deadline = time.monotonic() + seconds
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} was not downloaded"
        time.sleep(0.2)
    return file.read_bytes()


def test_a_table_is_dropped_and_the_report_appears_in_a_browser(server, tmp_path):
    """The whole app as a user meets it, with every address but this machine's unreachable, and a name that is HTML
    shown as text."""
    table, page = tmp_path / "data.csv", "[data-testid=stMain]"
    table.write_bytes(a_table(["t", "<img src=x onerror=document.title='run'>"]))
    with new_tab() as tab:
        tab.open(server)
        tab.wait_for_text("one row per observation")
        tab.upload(table)
        tab.wait_for_text("State: one to")
        tab.wait("!document.querySelector('[data-testid=stStatusWidget]')")
        tab.click("Estimate")
        tab.wait_for_text("Download the report", seconds=300)
        tab.wait("!document.querySelector('[data-testid=stStatusWidget]')")
        tab.wait_for_text("The answer")
        for name in (
            "Simulation",
            "Compare",
            "Exit times",
            "Classes",
            "Data sets",
            "Fields",
            "Checks",
            "Dynamics",
            "Files and code",
        ):
            tab.click(name, "[role=tab]")
        tab.wait_for_text("fimsde estimate data.csv --time t")
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "down"))
        tab.click("Download the report")
        tab.click("Download everything")
        assert arrived(tmp_path / "down" / "report.html").startswith(b"<!DOCTYPE html>")
        with zipfile.ZipFile(io.BytesIO(arrived(tmp_path / "down" / "result.zip"))) as packed:
            assert {f"result/{name}" for name in ("report.html", "result.json", "fields.csv")} <= set(packed.namelist())
        assert tab.run(f"[...document.querySelectorAll('{page} img')].filter(i => i.naturalWidth > 0).length") >= 5
        tab.click("Fields", "[role=tab]")
        for width, shown, hidden in ((1400, "wide", "narrow"), (390, "narrow", "wide")):
            tab.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
            )
            tab.wait(SEEN.format(shown) + " > 0")
            assert tab.run(SEEN.format(hidden)) == 0
        assert tab.run("document.title") == "fimsde"
        assert tab.run(f"document.querySelectorAll('{page} img[onerror]').length") == 0
        assert all(url.startswith((server, "ws://127", "data:", "blob:")) for url in tab.requests), tab.requests
