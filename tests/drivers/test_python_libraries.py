"""drivers/python.py with matplotlib, pandas and Pillow: figures, charts, tables, images."""

import base64
import datetime

import pytest

LANGUAGE = "python"
PNG = b"\x89PNG\r\n"


@pytest.fixture(autouse=True)
def libraries(driver):
    done = driver.run("import matplotlib, numpy, pandas, PIL.Image")
    if done.error:
        pytest.skip(f"{done.error['value']}: apt-get install python3-matplotlib python3-pandas "
                    "python3-pil")


def figure(driver, code):
    """The one figure that the code shows."""
    done = driver.run("import matplotlib.pyplot as plt, numpy as np\n" + code)
    assert done.error is None, done.error["traceback"]
    shown = [r for r in done.results if not r["is_main_result"]]
    assert len(shown) == 1, [r.get("text") for r in done.results]
    assert base64.b64decode(shown[0]["png"]).startswith(PNG)
    assert shown[0]["text"].startswith("<Figure size") and shown[0]["extra"] == {}
    return shown[0]


def chart(driver, code):
    return figure(driver, code)["chart"]


def test_show_and_end_of_cell(driver):
    assert "png" in figure(driver, "plt.plot([1, 2]); plt.show()")
    assert "png" in figure(driver, "_ = plt.plot([1, 2])")
    assert driver.run("x = 1").results == []


def test_a_figure_as_last_value_is_shown_once(driver):
    done = driver.run("import matplotlib.pyplot as plt\n"
                      "fig, ax = plt.subplots(); ax.plot([1]); fig")
    assert len(done.results) == 1 and done.main["png"] and done.main["chart"]["type"] == "line"


def test_figures_before_an_error_are_shown(driver):
    done = driver.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n1/0")
    assert len(done.results) == 1 and done.error["name"] == "ZeroDivisionError"


def test_two_figures(driver):
    done = driver.run("plt.plot([1]); plt.show(); plt.figure(); plt.plot([2]); plt.show()")
    assert [r["chart"]["elements"][0]["points"] for r in done.results] == [[[0.0, 1.0]],
                                                                          [[0.0, 2.0]]]


def test_another_backend_of_the_codes_own(fresh, tmp_path):
    done = fresh.run("import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as plt\n"
                     "plt.plot([1]); plt.savefig('out.png')")
    assert done.error is None and (tmp_path / "out.png").read_bytes().startswith(PNG)
    assert [r for r in done.results if "png" in r] == []


def test_blank_figure_says_nothing(driver):
    assert chart(driver, "plt.subplots(); plt.show()") == {}


def test_line(driver):
    found = chart(driver, """
plt.plot([0, 1, 2], [3, 4, 6], label='first'); plt.plot([0, 1, 2], [1, 2, 3]); plt.axhline(2)
plt.title('Lines'); plt.xlabel('Time (s)'); plt.ylabel('Length [m]'); plt.show()""")
    assert (found["type"], found["title"]) == ("line", "Lines")
    assert (found["x_label"], found["x_unit"]) == ("Time (s)", "s")
    assert (found["y_label"], found["y_unit"]) == ("Length [m]", "m")
    assert (found["x_scale"], found["y_scale"]) == ("linear", "linear")
    assert [e["label"] for e in found["elements"]] == ["first", "Line 1"]
    assert found["elements"][0]["points"] == [[0.0, 3.0], [1.0, 4.0], [2.0, 6.0]]
    assert all(isinstance(t, float) for t in found["x_ticks"] + found["y_ticks"])
    assert all(isinstance(t, str) for t in found["x_tick_labels"] + found["y_tick_labels"])


def test_labels_that_are_absent(driver):
    found = chart(driver, "plt.plot([1, 2]); plt.show()")
    assert [found[k] for k in ("title", "x_label", "y_label", "x_unit", "y_unit")] == [None] * 5


def test_dates(driver):
    found = chart(driver, """
import datetime
days = [datetime.date(2023, 9, 1) + datetime.timedelta(days=i) for i in range(10)]
plt.plot(days, range(10)); plt.show()""")
    assert (found["x_scale"], found["y_scale"]) == ("datetime", "linear")
    first = found["elements"][0]["points"][0]
    assert first == ["2023-09-01T00:00:00+00:00", 0.0]
    assert all(datetime.datetime.fromisoformat(t) for t in found["x_ticks"])


def test_categories_and_logarithms(driver):
    found = chart(driver, "plt.plot([1, 2, 3], ['A', 'B', 'C']); plt.show()")
    assert (found["x_scale"], found["y_scale"]) == ("linear", "categorical")
    assert found["elements"][0]["points"] == [[1.0, "A"], [2.0, "B"], [3.0, "C"]]
    found = chart(driver, "plt.plot([1, 2], [1, 1000]); plt.yscale('log'); plt.grid(); plt.show()")
    assert (found["x_scale"], found["y_scale"]) == ("linear", "log")


def test_numbers_that_are_none(driver):
    found = chart(driver, "plt.plot([1, 2], [float('nan'), 5]); plt.show()")
    assert found["elements"][0]["points"] == [[1.0, None], [2.0, 5.0]]


def test_scatter(driver):
    found = chart(driver, "plt.scatter([1, 2], [3, 4], label='Dots'); plt.xlabel('A'); plt.show()")
    assert (found["type"], found["x_label"]) == ("scatter", "A")
    assert found["elements"] == [{"label": "Dots", "points": [[1.0, 3.0], [2.0, 4.0]]}]


