"""A daemon with the fake provider beside the native one; a control file makes it slow or makes it
fail."""

import contextlib
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from boxes import Box
from daemons import BUILD, Daemon, need_build, wait_until
from rest import Rest


class World:
    def __init__(self, directory, **settings):
        self.directory = directory
        self.control = directory / "control"
        self.daemon = Daemon(BUILD, directory)
        self.daemon.env["ATOLL_LOG_LEVEL"] = "debug"
        self.daemon.state.mkdir(mode=0o700)
        fake = {"enabled": True, "order": 1, "check_seconds": 0.2, "orphans_seconds": 0.5,
                "reattach_seconds": 0.2, "control": str(self.control)}
        self.placement = None
        self.settings = {"fake": fake | settings.pop("fake", {}), **settings}
        self.write()

    def write(self):
        file = self.daemon.state / "providers.yaml"
        placement = {"placement": self.placement} if self.placement else {}
        file.write_text(json.dumps({"providers": self.settings} | placement))

    @property
    def rest(self):
        return Rest(self.daemon.socket)

    def facts(self, name="fake"):
        listed = self.rest.get("/api/providers").json["providers"]
        return next(entry for entry in listed if entry["name"] == name)

    def fail(self, *lines):
        """Whole at once: it may be read at any time."""
        new = self.directory / "control.new"
        new.write_text("".join(f"{line}\n" for line in lines))
        new.rename(self.control)

    def wait_state(self, state, name="fake"):
        wait_until(lambda: self.facts(name)["state"] == state, 30,
                   lambda: f"{name} stays {self.facts(name)}")

    def settle(self):
        """Up again. A new daemon knows nothing of creates that failed; to be forgiven takes them
        seconds."""
        if self.facts()["state"] != "up":
            self.restart()
        self.wait_state("up")

    def reload(self):
        """Writes the settings and tells the daemon; what it says about that."""
        before = self.rest.get("/api/providers").json.get("reload", {}).get("at")
        self.write()
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.loaded.get("at") != before, 30, lambda: "it is not read again")
        return self.loaded

    @property
    def loaded(self):
        return self.rest.get("/api/providers").json.get("reload", {})

    def restart(self):
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.start()

    def box(self, **fields):
        return Box(self.rest, **{"waive": ["all"], **fields})


@contextlib.contextmanager
def world_of(**settings):
    need_build()
    if os.geteuid() != 0:
        pytest.skip("needs root")
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    made = World(directory, **settings)
    try:
        made.daemon.start()
        yield made
        made.fail()
        left = made.daemon.stop()
        assert not left, f"left behind: {', '.join(left)}"
        assert not list((made.daemon.state / "fake").glob("*"))
    finally:
        if made.daemon.process and made.daemon.process.poll() is None:
            made.daemon.process.kill()
        shutil.rmtree(directory, ignore_errors=True)
