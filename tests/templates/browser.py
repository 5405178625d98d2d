"""A browser that is led over WebDriver. `chromium --dump-dom` ends only when a page has no request open, and some
pages always have one."""

import contextlib
import json
import subprocess
import tempfile
import urllib.error
import urllib.request

from daemons import wait_until
from listening import free_port

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
SECONDS = 60  # for an answer


class Browser:
    def __init__(self, driver: str):
        self.url = driver

    def call(self, method: str, path: str, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)["value"]

    def open(self, url: str) -> None:
        with contextlib.suppress(urllib.error.HTTPError):  # it is not up yet, or goes on loading
            self.call("POST", "/url", {"url": url})

    def text(self) -> str:
        """What the page shows now; nothing while it is loaded, or loads itself again."""
        script = {"script": "return document.body && document.body.innerText", "args": []}
        with contextlib.suppress(urllib.error.HTTPError):
            return self.call("POST", "/execute/sync", script) or ""
        return ""


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5).close()
        return True
    return False


@contextlib.contextmanager
def browser():
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="atoll-browser-", ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(port), 30, lambda: "chromedriver does not answer")
            leader = Browser(f"http://127.0.0.1:{port}")
            chosen = {"args": [*OPTIONS, f"--user-data-dir={profile}"]}
            made = leader.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": chosen, "pageLoadStrategy": "none"}}})
            leader.url += f"/session/{made['sessionId']}"
            try:
                yield leader
            finally:
                leader.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(30)
