"""`atoll bench`: that the figures are there and nothing else is left, never what they are."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import SimpleNamespace

from daemons import ROOT


def test_figures(daemon, tmp_path):
    picture = tmp_path / "figures.svg"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run([daemon.build / "atoll", "bench", "--json", "--quick", "--only", "exec",
                           "--svg", picture], env={**daemon.env, "TMPDIR": str(scratch)},
                          capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    ours = next(row for row in figures["results"] if row["name"] == "atoll")
    assert ours["measure"] == "exec" and ours["unit"] == "ms" and "problem" not in ours
    assert ours["rounds"] == len(ours["samples"]) == 10
    assert ours["samples"] == sorted(ours["samples"]) and ours["samples"][0] > 0
    assert ours["p50"] in ours["samples"] and ours["p95"] in ours["samples"]
    # What cannot be measured here says why, and everything else has a figure.
    assert all(("p50" in row) != ("problem" in row) for row in figures["results"])
    assert all(row["walls"] for row in figures["results"])
    words = "".join(ElementTree.parse(picture).getroot().itertext())
    assert "`true` in a running sandbox" in words and "own uids" in words
    assert daemon.json("ls")["sandboxes"] == []
    assert list(scratch.iterdir()) == []


def test_traffic(daemon):
    """A file, a server and an interpreter inside are really there, or these would fail."""
    for measure in ("upload", "preview", "code"):
        done = daemon.atoll("bench", "--quick", "--only", measure, check=True)
        assert "own uids" in done.stdout and ", atoll: " not in done.stdout
    assert daemon.json("ls")["sandboxes"] == []


def test_pooled_starts_are_not_made_up(daemon):
    """A daemon without a pool has no figure for it, and says how to get one."""
    done = daemon.atoll("bench", "--quick", "--only", "start", check=True)
    assert "start, atoll, pooled: no sandbox was ready; start the daemon with --pool 8" in done.stdout
    assert "  atoll, cold " in done.stdout and "  atoll, pooled " not in done.stdout


def test_unknown_measure(daemon):
    done = daemon.atoll("bench", "--only", "speed")
    assert done.returncode == 2
    assert 'there is no measure "speed"; known are start, exec, rate' in done.stderr


def test_a_measurement_that_breaks_loses_no_other(monkeypatch):
    """Of `make bench`."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests" / "bench"), *sys.path])
    loader = SourceFileLoader("bench_run", str(ROOT / "tests" / "bench" / "run"))
    run = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(run)
    problems = {}
    bench = SimpleNamespace(daemons=SimpleNamespace(stop_warm=lambda: None), notes=[],
                            failed=problems.__setitem__)

    def breaks(fleet):
        raise FileNotFoundError("/bin/busybox")

    monkeypatch.setattr(run.scale, "Fleet", lambda *_: None)
    monkeypatch.setattr(run, "SCALE", {"broken": (breaks, (), ()), "works": (lambda _: 1, (), ())})
    assert run.measure_scale(["broken", "works"], False, None, bench) == {"works": 1}
    assert "busybox" in problems["broken"]
