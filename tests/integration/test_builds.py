"""atoll build: steps and their cache, failures, secrets, cancelling, sharing, and a daemon that is killed."""

import os
import shutil
import signal
import subprocess
import threading
import uuid

import docker_engine
import pytest
from conftest import BUILD, ROOT, running, wait_until
from networks import FAR, Web, networked
from rest import Rest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="layers need root")

BUSYBOX = shutil.which("busybox")
APPLETS = ("sh", "echo", "cat", "ls", "mkdir", "touch", "sleep", "env", "true", "false", "test", "cp", "seq", "rm")


ENDED_MAX = 256  # ATOLL_MAKE_ENDED_MAX
COPIES = 50
LARGE = 40 << 20


@pytest.fixture(scope="module")
def world():
    with running(BUILD) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def base(world, tmp_path_factory):
    """A template with busybox, made from nothing."""
    folder = tmp_path_factory.mktemp("base")
    shutil.copy(BUSYBOX, folder / "busybox")
    links = " && ".join(f"/bin/busybox ln -s busybox /bin/{name}" for name in APPLETS)
    write(folder, "FROM scratch\nCOPY busybox /bin/busybox\n"
                  f'RUN ["/bin/busybox", "sh", "-c", "{links}"]\nRUN mkdir -p /tmp /etc\n')
    made = world.atoll("build", "-t", "base", str(folder))
    assert made.returncode == 0, made.stderr
    return "base"


def write(folder, dockerfile, **files):
    (folder / "Dockerfile").write_text(dockerfile)
    for name, content in files.items():
        (folder / name).write_text(content)
    return str(folder)


def rest_of(daemon):
    return Rest(daemon.socket)


def log_of(daemon, build_id):
    return rest_of(daemon).get(f"/api/builds/{build_id}/log", follow="true").lines


def start(daemon, dockerfile, **more):
    answer = rest_of(daemon).post("/api/builds", {"dockerfile": dockerfile, **more})
    assert answer.status == 201, answer.body
    return answer.json["id"]


def state_of(daemon, build_id):
    return rest_of(daemon).get(f"/api/builds/{build_id}").json


def unique(command="true"):
    """A RUN that no cache has."""
    return f"RUN : {uuid.uuid4().hex}; {command}"


def test_a_folder_with_e2b_toml(world, tmp_path):
    """The example that needs no download, from its folder: start command, ready command, limits."""
    folder = ROOT / "examples/templates/page-preview"
    made = world.atoll("template", "build", "--network", "none", str(folder), timeout=120)
    assert made.returncode == 0, made.stderr
    box = world.atoll("create", "--template", "page-preview", check=True).stdout.strip()
    fetch = "import urllib.request; print(urllib.request.urlopen('http://localhost:3000').read().decode())"
    page = world.atoll("exec", box, "--", "python3", "-c", fetch)
    assert page.stdout == (folder / "index.html").read_text() + "\n", page.stderr
    limits = rest_of(world).get(f"/api/sandboxes/{box}").json["limits"]
    assert (limits["memoryMB"], limits["cpuCores"]) == (512, 1)
    world.atoll("rm", box, check=True)
    (tmp_path / "e2b.toml").write_text("start_cmd = 5x\n")
    broken = world.atoll("template", "build", str(tmp_path))
    assert broken.returncode != 0 and "e2b.toml: line 1" in broken.stderr
    (tmp_path / "e2b.toml").write_text("dockerfile = 'Dockerfile'\n")
    assert "template_name" in world.atoll("template", "build", str(tmp_path)).stderr


def test_unchanged_steps_are_not_run_again(world, base, tmp_path):
    folder = write(tmp_path, f"FROM base\n{unique()}\nCOPY data /data\nRUN cat /data\n", data="one")
    first = world.json("build", "-t", "again", folder)
    second = world.json("build", "-t", "again", folder)
    assert (first["steps"], first["steps_cached"]) == (3, 0)
    assert (second["steps"], second["steps_cached"]) == (3, 3)
    assert (second["version"], second["digest"]) == (first["version"], first["digest"])
    write(tmp_path, (tmp_path / "Dockerfile").read_text(), data="two")
    third = world.json("build", "-t", "again", folder)
    assert (third["steps_done"], third["steps_cached"]) == (3, 1)
    assert world.atoll("run", "--template", "again", "--", "cat", "/data").stdout == "two"
    assert world.json("build", "-t", "again", "--no-cache", folder)["steps_cached"] == 0


