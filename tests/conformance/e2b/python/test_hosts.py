"""Clients that are only told a domain, and ports of a sandbox by name over TLS."""

import json
import urllib.error
import urllib.request

import pytest
from e2b_code_interpreter import Sandbox


@pytest.fixture
def served(domain_only, until):
    box = Sandbox.create()
    box.files.write("/srv/index.txt", "behind a name")
    box.commands.run("python3 -m http.server 8000 --bind 127.0.0.1", cwd="/srv", background=True,
                     timeout=0)
    yield box
    box.kill()


def get(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def test_port_by_name(served, domain_only, until):
    host = served.get_host(8000)
    assert host == f"8000-{served.sandbox_id}.{domain_only}"
    until(lambda: get(f"https://{host}/index.txt") == (200, b"behind a name"))
    status, body = get(f"https://{served.get_host(8001)}/")
    assert (status, json.loads(body)["port"]) == (502, 8001)
    served.kill()
    status, body = get(f"https://{host}/index.txt")
    assert (status, json.loads(body)["message"]) == (502, "The sandbox was not found")


def test_everything_by_name(served, domain_only):
    assert served.commands.run("echo $((6*7))").stdout == "42\n"
    served.files.write("f", "content")
    assert served.files.read("f") == "content"
    assert get(served.download_url("f")) == (200, b"content")
    assert served.run_code("40 + 2").text == "42"
    assert served.sandbox_id in [s.sandbox_id for s in Sandbox.list().next_items()]
