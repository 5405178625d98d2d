"""Sandboxes whose agent cannot pass descriptors to the daemon.

The tests of files, previews and E2B are run once more with a daemon that does not take descriptors:
contents then travel through the agent's connection, and ports through tunnels. Native sandboxes
behave like this only with a test switch (src/base/switches.h).
"""
import os
import subprocess
import sys
from pathlib import Path

import faults
import pytest
from daemons import BUILD, running, wait_until
from rest import Rest

HERE = Path(__file__).parent
SWITCH = {"ATOLL_WEAKEN": "descriptors"}

# Of a file that is brought out as a whole nothing can be missing later.
NOT_THE_SAME = "not test_a_file_that_shrinks_is_never_taken_for_whole"


@pytest.fixture(scope="module", autouse=True)
def switches():
    if not faults.compiled_in():
        pytest.skip("a build without -Dtest_switches=true takes descriptors")


@pytest.mark.parametrize(
    "names, only",
    [
        (["test_rest.py", "test_rest_more.py"], f"(file or archive or batch) and {NOT_THE_SAME}"),
        (["test_preview.py"], ""),
        (["test_e2b_envd.py"], "file or upload or download or compose"),
        (["test_artifacts.py"], ""),
    ],
    ids=["files", "previews", "e2b", "artifacts"],
)
def test_the_same_without(names, only):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
         *(str(HERE / name) for name in names), *(["-k", only] if only else [])],
        env=os.environ | SWITCH, capture_output=True, text=True, timeout=600,
    )
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.fixture(scope="module")
def rest():
    with running(BUILD, **SWITCH) as daemon:
        made = Rest(daemon.socket)
        made.daemon = daemon
        yield made


@pytest.fixture
def box(rest):
    made = rest.post("/api/sandboxes", {"limits": {"memoryMB": 256, "diskMB": 64}}).json["id"]
    yield f"/api/sandboxes/{made}"
    rest.delete(f"/api/sandboxes/{made}")


def open_files(daemon, what):
    links = (Path(f"/proc/{daemon.pid}/fd") / fd for fd in os.listdir(f"/proc/{daemon.pid}/fd"))
    found = []
    for link in links:
        try:
            target = os.readlink(link)
        except FileNotFoundError:
            continue
        if what in target:
            found.append(target)
    return found


@pytest.mark.parametrize("size", [0, 1, 131072, 131073, 1 << 20, (1 << 20) + 1, 20_000_000])
def test_contents_are_the_same_on_both_ways(rest, box, size):
    data = os.urandom(size)
    assert rest.put(f"{box}/files", data, path="f").json["size"] == size
    assert rest.get(f"{box}/files", path="f").body == data
    wait_until(lambda: not open_files(rest.daemon, "atoll-file"), 30,
               lambda: "memory that nobody needs any more")
    assert not [name for name in os.listdir(rest.daemon.state) if "spool" in name]


def test_many_at_once(rest, box):
    from concurrent.futures import ThreadPoolExecutor

    contents = {f"f{i}": os.urandom(1_500_000 + i) for i in range(16)}

    def there_and_back(item):
        name, data = item
        assert rest.put(f"{box}/files", data, path=name).status == 200
        return rest.get(f"{box}/files", path=name).body == data

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(there_and_back, contents.items()))


def test_an_upload_that_does_not_fit_leaves_nothing(rest, box):
    answer = rest.put(f"{box}/files", bytes(100_000_000), path="big")
    assert answer.status == 507
    assert rest.get(f"{box}/files/stat", path="big").status == 404
    listed = rest.get(f"{box}/files/list", path="/home/user").json
    assert "atoll" not in str(listed), "a temporary file is left"
    assert rest.put(f"{box}/files", b"small", path="ok").status == 200