def test_a_context_of_many_files(world, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(4000):
        (tmp_path / "many" / f"a-file-with-a-long-name-{number:040}").touch()
    folder = write(tmp_path, "FROM host\nCOPY many /many\n")
    made = world.atoll("build", "-t", "many", folder, timeout=120)
    assert made.returncode == 0, made.stderr
    assert world.atoll("run", "--template", "many", "--", "sh", "-c", "ls /many | wc -l").stdout == "4000\n"


def test_a_failing_step_says_where_and_shows_its_output(world, base, tmp_path):
    folder = write(tmp_path, f"FROM base\n{unique()}\n\nRUN echo reason; exit 3\n")
    failed = world.atoll("build", "-t", "broken", folder)
    assert failed.returncode == 1
    assert "reason" in failed.stderr and "line 4" in failed.stderr and "status 3" in failed.stderr
    assert "--debug" in failed.stderr
    assert world.atoll("run", "--template", "broken", "--", "true").returncode != 0


def test_debug_is_a_shell_in_the_state_before(world, base, tmp_path):
    folder = write(tmp_path, f"FROM base\n{unique('echo before > /state')}\nRUN echo after > /state; false\n")
    failed = world.atoll("build", "-t", "broken", "--debug", folder, input="cat /state; exit\n")
    assert failed.returncode == 1
    assert failed.stdout == "before\n"
    left = [one["name"] for one in rest_of(world).get("/api/templates").json["templates"]]
    assert not [name for name in left if name.startswith("debug-")]


@pytest.mark.parametrize("dockerfile,words", [
    ("RUN true\n", "FROM"),
    ("FROM base\nNOTHING x\n", "line 2"),
    ("FROM base\nCOPY missing /x\n", "missing"),
    ("FROM no-such-template-anywhere.invalid/x\nRUN true\n", "no-such-template"),
    ("FROM base\nRUN --mount=type=secret,id=none,required=true true\n", "--secret"),
    ("FROM base\nRUN --network=host true\n", "host"),
    ("FROM base\nRUN --security=insecure true\n", "privileged"),
])
def test_what_cannot_be_built(world, base, tmp_path, dockerfile, words):
    failed = world.atoll("build", "-t", "broken", write(tmp_path, dockerfile))
    assert failed.returncode == 1
    assert words in failed.stderr


def layers_with(daemon, text):
    """Files below the state directory that have the text, except the database's own pages."""
    found = subprocess.run(["grep", "-rlaF", "--exclude=pool.img", text, str(daemon.state)], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_secrets_leave_nothing(world, base, tmp_path):
    secret = "s3cret-" + uuid.uuid4().hex
    (tmp_path / "token").write_text(secret)
    context = tmp_path / "context"
    context.mkdir()
    folder = write(context, f"FROM base\n"
                            f"{unique()}\n"
                            "RUN --mount=type=secret,id=token test -s /run/secrets/token\n"
                            "RUN --mount=type=secret,id=token,env=TOKEN test -n \"$TOKEN\"\n"
                            "RUN test ! -e /run/secrets/token\n")
    made = world.json("build", "-t", "secretive", "--secret", f"id=token,src={tmp_path}/token", folder)
    assert made["steps_done"] == 4
    assert layers_with(world, secret) == []
    # The control: a step that copies it does leave it.
    write(context, "FROM base\nRUN --mount=type=secret,id=token cp /run/secrets/token /stolen\n")
    world.json("build", "-t", "leaky", "--secret", f"id=token,src={tmp_path}/token", folder)
    assert layers_with(world, secret) != []


def in_memory(pid, text):
    """Whether the memory of a process has the text."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - begin < 1 << 30:
                memory.seek(begin)
                if text in memory.read(end - begin):
                    return True
    return False


def test_secrets_in_variables_leave_the_memory_of_the_daemon(world, base):
    secret = "s3cret-" + uuid.uuid4().hex
    variable = f"TOKEN={secret}".encode()
    build_id = start(world, f"FROM base\nRUN --mount=type=secret,id=token,env=TOKEN : {uuid.uuid4().hex}; sleep 2\n",
                     secrets={"token": secret})
    wait_until(lambda: in_memory(world.pid, variable), 30, lambda: "the control: it is not there while the step runs")
    assert log_of(world, build_id)[-1]["state"] == "ready"
    wait_until(lambda: not in_memory(world.pid, variable), 10, lambda: "the daemon still has it")


def test_a_step_that_is_too_large_fails(world, base):
    """Its variables take 40 MiB, which the daemon survives."""
    mounts = " ".join(f"--mount=type=secret,id=large,env=LARGE{i}" for i in range(COPIES))
    build_id = start(world, f"FROM base\nRUN {mounts} true\n", secrets={"large": "x" * (LARGE // COPIES)})
    assert log_of(world, build_id)[-1].get("state") == "failed"
    error = state_of(world, build_id)["error"]
    assert "more than 32 MiB" in str(error), error
    # The control: a small one.
    build_id = start(world, f"FROM base\n{unique()}\nRUN --mount=type=secret,id=small,env=SMALL test -n \"$SMALL\"\n",
                     secrets={"small": "x" * 1000})
    assert log_of(world, build_id)[-1].get("state") == "ready", state_of(world, build_id)


def test_a_mount_of_a_file_of_the_context(world, base, tmp_path):
    folder = write(tmp_path, "FROM base\nWORKDIR /app\n"
                             "RUN --mount=type=bind,source=list.txt,target=list.txt cat list.txt > /copy\n"
                             "RUN test ! -e /app/list.txt\n", **{"list.txt": "listed"})
    world.json("build", "-t", "bound", folder)
    assert world.atoll("run", "--template", "bound", "--", "cat", "/copy").stdout == "listed"


def test_stages_run_at_the_same_time(world, base):
    """Each stage begins before the other one has ended."""
    def stage(name):
        return f"FROM base AS {name}\n{unique(f'echo {name} begins; sleep 2; echo {name} ends')}\n"

    build_id = start(world, stage("a") + stage("b") + "FROM base\nCOPY --from=a /bin/sh /a\nCOPY --from=b /bin/sh /b\n")
    lines = log_of(world, build_id)
    assert lines[-1]["state"] == "ready", lines
    said = [line["text"].split()[1] for line in lines if line["kind"] == "output"]
    assert said == ["begins", "begins", "ends", "ends"], lines


def test_two_builds_share_a_step(world, base):
    dockerfile = f"FROM base\n{unique('cat /proc/sys/kernel/random/uuid > /id; sleep 1')}\n"
    ids = [start(world, dockerfile, name=name) for name in ("one", "two")]
    for build_id in ids:
        assert log_of(world, build_id)[-1]["state"] == "ready"
    seen = {world.atoll("run", "--template", name, "--", "cat", "/id").stdout for name in ("one", "two")}
    assert len(seen) == 1
    assert sum(state_of(world, build_id)["steps_cached"] for build_id in ids) == 0


def test_cancel_ends_the_step(world, base):
    build_id = start(world, f"FROM base\n{unique('sleep 1000')}\n")
    wait_until(lambda: state_of(world, build_id)["state"] == "running", 30, "the build does not run")
    assert rest_of(world).delete(f"/api/builds/{build_id}").status == 204
    assert log_of(world, build_id)[-1]["state"] == "canceled"
    assert state_of(world, build_id)["error"]["code"] == "canceled"


def test_a_build_that_ends_as_the_oldest_of_too_many(world, base):
    """It is freed at its end, which must not disturb the call that ends it: its second stage fails at once."""
    oldest = start(world, f"FROM base AS one\n{unique('sleep 5')}\nFROM one\nRUN --network=host true\n")
    wait_until(lambda: state_of(world, oldest)["state"] == "running", 30, "the build does not run")
    for _ in range(ENDED_MAX):
        last = start(world, "FROM base\nRUN --network=host true\n")
        assert log_of(world, last)[-1].get("state") == "failed"
    wait_until(lambda: rest_of(world).get(f"/api/builds/{oldest}").status == 404, 30, "it is still listed")
    assert state_of(world, last)["state"] == "failed"


def test_the_log_can_be_read_from_any_offset(world, base):
    build_id = start(world, f"FROM base\n{unique('echo hello')}\n")
    lines = log_of(world, build_id)
    assert [line["kind"] for line in lines] == ["step", "output", "done", "end"]
    assert (lines[0]["line"], lines[1]["text"]) == (2, "hello")
    whole = rest_of(world).get(f"/api/builds/{build_id}/log").body
    assert rest_of(world).get(f"/api/builds/{build_id}/log", offset=10).body == whole[10:]


def test_contexts_are_checked_by_their_digest(world):
    answer = rest_of(world).call("PUT", "/api/builds/contexts/" + "0" * 64, b"\0" * 10240)
    assert answer.status in (400, 500, 502, 409, 422), answer.status
    assert rest_of(world).get("/api/builds/contexts/" + "0" * 64).status == 404


def test_a_killed_daemon_is_continued_at_the_last_finished_step(tmp_path):
    with running(BUILD) as daemon:
        shutil.copy(BUSYBOX, tmp_path / "busybox")
        dockerfile = ("FROM scratch\nCOPY busybox /bin/sh\n"
                      "RUN cat /proc/sys/kernel/random/uuid > /first\nRUN sleep 3; echo done > /second\n")
        folder = write(tmp_path, dockerfile)
        client = threading.Thread(target=daemon.atoll, args=("build", "-t", "survivor", folder), daemon=True)
        client.start()

        def builds():
            return rest_of(daemon).get("/api/builds").json["builds"]
        wait_until(lambda: builds() and builds()[0]["steps_done"] == 2, 60, "the last step does not begin")
        build_id = builds()[0]["id"]
        os.kill(daemon.pid, signal.SIGKILL)
        client.join(60)
        daemon.start()
        lines = log_of(daemon, build_id)
        assert lines[-1].get("state") == "ready", (lines, state_of(daemon, build_id))
        assert "continued by a new daemon" in [line.get("text") for line in lines]
        assert state_of(daemon, build_id)["steps_cached"] == 2
        assert daemon.atoll("run", "--template", "survivor", "--", "/bin/sh", "-c", "cat /second").stdout == "done\n"
        assert state_of(daemon, build_id)["version"] == build_id


def test_the_network_of_a_build():
    """RUN reaches the internet with networkMode bridge, not with none, and not with --network=none."""
    with networked(BUILD) as daemon:
        server = Web(daemon.networks.far.listen(FAR[0], 8080), "one")
        fetch = f"curl -sS --max-time 10 http://{FAR[0]}:8080/page"

        def end(run, mode):
            return log_of(daemon, start(daemon, f"FROM host\n{run}\n", networkMode=mode))[-1].get("state")

        assert end(unique(fetch), "none") == "failed"
        assert end(unique(fetch).replace("RUN", "RUN --network=none"), "bridge") == "failed"
        assert server.asked == []
        assert end(unique(fetch), "bridge") == "ready"
        assert server.asked == [f"{FAR[0]}:8080"]
        server.close()
        left = list((daemon.state / "network").iterdir())
        assert left == [], "the journal of a builder"


def test_copies_from_stages_on_the_host_template(world, tmp_path):
    (tmp_path / "Dockerfile").write_text("""FROM host AS made
RUN mkdir /out && echo one > /out/one && echo two > /usr/local/two
FROM host
COPY --from=made /out/one /usr/local/two /copied/
COPY --from=host /etc/passwd /copied/
RUN --mount=type=bind,from=made,target=/seen cp /seen/out/one /copied/three
""")
    world.atoll("build", "-q", "-t", "copied", str(tmp_path), check=True)
    shown = world.atoll("run", "--template", "copied", "--", "sh", "-c",
                        "cd /copied && cat one two three && grep -c ^root: passwd", check=True)
    assert shown.stdout == "one\ntwo\none\n1\n"
    (tmp_path / "Dockerfile").write_text("FROM host\nCOPY --from=host /usr/bin/sh /copied/\n")
    failed = world.atoll("build", "-q", str(tmp_path))
    assert failed.returncode != 0 and "line 2" in failed.stderr


def test_builds_of_an_ordinary_user(rootless_daemon, tmp_path):
    """A daemon without root builds, too: owners inside are ids of the user's range."""
    root = tmp_path / "root.tar"
    root.write_bytes(docker_engine.busybox_root())
    (tmp_path / "f").write_text("copied\n")
    for path in (tmp_path, *tmp_path.parents[:-2]):
        path.chmod(0o755)  # for the user of that daemon
    rootless_daemon.atoll("template", "import", "small", str(root), check=True)
    (tmp_path / "Dockerfile").write_text("FROM small\nRUN id -u > /made\nCOPY f /f\nRUN chown 12:34 /f && rm -r /mnt\n")
    rootless_daemon.atoll("build", "-q", "-t", "unprivileged", str(tmp_path), check=True)
    shown = rootless_daemon.atoll("run", "--waive", "all", "--template", "unprivileged", "--", "sh", "-c",
                                  "cat /made /f; stat -c %u:%g /f; test -e /mnt || echo gone", check=True)
    assert shown.stdout == "0\ncopied\n12:34\ngone\n"
