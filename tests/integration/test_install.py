"""`make install`: what lands where, and that it works from there; libatoll from a program's side."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from listening import listening_daemon
from rest import Rest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("ATOLL_BUILD", "build")
EXAMPLE = ROOT / "examples/c/hello.c"


def build_option(name):
    options = json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text())
    return next(option["value"] for option in options if option["name"] == name)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The prefix below a DESTDIR. Nothing is rebuilt, as the build is somebody else's."""
    destination = tmp_path_factory.mktemp("dest")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True,
                   env={**os.environ, "DESTDIR": str(destination)}, stdout=subprocess.DEVNULL)
    return destination / build_option("prefix").lstrip("/")


@pytest.fixture(scope="module")
def package(installed):
    """pkg-config for what was installed."""
    directory = next(installed.rglob("libatoll.pc")).parent
    destination = str(installed).removesuffix(build_option("prefix"))
    env = {"PATH": os.environ["PATH"], "PKG_CONFIG_SYSROOT_DIR": destination,
           "PKG_CONFIG_PATH": str(directory)}

    def ask(*args):
        return subprocess.run(["pkg-config", *args, "libatoll"], env=env, check=True,
                              capture_output=True, text=True).stdout.split()

    return ask


def compile_example(output, *args, source=EXAMPLE):
    compiler = ["clang", "-fsanitize=address,undefined"] if build_option("sanitize") else ["gcc"]
    subprocess.run([*compiler, "-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source,
                    *args, "-o", output], check=True)


def test_everything_is_where_it_belongs(installed):
    for path in ("bin/atoll", "bin/atolld", "libexec/atoll/atoll-spawn", "libexec/atoll/atoll-agent",
                 "libexec/atoll/atoll-sudo", "libexec/atoll/atoll-probe", "libexec/atoll/atoll-egress",
                 "libexec/atoll/atoll-unpack", "libexec/atoll/atoll-copy", "libexec/atoll/atoll-diff"):
        assert os.access(installed / path, os.X_OK), path
    for path in ("include/atoll/atoll.h", "lib/systemd/system/atolld.service",
                 "share/atoll/registry/environments/Python3.yaml", "share/atoll/drivers/manifest.json",
                 "share/atoll/clients/vercel/vercel.mjs",
                 "share/man/man1/atoll.1", "share/man/man1/atoll-template-build.1",
                 "share/bash-completion/completions/atoll", "share/zsh/site-functions/_atoll",
                 "share/fish/vendor_completions.d/atoll.fish"):
        assert (installed / path).is_file(), path
    assert list(installed.rglob("libatoll.so.0")) and list(installed.rglob("libatoll.a"))


def test_only_the_public_names_are_visible(installed):
    library = next(installed.rglob("libatoll.so.0"))
    archive = next(installed.rglob("libatoll.a"))
    for args in (["-D", library], ["-g", archive]):
        shown = subprocess.run(["nm", "--defined-only", *args], check=True, capture_output=True,
                               text=True).stdout
        names = {line.split()[2].split("@")[0] for line in shown.splitlines()
                 if len(line.split()) == 3}
        ours = {name for name in names if not name.startswith(("__asan", "__odr_asan", "ATOLL_"))}
        assert ours and all(name.startswith("atoll_client_") for name in ours)
    header = (installed / "include/atoll/atoll.h").read_text()
    assert {name for name in ours if f"{name}(" not in header} == set()


def test_the_header_needs_nothing_else(installed):
    for compiler in ("gcc", "g++"):
        if not shutil.which(compiler):
            continue
        language = "c++" if compiler == "g++" else "c"
        subprocess.run([compiler, "-x", language, "-fsyntax-only", "-Wall", "-Werror", "-"],
                       input=f'#include "{installed}/include/atoll/atoll.h"\n', text=True, check=True)


