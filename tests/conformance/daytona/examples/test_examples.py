"""The examples of examples/daytona run as they are written."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
EXAMPLES = ROOT / "examples" / "daytona"
COMMANDS = {"hello.mjs": ["node"], "hello.py": [ROOT / "build" / "conformance" / "daytona" / "bin" / "python"]}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_example(tmp_path, name):
    shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(HERE.parent / "node_modules")
    ran = subprocess.run([*COMMANDS[name], name], cwd=tmp_path, capture_output=True, text=True,
                         check=False, timeout=50)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["largest: 39", "sum: 42"]