def test_bars(driver):
    found = chart(driver, """
plt.bar(['A', 'B', 'C'], [10, 20, 30], label='Books'); plt.ylabel('Sold (pcs)'); plt.show()""")
    assert (found["type"], found["y_unit"]) == ("bar", "pcs")
    assert found["elements"] == [{"label": n, "group": "Books", "value": v}
                                 for n, v in (("A", 10.0), ("B", 20.0), ("C", 30.0))]


def test_grouped_and_horizontal_bars(driver):
    found = chart(driver, """
x = np.arange(2)
plt.bar(x - .2, [1, 2], .4, label='G1'); plt.bar(x + .2, [3, 4], .4, label='G2')
plt.xticks(x, ['P', 'Q']); plt.show()""")
    assert [(e["label"], e["group"], e["value"]) for e in found["elements"]] == [
        ("P", "G1", 1.0), ("Q", "G1", 2.0), ("P", "G2", 3.0), ("Q", "G2", 4.0)]
    found = chart(driver, """
plt.barh(['a', 'b'], [5, 6]); plt.xlabel('n'); plt.ylabel('who'); plt.show()""")
    assert (found["x_label"], found["y_label"]) == ("who", "n")
    assert [(e["label"], e["value"]) for e in found["elements"]] == [("a", 5.0), ("b", 6.0)]


@pytest.mark.parametrize("options", ["", ", autopct='%1.1f%%'"])
def test_pie(driver, options):
    found = chart(driver, f"""
plt.pie([90, 10], labels=['No', 'Yes']{options}); plt.title('T'); plt.show()""")
    assert (found["type"], found["title"]) == ("pie", "T")
    assert found["elements"] == [{"label": "No", "angle": 324.0, "radius": 1.0},
                                 {"label": "Yes", "angle": 36.0, "radius": 1.0}]


@pytest.mark.parametrize("options", ["", ", patch_artist=True", ", notch=True"])
@pytest.mark.parametrize("vert", [True, False])
def test_boxes(driver, options, vert):
    found = chart(driver, f"""
data = {{'Class A': [85, 90, 78, 92, 88], 'Class B': [95, 89, 76, 91, 84, 87]}}
fig, ax = plt.subplots(); ax.set_title('Scores')
ax.boxplot(list(data.values()), labels=list(data.keys()), vert={vert}{options}); plt.show()""")
    assert (found["type"], found["title"]) == ("box_and_whisker", "Scores")
    assert found["elements"] == [
        {"label": "Class A", "min": 78.0, "first_quartile": 85.0, "median": 88.0,
         "third_quartile": 90.0, "max": 92.0, "outliers": []},
        {"label": "Class B", "min": 84.0, "first_quartile": 84.75, "median": 88.0,
         "third_quartile": 90.5, "max": 95.0, "outliers": [76.0]}]


def test_superchart(driver):
    found = chart(driver, """
fig, (a, b) = plt.subplots(1, 2); fig.suptitle('Both')
a.plot([1, 2]); a.set_title('Left'); a.grid(True); b.scatter([1], [2]); plt.show()""")
    assert (found["type"], found["title"]) == ("superchart", "Both")
    assert [e["type"] for e in found["elements"]] == ["line", "scatter"]
    assert found["elements"][0]["title"] == "Left"


def test_unknown(driver):
    found = chart(driver, """
fig, ax = plt.subplots(); ax.add_artist(plt.Circle((0, 0), 1)); ax.grid(True)
plt.title('Circles'); plt.show()""")
    assert found == {"type": "unknown", "title": "Circles", "elements": []}


def test_images_and_histograms_do_not_fail(driver):
    assert chart(driver, "plt.imshow(np.zeros((4, 4))); plt.show()")["type"] == "unknown"
    assert chart(driver, "plt.hist([1, 2, 2, 3]); plt.show()")["type"] == "bar"
    assert chart(driver, "plt.fill_between([1, 2], [1, 2]); plt.show()")["type"] == "unknown"


def test_data_frame(driver):
    done = driver.run("""
import pandas as pd
pd.DataFrame({'n': [1, 2], 'd': pd.to_datetime(['2024-01-31', None]), 'x': [1.5, float('nan')]})""")
    assert done.main["data"] == {"n": [1, 2], "d": ["2024-01-31T00:00:00", None], "x": [1.5, None]}
    assert "<table" in done.main["html"] and "2024-01-31" in done.text


def test_pandas_plot(driver):
    found = chart(driver, "import pandas as pd; pd.DataFrame({'v': [1, 4]}).plot(); plt.show()")
    assert (found["type"], found["elements"][0]["label"]) == ("line", "v")


def test_arrays_are_text(driver):
    assert driver.value("import numpy as np; np.array([1, 2])") == "array([1, 2])"
    assert driver.run("[np.int64(3), np.float64('nan')]").main["json"] == [3, None]


@pytest.mark.parametrize("code,count", [
    ("image", 1), ("image.show()", 1), ("image.save('saved.png')", 1),
    ("import io; image.save(io.BytesIO(), 'PNG')", 0)])
def test_pillow(driver, code, count):
    done = driver.run(f"from PIL import Image\nimage = Image.new('RGBA', (4, 4))\n{code}")
    assert done.error is None
    pngs = [base64.b64decode(r["png"]) for r in done.results if "png" in r]
    assert len(pngs) == count and all(data.startswith(PNG) for data in pngs)


def test_saving_a_figure_does_not_show_it_twice(driver):
    assert "png" in figure(driver, "plt.plot([1]); plt.savefig('fig.png'); plt.show()")


def test_interrupted_while_plotting(driver):
    done = driver.run("plt.plot([1]); print('go')\nwhile True: pass", interrupt_at="go")
    assert done.error["name"] == "KeyboardInterrupt"
    assert driver.run("1").text == "1" and driver.run("x = 1").results == []
