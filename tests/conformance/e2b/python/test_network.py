"""What a sandbox reaches, with E2B's client: a server of this test at an address of the host, which the operator
of the daemon permits."""

import http.server
import os
import threading

import pytest
from e2b import ALL_TRAFFIC, Sandbox


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    """Its address and its URL."""
    address = os.environ["ATOLL_TEST_ADDRESS"]
    if not address:
        pytest.skip("this host has only its loopback")
    with http.server.ThreadingHTTPServer((address, 0), Page) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield address, f"http://{address}:{web.server_port}/"
        web.shutdown()


def reaches(box, url):
    return box.commands.run(f"curl -s --max-time 10 {url} || true").stdout == "served"


@pytest.mark.parametrize("options, expected", [
    ({}, True),
    ({"allow_internet_access": True}, True),
    ({"allow_internet_access": False}, False),
    ({"network": {"deny_out": [ALL_TRAFFIC]}}, False),
    ({"network": {"deny_out": ["SERVER"]}}, False),
    ({"network": {"deny_out": ["198.51.100.0/24"]}}, True),
    ({"network": {"deny_out": [ALL_TRAFFIC], "allow_out": ["SERVER"]}}, True),
    ({"network": {"deny_out": [ALL_TRAFFIC], "allow_out": ["198.51.100.7", "example.org"]}}, False),
])
def test_create(server, options, expected):
    address, url = server
    network = {key: [address if target == "SERVER" else target for target in targets]
               for key, targets in options.get("network", {}).items()}
    box = Sandbox.create(**({**options, "network": network} if network else options))
    try:
        assert reaches(box, url) is expected
    finally:
        box.kill()


def test_update(server, box):
    address, url = server
    assert reaches(box, url)
    box.update_network({"deny_out": [address]})
    assert not reaches(box, url)
    box.update_network({"deny_out": [ALL_TRAFFIC], "allow_out": [address]})
    assert reaches(box, url) and box.get_info().network["allow_out"] == [address]
    box.update_network({})
    assert reaches(box, url)
