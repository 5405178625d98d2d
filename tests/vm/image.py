"""The virtual machine's disks: a Debian with its kernel, made once and kept, and the work to do.

Both are ext4 file systems written by mke2fs, so no mount and no loop device is needed here. The
Debian comes from this machine's own apt sources, in the release this machine runs: the programs
that were built here find their libraries there.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MAKE_SECONDS = 900
PACKAGES = ROOT / "scripts" / "packages"
DISK_MIB, WORK_MIB = 3072, 512  # sparse files

# Nobody reads these in there, and they are a good part of a small Debian.
LEFT_OUT = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
            "var/cache/apt", "var/lib/apt/lists"]


class Unavailable(Exception):
    """What is needed cannot be had here."""


def run(what, *command, seconds=MAKE_SECONDS):
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              check=False, timeout=seconds)
    except (subprocess.TimeoutExpired, FileNotFoundError) as e:
        raise Unavailable(f"{what}: {e}") from None
    if done.returncode != 0:
        raise Unavailable(f"{what}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def packages_of(group):
    return [line.split()[1] for line in PACKAGES.read_text().splitlines()
            if line.split()[:1] == [group]]


def libraries_of(programs):
    """Packages of the shared libraries they are linked to."""
    listed = run("ldd", "ldd", *programs)
    names = sorted(set(re.findall(r"^\s+(lib\S+) =>", listed, re.MULTILINE)))
    owners = run("which package is it in", "dpkg-query", "-S", *(f"*/{name}" for name in names))
    return sorted({line.split(":")[0] for line in owners.splitlines()
                   if not line.startswith("diversion")})


def release():
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.M))
    if fields.get("ID") != "debian":
        raise Unavailable("this is not Debian: what is built here would lack its libraries there")
    return fields["VERSION_CODENAME"]


def apt_sources(suite):
    """The file of this machine's apt sources that knows the suite."""
    directory = Path("/etc/apt/sources.list.d")
    files = [*sorted(directory.glob("*.sources")), Path("/etc/apt/sources.list"),
             *sorted(directory.glob("*.list"))]
    for path in files:
        if path.is_file() and re.search(rf"(^|\s){suite}(\s|$)", path.read_text(), re.M):
            return [str(path)]
    return []  # mmdebstrap's default


def make_file_system(directory, image, mib):
    image.unlink(missing_ok=True)
    run("mke2fs", "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0",
        "-d", directory, image, f"{mib}M")


def make_debian(place, suite, packages):
    # By way of an archive: no half-made tree with mounts of this host in it can be left here.
    tree, archive = place / "tree", place / "tree.tar"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    run("mmdebstrap", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar",
        f"--include={','.join(packages)}", suite, archive, *apt_sources(suite))
    run("tar", "tar", "--extract", "--numeric-owner", "--same-permissions", "--file", archive,
        "--directory", tree)
    archive.unlink()
    for name in LEFT_OUT:
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in ("vmlinuz", "initrd.img"):
        found = sorted((tree / "boot").glob(f"{name}-*"))
        if not found:
            raise Unavailable(f"the kernel's package brought no {name}")
        shutil.copyfile(found[-1], place / name)
    make_file_system(tree, place / "root.img", DISK_MIB)
    shutil.rmtree(tree)


def debian(place, programs):
    """Makes root.img, vmlinuz and initrd.img in `place` unless they are there as they should be."""
    suite = release()
    packages = sorted({*packages_of("guest"), *libraries_of(programs)})
    key = hashlib.sha256("\n".join([suite, *packages, Path(__file__).read_text()])
                         .encode()).hexdigest()
    made = place / "key"
    if made.exists() and made.read_text() == key:
        return
    if os.geteuid() != 0:
        raise Unavailable("making the virtual machine's disk needs root")
    place.mkdir(parents=True, exist_ok=True)
    made.unlink(missing_ok=True)
    print(f"making a small Debian {suite} for the virtual machine, once", flush=True)
    make_debian(place, suite, packages)
    made.write_text(key)
