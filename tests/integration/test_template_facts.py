"""What is stored about a version of a template: its packages (SBOM) and the report of its trial."""

import json
import os
import shutil
import signal

import pytest
from conftest import BUILD, running, wait_until
from rest import Rest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="layers need root")

DPKG = "Package: tiny\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.2-3\n"
BUSYBOX = shutil.which("busybox")
STATIC = """FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "sh", "-c", "for name in sh cat id test; do /bin/busybox ln -s busybox /bin/$name; done"]
COPY status /var/lib/dpkg/status
"""


@pytest.fixture(scope="module")
def world():
    with running(BUILD) as daemon:
        yield daemon


def folder_of(tmp_path, dockerfile):
    shutil.copy(BUSYBOX, tmp_path / "busybox")
    (tmp_path / "status").write_text(DPKG)
    (tmp_path / "Dockerfile").write_text(dockerfile)
    return str(tmp_path)


def build(daemon, name, tmp_path, dockerfile, *options):
    made = daemon.atoll("build", "-t", name, *options, folder_of(tmp_path, dockerfile))
    assert made.returncode == 0, made.stderr
    return Rest(daemon.socket).get(f"/api/templates/{name}").json


def id_of(daemon, name):
    return next(b["version"] for b in Rest(daemon.socket).get("/api/builds").json["builds"] if b["name"] == name)


def sbom_file(daemon, name):
    return daemon.state / "versions" / f"{id_of(daemon, name)}.sbom"


def test_a_build_gets_its_packages_in_the_background(world, tmp_path):
    build(world, "listed", tmp_path, STATIC)
    wait_until(sbom_file(world, "listed").exists, 30, lambda: "no list of packages")
    purls = [part.get("purl") for part in json.loads(sbom_file(world, "listed").read_text())["components"]]
    assert purls == ["pkg:deb/debian/tiny@1.2-3?arch=amd64"]
    shown = world.atoll("template", "sbom", "listed", check=True).stdout
    assert "tiny" in shown and "1.2-3" in shown
    assert json.loads(world.atoll("template", "sbom", "listed", "--json", check=True).stdout)["bomFormat"] == "CycloneDX"


def test_a_missing_list_is_made_by_the_request(world, tmp_path):
    build(world, "asked", tmp_path, STATIC + "COPY status /var/lib/x\n")
    wait_until(sbom_file(world, "asked").exists, 30, lambda: "no list of packages")
    sbom_file(world, "asked").unlink()
    # The sandbox that made the first one may not be gone yet.
    wait_until(lambda: Rest(world.socket).get("/api/templates/asked/sbom").status == 200, 10, lambda: "no list of packages")
    answer = Rest(world.socket).get("/api/templates/asked/sbom")
    assert answer.status == 200, answer.body
    assert answer.json["metadata"]["component"]["name"] == "asked"
    assert sbom_file(world, "asked").exists()


def test_packages_of_the_layers_on_the_host_template(world, tmp_path):
    build(world, "on-host", tmp_path, "FROM host\nCOPY status /opt/node_modules/x/package.json\n")
    assert Rest(world.socket).get("/api/templates/on-host/sbom").json["components"] == []


def test_removing_a_template_while_it_is_listed(world, tmp_path):
    for turn in range(5):
        version = build(world, f"gone-{turn}", tmp_path, STATIC + f"RUN echo {turn} > /turn\n")
        layer = version["layers"][-1]["name"]
        world.atoll("template", "rm", f"gone-{turn}", check=True)
        world.atoll("template", "gc", "--cache", check=True)
        wait_until(lambda: not (world.state / "layers" / layer).exists(), 10, lambda: "the layer is still there")
        assert not sbom_file(world, f"gone-{turn}").exists()


def test_a_killed_daemon_makes_it_later(tmp_path):
    with running(BUILD) as daemon:
        build(daemon, "killed", tmp_path, STATIC)
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.process.wait()
        daemon.start()
        answer = Rest(daemon.socket).get("/api/templates/killed/sbom")
        assert answer.status == 200, answer.body
        assert answer.json["bomFormat"] == "CycloneDX"
        assert sbom_file(daemon, "killed").exists()


def descriptors(daemon):
    """Files that workers of the daemon have open for a transfer."""
    lines = Rest(daemon.socket).get("/metrics").body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("atoll_file_descriptors "))


def test_workers_read_an_archive(world, tmp_path):
    """Not the loop's thread, which all requests wait for."""
    (tmp_path / "large").write_bytes(os.urandom(8 << 20))
    build(world, "large", tmp_path, "FROM scratch\nCOPY large /large\n")
    wait_until(lambda: descriptors(world) == 0, 10, lambda: "transfers of other tests")
    connection = Rest(world.socket).connection()
    connection.request("GET", "/api/templates/large/archive")
    answer = connection.getresponse()  # the client does not read the body
    assert answer.status == 200 and int(answer.headers["Content-Length"]) > 8 << 20
    assert descriptors(world) == 1
    answer.close()
    connection.close()
    wait_until(lambda: descriptors(world) == 0, 10, lambda: "the archive is still open")


def report_of(version):
    return {check["name"]: check for check in version["report"]["checks"]}


def test_a_build_is_tried(world, tmp_path):
    version = build(world, "tried", tmp_path, STATIC + "RUN /bin/busybox mkdir /root\nENV HOME=/root\n")
    report = report_of(version)
    assert version["report"]["ok"] is True
    assert [report[name]["result"] for name in ("agent", "sh", "home")] == ["ok", "ok", "ok"]
    assert report["home"]["detail"] == "/root" and "start" not in report
    assert '"report"' in world.atoll("template", "show", "tried", check=True).stdout
    assert world.json("ls")["sandboxes"] == []


def test_an_image_without_a_shell_is_no_failure(world, tmp_path):
    version = build(world, "shellless", tmp_path, "FROM scratch\nCOPY busybox /program\n")
    assert version["report"]["ok"] is True and report_of(version)["sh"]["result"] == "absent"


def test_the_report_names_the_ports_of_the_start_command(world, tmp_path):
    version = build(world, "serving", tmp_path, "FROM host\n", "--start", "python3 -m http.server 8123",
                    "--ready", "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))'")
    report = report_of(version)
    assert report["start"]["result"] == "ok" and report["ports"]["detail"] == "8123"
    assert report["user"]["detail"] in ("user", "root")


def test_the_report_survives_a_restart(tmp_path):
    with running(BUILD) as daemon:
        before = build(daemon, "kept", tmp_path, STATIC)["report"]
        daemon.stop()
        daemon.start()
        assert Rest(daemon.socket).get("/api/templates/kept").json["report"] == before
