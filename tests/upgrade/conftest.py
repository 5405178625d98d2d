"""The build of an earlier commit: of ATOLL_OLD_BUILD, or compiled from the history of this checkout."""

import os
import subprocess
from pathlib import Path

import pytest

from daemons import ROOT

# The last commit before the sources were sorted into folders.
OLD_COMMIT = "fbeffb2"


def git(*args):
    return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True,
                          check=False)


def compile_old():
    directory = ROOT / "build-old"
    build = directory / "build"
    if (build / "atolld").exists():
        return build
    if git("cat-file", "-e", f"{OLD_COMMIT}^{{commit}}").returncode != 0:
        pytest.skip(f"the history of this checkout does not have {OLD_COMMIT}")
    directory.mkdir(exist_ok=True)
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", OLD_COMMIT],
                               stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(directory)], stdin=archive.stdout, check=True)
    assert archive.wait() == 0
    done = subprocess.run(["scripts/build", "gcc", "-Dtests=false"], cwd=directory,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return build


@pytest.fixture(scope="session")
def old_build():
    given = os.environ.get("ATOLL_OLD_BUILD")
    return Path(given) if given else compile_old()
