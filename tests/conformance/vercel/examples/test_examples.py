"""The example of examples/vercel runs as it is written."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[3] / "examples" / "vercel"


def test_example(tmp_path):
    shutil.copy(EXAMPLES / "hello.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(HERE.parent / "node_modules")
    ran = subprocess.run(["node", "hello.mjs"], cwd=tmp_path, capture_output=True, text=True,
                         check=False, timeout=50)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["largest: 39", "sum: 42"]
