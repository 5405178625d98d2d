"""atoll-unpack sbom: the packages of a stack of layers."""

import json
import os
import subprocess

import pytest
from daemons import BUILD, need_build

DPKG = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u4
Description: GNU C Library
 Version: 9, which is a line of the description

Package: removed
Status: deinstall ok config-files
Version: 1.0

Package: no-version
Status: install ok installed
"""
APK = "C:Q1abc=\nP:musl\nV:1.2.4-r2\nA:x86_64\nL:MIT\nF:lib\nR:ld-musl\n\nP:busybox\nV:1.36.1-r5\nA:x86_64\n\n"
METADATA = "Metadata-Version: 2.1\nName: requests\nVersion: 2.31.0\nLicense: Apache 2.0\n\nName: not this\n"


def put(layer, path, text):
    file = layer / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))


def whiteout(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, 0o020000, os.makedev(0, 0))


def bom(*layers, status=0):
    need_build()
    done = subprocess.run([BUILD / "atoll-unpack", "sbom", "--name", "box", *layers], capture_output=True)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else json.loads(done.stderr)


def packages(*layers):
    return [part["purl"] for part in bom(*layers)["components"] if part["type"] == "library"]


def test_packages_of_all_kinds(tmp_path):
    put(tmp_path, "var/lib/dpkg/status", DPKG)
    put(tmp_path, "etc/os-release", 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n')
    put(tmp_path, "usr/lib/python3/dist-packages/requests-2.31.0.dist-info/METADATA", METADATA)
    put(tmp_path, "app/node_modules/left-pad/package.json", {"name": "left-pad", "version": "1.3.0", "license": "WTFPL"})
    put(tmp_path, "app/node_modules/@types/node/package.json", {"name": "@types/node", "version": "20.1.0"})
    put(tmp_path, "app/node_modules/left-pad/node_modules/left-pad/package.json", {"name": "left-pad", "version": "1.3.0"})
    put(tmp_path, "app/node_modules/left-pad/test/package.json", {"name": "fixture", "version": "1"})
    put(tmp_path, "app/package.json", {"name": "mine", "version": "1"})
    put(tmp_path, "app/node_modules/broken/package.json", "{nope")
    put(tmp_path, "app/node_modules/odd/package.json", {"name": 5, "version": []})
    found = bom(tmp_path)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    assert found["metadata"]["component"] == {"type": "container", "name": "box"}
    system = [part for part in found["components"] if part["type"] == "operating-system"]
    assert [(part["name"], part["version"]) for part in system] == [("debian", "12")]
    assert packages(tmp_path) == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64",
        "pkg:npm/%40types/node@20.1.0",
        "pkg:npm/left-pad@1.3.0",
        "pkg:pypi/requests@2.31.0",
    ]
    refs = [part["bom-ref"] for part in found["components"]]
    assert len(refs) == len(set(refs))
    pad = next(part for part in found["components"] if part["name"] == "left-pad")
    assert pad["licenses"] == [{"license": {"name": "WTFPL"}}]
    assert pad["properties"] == [{"name": "atoll:path", "value": "app/node_modules/left-pad/package.json"}]


def test_packages_of_alpine_and_distroless(tmp_path):
    put(tmp_path, "lib/apk/db/installed", APK)
    put(tmp_path, "var/lib/dpkg/status.d/base", "Package: base-files\nVersion: 12.4\n")
    put(tmp_path, "var/lib/dpkg/status.d/base.md5sums", "Package: sums\nVersion: 1\n")
    assert packages(tmp_path) == ["pkg:apk/alpine/busybox@1.36.1-r5?arch=x86_64",
                                  "pkg:apk/alpine/musl@1.2.4-r2?arch=x86_64", "pkg:deb/debian/base-files@12.4"]


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes can be made by root only")
def test_upper_layers_hide_lower_ones(tmp_path):
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    put(lower, "var/lib/dpkg/status", DPKG)
    for name in ("gone", "opaque", "kept", "newer"):
        put(lower, f"{name}/node_modules/{name}/package.json", {"name": name, "version": "1"})
    put(upper, "var/lib/dpkg/status", "Package: other\nVersion: 2\n")
    put(upper, "newer/node_modules/newer/package.json", {"name": "newer", "version": "2"})
    put(upper, "opaque/node_modules/fresh/package.json", {"name": "fresh", "version": "1"})
    os.setxattr(upper / "opaque", "user.overlay.opaque", b"y")
    whiteout(upper / "gone")
    assert packages(lower, upper) == ["pkg:deb/debian/other@2", "pkg:npm/fresh@1", "pkg:npm/kept@1",
                                      "pkg:npm/newer@2"]
    assert len(packages(lower)) == 5  # the control: alone they are all there


def test_what_is_not_read_is_named(tmp_path):
    put(tmp_path, "var/lib/rpm/rpmdb.sqlite", "SQLite")
    assert bom(tmp_path)["metadata"]["properties"] == [{"name": "atoll:unread", "value": "var/lib/rpm/rpmdb.sqlite"}]


def test_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    put(secret, "METADATA", METADATA)
    layer = tmp_path / "layer"
    (layer / "x.dist-info").mkdir(parents=True)
    (layer / "x.dist-info/METADATA").symlink_to(secret / "METADATA")
    (layer / "y.dist-info").symlink_to(secret)
    os.mkfifo(layer / "METADATA")
    assert packages(layer) == []
    (layer / "x.dist-info/METADATA").unlink()
    put(layer, "x.dist-info/METADATA", METADATA)
    assert packages(layer) == ["pkg:pypi/requests@2.31.0"]


def test_a_missing_layer(tmp_path):
    assert bom(tmp_path / "none", status=4)["kind"] == "internal"
