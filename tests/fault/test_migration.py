"""Records of templates of the version before, and a daemon that is killed while it makes rows of them."""

import contextlib
import json
import signal
import sqlite3

import pytest

import docker_engine
import faults
from daemons import BUILD, running, wait_until
from rest import Rest


def test_killed_between_row_and_record():
    if not faults.compiled_in():
        pytest.skip("a build without -Dtest_switches=true cannot be made to fail")
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        made = rest.put("/api/templates/old", docker_engine.busybox_root()).json
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as db:
            for table in ("templates", "template_versions", "template_tags", "layers"):
                db.execute(f"DELETE FROM {table}")
            db.commit()
        records = daemon.state / "templates"
        records.mkdir()
        (records / "old.json").write_text(json.dumps({
            "digest": made["digest"], "layer_base": 0x0fff0000, "size_bytes": 7,
            "created_unix_ms": 1700000000000}))
        daemon.env["ATOLL_FAULT"] = "templates.migrate=die"
        with pytest.raises(AssertionError):
            daemon.start()
        assert (records / "old.json").exists()
        del daemon.env["ATOLL_FAULT"]
        daemon.start()
        wait_until(lambda: not records.exists(), 10, lambda: "the record is still there")
        versions = rest.get("/api/templates/old/versions").json["versions"]
        assert [(v["digest"], v["tags"], v["size_bytes"]) for v in versions] == [
            (made["digest"], ["latest"], 7)]
        box = rest.post("/api/sandboxes", {"template": "old"})
        assert box.status == 201, box.body
