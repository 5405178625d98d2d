"""Packages of environments from servers of the test: apt from a Debian repository, npm from a registry."""

import base64
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile

import pytest

from conftest import ROOT
from networks import FAR, Web, networked
from rest import Rest
from test_environment_builds import put, run, template

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("apt-get", "dpkg-deb", "npm"))),
                                reason="apt, dpkg and npm of the host are used")
# The host template with a package database of its own.
BASE = """dockerfile: |
  FROM host
  RUN mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /var/lib/apt/lists/partial \\
      /var/cache/apt/archives/partial /var/log/apt /etc/apt/apt.conf.d /etc/dpkg/dpkg.cfg.d && touch /var/lib/dpkg/status && \\
      echo 'deb [trusted=yes] http://one.test/debian ./' >/etc/apt/sources.list && \\
      echo 'APT::Sandbox::User "root";' >/etc/apt/apt.conf.d/90root
"""


def deb(directory):
    tree = directory / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text("Package: demo\nVersion: 1.0\nArchitecture: all\n"
                                         "Maintainer: Test <test@example.org>\nDescription: demo\n")
    (tree / "usr/share/demo").mkdir(parents=True)
    (tree / "usr/share/demo/answer").write_text("from apt\n")
    made = directory / "demo.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, capture_output=True)
    return made.read_bytes()


def tarball():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        text = json.dumps({"name": "demo", "version": "1.0.0", "bin": {"demo": "demo.js"}}).encode()
        for path, content in (("package.json", text), ("demo.js", b"#!/usr/bin/env node\nconsole.log('from npm')\n")):
            member = tarfile.TarInfo(f"package/{path}")
            member.size, member.mode = len(content), 0o755
            file.addfile(member, io.BytesIO(content))
    return out.getvalue()


def pages(directory):
    package, module = deb(directory), tarball()
    index = ("Package: demo\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <test@example.org>\n"
             f"Filename: ./demo.deb\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n"
             "Description: demo\n\n").encode()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(module).digest()).decode()
    facts = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "demo", "version": "1.0.0", "bin": {"demo": "demo.js"},
        "dist": {"tarball": "http://one.test/demo/-/demo-1.0.0.tgz", "integrity": integrity}}}}
    return {"/debian/./Packages.gz": gzip.compress(index), "/debian/./Packages": index,
            "/debian/./demo.deb": package, "/demo": json.dumps(facts).encode(), "/demo/-/demo-1.0.0.tgz": module}


class Files(Web):
    """Serves pages by their path."""

    def __init__(self, listening, found):
        self.pages = found
        super().__init__(listening, "files")

    def finish_request(self, request, client_address):
        class Handler(self.RequestHandlerClass):
            def do_GET(self):
                self.server.asked.append(self.path)
                path = self.path.replace("/debian/", "/debian/./", 1) if "/./" not in self.path else self.path
                body = self.server.pages.get(path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

        Handler(request, client_address, self)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    directory = tmp_path_factory.mktemp("packages")
    shutil.copytree(ROOT / "registry", directory / "registry")
    with networked(ATOLL_REGISTRY=str(directory / "registry")) as daemon:
        web = Files(daemon.networks.far.listen(FAR[0], 80), pages(directory))
        yield Rest(daemon.socket), directory / "registry/environments", web
        web.close()


def test_apt(world):
    rest, environments, web = world
    put(rest, environments, "Base", BASE)
    assert run(rest, "Base", "test -e /usr/share/demo || echo absent") == "absent\n"
    put(rest, environments, "Apt", "template: env-Base\npackages: {apt: [demo]}\n")
    for _ in range(2):
        assert run(rest, "Apt", "cat /usr/share/demo/answer") == "from apt\n"
    assert sum(path.endswith("demo.deb") for path in web.asked) == 1, "installed once, then reused"
    assert template(rest, "env-Apt") is not None
    put(rest, environments, "NoApt", "template: env-Base\npackages: {apt: [no-such-package-here]}\n")
    answer = rest.post("/api/sessions", {"environment": "NoApt"})
    assert 400 <= answer.status < 500 and b"no-such-package-here" in answer.body


def test_npm(world):
    rest, environments, web = world
    text = "template: host\nenv: {NPM_CONFIG_REGISTRY: 'http://one.test/'}\npackages: {npm: ['%s']}\n"
    put(rest, environments, "Npm", text % "demo@1.0.0")
    for _ in range(2):
        assert run(rest, "Npm", "$(npm prefix --global)/bin/demo") == "from npm\n"
    assert web.asked.count("/demo/-/demo-1.0.0.tgz") == 1, "installed once, then reused"
    put(rest, environments, "NoNpm", text % "no-such-package-here")
    answer = rest.post("/api/sessions", {"environment": "NoNpm"})
    assert 400 <= answer.status < 500, answer.body
