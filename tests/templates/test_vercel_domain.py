"""The domains of Vercel's sandboxes in a browser, with DNS and TLS on the daemon (docs/vercel.md): a browser that
trusts the authority of `atoll vercel ca` opens sandbox.domain(port). Needs a browser: make test-all."""

import os
import random
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, wait_until

sys.path.insert(1, str(ROOT / "tests" / "integration"))

from listening import listening_daemon  # noqa: E402
from rest import Rest  # noqa: E402

BASE = "/vercel/api/v3/sandboxes"
PAGE = "a page of the sandbox"


@pytest.fixture(scope="module")
def world():
    for program, package in (("chromium", "chromium"), ("certutil", "libnss3-tools")):
        if not shutil.which(program):
            pytest.skip(f"{package} is not installed")
    names = f"127.{random.randint(64, 250)}.{random.randint(1, 250)}.1"
    with listening_daemon(ATOLL_TLS_LISTEN=f"{names}:443",
                          ATOLL_TLS_NAMES="vercel.com,api.vercel.com,*.vercel.run") as (daemon, _):
        yield daemon, names


def trust(home, authority):
    """The authorities that a browser of this user trusts."""
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    for command in (["-N", "--empty-password"], ["-A", "-t", "C,,", "-n", "atoll", "-i", authority]):
        subprocess.run(["certutil", "-d", f"sql:{database}", *command], check=True)


def browse(home, names, url):
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={home}/profile", f"--host-resolver-rules=MAP *.vercel.run {names}", "--dump-dom", url],
        capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(home)})
    return done.stdout + done.stderr


def test_a_domain_opens_in_a_browser(world, tmp_path):
    daemon, names = world
    rest = Rest(daemon.socket)
    made = rest.post(BASE, {"ports": [3000], "timeout": 600000})
    assert made.status == 200, made.body
    cmd = f"/vercel/api/v2/sandboxes/sessions/{made.json['session']['id']}/cmd"
    script = f"echo '<p>{PAGE}</p>' >index.html; exec python3 -m http.server 3000"
    assert rest.post(cmd, {"command": "sh", "args": ["-c", script]}).status == 200
    domain = f"https://{made.json['routes'][0]['subdomain']}.vercel.run/"
    authority = daemon.atoll("vercel", "ca", "--state", daemon.state, check=True).stdout.splitlines()[0]
    shown = []

    def is_shown():
        shown[:] = [browse(tmp_path, names, domain)]
        return PAGE in shown[0]
    # Without the authority the browser refuses the name: the page is not shown for another reason.
    assert PAGE not in browse(tmp_path, names, domain)
    trust(tmp_path, authority)
    wait_until(is_shown, 120, lambda: f"not on the page: {shown}")
    rest.delete(f"/vercel/api/v2/sandboxes/{made.json['sandbox']['name']}")
