"""Python that stays: keeps its variables from one request to the next (docs/interpreter.md).

The daemon starts this file in a sandbox and talks to it in lines of JSON. Nothing but the standard
library is needed; matplotlib, pandas and Pillow are treated well when the code imports them. User
code runs in the main thread, so that SIGINT reaches it. The parts, in order: the wire to the
daemon; captured output; display of values; matplotlib, with chart extraction; other libraries;
magics; cells; scripts, which the daemon runs without a context.
"""
import ast
import builtins
import codecs
import importlib
import json
import os
import select
import signal
import sys
import threading
import time
import types

PIECE_MAX = 64 * 1024  # of one stdout or stderr line
LINE_MAX = 24 * 1024 * 1024  # the protocol allows 32 MiB
LATE_MAX = 1024 * 1024  # kept of what is printed between two executions
REPR_MAX = 1024 * 1024
CUT = "…"
CELLS_MAX = 500000  # of a table that is sent as data too
CELLS_KEPT = 500  # whose source tracebacks can still show
DRIVER_FILE = __file__

quote = json.encoder.encode_basestring_ascii


def timestamp():
    now = time.time_ns()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9))
    return "%s.%06dZ" % (seconds, now // 1000 % 10**6)


# The wire


class Wire:
    """Lines to the daemon, whole or not at all.

    Output that nobody asked for, because no execution runs, waits for the next one.
    """

    def __init__(self, fd):
        self.fd = fd
        self.id = None
        self.lock = threading.RLock()
        self.main = threading.get_ident()
        self.held = 0  # how often the main thread holds the lock
        self.interruptible = False
        self.interrupted = False
        self.waiting = b""
        self.heard = 0  # how often SIGINT reached Python code
        # A byte for each signal that the process got and that Python code may not have seen.
        self.woken, self.waker = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(self.waker, False)
        self.late = []
        self.late_bytes = 0
        self.late_lost = 0

    def __enter__(self):
        if threading.get_ident() == self.main:
            self.held += 1
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()
        if threading.get_ident() == self.main:
            self.held -= 1
            if self.interrupted and not self.held:
                self.interrupt()

    def interrupt(self, *_):
        """The handler of SIGINT. A line must not be torn: while one is written, it waits."""
        self.heard += 1
        self.came()
        self.wake()  # came() may have read a byte that was to wake the pump
        self.interrupted = self.interruptible and self.held > 0
        if self.interruptible and not self.held:
            raise KeyboardInterrupt

    def came(self):
        """Whether a signal came that its handler has not seen; forgets it."""
        try:
            return signal.SIGINT in os.read(self.woken, 4096)
        except BlockingIOError:
            return False

    def wake(self):
        """Wakes the pump."""
        try:
            os.write(self.waker, b"!")
        except BlockingIOError:
            pass  # full: it is awake

    def write(self, line, more=False):
        """more: another line follows at once, and both can leave together."""
        self.waiting += line.encode("ascii") + b"\n"
        if not more:
            data, self.waiting = self.waiting, b""
            while data:
                data = data[os.write(self.fd, data):]

    def send(self, kind, **fields):
        with self:
            self.write(json.dumps(dict(fields, id=self.id, type=kind), allow_nan=False))

    def text(self, kind, text):
        with self:
            for start in range(0, len(text), PIECE_MAX // 4):
                piece = text[start:start + PIECE_MAX // 4]
                if self.id is None:
                    self.keep(kind, piece)
                else:
                    self.write('{"id":%s,"type":"%s","text":%s,"timestamp":"%s"}'
                               % (self.id, kind, quote(whole(piece)), timestamp()))

    def keep(self, kind, text):
        if self.late_bytes + len(text) > LATE_MAX:
            self.late_lost += len(text)
            return
        self.late.append((kind, text))
        self.late_bytes += len(text)

    def begin(self, request_id, count):
        with self:
            self.id = request_id
            self.send("number_of_executions", execution_count=count)
            late, self.late, self.late_bytes = self.late, [], 0
            lost, self.late_lost = self.late_lost, 0
        for kind, text in late:
            self.text(kind, text)
        if lost:
            self.text("stderr", "[%d characters printed between executions were dropped]\n" % lost)

    def end(self):
        with self:
            self.send("end_of_execution")
            self.id = None


def whole(text):
    """The text without halves of surrogate pairs, which JSON parsers refuse."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Captured output


class Stream:
    """sys.stdout or sys.stderr: one print is one line to the daemon.

    Text waits for the end of its line, for flush() or for a moment, by thread, so that threads do
    not mix their lines. In a forked child the parent's pipe is written to instead of the wire.
    """

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    mode = "w"
    closed = False
    line_buffering = True

    def __init__(self, driver, kind, fd):
        self.driver = driver
        self.kind = kind
        self.fd = fd
        self.name = "<%s>" % kind
        self.waiting = {}
        self.since = 0.0
        self.buffer = Bytes(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        me = threading.get_ident()
        with self.driver.wire:
            waiting = self.waiting.pop(me, "") + text
            if text.endswith("\n") or len(waiting) >= PIECE_MAX:
                self.send(waiting)
            elif waiting:
                self.waiting[me] = waiting
                self.since = time.monotonic()
        return len(text)

    def send(self, text):
        if self.driver.is_child():
            os.write(self.fd, text.encode("utf-8", "replace"))
            return
        self.driver.pipes.drain()  # what children wrote earlier comes first
        self.driver.wire.text(self.kind, text)

    def flush_old(self):
        if self.waiting and time.monotonic() - self.since > 0.1:
            self.flush()

    def flush(self):
        with self.driver.wire:
            waiting, self.waiting = self.waiting, {}
            for text in waiting.values():
                self.send(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def fileno(self):
        return self.fd

    def isatty(self):
        return False

    def readable(self):
        return False

    def writable(self):
        return True

    def seekable(self):
        return False

    def reconfigure(self, **_):
        pass

    def close(self):
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.flush()


class Bytes:
    """The binary side of a stream."""

    closed = False

    def __init__(self, stream):
        self.stream = stream
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data):
        data = bytes(data)
        self.stream.write(self.decoder.decode(data))
        return len(data)

    def flush(self):
        self.stream.flush()

    def fileno(self):
        return self.stream.fd

    def writable(self):
        return True


class NoInput:
    """sys.stdin: empty."""

    encoding = "utf-8"
    closed = False

    def read(self, *_):
        return ""

    readline = read

    def __iter__(self):
        return iter(())

    def fileno(self):
        return 0

    def isatty(self):
        return False

    def close(self):
        pass


class Pipes:
    """Descriptors 1 and 2: what child processes and C libraries print."""

    def __init__(self, wire):
        self.wire = wire
        self.readers = {}
        for fd, kind in ((1, "stdout"), (2, "stderr")):
            reader, writer = os.pipe()
            os.dup2(writer, fd)
            os.close(writer)
            os.set_blocking(reader, False)
            self.readers[reader] = (kind, codecs.getincrementaldecoder("utf-8")("replace"))
        signal.set_wakeup_fd(wire.waker, warn_on_full_buffer=False)

    def drain(self):
        """Everything that is in the pipes now; the wire must be held."""
        for reader, (kind, decoder) in self.readers.items():
            while True:
                try:
                    data = os.read(reader, PIECE_MAX)
                except BlockingIOError:
                    break
                if data:
                    self.wire.text(kind, decoder.decode(data))

    def pump(self, streams):
        """A thread of its own: children print while the code computes or waits."""
        came = 0.0  # when the process got a SIGINT that Python code may not have seen; 0: none
        seen = 0  # wire.heard at that time
        poll = select.poll()
        for fd in [self.wire.woken, *self.readers]:
            poll.register(fd, select.POLLIN)
        while True:
            poll.poll(None if self.wire.id is None else 200)
            heard = self.wire.heard
            if self.wire.came():
                came, seen = time.monotonic(), heard
            if came and (self.wire.heard != seen or not self.wire.interruptible):
                came = 0.0
            elif came and time.monotonic() - came > 0.1:
                # One that came just before a system call blocked does not end that call.
                signal.pthread_kill(self.wire.main, signal.SIGINT)
            with self.wire:
                self.drain()
                for stream in streams:
                    stream.flush_old()


# Display of values

MIME_KEYS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown",
    "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf",
    "text/latex": "latex", "application/json": "json", "application/javascript": "javascript",
    "e2b/data": "data", "e2b/chart": "chart",
}
REPR_METHODS = {
    "_repr_html_": "html", "_repr_markdown_": "markdown", "_repr_svg_": "svg",
    "_repr_png_": "png", "_repr_jpeg_": "jpeg", "_repr_pdf_": "pdf", "_repr_latex_": "latex",
    "_repr_json_": "json", "_repr_javascript_": "javascript",
}
BINARY_KEYS = ("png", "jpeg", "pdf")
ANY_KEYS = ("json", "data", "chart")


class NotPlain(Exception):
    """Has no place in JSON."""


def plain(value, depth=0):
    """The value in JSON's types: dates as ISO text, what is no number as null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, int):
        return int(value) if -2**63 <= value < 2**63 else str(value)
    if isinstance(value, float):
        return float(value) if value - value == 0 else None
    if depth > 50:
        raise NotPlain
    if isinstance(value, dict):
        return {plain_key(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v, depth + 1) for v in value]
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return plain(value.tolist(), depth + 1)
    raise NotPlain


def plain_key(key):
    return whole(key if isinstance(key, str) else str(key))


def plain_or_text(value):
    if isinstance(value, (list, tuple)):
        return [plain_or_text(v) for v in value]
    try:
        return plain(value)
    except NotPlain:
        return whole(str(value))


def strip_quotes(text):
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def text_of(value):
    text = repr(value)
    return text if len(text) <= REPR_MAX else text[:REPR_MAX] + CUT


def mark_cut(found):
    """A text that was cut says so: "extra" for programs, stderr for people."""
    if found.get("text", "").endswith(CUT) and len(found["text"]) >= REPR_MAX:
        found["extra"].setdefault("truncated", []).append("text")
        print("[the text of a result was cut to %d characters]" % REPR_MAX, file=sys.stderr)


def encode(key, value):
    """A format's value as the protocol wants it; None when there is none."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        value = value[0]  # with metadata
    if value is None:
        return None
    if key in BINARY_KEYS and isinstance(value, (bytes, bytearray)):
        import base64
        return base64.b64encode(value).decode("ascii")
    if key in ANY_KEYS:
        return plain(value)
    return whole(value if isinstance(value, str) else str(value))


def call_repr(value, name, *args, **kwargs):
    method = getattr(value, name, None)
    if isinstance(value, type) or not callable(method):
        return None
    try:
        return method(*args, **kwargs)
    except Exception:
        print(format_error(*sys.exc_info()), file=sys.stderr, end="")
        return None


def bundle_of(value):
    """The formats of a value, by the protocol's keys, and other MIME types under "extra"."""
    found = {"extra": {}, "text": whole(strip_quotes(text_of(value)))}
    if not isinstance(value, type):
        found.update(special_formats(value))
    mimebundle = call_repr(value, "_repr_mimebundle_", include=None, exclude=None)
    if mimebundle is not None:
        add_mimebundle(found, mimebundle)
    for method, key in REPR_METHODS.items():
        if key not in found:
            add_format(found, key, call_repr(value, method))
    return found


def add_format(found, key, value):
    try:
        value = encode(key, value)
    except NotPlain:
        return
    if value is not None:
        found[key] = value


def add_mimebundle(found, mimebundle):
    if isinstance(mimebundle, tuple):
        mimebundle = mimebundle[0]
    for mime, value in mimebundle.items():
        if mime in MIME_KEYS:
            add_format(found, MIME_KEYS[mime], value)
            if mime == "text/plain":
                found["text"] = strip_quotes(found.get("text", ""))
        elif isinstance(value, bytes):
            found["extra"][mime] = encode("png", value)
        else:
            found["extra"][mime] = plain_or_text(value)


def special_formats(value):
    """Formats of values that bring no method for them."""
    found = {}
    if isinstance(value, (list, dict)):
        add_format(found, "json", value)
    elif is_a(value, "pandas", "DataFrame") and value.size <= CELLS_MAX:
        columns = value.to_dict("list")
        found["data"] = {plain_key(k): plain_or_text(v) for k, v in columns.items()}
    elif is_a(value, "matplotlib", "Figure"):
        found.update(figure_formats(value))
    elif is_a(value, "PIL", "Image"):
        add_format(found, "png", png_of_image(value))
    return found


def is_a(value, package, name):
    """Whether it is an instance of a class of a package, without importing the package."""
    return package in sys.modules and any(
        c.__name__ == name and (c.__module__ or "").split(".")[0] == package
        for c in type(value).__mro__)


def send_result(found, is_main):
    """Formats that make the line too long are left out, the largest first."""
    with driver.wire:
        driver.flush()
        while True:
            fields = dict(found, id=driver.wire.id, type="result", is_main_result=is_main)
            line = json.dumps(fields, allow_nan=False)
            if len(line) <= LINE_MAX:
                break
            largest = max((k for k in found), key=lambda k: len(json.dumps(found[k])))
            found[largest] = {} if largest == "extra" else None
            found = {k: v for k, v in found.items() if v is not None}
            found.setdefault("extra", {}).setdefault("truncated", []).append(largest)
            print("[the %s of a result is too large and was left out]" % largest, file=sys.stderr)
        if driver.is_child():
            os.write(1, (found.get("text", "") + "\n").encode("utf-8", "replace"))
        elif driver.wire.id is not None:
            driver.wire.write(line, more=is_main)


def show_value(value, is_main):
    own = getattr(value, "_ipython_display_", None)
    if callable(own) and not isinstance(value, type):
        own()
        return
    if is_a(value, "matplotlib", "Figure"):
        driver.shown.append(value)
    found = bundle_of(value)
    mark_cut(found)
    send_result(found, is_main)


def display(*values, raw=False, **_):
    """Shows values in all their formats. With raw, a value is a dict by MIME type."""
    for value in values:
        if raw:
            found = {"extra": {}}
            add_mimebundle(found, value)
            send_result(found, False)
        else:
            show_value(value, False)


def clear_output(*_, **__):
    """What has been sent has been sent."""


class Shown:
    """A value with one format, for display(): from data, a file or an address."""

    key = "text"
    binary = False

    def __init__(self, data=None, url=None, filename=None, **_):
        if data is None and filename is not None:
            with open(filename, "rb") as f:
                data = f.read()
        elif data is None and url is not None:
            import urllib.request
            with urllib.request.urlopen(url) as answer:
                data = answer.read()
        if isinstance(data, bytes) and not self.binary:
            data = data.decode("utf-8", "replace")
        self.data = data
        self.filename = filename

    def _repr_mimebundle_(self, include=None, exclude=None):
        mime = next(mime for mime, key in MIME_KEYS.items() if key == self.key)
        return {"text/plain": repr(self), mime: self.data}

    def __repr__(self):
        return "<%s object>" % type(self).__name__


class HTML(Shown):
    key = "html"


class Markdown(Shown):
    key = "markdown"


class Latex(Shown):
    key = "latex"


class Math(Latex):
    def __init__(self, data=None, **kwargs):
        super().__init__("$\\displaystyle %s$" % data.strip("$"), **kwargs)


class SVG(Shown):
    key = "svg"


class Javascript(Shown):
    key = "javascript"


class JSON(Shown):
    key = "json"

    def __init__(self, data=None, url=None, filename=None, **kwargs):
        super().__init__(data, url, filename, **kwargs)
        if isinstance(self.data, str):
            self.data = json.loads(self.data)


class Pretty(Shown):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.data}


class IFrame(HTML):
    def __init__(self, src, width="100%", height=400, **_):
        from html import escape
        super().__init__('<iframe src="%s" width="%s" height="%s"></iframe>'
                         % (escape(str(src)), width, height))


class Image(Shown):
    """PNG or JPEG bytes; others keep their MIME type. A string is a file or an address."""

    binary = True
    starts = {b"\x89PNG": "image/png", b"\xff\xd8": "image/jpeg", b"GIF8": "image/gif",
              b"RIFF": "image/webp", b"<svg": "image/svg+xml", b"<?xml": "image/svg+xml"}

    def __init__(self, data=None, url=None, filename=None, **kwargs):
        if isinstance(data, (str, os.PathLike)):
            data = os.fspath(data)
            if "://" in data:
                data, url = None, data
            else:
                data, filename = None, data
        super().__init__(data, url, filename, **kwargs)

    def _repr_mimebundle_(self, include=None, exclude=None):
        mime = next((m for s, m in self.starts.items() if self.data[:8].startswith(s)), "image/png")
        data = self.data.decode() if mime == "image/svg+xml" else self.data
        return {"text/plain": repr(self), mime: data}


HELPERS = (display, clear_output, HTML, Markdown, Latex, Math, SVG, Javascript, JSON, Pretty,
           IFrame, Image)


# matplotlib


def figure_formats(figure):
    import io
    image = io.BytesIO()
    found = {}
    # A figure need not have a canvas that can draw PNG: it may be made for another backend.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    FigureCanvasAgg(figure).print_figure(image, format="png", bbox_inches="tight",
                                         facecolor=figure.get_facecolor())
    add_format(found, "png", image.getvalue())
    try:
        add_format(found, "chart", chart_of_figure(figure) or {})
    except Exception as error:  # a chart is an extra: never the reason for a failure
        found["chart"] = {"type": "unknown", "title": None, "elements": [],
                          "error": whole(str(error))}
    return found


def show_figures(*_, **__):
    """plt.show(), and the end of a cell."""
    from matplotlib._pylab_helpers import Gcf
    try:
        for manager in Gcf.get_all_fig_managers():
            figure = manager.canvas.figure
            if not any(figure is shown for shown in driver.shown):
                show_value(figure, False)
    finally:
        Gcf.destroy_all()


def make_backend():
    """The module matplotlib takes for its backend: Agg whose show() sends the figures."""
    from matplotlib.backends import backend_agg
    module = types.ModuleType("atoll_matplotlib")
    for name, value in vars(backend_agg).items():
        if not name.startswith("__"):
            setattr(module, name, value)
    module.show = show_figures
    return module


def use_backend(matplotlib):
    if "MPLBACKEND" not in os.environ:
        matplotlib.rcParams["backend"] = "module://atoll_matplotlib"


def uses_backend():
    matplotlib = sys.modules.get("matplotlib")
    return (matplotlib and "matplotlib.pyplot" in sys.modules
            and matplotlib.get_backend() == "module://atoll_matplotlib")


def chart_of_figure(figure):
    """What the figure says, as data; None when it says nothing."""
    charts = [chart for chart in map(chart_of_axes, figure.axes) if chart]
    if len(charts) <= 1:
        return charts[0] if charts else None
    title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else (
        figure._suptitle.get_text() if figure._suptitle else "")
    return {"type": "superchart", "title": title or None, "elements": charts}


def chart_of_axes(ax):
    """By what was drawn: wedges, then bars, boxes, points, lines."""
    from matplotlib import collections, lines, patches
    drawn = [a for a in ax.get_children() if a in getattr(ax, "_children", [])]
    marks = [a for a in drawn if not (isinstance(a, lines.Line2D) and is_grid_line(a))]
    wedges = [a for a in marks if isinstance(a, patches.Wedge)]
    points = [a for a in marks if isinstance(a, collections.PathCollection)]
    curves = [a for a in marks if isinstance(a, lines.Line2D)]
    boxes = find_boxes(drawn)
    if wedges:
        return dict(chart_head(ax, "pie"), elements=pie_elements(ax, wedges))
    if boxes:
        return dict(chart_head(ax, "box_and_whisker"), **planar(ax),
                    elements=box_elements(ax, boxes, drawn))
    if any(bars.patches for bars in bar_containers(ax)):
        return bar_chart(ax)
    if points:
        return point_chart(ax, "scatter", [(a.get_label(), a.get_offsets()) for a in points])
    if curves:
        return point_chart(ax, "line", [(a.get_label(), a.get_xydata()) for a in curves])
    if marks:
        return dict(chart_head(ax, "unknown"), elements=[])
    return None


def chart_head(ax, kind):
    return {"type": kind, "title": ax.get_title() or None}


def planar(ax):
    labels = {"x": ax.get_xlabel() or None, "y": ax.get_ylabel() or None}
    return {"x_label": labels["x"], "y_label": labels["y"],
            "x_unit": unit_of(labels["x"]), "y_unit": unit_of(labels["y"])}


def unit_of(label):
    """Of "Time (s)" or "Time [s]"."""
    import re
    found = re.search(r"\s\((.+?)\)|\[(.+?)\]", label or "")
    return (found.group(1) or found.group(2)) if found else None


def is_grid_line(line):
    """Two points on a line along an axis: axhline() and the like."""
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == 2 and len(y) == 2 and (x[0] == x[1] or y[0] == y[1])


def scale_of(axis):
    """How its numbers are to be read: datetime, categorical, or what matplotlib calls it."""
    from matplotlib import category, dates
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    if isinstance(converter, category.StrCategoryConverter):
        return "categorical"
    if isinstance(axis.get_major_formatter(), dates.DateFormatter) or (
            converter is not None and "Date" in type(converter).__name__):
        return "datetime"
    labels = [t.get_text() for t in axis.get_ticklabels() if t.get_text()]
    if axis.get_scale() == "linear" and labels and not any(c.isdigit() for t in labels for c in t):
        return "categorical"
    return axis.get_scale()


def reading(value, scale):
    """A number of an axis as its scale means it."""
    if scale == "datetime":
        from matplotlib import dates
        return dates.num2date(value).isoformat()
    return float(value)


def point_chart(ax, kind, series):
    chart = dict(chart_head(ax, kind), **planar(ax))
    scales = {"x": scale_of(ax.xaxis), "y": scale_of(ax.yaxis)}
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [t for t in axis.get_majorticklocs()
                 if scales[name] != "datetime" or low <= t <= high]
        chart[name + "_ticks"] = [reading(t, scales[name]) for t in ticks]
        chart[name + "_tick_labels"] = [t.get_text() for t in axis.get_ticklabels()]
        chart[name + "_scale"] = scales[name]
    names = {"x": categories(ax.xaxis, scales["x"]), "y": categories(ax.yaxis, scales["y"])}
    chart["elements"] = [
        {"label": label_of(label, "Line" if kind == "line" else "Scatter", n),
         "points": [[coordinate(x, scales["x"], names["x"]), coordinate(y, scales["y"], names["y"])]
                    for x, y in data]}
        for n, (label, data) in enumerate(series)]
    return chart


def categories(axis, scale):
    units = getattr(axis, "units", None)
    mapping = getattr(units, "_mapping", None) if scale == "categorical" else None
    return {number: name for name, number in mapping.items()} if mapping else {}


def coordinate(value, scale, names):
    return names[value] if value in names else reading(value, scale)


def label_of(label, kind, n):
    """matplotlib's own names for what has none start with an underscore."""
    label = str(label or "")
    return "%s %d" % (kind, n) if not label or label.startswith("_") else label


def bar_containers(ax):
    from matplotlib.container import BarContainer
    return [c for c in ax.containers if isinstance(c, BarContainer)]


def bar_chart(ax):
    containers = bar_containers(ax)
    across = getattr(containers[0], "orientation", "vertical") == "horizontal"
    axis = ax.yaxis if across else ax.xaxis
    names = {round(float(at), 6): t.get_text()
             for at, t in zip(axis.get_majorticklocs(), axis.get_ticklabels())}
    elements = []
    for n, bars in enumerate(containers):
        for i, bar in enumerate(bars.patches):
            center = (bar.get_y() + bar.get_height() / 2) if across else (
                bar.get_x() + bar.get_width() / 2)
            elements.append({"label": bar_label(names, center, i, len(bars.patches)),
                             "group": label_of(bars.get_label(), "Group", n),
                             "value": float(bar.get_width() if across else bar.get_height())})
    chart = dict(chart_head(ax, "bar"), **planar(ax), elements=elements)
    if across:  # the labels are always on x
        chart["x_label"], chart["y_label"] = chart["y_label"], chart["x_label"]
        chart["x_unit"], chart["y_unit"] = chart["y_unit"], chart["x_unit"]
    return chart


def bar_label(names, center, index, count):
    """Of the tick below it; of grouped bars, which stand beside their tick, by their order."""
    if names.get(round(float(center), 6)):
        return names[round(float(center), 6)]
    if len(names) == count and all(names.values()):
        return list(names.values())[index]
    return "%g" % center


def pie_elements(ax, wedges):
    texts = [t.get_text() for t in ax.texts]
    # pie() writes label and percentage of each wedge in turn when it writes percentages.
    each = 2 if len(texts) >= 2 * len(wedges) else 1
    elements = []
    for n, wedge in enumerate(wedges):
        label = texts[n * each] if n * each < len(texts) else ""
        elements.append({"label": label or label_of(wedge.get_label(), "Wedge", n),
                         "angle": round(float(abs(wedge.theta2 - wedge.theta1)), 4),
                         "radius": float(wedge.r)})
    return elements


def find_boxes(drawn):
    """The corners of boxplot()'s boxes: 5 or, with notches, 11, and perhaps a closing one. They
    begin at the first quartile; the third is half-way round."""
    from matplotlib import lines, patches
    filled = [a for a in drawn if isinstance(a, patches.PathPatch)
              and len(a.get_path().vertices) in (5, 6, 11, 12)]
    if filled:
        return [a.get_path().vertices for a in filled]
    return [a.get_xydata() for a in drawn if isinstance(a, lines.Line2D)
            and len(a.get_xdata()) in (5, 11)
            and tuple(a.get_xydata()[0]) == tuple(a.get_xydata()[-1])]


def box_elements(ax, boxes, drawn):
    from matplotlib import lines
    others = [a.get_xydata() for a in drawn if isinstance(a, lines.Line2D)]
    across = boxes_lie(boxes, others)
    axis = ax.yaxis if across else ax.xaxis
    names = {round(float(at), 6): t.get_text()
             for at, t in zip(axis.get_majorticklocs(), axis.get_ticklabels())}
    return [box_element(box, others, 1 if across else 0, names) for box in boxes]


def boxes_lie(boxes, others):
    """Whether they are horizontal: their medians are then upright lines of two points."""
    box = boxes[0]
    low, high = box.min(axis=0), box.max(axis=0)
    for line in others:
        if len(line) != 2 or line[0][1] == line[1][1]:  # the whisker of a quartile has no length
            continue
        if line[0][0] == line[1][0] and low[0] <= line[0][0] <= high[0]:
            if min(line[0][1], line[1][1]) >= low[1] and max(line[0][1], line[1][1]) <= high[1]:
                return True
    return False


def box_element(box, others, side, names):
    """side: the coordinate along which boxes stand beside each other; values are on the other."""
    value = 1 - side
    center = (box[:, side].min() + box[:, side].max()) / 2
    low, high = float(box[0][value]), float(box[len(box) // 2][value])
    whisker_ends, outliers, levels = [low, high], [], []
    for line in others:
        if not len(line) or abs((line[:, side].min() + line[:, side].max()) / 2 - center) > 1e-9:
            continue
        along = line[:, value]
        if len(line) == 2 and along[0] != along[1]:
            whisker_ends += [float(along[0]), float(along[1])]
        elif len(line) == 2 and line[0][side] != line[1][side] and low <= along[0] <= high:
            levels.append((abs(line[1][side] - line[0][side]), float(along[0])))
        elif line[:, side].min() == line[:, side].max():
            outliers += [float(v) for v in along if not low <= v <= high]
    ends = (min(whisker_ends), max(whisker_ends))
    # A whisker without length puts its cap on the edge of the box, where the median may be too:
    # that is the wider one. Within the box the median comes before a line for the mean.
    within = [level for _, level in levels if low < level < high]
    median = within[0] if within else max(levels)[1] if levels else None
    return {"label": names.get(round(float(center), 6)) or "%g" % center,
            "min": ends[0], "first_quartile": low, "median": median, "third_quartile": high,
            "max": ends[1], "outliers": [v for v in outliers if not ends[0] <= v <= ends[1]]}


# Other libraries


def png_of_image(image):
    import io
    data = io.BytesIO()
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I"):
        image = image.convert("RGB")
    driver.save_image(image, data, format="PNG")
    return data.getvalue()


def show_images(module):
    """Pillow: show() displays, and so does save() called by the code itself."""
    driver.save_image = module.Image.save

    def save(self, fp, format=None, **options):
        driver.save_image(self, fp, format, **options)
        if sys._getframe(1).f_globals is driver.namespace and isinstance(fp, (str, os.PathLike)):
            display(self)

    module.Image.save = save
    module.Image.show = lambda self, *_, **__: display(self)


def show_plotly(module):
    """plotly: its MIME type and HTML, without what its own ways to show need of a notebook."""
    figure = module.BaseFigure
    figure.show = lambda self, *_, **__: display(self)
    figure._ipython_display_ = None
    figure._repr_html_ = lambda self: self.to_html(full_html=False, include_plotlyjs="cdn")


def use_plotly_formats(module):
    if "PLOTLY_RENDERER" not in os.environ:
        module.renderers.default = "plotly_mimetype"


def replace_display(module):
    module.display = display


AFTER_IMPORT = {
    "matplotlib": use_backend,
    "PIL.Image": show_images,
    "plotly.basedatatypes": show_plotly,
    "plotly.io": use_plotly_formats,
    "IPython.core.display_functions": replace_display,
}


class Importer:
    """Calls AFTER_IMPORT when the code imports such a module; nothing is imported ahead."""

    def find_spec(self, name, path=None, target=None):
        if name not in AFTER_IMPORT:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec and spec.loader:
                self.wrap(spec.loader, AFTER_IMPORT[name])
                return spec
        return None

    def wrap(self, loader, after):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            after(module)

        loader.exec_module = exec_module


class StandIn:
    """The last finder: IPython.display and the like where IPython is not installed."""

    modules = ("IPython", "IPython.display", "IPython.core", "IPython.core.display",
               "IPython.core.display_functions", "IPython.core.getipython", "atoll_matplotlib")

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        return make_backend() if spec.name == "atoll_matplotlib" else None

    def exec_module(self, module):
        if module.__name__ == "atoll_matplotlib":
            return
        for helper in HELPERS:
            setattr(module, helper.__name__, helper)
        # Libraries ask this whether they are in a notebook, and then expect all of it.
        module.get_ipython = lambda: None
        module.version_info = (0, 0)


# Magics


class UsageError(Exception):
    pass


class Shell:
    """What get_ipython() returns: commands and magics."""

    def system(self, command):
        """Output goes to descriptors 1 and 2, which are captured."""
        import subprocess
        sys.stdout.flush()
        # A sandbox has no system Python worth protecting from pip.
        env = dict(os.environ, PIP_BREAK_SYSTEM_PACKAGES="1")
        argv = command if isinstance(command, list) else ["/bin/bash", "-c", expand(command)]
        if not isinstance(command, list) and not os.path.exists("/bin/bash"):
            argv[0] = "/bin/sh"
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
        status = self.wait(child)
        driver.namespace["_exit_code"] = status if status >= 0 else 128 - status
        return None

    def wait(self, child):
        try:
            return child.wait()
        except KeyboardInterrupt:
            self.stop(child)
            raise

    def stop(self, child):
        import subprocess
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
                child.wait(1)
                return
            except subprocess.TimeoutExpired:
                pass
            except ProcessLookupError:
                return

    def getoutput(self, command):
        import subprocess
        done = subprocess.run(["/bin/sh", "-c", expand(command)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode("utf-8", "replace").splitlines()

    def run_line_magic(self, name, line, *_):
        if name not in LINE_MAGICS:
            raise UsageError("there is no magic %%%s; there are: %s"
                             % (name, ", ".join("%" + n for n in sorted(LINE_MAGICS))))
        return LINE_MAGICS[name](line if name in ("time", "timeit") else expand(line))

    magic = run_line_magic

    def run_cell_magic(self, name, line, cell):
        if name not in CELL_MAGICS:
            raise UsageError("there is no magic %%%%%s; there are: %s"
                             % (name, ", ".join("%%" + n for n in sorted(CELL_MAGICS))))
        return CELL_MAGICS[name](expand(line), cell)

    def run_cell(self, source, **_):
        return driver.evaluate(source)


def os_system(command):
    """os.system(), which else would ignore SIGINT while the command runs."""
    import subprocess
    sys.stdout.flush()
    status = shell.wait(subprocess.Popen(["/bin/sh", "-c", command], start_new_session=True))
    return -status if status < 0 else status << 8


def expand(text):
    """{expression} and $name where the code's variables know them; the rest is the shell's."""
    import re

    def value(match):
        doubled, expression, name = match.groups()
        if doubled:
            return doubled[1:]
        try:
            return str(eval(expression or name, driver.namespace))
        except Exception:
            return match.group(0)

    return re.sub(r"(\$\$\w+)|\{([^{}\s][^{}]*)\}|\$([A-Za-z_]\w*)", value, text)


def magic_cd(line):
    before = os.getcwd()
    target = strip_quotes(line.strip()) or "~"
    if target == "-":
        target = driver.namespace.get("_before_cd", ".")
    os.chdir(os.path.expanduser(target))
    driver.namespace["_before_cd"] = before
    print(os.getcwd())


def magic_env(line):
    name, given, value = line.strip().replace(" ", "=", 1).partition("=")
    if given:
        os.environ[name] = value.strip()
        print("env: %s=%s" % (name, value.strip()))
        return None
    return os.environ.get(name) if name else dict(os.environ)


def magic_time(code):
    wall, used = time.perf_counter(), time.process_time()
    value = driver.evaluate(code)
    print("CPU times: %s\nWall time: %s" % (seconds(time.process_time() - used),
                                            seconds(time.perf_counter() - wall)))
    return value


def magic_timeit(code):
    import re
    import timeit
    counts, code = {"n": 0, "r": 5}, code.lstrip()
    while match := re.match(r"-([nr]) ?(\d+)(\s+|$)", code):
        counts[match[1]], code = max(int(match[2]), 1), code[match.end():]
    timer = timeit.Timer(code.strip() or "pass", globals=driver.namespace)
    number = counts["n"] or timer.autorange()[0]
    best = [t / number for t in timer.repeat(counts["r"], number)]
    print("%s per loop (best of %d runs, %d loops each)" % (seconds(min(best)), len(best), number))


def seconds(value):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return "%.3g %s" % (value / size, unit)
    return "%.3g ns" % (value / 1e-9)


def magic_pip(line):
    import importlib
    import shlex
    shell.system([sys.executable, "-m", "pip", "--disable-pip-version-check"] + shlex.split(line))
    importlib.invalidate_caches()


def magic_run(line):
    import runpy
    import shlex
    argv, sys.argv = sys.argv, shlex.split(line)
    try:
        defined = runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.argv = argv
    driver.namespace.update({k: v for k, v in defined.items() if not k.startswith("__")})


def magic_who(_):
    print("   ".join(sorted(n for n in driver.namespace if not n.startswith("_"))))


def cell_writefile(line, cell):
    append, _, name = line.strip().rpartition(" ")
    name = os.path.expanduser(strip_quotes(name))
    existed = os.path.exists(name)
    with open(name, "a" if append == "-a" else "w") as f:
        f.write(cell)
    print(("Appending to " if append == "-a" else "Overwriting " if existed else "Writing ") + name)


def cell_script(program):
    def run(line, cell):
        import subprocess
        shell.system([program, "-c", cell] + line.split())
        status = driver.namespace.get("_exit_code")
        if status:
            raise subprocess.CalledProcessError(status, program)
    return run


def ignore(*_):
    return None


LINE_MAGICS = {
    "cd": magic_cd, "pwd": lambda _: os.getcwd(), "env": magic_env, "set_env": magic_env,
    "time": magic_time, "timeit": magic_timeit, "pip": magic_pip, "run": magic_run,
    "who": magic_who, "matplotlib": ignore, "config": ignore, "load_ext": ignore,
    "autoreload": ignore, "pylab": ignore, "sx": lambda line: shell.getoutput(line),
    "system": lambda line: shell.system(line), "ls": lambda line: shell.system("ls " + line),
}
CELL_MAGICS = {
    "bash": cell_script("bash"), "sh": cell_script("sh"), "script": lambda line, cell:
    cell_script(line.split()[0])("", cell), "writefile": cell_writefile, "file": cell_writefile,
    "time": lambda line, cell: magic_time(line + "\n" + cell),
    "timeit": lambda line, cell: magic_timeit(line + "\n" + cell),
    "html": lambda _, cell: display(HTML(cell)),
    "markdown": lambda _, cell: display(Markdown(cell)),
    "latex": lambda _, cell: display(Latex(cell)), "svg": lambda _, cell: display(SVG(cell)),
    "javascript": lambda _, cell: display(Javascript(cell)),
    "js": lambda _, cell: display(Javascript(cell)), "capture": lambda line, cell:
    capture(line, cell),
    "python": lambda _, cell: driver.evaluate(cell),
}


class Captured:
    """What %%capture NAME leaves: prints itself when called."""

    def __init__(self):
        self.stdout = self.stderr = ""

    def __call__(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    show = __call__


def capture(line, cell):
    import contextlib
    import io
    captured, out, err = Captured(), io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            driver.evaluate(cell)
    finally:
        captured.stdout, captured.stderr = out.getvalue(), err.getvalue()
        for name in line.split():
            if name.isidentifier():
                driver.namespace[name] = captured


def dedent(source):
    """Without the indentation of its first line, where every line has it."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[:len(first) - len(first.lstrip())]
    if not indent:
        return source
    return "\n".join(l[len(indent):] if l.startswith(indent) else l.lstrip() if not l.strip() else l
                     for l in lines)


def without_magics(source):
    """Python in place of magics. Lines stay where they are, for tracebacks."""
    stripped = source.lstrip()
    if stripped.startswith("%%") and stripped[2:3].isalpha():
        head, _, cell = stripped[2:].partition("\n")
        name, _, line = head.partition(" ")
        return "get_ipython().run_cell_magic(%r, %r, %r)" % (name, line.strip(), cell)
    if "!" not in source and "%" not in source:
        return source
    lines, out, at = source.split("\n"), [], 0
    state = Scanner()
    while at < len(lines):
        line = lines[at]
        at += 1
        if state.at_start():
            extra = 0
            while is_magic(line) and line.endswith("\\") and at < len(lines):
                line, at, extra = line[:-1] + lines[at], at + 1, extra + 1
            replaced = replace_magic(line)
            if replaced is not None:
                out += [replaced] + [""] * extra
                continue
        state.feed(line)
        out.append(line)
    return "\n".join(out)


def is_magic(line):
    return line.lstrip()[:1] in ("!", "%")


def replace_magic(line):
    import re
    body = line.lstrip()
    indent = line[:len(line) - len(body)]
    if body.startswith("!!"):
        return "%sget_ipython().getoutput(%r)" % (indent, body[2:])
    if body.startswith("!"):
        return "%sget_ipython().system(%r)" % (indent, body[1:])
    found = re.match(r"%([A-Za-z_]\w*)[ \t]*(.*)$", body)
    if found:
        return "%sget_ipython().run_line_magic(%r, %r)" % (indent, *found.groups())
    found = re.match(r"([\w.,\s\[\]'\"]+?)=\s*(!|%(?=[A-Za-z]))(.*)$", body)
    if found and found.group(2) == "!":
        return "%s%s= get_ipython().getoutput(%r)" % (indent, found.group(1), found.group(3))
    if found:
        name, _, rest = found.group(3).partition(" ")
        return "%s%s= get_ipython().run_line_magic(%r, %r)" % (indent, found.group(1), name, rest)
    return None


class Scanner:
    """Whether a line of source begins a statement, or goes on in a string or in brackets."""

    def __init__(self):
        self.depth = 0
        self.string = None
        self.continued = False

    def at_start(self):
        return not self.depth and not self.string and not self.continued

    def feed(self, line):
        i = 0
        while i < len(line):
            c = line[i]
            if self.string:
                if c == "\\":
                    i += 1
                elif line.startswith(self.string, i):
                    i += len(self.string) - 1
                    self.string = None
            elif c == "#":
                break
            elif c in "'\"":
                self.string = c * 3 if line.startswith(c * 3, i) else c
                i += len(self.string) - 1
            elif c in "([{":
                self.depth += 1
            elif c in ")]}":
                self.depth = max(0, self.depth - 1)
            i += 1
        self.continued = line.endswith("\\")
        if self.string and len(self.string) == 1 and not self.continued:
            self.string = None  # an unfinished string: Python will say so


# Cells


def format_error(kind, error, trace):
    """A traceback without the driver's own frames."""
    import traceback

    def clean(formatted, depth=0):
        frames = [f for f in formatted.stack if f.filename != DRIVER_FILE]
        cells = [n for n, f in enumerate(frames) if f.filename.startswith("<cell ")]
        formatted.stack[:] = frames[cells[0]:] if cells else (
            [] if kind is KeyboardInterrupt else frames)
        for other in [formatted.__cause__, formatted.__context__] + list(
                getattr(formatted, "exceptions", None) or []):
            if other is not None and depth < 20:
                clean(other, depth + 1)

    formatted = traceback.TracebackException(kind, error, trace, compact=True) if (
        sys.version_info >= (3, 10)) else traceback.TracebackException(kind, error, trace)
    clean(formatted)
    return "".join(formatted.format())


def no_input(prompt=""):
    raise EOFError("input() has nobody to ask here: put the value into the code instead")


class Driver:
    def __init__(self):
        self.pid = os.getpid()
        self.requests = os.fdopen(os.dup(0), "rb")
        self.wire = Wire(os.dup(1))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self.pipes = Pipes(self.wire)
        self.streams = (Stream(self, "stdout", 1), Stream(self, "stderr", 2))
        self.count = 0
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.shown = []  # figures of this cell that were sent already
        self.loop = None
        self.save_image = None
        self.namespace = None

    def is_child(self):
        return os.getpid() != self.pid

    def prepare(self):
        """The process as the code shall see it."""
        main = types.ModuleType("__main__")
        main.__builtins__ = builtins
        main.__annotations__ = {}
        sys.modules["atoll_driver"] = sys.modules["__main__"]
        sys.modules["__main__"] = main
        self.namespace = vars(main)
        sys.argv = [""]
        sys.path[0] = ""
        sys.stdin = sys.__stdin__ = NoInput()
        sys.stdout, sys.stderr = self.streams
        sys.__stdout__, sys.__stderr__ = self.streams
        sys.meta_path.insert(0, Importer())
        sys.meta_path.append(StandIn())
        builtins.input = no_input
        os.system = os_system
        builtins.get_ipython = lambda: shell
        for helper in HELPERS:
            setattr(builtins, helper.__name__, helper)
        signal.signal(signal.SIGINT, self.wire.interrupt)
        os.register_at_fork(after_in_child=self.after_fork)
        threading.Thread(target=self.pipes.pump, args=(self.streams,), daemon=True).start()

    def after_fork(self):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.wire.lock = threading.RLock()
        self.wire.main = None
        for stream in self.streams:
            stream.waiting = {}

    def flush(self):
        for stream in self.streams:
            stream.flush()
        if "ctypes" in sys.modules and not self.is_child():  # as is, once C libraries are in play
            try:
                sys.modules["ctypes"].CDLL(None).fflush(None)
            except (OSError, AttributeError):
                pass
        with self.wire:
            if not self.is_child():
                self.pipes.drain()

    def compile(self, source, name):
        """The statements, and the last one apart when it is an expression to show."""
        import __future__
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | self.flags, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        codes = [compile(tree, name, "exec", self.flags, True)]
        for feature in __future__.all_feature_names:
            self.flags |= codes[0].co_flags & getattr(__future__, feature).compiler_flag
        if last:
            codes.append(compile(last, name, "eval", self.flags, True))
        return codes

    def evaluate(self, source, name=None):
        """Runs a cell; the value of its last expression."""
        import linecache
        source = dedent(source)
        name = name or "<cell %d>" % self.count
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        try:
            codes = self.compile(source, name)
        except SyntaxError:
            changed = without_magics(source)
            if changed == source:
                raise
            codes = None
        if codes is None:
            codes = self.compile(changed, name)
        value = None
        for code in codes:
            value = eval(code, self.namespace)
            if code.co_flags & 0x80:  # CO_COROUTINE: it awaits
                value = self.wait(value)
        return value if len(codes) == 2 else None

    def set_loop(self):
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def keep_loop(self):
        """asyncio.run() leaves no event loop behind, which the code of the next cell may expect."""
        if "asyncio" not in sys.modules:
            return
        import asyncio
        import warnings
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # there may be none, and then it is made
                asyncio.get_event_loop()
        except RuntimeError:
            self.set_loop()

    def wait(self, coroutine):
        import asyncio
        self.set_loop()
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        finally:
            if not task.done():
                task.cancel()
                self.loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    def run(self, source):
        """One cell with everything it shows. Returns the error's fields, or None."""
        import linecache
        linecache.cache.pop("<cell %d>" % (self.count - CELLS_KEPT), None)
        error = None
        self.shown = []
        self.keep_loop()
        try:
            self.wire.interruptible = True
            try:
                value = self.evaluate(source)
                if value is not None:
                    self.namespace["_"] = value
                    if not source.rstrip().endswith(";"):
                        show_value(value, True)
            finally:
                self.wire.interruptible = False
        except BaseException:
            error = sys.exc_info()
        self.wire.interruptible = False
        figures_error = self.finish_figures(error)
        self.flush()
        error = error or figures_error
        return self.describe(*error) if error else None

    def finish_figures(self, error):
        if not uses_backend():
            return None
        try:
            if error and error[0] is KeyboardInterrupt:
                sys.modules["matplotlib.pyplot"].close("all")
            self.wire.interruptible = True
            show_figures()
        except BaseException:
            return sys.exc_info()
        finally:
            self.wire.interruptible = False
        return None

    def describe(self, kind, error, trace):
        try:
            value = str(error)
        except Exception:
            value = "<no text>"
        return {"name": whole(kind.__name__), "value": whole(value[:REPR_MAX]),
                "traceback": whole(format_error(kind, error, trace)[:REPR_MAX])}

    def execute(self, request):
        env = request.get("env") or {}
        before = {name: os.environ.get(name) for name in env}
        self.count += 1
        self.wire.begin(request["id"], self.count)
        self.wire.wake()  # the pump looks after half-printed lines while an execution runs
        os.environ.update(env)
        error = self.run(request["code"])
        if self.is_child():  # the code forked and came back
            os._exit(0)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if error:
            self.wire.send("error", **error)
        self.wire.end()

    def warm(self):
        """Imports the modules that the environment wants to be loaded already. False: one failed."""
        for name in os.environ.pop("ATOLL_WARM", "").split():
            try:
                importlib.import_module(name)
            except BaseException as error:
                with self.wire:
                    self.wire.write(json.dumps({"type": "failed", "text": whole(
                        "cannot import %r: %s: %s" % (name, type(error).__name__, error))[:2000]}))
                return False
        self.flush()
        with self.wire:  # what they print is not output of the first execution
            self.wire.late, self.wire.late_bytes, self.wire.late_lost = [], 0, 0
        return True

    def serve(self):
        with self.wire:
            self.wire.write(json.dumps({"type": "ready", "language": "python",
                                        "version": sys.version.split()[0]}))
        for line in self.requests:
            request = json.loads(line)
            if request.get("op") == "execute":
                self.execute(request)
        os._exit(0)


# Scripts: code that is the whole program, with the charts of figures that it shows


class PyplotFinder:
    """Replaces show() of pyplot when a script imports it."""

    def find_spec(self, name, path, target=None):
        if name != "matplotlib.pyplot":
            return None
        import importlib.util
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module if spec else None

        def run_and_replace(module):
            run(module)
            module.show = print_charts

        if spec:
            spec.loader.exec_module = run_and_replace
        return spec


def print_charts(*_, **__):
    """One line for each figure, which the daemon takes out of the output."""
    from matplotlib._pylab_helpers import Gcf
    try:
        for manager in Gcf.get_all_fig_managers():
            found = figure_formats(manager.canvas.figure)
            chart = dict(found.get("chart") or {"type": "unknown", "elements": []})
            if chart["type"] == "superchart":
                chart["type"] = "composite_chart"
            chart["png"] = found.get("png")
            print("dtn_artifact_k39fd2:" + json.dumps({"type": "chart", "value": chart}), flush=True)
    finally:
        Gcf.destroy_all()


def run_script(source):
    """As Python runs its standard input."""
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    sys.argv[0] = "-"
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.meta_path.insert(0, PyplotFinder())
    try:
        exec(compile(source, "<stdin>", "exec"), vars(main))
    except SystemExit:
        raise
    except BaseException:
        kind, value, trace = sys.exc_info()
        value.__traceback__ = trace.tb_next  # without this function
        sys.excepthook(kind, value, value.__traceback__)
        sys.exit(1)


if __name__ == "__main__":
    shell = Shell()
    driver = Driver()
    driver.prepare()
    if not driver.warm():
        os._exit(1)
    driver.serve()