def test_the_example_runs_against_the_installed_library(daemon, installed, package, tmp_path):
    compile_example(tmp_path / "hello", *package("--cflags", "--libs"))
    library = next(installed.rglob("libatoll.so.0")).parent
    done = subprocess.run([tmp_path / "hello"], capture_output=True, text=True, timeout=60,
                          env={**daemon.env, "LD_LIBRARY_PATH": str(library)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "hello from user\nand from outside\nit exited with 3\n"
    assert daemon.json("ls")["sandboxes"] == []


def test_the_example_compiles_from_the_build_tree(daemon, tmp_path):
    """With the command of examples/README.md, and as pkg-config says it."""
    (tmp_path / "build").symlink_to(BUILD)
    for name in ("include", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    text = (ROOT / "examples/README.md").read_text()
    command = re.search(r"^ *cc (examples/c/hello.c .*)$", text, re.MULTILINE)[1]
    compiler = "clang -fsanitize=address,undefined" if build_option("sanitize") else "cc"
    by_package = ("examples/c/hello.c $(PKG_CONFIG_PATH=build/meson-uninstalled pkg-config --cflags "
                  "--libs libatoll) -Wl,-rpath,$PWD/build -o hello")
    for line in (command, by_package):
        subprocess.run(["sh", "-ec", f"{compiler} {line}"], cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "hello"], env=daemon.env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "") and "it exited with 3" in done.stdout
        (tmp_path / "hello").unlink()


def test_every_part_of_the_library(daemon, installed, package, tmp_path):
    compile_example(tmp_path / "tour", *package("--cflags", "--libs"),
                    source=Path(__file__).with_name("libatoll_tour.c"))
    library = next(installed.rglob("libatoll.so.0")).parent
    done = subprocess.run([tmp_path / "tour"], capture_output=True, text=True, timeout=60,
                          env={**daemon.env, "LD_LIBRARY_PATH": str(library)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["results", "processes", "terminals", "files", "git", "states",
                                   "sessions", "done"]


def test_the_example_can_be_linked_statically(daemon, installed, package, tmp_path):
    archive = next(installed.rglob("libatoll.a"))
    libraries = [arg for arg in package("--libs", "--static") if arg != "-latoll"]
    compile_example(tmp_path / "hello", *package("--cflags"), archive, *libraries)
    done = subprocess.run([tmp_path / "hello"], env=daemon.env, capture_output=True, text=True)
    assert done.returncode == 0 and "it exited with 3" in done.stdout


def test_the_example_says_what_is_wrong(daemon, installed, package, tmp_path):
    compile_example(tmp_path / "hello", *package("--cflags", "--libs"))
    library = next(installed.rglob("libatoll.so.0")).parent
    done = subprocess.run([tmp_path / "hello"], capture_output=True, text=True,
                          env={**daemon.env, "LD_LIBRARY_PATH": str(library),
                               "ATOLL_SOCKET": str(tmp_path / "none.sock")})
    assert done.returncode == 1
    assert "(unavailable)" in done.stderr and "atoll up" in done.stderr


def test_the_installed_daemon_works(installed, tmp_path):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ATOLL_STATE": str(tmp_path / "state"),
           "ATOLL_SOCKET": str(tmp_path / "s")}
    atoll = installed / "bin/atoll"
    try:
        subprocess.run([atoll, "up", "--no-listen"], env=env, check=True, capture_output=True)
        done = subprocess.run([atoll, "run", "--", "echo", "from the installed one"], env=env,
                              capture_output=True, text=True)
        assert done.stdout == "from the installed one\n"
        assert "Python3" in Rest(env["ATOLL_SOCKET"]).get("/api/registry").json["environments"]
    finally:
        subprocess.run([atoll, "down"], env=env, check=True, capture_output=True)


@pytest.mark.parametrize("place", ["prefix", "it's a \"place\""])
def test_the_installed_variables_for_vercel(installed, tmp_path, place):
    """`atoll vercel env` in a shell: Node loads the installed file, which finds the daemon."""
    prefix = tmp_path / place
    for path in ("bin/atoll", "share/atoll/clients/vercel/vercel.mjs"):
        (prefix / path).parent.mkdir(parents=True)
        shutil.copy(installed / path, prefix / path)
    script = """eval "$(atoll vercel env --url "$0")"; eval "$(atoll vercel env --url "$0")"
                printf '%s\\n' "$VERCEL_TEAM_ID" "$NODE_OPTIONS"
                if command -v node >/dev/null; then exec node -e "$1"; fi"""
    ask = "fetch('https://vercel.com/api/v2/sandboxes').then(async (a) => console.log(a.status, (await a.text()).trim()))"
    with listening_daemon() as (daemon, address):
        done = subprocess.run(["sh", "-ec", script, f"http://{address[0]}:{address[1]}", ask],
                              capture_output=True, text=True, timeout=60, env={
                                  **daemon.env, "NODE_OPTIONS": "--no-warnings",
                                  "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr
    team, options, *answer = done.stdout.splitlines()
    assert team == "team_atoll" and options.startswith('--no-warnings --import="'), options
    assert options.count("--import") == 1
    for way in ("atoll session create vercel-node24", "atoll template debian debian && atoll template tag debian bookworm"):
        assert way in done.stderr  # this daemon has not built it
    assert not shutil.which("node") or answer == ['200 {"sandboxes":[],"pagination":{"count":0,"next":null}}'], answer


def test_the_unit_is_valid(installed, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    # The program is not where it will be, so the unit is shown one that is.
    text = (installed / "lib/systemd/system/atolld.service").read_text()
    unit = tmp_path / "atolld.service"
    unit.write_text(text.replace(build_option("prefix") + "/bin", str(installed / "bin")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True,
                          text=True)
    # DelegateSubgroup= came with systemd 254, and those before pass over it.
    complaints = [line for line in done.stderr.splitlines() if "atolld.service" in line
                  and "'DelegateSubgroup'" not in line]
    assert done.returncode == 0 and not complaints, done.stderr
