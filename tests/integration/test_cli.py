"""The CLI against a real daemon: every verb, and every exit status that is promised."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest

from conftest import wait_until
from rest import Rest

VERBS = ["run", "create", "ls", "ps", "inspect", "kill", "start", "restart", "rename", "code", "health", "net", "mcp", "session create",
         "session ls", "session show", "session run", "session rm", "registry ls", "registry show", "wait", "attach", "events",
         "pull", "images", "top", "port", "prune", "export", "exec", "shell", "ssh", "git", "cp", "sync", "logs", "stats", "preview", "pause", "resume",
         "stop", "rm", "artifacts ls", "artifacts get", "artifacts rm", "template ls",
         "template import", "template debian", "template build", "build", "template show", "template history", "template sbom",
         "template diff", "template save", "push", "template tag", "template share", "template rm", "template gc", "snapshot",
         "snapshots", "fork", "restore", "diff", "history", "undo", "blame", "merge", "try", "task run", "task ls", "task show", "task logs", "task cancel", "task retry", "task take", "task rm",
         "approvals", "volume create", "volume ls", "volume rm", "key create", "key ls", "key rm", "secret create", "secret ls", "secret rm",
         "connector create", "connector login", "connector ls", "connector show", "connector rm", "up",
         "down", "reload", "ca", "vercel env", "vercel ca", "status", "providers", "bench", "doctor", "verify", "completion", "man", "version", "help"]


def ids(daemon):
    return [box["id"] for box in daemon.json("ls")["sandboxes"]]


def json_of(daemon, *args):
    return json.loads(daemon.atoll(*args, "--json", check=True).stdout)


def is_pending(pid, number):
    """Whether a process has a signal that it has not taken yet."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def send_twice(child, number):
    """Two that are pending at once would be one."""
    child.send_signal(number)
    wait_until(lambda: not is_pending(child.pid, number), 30, lambda: "it takes no signal")
    child.send_signal(number)


def popen(daemon, *args, **kwargs):
    return subprocess.Popen([*daemon.prefix, str(daemon.build / "atoll"), *args], env=daemon.env,
                            **kwargs)


# --- usage


def test_overview_names_every_verb(daemon):
    done = daemon.atoll("help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout
    assert daemon.atoll().returncode == 2
    listed = json_of(daemon, "help")["verbs"]
    assert sorted(verb["name"] for verb in listed) == sorted(VERBS)
    assert [verb["name"] for verb in json_of(daemon, "help", "key", "ls")["verbs"]] == ["key ls"]


@pytest.mark.parametrize("group", ["artifacts", "session", "registry", "template", "volume", "key"])
def test_a_group_of_verbs_explains_itself(daemon, group):
    done = daemon.atoll("help", group)
    assert done.returncode == 0 and f"Usage: atoll {group} VERB" in done.stdout
    shown = re.findall(r"^  (\S+ \S+)  ", done.stdout, re.MULTILINE)
    assert shown == [verb["name"] for verb in json_of(daemon, "help", group)["verbs"]]
    assert set(shown) == {verb for verb in VERBS if verb.startswith(f"{group} ")}
    assert daemon.atoll(group, "--help").stdout == done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(daemon, verb):
    by_option = daemon.atoll(*verb.split(), "--help")
    by_verb = daemon.atoll("help", *verb.split())
    assert by_option.returncode == by_verb.returncode == 0
    assert by_option.stdout == by_verb.stdout
    assert f"Usage: atoll {verb}" in by_option.stdout
    assert "--json" in by_option.stdout


@pytest.mark.parametrize("args, said", [
    (["rnu"], "did you mean run?"),
    (["template", "lst"], "did you mean template ls?"),
    (["template"], "ls, import, debian, build, show, history, sbom, diff, save, tag, share, rm, gc"),
    (["run", "--memroy", "1G", "--", "true"], "did you mean --memory?"),
    (["run"], "missing argument"),
    (["exec", "abc"], "missing argument"),
    (["ls", "extra"], "unexpected argument"),
    (["create", "--memory", "much"], "--memory"),
    (["create", "--cpus", "0"], "--cpus"),
    (["create", "--waive", "gravity"], "gravity"),
    (["create", "--on-deadline", "explode"], "must be destroy or pause"),
    (["pause"], "missing argument"),
    (["pause", "../x"], "no sandbox id"),
    (["artifacts", "get", "abc"], "missing argument"),
    (["run", "--env", "=x", "--", "true"], "K=V"),
    (["rm"], "--all"),
    (["rm", "--all", "abc"], "exclude"),
    (["cp", "a", "b"], "SANDBOX:PATH"),
    (["exec", "../x", "--", "true"], "no sandbox id"),
    (["template", "import", "a/b", "."], "not a valid template name"),
    (["template", "debian", "a/b"], "not a valid template name"),
    (["template", "rm", ""], "the name of the template is empty"),
    (["volume", "rm", "a/b"], "not a valid volume name"),
    (["snapshot", "abc", "a/b"], "not a valid template name"),
    (["key", "rm", "../x"], "no key id"),
    (["artifacts", "rm", "../x"], "no sandbox id"),
    (["logs", "--follow", "abc"], "--follow needs an EXEC"),
    (["preview", "--public", "--rm", "abc", "80"], "exclude"),
    (["up", "--listen", "127.0.0.1:1", "--no-listen"], "exclude"),
    (["help", "run", "ls"], "unexpected argument"),
    (["help", "template", "ls", "x"], "unexpected argument"),
    (["help", "rnu"], "did you mean run?"),
    (["--json", "ls"], "options must follow the verb"),
    (["completion", "tcsh"], "use bash, zsh or fish"),
    (["man", "rnu"], "did you mean run?"),
    (["run", "--rm", "--keep", "--", "true"], "--rm cannot be combined with --keep"),
    (["run", "--rm", "-d", "--persistent", "--", "true"], "--detach --rm cannot be combined with --persistent"),
    (["run", "--timeout", "5x", "--", "true"], "5x is not a time"),
    (["create", "--label", "x"], "must be K=V"),
    (["create", "--get-or-create"], "needs --name"),
    (["code", "python", "1", "--file", "x"], "exclude each other"),
    (["session", "run", "../x", "1"], "no session id"),
    (["registry", "ls", "things"], "must be environments, agents"),
    (["ls", "--filter", "running"], "must be K=V"),
    (["logs", "--tail", "some", "abc", "def"], "number of lines"),
    (["logs", "--tail", "3", "abc"], "--tail needs an EXEC"),
    (["logs", "--since", "soon", "abc"], "must be a time"),
    (["logs", "--since", "1m", "abc", "def"], "has no times"),
    (["kill", "--signal", "SIGNONE", "abc"], "unknown signal"),
    (["man", "run", "ls"], "unexpected argument"),
])
def test_bad_usage_is_status_2_and_says_what_is_wrong(daemon, args, said):
    done = daemon.atoll(*args)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def candidates(daemon, *words, shell="fish"):
    done = daemon.atoll("completion", shell, "--", *words)
    assert done.returncode == 0 and done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def test_help_completion_and_manual_have_every_verb_and_option(daemon, tmp_path):
    daemon.atoll("man", "--directory", tmp_path, check=True)
    overview = daemon.atoll("help").stdout
    program = (tmp_path / "atoll.1").read_text()
    verbs = json_of(daemon, "help")["verbs"]
    assert len(list(tmp_path.iterdir())) == 1 + len(verbs)
    for verb in verbs:
        words, page = verb["name"].split(), "atoll-" + verb["name"].replace(" ", "-")
        explained = daemon.atoll("help", *words).stdout
        manual = (tmp_path / f"{page}.1").read_text().replace("\\-", "-")
        assert daemon.atoll("man", *words).stdout.replace("\\-", "-") == manual
        assert f"{verb['name']} " in overview and page in program.replace("\\-", "-")
        assert words[-1] in candidates(daemon, *words)
        offered = candidates(daemon, *words, "-")
        for option in verb["options"]:
            spelled = f"--{option['name']}"
            assert spelled in explained and option["help"] in explained
            assert spelled in manual and option["help"].replace("\\", "\\e") in manual
            assert spelled in offered
            assert not option["letter"] or f"-{option['letter']}" in offered


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_manual_pages_are_well_formed(daemon, tmp_path):
    daemon.atoll("man", "--directory", tmp_path, check=True)
    done = subprocess.run(["groff", "-Kutf8", "-man", "-ww", "-Tutf8", *sorted(tmp_path.iterdir())],
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_completion_knows_where_values_come_from(daemon):
    first = json_of(daemon, "create")["id"]
    second = json_of(daemon, "create")["id"]
    try:
        exec_id = daemon.atoll("exec", "--detach", first, "true", check=True).stdout.strip()
        assert {first, second} <= set(candidates(daemon, "exec", ""))
        assert candidates(daemon, "exec", first[:20]) == [first]
        assert {first, second} <= set(candidates(daemon, "rm", first, ""))
        assert candidates(daemon, "logs", first[:20], "") == [exec_id]
        assert candidates(daemon, "logs", "--follow", first, exec_id[:4]) == [exec_id]
        assert candidates(daemon, "cp", second[:20]) == [f"{second}:", "@files"]
        assert "host" in candidates(daemon, "create", "--template", "")
        assert "native" in candidates(daemon, "run", "--provider", "n")
    finally:
        daemon.atoll("rm", first, second, check=True)
    assert candidates(daemon, "run", "--network", "") == ["none", "isolated", "bridge"]
    assert candidates(daemon, "run", "--network=i") == ["--network=isolated"]
    assert candidates(daemon, "run", "--network", "=", "i", shell="bash") == ["isolated"]
    assert candidates(daemon, "template", "") == ["ls", "import", "debian", "build", "show", "history",
                                                 "sbom", "diff", "save", "tag", "share", "rm", "gc"]
    assert candidates(daemon, "template") == ["template"]
    assert candidates(daemon, "up", "--state", "") == ["@directories"]
    assert candidates(daemon, "run", "--", "l") == ["@files"]
    assert candidates(daemon, "run", "ls", "-") == ["@files"]
    assert candidates(daemon, "xyzzy", "") == []


def test_completion_without_a_daemon_is_silent(daemon, tmp_path):
    env = {**daemon.env, "ATOLL_SOCKET": str(tmp_path / "none.sock")}
    done = subprocess.run([daemon.build / "atoll", "completion", "bash", "--", "exec", ""], env=env,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_bash_completes(daemon, tmp_path):
    """The script itself, with the variables that bash would set."""
    (tmp_path / "a file").touch()
    sandbox = json_of(daemon, "create")["id"]
    script = f"""
        compopt() {{ printf 'option %s\\n' "$2"; }}
        source <({daemon.build}/atoll completion bash)
        ask() {{
            COMP_WORDS=({daemon.build}/atoll "$@") COMP_CWORD=$#
            _atoll && printf '<%s>\\n' "${{COMPREPLY[@]}}"
        }}
        ask cre; ask exec {sandbox[:20]}; ask cp {sandbox[:20]}; ask down --socket ""
    """
    done = subprocess.run(["bash", "-ec", script], env=daemon.env, cwd=tmp_path,
                          capture_output=True, text=True)
    daemon.atoll("rm", sandbox, check=True)
    assert done.stdout.splitlines() == [
        "<create>", f"<{sandbox}>", "option nospace", "option filenames", f"<{sandbox}:>",
        "option filenames", "<a file>"], done.stderr


def test_an_id_may_be_abbreviated(daemon):
    sandbox = json_of(daemon, "create")["id"]
    short = sandbox[:12]
    assert daemon.atoll("exec", short, "echo", "hi").stdout == "hi\n"
    exec_id = json_of(daemon, "logs", sandbox)["execs"][0]["exec_id"]
    assert daemon.atoll("logs", short, exec_id[:10]).stdout == "hi\n"
    assert short in daemon.atoll("stats", short, check=True).stdout
    for verb in ("pause", "resume"):
        assert daemon.atoll(verb, short, check=True).stdout == f"{short}\n"
    assert daemon.atoll("exec", sandbox[:3], "true").returncode == 125  # below four characters
    assert daemon.atoll("rm", short, check=True).stdout == f"{short}\n"


def test_an_ambiguous_prefix_is_refused(daemon):
    """The daemon finds sandboxes; ids of other things are found in its lists, and this one is simulated."""
    class Twins(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"keys": [{"id": "abcd1" + "x" * 21}, {"id": "abcd2" + "x" * 21}]})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    done = with_server(daemon, Twins, "key", "rm", "abcd")
    assert done.returncode == 2 and "beginning of several ids" in done.stderr


def test_a_sandbox_has_a_name(daemon, tmp_path):
    name = "work-" + "1" * 50
    sandbox = daemon.atoll("create", "--name", name, "--get-or-create", check=True).stdout.strip()
    try:
        again = daemon.atoll("create", "--name", name, "--get-or-create", check=True)
        assert again.stdout.strip() == sandbox
        taken = daemon.atoll("create", "--name", name)
        assert taken.returncode == 1 and "already" in taken.stderr
        listed = daemon.atoll("ls", "--filter", f"name={name}").stdout
        assert "NAME" in listed and name in listed and sandbox in listed
        assert name in candidates(daemon, "exec", "work")
        assert f"{name}:" in candidates(daemon, "cp", "work")
        (tmp_path / "file").write_text("there and back")
        daemon.atoll("cp", tmp_path / "file", f"{name}:there", check=True)
        assert daemon.atoll("cp", f"{name}:there", "-", check=True).stdout == "there and back"
        done = json.loads(daemon.atoll("exec", "--json", name, "echo", "hi", check=True).stdout)
        assert done["sandbox_id"] == sandbox and done["stdout"] == "hi\n"
        exec_id = json_of(daemon, "logs", name)["execs"][0]["exec_id"]
        assert candidates(daemon, "logs", name, "") == [exec_id]
        assert daemon.atoll("logs", name, exec_id[:10], check=True).stdout == "hi\n"
        assert daemon.atoll("wait", name, exec_id, check=True).stdout == "0\n"
        daemon.atoll("rename", name, "Other.1", check=True)
        assert daemon.atoll("exec", name, "true").returncode == 125
        assert json_of(daemon, "inspect", "Other.1")[0]["id"] == sandbox
        bad = daemon.atoll("create", "--name", "a b")
        assert bad.returncode == 1 and "--name must" in bad.stderr
        with popen(daemon, "events", "--since", "1h", "Other.1", stdout=subprocess.PIPE,
                   text=True) as child:
            assert f"sandbox.created {sandbox}" in child.stdout.readline()
            child.kill()
    finally:
        daemon.atoll("rm", sandbox, check=True)
    assert daemon.atoll("run", "--name", "short-lived", "--", "echo", "hi").stdout == "hi\n"


def test_ended_sandboxes_are_listed(daemon):
    sandbox = daemon.create("--name", "gone", "--label", "ended=here")
    daemon.atoll("exec", sandbox, "sh", "-c", "exit 3")
    session = daemon.atoll("session", "create", "Python3", check=True).stdout.strip()
    daemon.atoll("session", "rm", session, check=True)
    daemon.atoll("rm", "gone", check=True)
    assert sandbox not in daemon.atoll("ls").stdout
    assert re.search(rf"{sandbox} +gone +ended \(request\) ", daemon.atoll("ls", "-a").stdout)
    chosen = daemon.atoll("ps", "-aq", "--filter", "state=ended", "--filter", "label=ended=here").stdout
    assert chosen == f"{sandbox}\n"
    assert json_of(daemon, "inspect", sandbox)[0]["end"] == "request"
    assert "exited 3" in daemon.atoll("logs", sandbox, check=True).stdout
    assert json_of(daemon, "session", "show", session)["session_id"] == session


def test_a_sandbox_has_a_working_directory(daemon):
    assert daemon.atoll("run", "--workdir", "/home/user/a/b", "--", "pwd").stdout == "/home/user/a/b\n"
    sandbox = daemon.atoll("create", "--workdir", "/home/user/w", check=True).stdout.strip()
    assert daemon.atoll("exec", sandbox, "pwd").stdout == "/home/user/w\n"
    assert daemon.atoll("exec", "--workdir", "/tmp", sandbox, "pwd").stdout == "/tmp\n"
    daemon.atoll("rm", sandbox, check=True)
    bad = daemon.atoll("create", "--workdir", "relative")
    assert bad.returncode == 1 and "--workdir" in bad.stderr


def test_the_root_may_be_read_only(daemon):
    for options, status in ([], 0), (["--read-only"], 1):
        done = daemon.atoll("run", "-u", "root", *options, "--", "sh", "-c", "touch /srv/x")
        assert done.returncode == status, done.stderr


# --- code, sessions, the registry, health


def test_code_in_a_new_sandbox(daemon, tmp_path):
    before = ids(daemon)
    done = daemon.atoll("code", "python", "import sys\nprint(1)\nprint(2, file=sys.stderr)\n6 * 7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n42\n", "2\n")
    (tmp_path / "job.sh").write_text("echo $A $PWD; exit 3\n")
    done = daemon.atoll("code", "--file", tmp_path / "job.sh", "-e", "A=b", "-w", "/tmp", "bash")
    assert (done.returncode, done.stdout) == (3, "b /tmp\n")
    for language, code, status in [("python", "import sys; sys.exit(5)", 5), ("bash", "false", 1),
                                   ("python", "import os; os._exit(6)", 6)]:
        done = daemon.atoll("code", language, code)
        assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    done = daemon.atoll("code", "python", "1/0")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    done = daemon.atoll("code", "--timeout", "500ms", "python", "while True: pass")
    assert done.returncode == 124
    execution = json.loads(daemon.atoll("code", "--json", "python", "40 + 2").stdout)
    assert execution["results"][0]["text"] == "42" and execution["error"] is None
    done = daemon.atoll("code", "cobol", "STOP RUN.")
    assert done.returncode == 125 and "cobol" in done.stderr
    assert ids(daemon) == before


def test_code_in_a_given_sandbox_from_input(daemon, sandbox):
    done = subprocess.run([daemon.build / "atoll", "code", "--in", sandbox[:12], "python"], env=daemon.env,
                          input="open('made', 'w').write('by code')\n", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    assert daemon.atoll("exec", sandbox, "cat", "made").stdout == "by code"
    assert Rest(daemon.socket).get(f"/api/sandboxes/{sandbox}/contexts").json["contexts"] == []


def test_output_of_code_is_shown_as_it_comes(daemon):
    """And a killed `atoll code` leaves no sandbox."""
    before = ids(daemon)
    code = "import time\nprint('first', flush=True)\ntime.sleep(600)"
    with popen(daemon, "code", "python", code, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "first\n"
        assert ids(daemon) != before
        child.kill()
    wait_until(lambda: ids(daemon) == before, 30, lambda: "the sandbox is still there")


def test_session_verbs(daemon, tmp_path):
    (tmp_path / "agent.json").write_text('{"model": "m"}')
    session = daemon.atoll("session", "create", "Python3", "--agent-config", tmp_path / "agent.json",
                           "--memory", "256m", "-e", "A=b", check=True).stdout.strip()
    shown = json.loads(daemon.atoll("session", "show", session, check=True).stdout)
    assert shown["agent_config"] == {"model": "m"} and shown["sandbox"]["limits"]["memoryMB"] == 256
    assert session in daemon.atoll("session", "ls", check=True).stdout
    assert session in candidates(daemon, "session", "run", "")
    assert "Python3" in candidates(daemon, "session", "create", "Py")
    assert daemon.atoll("session", "run", session, "x = 20", check=True).stdout == ""
    done = daemon.atoll("session", "run", session[:12], "import os\nprint(os.environ['A'])\nx + 1")
    assert (done.returncode, done.stdout) == (0, "b\n21\n")
    done = daemon.atoll("session", "run", "--language", "bash", session, "exit 4")
    assert done.returncode == 4
    done = daemon.atoll("session", "run", session, "x.y")
    assert done.returncode == 1 and "AttributeError" in done.stderr
    assert json.loads(daemon.atoll("session", "run", "--json", session, "x").stdout)["exit_code"] == 0
    (tmp_path / "bad.json").write_text("[]")
    bad = daemon.atoll("session", "create", "Python3", "--agent-config", tmp_path / "bad.json")
    assert bad.returncode == 2 and "not a JSON object" in bad.stderr
    assert daemon.atoll("session", "rm", session, check=True).stdout == f"{session}\n"
    assert session not in daemon.atoll("session", "ls").stdout


def test_export(daemon, tmp_path):
    """Sessions that run and that have ended, with their output and files."""
    rest = Rest(daemon.socket)
    made = rest.post("/api/sessions", {"environment": "Bash", "artifacts": ["out/**"],
                                       "agent_config": {"model": "m"}}).json
    living = daemon.atoll("session", "create", "Bash", check=True).stdout.strip()
    try:
        box = f"/api/sandboxes/{made['sandbox_id']}"
        ran = rest.post(f"{box}/execs?wait=true", {"cmd": ["sh", "-c", "mkdir -p out/deep; "
                        "echo kept > 'out/deep/a b'; echo said; echo else > other"]}).json
        assert rest.delete(f"/api/sessions/{made['session_id']}").status == 204
        assert rest.put(f"/api/sessions/{living}/files", b"alive", path="mine/file").status == 200
        out = tmp_path / "storage"
        first = daemon.atoll("export", "--out", out, made["session_id"])
        assert (first.returncode, first.stdout) == (0, made["session_id"] + "\n"), first
        view = json.loads((out / "sessions" / f"{made['session_id']}.json").read_text())
        assert view["state"] == "ended" and view["agent_config"] == {"model": "m"}
        assert ran["exec_id"] in [x["exec_id"] for x in view["execs"]]
        log = (out / "logs" / made["session_id"] / f"{ran['exec_id']}.jsonl").read_text()
        assert json.loads(log.splitlines()[0])["data"] == "said\n" and '"result"' in log
        kept = out / "artifacts" / made["session_id"]
        assert [str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()] == ["out/deep/a b"]
        assert (kept / "out/deep/a b").read_text() == "kept\n"
        # All of them, once more over the same files; a link in the way is replaced, not followed.
        (kept / "out/deep/a b").unlink()
        (kept / "out/deep/a b").symlink_to(tmp_path / "outside")
        exported = json_of(daemon, "export", "--out", out)["exported"]
        assert {made["session_id"], living} <= set(exported)
        assert not (tmp_path / "outside").exists()
        assert (out / "artifacts" / living / "mine/file").read_text() == "alive"
        assert json.loads((out / "sessions" / f"{living}.json").read_text())["state"] == "running"
        wrong = daemon.atoll("export", "--out", out, "0" * 26)
        assert wrong.returncode == 1 and "does not exist" in wrong.stderr
        listed = {s["session_id"]: s["state"] for s in json_of(daemon, "session", "ls", "-a")["sessions"]}
        assert listed[made["session_id"]] == "ended" and listed[living] == "running"
        assert made["session_id"] not in daemon.atoll("session", "ls", check=True).stdout
    finally:
        rest.delete(f"/api/sessions/{living}")


def test_registry_verbs(daemon):
    assert re.search(r"^environments +Python3$", daemon.atoll("registry", "ls").stdout, re.MULTILINE)
    listed = daemon.atoll("registry", "ls", "environments", check=True).stdout
    assert re.search(r"^Python3 +python +Python 3", listed, re.MULTILINE)
    shown = json.loads(daemon.atoll("registry", "show", "environments", "Python3", check=True).stdout)
    assert shown["language"] == "python"
    assert daemon.atoll("registry", "show", "agents", "missing").returncode == 1
    assert candidates(daemon, "registry", "ls", "t") == ["tools"]


def test_health(daemon, sandbox):
    done = daemon.atoll("health", sandbox[:12])
    assert done.returncode == 0 and re.search(rf"{sandbox} +ok +running +\d+ ms", done.stdout)
    assert sandbox in [one["id"] for one in json_of(daemon, "health")["sandboxes"]]


# --- what Docker users type


def test_detached_run_with_labels(daemon, tmp_path):
    """run -d, wait, attach, logs --tail, inspect, ls -q/--filter/--format, kill, top."""
    (tmp_path / "env").write_text("# comment\n\nA=from file\n  B=x=y\nHOME_COPY\nE=file\r\n")
    script = 'for i in 1 2 3 4 5; do echo $i; done; echo "$A|$B|$HOME_COPY|$E"; echo err >&2; exec sleep 60'
    env = {**daemon.env, "HOME_COPY": "mine"}
    done = subprocess.run([daemon.build / "atoll", "run", "-d", "--label", "task=42", "-l", "who=me",
                           "--env-file", tmp_path / "env", "-e", "E=option", "-w", "/tmp", "--timeout", "5m",
                           "--memory", "128m", "--", "sh", "-c", script],
                          env=env, capture_output=True, text=True, check=True)
    sandbox = done.stdout.strip()
    try:
        view = json_of(daemon, "inspect", sandbox)[0]
        assert view["metadata"] == {"task": "42", "who": "me"} and view["limits"]["memoryMB"] == 128
        assert json.loads(daemon.atoll("inspect", sandbox).stdout) == [view]
        form = "{{.ID}} {{ .State }}\\t{{.Limits.memoryMB}} {{.Nothing}}."
        assert daemon.atoll("inspect", "--format", form, sandbox).stdout == f"{sandbox} running\t128 .\n"
        for filters in (["label=task"], ["label=task=42"], ["state=running", "label=who=me"],
                        [f"id={sandbox[:8]}"], ["state=stopped", "state=running", "label=task"]):
            args = [word for one in filters for word in ("--filter", one)]
            assert daemon.atoll("ps", "-q", *args).stdout.split() == [sandbox], filters
        for other in ("label=task=43", "label=nothing", "state=stopped", "provider=moon"):
            assert sandbox not in daemon.atoll("ls", "-q", "--filter", other).stdout
        listed = daemon.atoll("ls", "--filter", "label=task", "--format", "json").stdout
        assert json.loads(listed)["id"] == sandbox

        exec_id = json_of(daemon, "logs", "--since", "5m", sandbox)["execs"][0]["exec_id"]
        assert json_of(daemon, "logs", "--since", "1ms", sandbox)["execs"] == []
        assert len(json_of(daemon, "logs", "--since", "2020-01-01T00:00:00Z", sandbox)["execs"]) == 1
        wait_until(lambda: "err" in daemon.atoll("logs", sandbox, exec_id).stderr, 30, lambda: "no output")
        tail = daemon.atoll("logs", "--tail", "3", sandbox, exec_id)
        assert tail.stdout == "5\nfrom file|x=y|mine|option\n" and "err\n" in tail.stderr
        assert daemon.atoll("logs", "--tail", "0", sandbox, exec_id).stdout == ""
        assert "sleep 60" in daemon.atoll("top", sandbox, check=True).stdout
        attached = popen(daemon, "attach", sandbox, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        waiting = popen(daemon, "wait", sandbox, exec_id, stdout=subprocess.PIPE)
        assert waiting.poll() is None
        assert daemon.atoll("kill", "--signal", "term", sandbox, check=True).stdout.strip() == exec_id
        assert waiting.communicate(timeout=30)[0] == b"143\n" and waiting.returncode == 0
        assert attached.communicate(timeout=30)[0] == b"" and attached.returncode == 143
        assert daemon.atoll("wait", sandbox, exec_id).stdout == "143\n"
        assert daemon.atoll("kill", sandbox, check=True).stdout == ""  # nothing runs any more
    finally:
        daemon.atoll("rm", sandbox, check=True)


def state_of(daemon, sandbox):
    return json_of(daemon, "inspect", sandbox)[0]["state"]


def test_a_detached_run_can_end_with_its_command(daemon):
    """As in Docker; what it printed can still be read."""
    def run(*options):
        return daemon.atoll("run", "-d", *options, "--", "sh", "-c", "echo said; sleep 1",
                            check=True).stdout.strip()

    sandbox, stays = run("--rm"), run()
    assert state_of(daemon, sandbox) == "running"
    assert daemon.atoll("wait", sandbox, check=True).stdout == "0\n"
    wait_until(lambda: state_of(daemon, sandbox) == "ended", 30, lambda: "it lives on")
    exec_id = json_of(daemon, "logs", sandbox)["execs"][0]["exec_id"]
    assert daemon.atoll("logs", sandbox, exec_id, check=True).stdout == "said\n"
    assert state_of(daemon, stays) == "running"
    daemon.atoll("rm", stays, check=True)


def test_attach_with_input(daemon):
    sandbox = daemon.atoll("run", "-d", "-i", "--", "sh", "-c",
                           "while read -r line; do echo got $line; [ $line = end ] && exit 5; done",
                           check=True).stdout.strip()
    try:
        # The end of our input is not the end of its input.
        first = popen(daemon, "attach", sandbox, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        first.stdin.write(b"one\n")
        first.stdin.close()
        assert first.stdout.readline() == b"got one\n"
        first.send_signal(signal.SIGINT)  # leaves it
        assert first.wait(30) == 130
        first.stdout.close()
        assert state_of(daemon, sandbox) == "running"
        second = daemon.atoll("attach", sandbox, input="two\nend\n")
        assert (second.returncode, second.stdout) == (5, "got two\ngot end\n"), second
    finally:
        daemon.atoll("rm", sandbox, check=True)


def test_attach_to_a_terminal(daemon):
    sandbox = daemon.atoll("run", "-dit", "--", "sh", check=True).stdout.strip()
    try:
        master, slave = os.openpty()
        attached = popen(daemon, "attach", sandbox, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""

        def expect(text):
            nonlocal seen
            deadline = time.monotonic() + 30
            while text not in seen and time.monotonic() < deadline:
                if select.select([master], [], [], 1)[0]:
                    seen += os.read(master, 4096)
            assert text in seen, seen
        wait_until(lambda: select.select([master], [], [], 0)[0] or os.write(master, b"\r"), 30,
                   lambda: "no prompt")
        os.write(master, b"echo $((6*7))\r")
        expect(b"42")
        os.write(master, b"\x10")
        os.write(master, b"\x11")
        expect(b"which continues")
        assert attached.wait(30) == 0
        os.close(master)
        assert json_of(daemon, "logs", sandbox)["execs"][0]["state"] == "running"
    finally:
        daemon.atoll("rm", sandbox, check=True)


def test_the_group_of_a_command_can_be_chosen(daemon):
    def ids_of(user):
        return daemon.atoll("run", "--rm", "-u", user, "--", "sh", "-c", "id -u; id -g", check=True).stdout.split()

    assert ids_of("1000:1000") == ids_of("user:user") == ["1000", "1000"]
    assert ids_of("1000:0") == ["1000", "0"] and ids_of("root:user") == ["0", "1000"]
    assert ids_of("1234:4321") == ["1234", "4321"]
    assert "unknown group" in daemon.atoll("run", "-u", "user:nosuch", "--", "true").stderr


def test_restart_start_and_prune(daemon):
    sandbox = json_of(daemon, "create", "--persistent", "--label", "prune=me")["id"]
    other = json_of(daemon, "create")["id"]
    try:
        daemon.atoll("exec", sandbox, "sh", "-c", "echo kept > file", check=True)
        assert daemon.atoll("restart", sandbox, check=True).stdout == f"{sandbox}\n"
        assert daemon.atoll("exec", sandbox, "cat", "file").stdout == "kept\n"
        daemon.atoll("stop", sandbox, check=True)
        assert json_of(daemon, "start", sandbox) == {"started": [sandbox]}
        daemon.atoll("stop", sandbox, check=True)
        refused = popen(daemon, "prune", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert "--force" in refused.communicate()[1] and refused.returncode == 2 and sandbox in ids(daemon)
        assert daemon.atoll("prune", "-f", "--filter", "label=prune=you").stdout == ""
        assert daemon.atoll("prune", "-f", "--filter", "label=prune=me").stdout == f"{sandbox}\n"
        assert sandbox not in ids(daemon) and other in ids(daemon)
    finally:
        daemon.atoll("rm", other, check=True)


def test_events_are_shown_as_they_happen(daemon):
    sandbox = json_of(daemon, "create")["id"]
    child = popen(daemon, "events", "--since", "1h", sandbox[:10], stdout=subprocess.PIPE, text=True)
    try:
        assert f" sandbox.created {sandbox}" in child.stdout.readline()
        daemon.atoll("rm", sandbox, check=True)
        assert f" sandbox.destroyed {sandbox}" in child.stdout.readline()
    finally:
        child.kill()
        child.communicate()


def test_ports_are_listed(daemon):
    sandbox = json_of(daemon, "create")["id"]
    assert daemon.atoll("port", sandbox, check=True).stdout == ""
    daemon.atoll("preview", sandbox, "8000", check=True)
    assert daemon.atoll("port", sandbox).stdout.startswith("8000\t")
    daemon.atoll("rm", sandbox, check=True)


def test_waived_limits_are_not_shown_as_limits(daemon):
    """The host of the test may enforce them all, so the daemon's answer is simulated."""
    class Waived(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"sandboxes": [{"id": "x" * 26, "state": "running", "waived": ["memory"],
                                              "limits": {"memoryMB": 77, "cpuCores": 3, "diskMB": 88}}]})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    shown = with_server(daemon, Waived, "ls").stdout
    assert "77M" not in shown and "88M" in shown and " 3 " in shown and "memory" in shown


def with_server(daemon, handler, *args):
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        env = {"ATOLL_URL": f"http://127.0.0.1:{server.server_port}"}
        done = subprocess.run([daemon.build / "atoll", *args], env=env, capture_output=True, text=True)
        server.shutdown()
        thread.join()
    return done


def test_links_are_copied_into_a_sandbox(daemon, tmp_path):
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "tool.js").write_text("tool")
    (tree / "bin/tool").symlink_to("../tool.js")
    (tree / "bin/gone").symlink_to("/no/such &? file")
    sandbox = json_of(daemon, "create")["id"]
    try:
        for _ in range(2):  # the second copy replaces the links
            report = json_of(daemon, "cp", "-r", tree, f"{sandbox[:8]}:")
            assert (report["files"], report["links"], report["skipped"]) == (1, 2, [])
        script = "cat tree/bin/tool; readlink tree/bin/tool tree/bin/gone"
        assert daemon.atoll("exec", sandbox, "sh", "-c", script).stdout == "tool../tool.js\n/no/such &? file\n"
    finally:
        daemon.atoll("rm", sandbox, check=True)


# --- the program itself


def test_tls_libraries_are_loaded_only_for_https(daemon):
    """Loading them takes longer than the rest of the program's start. test_up.py has https:// itself."""
    loaded = subprocess.run(["ldd", daemon.build / "atoll"], capture_output=True, text=True, check=True).stdout
    assert "libjansson" in loaded
    assert not re.search(r"libssl|libcrypto|libcurl|nghttp2|sqlite", loaded)


def test_version(daemon):
    assert re.fullmatch(r"atoll \d+\.\d+\.\d+\n", daemon.atoll("version").stdout)
    assert daemon.json("version")["version"] == daemon.atoll("--version").stdout.split()[1]


def test_no_daemon_says_what_to_do(daemon, tmp_path):
    env = {**daemon.env, "ATOLL_SOCKET": str(tmp_path / "none.sock")}
    for verb, status in (["ls"], 1), (["run", "--", "true"], 125):
        done = subprocess.run([daemon.build / "atoll", *verb], env=env, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == status
        assert "cannot reach the daemon at" in done.stderr and "none.sock" in done.stderr
        assert "atolld" in done.stderr


# --- run


def test_run_connects_output_and_status(daemon):
    done = daemon.atoll("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_run_takes_the_command_without_dashes(daemon):
    assert daemon.atoll("run", "echo", "--json", "-t").stdout == "--json -t\n"


def test_run_leaves_no_sandbox(daemon):
    before = ids(daemon)
    daemon.atoll("run", "--", "true", check=True)
    daemon.atoll("run", "--", "no-such-command")
    assert ids(daemon) == before


def test_run_passes_input_on(daemon):
    data = os.urandom(3_000_000)
    done = daemon.atoll("run", "--", "cat", input=data, binary=True)
    assert done.returncode == 0
    assert done.stdout == data


def test_run_with_more_input_than_is_read(daemon):
    done = daemon.atoll("run", "--", "sh", "-c", "head -c 3; exit 4", input="abc" * 2_000_000)
    assert (done.returncode, done.stdout) == (4, "abc")


def test_run_status_of_a_signal(daemon):
    done = daemon.atoll("run", "--", "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 128 + signal.SIGSEGV
    assert "SIGSEGV" in done.stderr


def test_run_status_of_a_timeout(daemon):
    start = time.monotonic()
    done = daemon.atoll("run", "--timeout", "0.5", "--", "sh", "-c", "sleep 60 & sleep 60")
    assert done.returncode == 124
    assert "timed out" in done.stderr
    assert time.monotonic() - start < 50


def test_run_status_of_memory_exhaustion(daemon):
    done = daemon.atoll("run", "--memory", "32M", "--", "tail", "/dev/zero")
    assert done.returncode == 137
    assert "out of memory" in done.stderr and "32M" in done.stderr


def test_run_says_that_a_budget_is_spent(daemon):
    done = daemon.atoll("run", "--output-budget", "1000", "--", "yes")
    assert done.returncode == 137
    assert done.stderr == ("atoll: the command was killed by SIGKILL "
                           "(the sandbox's output budget of 1000 bytes is spent)\n")


def test_memory_that_a_child_exhausts(daemon):
    """Nobody knows the child's name: the sentence does not leave a hole for it."""
    done = daemon.atoll("run", "--memory", "32M", "--", "sh", "-c", "tail /dev/zero; exit 3")
    assert done.returncode == 3
    assert "the kernel killed a process at 32M of 32M" in done.stderr


@pytest.mark.parametrize("args, status", [(["--", "no-such-command"], 127), (["--", "/etc/passwd"], 126),
                                          (["--", "/tmp"], 126)])
def test_run_status_of_a_missing_command(daemon, args, status):
    assert daemon.atoll("run", *args).returncode == status


@pytest.mark.parametrize("args", [
    ["--env-file", "/no/such/file", "--", "true"],
    ["--user", "nobody-here", "--", "true"],
    ["--cwd", "/no/such/dir", "--", "true"],
    ["--template", "no-such-template", "--", "true"],
    ["--file", "/no/such/file:x", "--", "true"],
])
def test_run_status_when_it_cannot_run(daemon, args):
    done = daemon.atoll("run", *args)
    assert done.returncode == 125
    assert done.stderr.startswith("atoll: ")
    assert done.stdout == ""


def test_run_json(daemon):
    result = daemon.json("run", "--", "sh", "-c", "echo out; echo err >&2")
    assert result["stdout"] == "out\n" and result["stderr"] == "err\n"
    assert result["sandbox_id"] and result["exec_id"]
    assert result["result"]["kind"] == "exited" and result["result"]["exit_code"] == 0
    assert "usage" in result["result"]


def test_run_json_of_bytes_and_signals(daemon):
    done = daemon.atoll("run", "--json", "--", "sh", "-c", r"printf 'a\000\377'; kill -TERM $$")
    result = json.loads(done.stdout)
    assert done.returncode == 128 + signal.SIGTERM
    assert result["stdout"] == "a\0\ufffd" and result["stdout_base64"] == "YQD/"
    assert result["result"]["signal"] == signal.SIGTERM
    assert result["result"]["signal_name"] == "SIGTERM"


def test_run_json_of_a_failure(daemon):
    done = daemon.atoll("run", "--json", "--", "no-such-command")
    assert done.returncode == 127
    assert "no-such-command" in json.loads(done.stdout)["error"]["message"]


def test_run_environment_user_and_cwd(daemon):
    shown = daemon.atoll("run", "--env", "A=b c", "--cwd", "/tmp", "--", "sh", "-c",
                         'echo "$A $(pwd) $(id -un) $HOME"', check=True).stdout
    assert shown == "b c /tmp user /home/user\n"
    assert daemon.atoll("run", "--user", "root", "--", "id", "-u").stdout == "0\n"


def test_run_brings_files(daemon, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\necho from the script\n")
    script.chmod(0o755)
    shown = daemon.atoll("run", "--file", f"{script}:bin/job", "--file", str(script), "--", "sh",
                         "-c", "bin/job && ls job.sh && stat -c %a bin/job", check=True).stdout
    assert shown == "from the script\njob.sh\n755\n"


def test_run_brings_big_files_and_directories(daemon, tmp_path):
    before = ids(daemon)
    (tmp_path / "big").write_bytes(b"x" * 9_000_000)
    (tmp_path / "dir" / "sub").mkdir(parents=True)
    (tmp_path / "dir" / "sub" / "f").write_text("inner\n")
    shown = daemon.atoll("run", "--file", f"{tmp_path}/big:big", "--file", f"{tmp_path}/dir:dir",
                         "--", "sh", "-c", "wc -c < big; cat dir/sub/f", check=True).stdout
    assert shown == "9000000\ninner\n"
    assert ids(daemon) == before


def test_run_keep(daemon):
    done = daemon.atoll("run", "--keep", "--", "sh", "-c", "echo left > note", check=True)
    box = re.search(r"sandbox (\w+) is kept", done.stderr)[1]
    assert daemon.atoll("exec", box, "--", "cat", "note").stdout == "left\n"
    assert daemon.atoll("rm", box).returncode == 0


def test_first_interrupt_is_passed_on(daemon):
    child = popen(daemon, "run", "--", "sh", "-c",
                  "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done",
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 9
    assert child.stdout.read() == "caught\n"


def test_second_interrupt_gives_up(daemon):
    before = ids(daemon)
    child = popen(daemon, "run", "--", "sh", "-c", "trap '' INT; echo ready; sleep 60; sleep 60",
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    send_twice(child, signal.SIGINT)
    assert child.wait(30) == 128 + signal.SIGINT
    child.stdout.close()
    assert ids(daemon) == before


def test_interrupt_gets_past_input_nobody_reads(daemon):
    child = popen(daemon, "run", "--", "sh", "-c", "echo ready; exec sleep 60",
                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    os.set_blocking(child.stdin.fileno(), False)
    quiet = 0
    while quiet < 5:  # until no more input is taken
        try:
            os.write(child.stdin.fileno(), b"x" * 65536)
            quiet = 0
        except BlockingIOError:
            quiet += 1
            time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 128 + signal.SIGINT
    child.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()


def test_output_nobody_reads_ends_the_command(daemon):
    child = popen(daemon, "run", "--", "yes", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"y\n"
    child.stdout.close()
    assert child.wait(30) == 128 + signal.SIGPIPE


# --- sandboxes


def test_create_ls_rm(daemon):
    box = daemon.create("--memory", "64M", "--cpus", "0.5", "--disk", "32M", "--pids", "50",
                        "--timeout", "600", "--env", "A=b")
    shown = next(b for b in daemon.json("ls")["sandboxes"] if b["id"] == box)
    assert shown["state"] == "running" and shown["template"] == "host"
    assert shown["limits"]["memoryMB"] == 64 and shown["limits"]["cpuCores"] == 0.5
    assert shown["limits"]["diskMB"] == 32 and shown["limits"]["pids"] == 50
    assert shown["expires_at"]
    table = daemon.atoll("ls", check=True).stdout
    assert re.search(rf"{box} +- +running +native +host .* 64M +0.5 +32M", table)
    assert "\033" not in table
    assert daemon.atoll("exec", box, "--", "sh", "-c", "echo $A").stdout == "b\n"
    assert daemon.atoll("rm", box).stdout == f"{box}\n"
    assert box not in ids(daemon)


def test_create_json(daemon):
    box = daemon.json("create")
    assert box["state"] == "running"
    assert daemon.json("rm", box["id"]) == {"destroyed": [box["id"]]}


def test_rm_of_what_is_not_there(daemon, sandbox):
    done = daemon.atoll("rm", "nosuchbox", sandbox)
    assert done.returncode == 1
    assert "nosuchbox" in done.stderr
    assert done.stdout == f"{sandbox}\n"  # the other one is gone all the same


def test_exec(daemon, sandbox):
    done = daemon.atoll("exec", sandbox, "--", "sh", "-c", "cat; echo err >&2; exit 5", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (5, "in", "err\n")
    assert daemon.atoll("exec", sandbox, "echo", "-u", "x").stdout == "-u x\n"
    shown = daemon.atoll("exec", "--user", "root", "--cwd", "/etc", "--env", "A=1", sandbox, "--",
                         "sh", "-c", "id -u; pwd; echo $A", check=True).stdout
    assert shown == "0\n/etc\n1\n"


def test_exec_statuses(daemon, sandbox):
    assert daemon.atoll("exec", "--timeout", "0.5", sandbox, "--", "sleep", "60").returncode == 124
    assert daemon.atoll("exec", sandbox, "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert daemon.atoll("exec", sandbox, "--", "no-such-command").returncode == 127
    assert daemon.atoll("exec", sandbox, "--", "/etc/passwd").returncode == 126
    done = daemon.atoll("exec", "nosuchbox", "--", "true")
    assert done.returncode == 125 and "nosuchbox" in done.stderr


def test_exec_interrupted_twice_kills_only_the_command(daemon, sandbox):
    child = popen(daemon, "exec", sandbox, "--", "sh", "-c",
                  "trap '' INT; echo ready; sleep 61; sleep 61",
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    send_twice(child, signal.SIGINT)
    assert child.wait(30) == 128 + signal.SIGINT
    child.stdout.close()
    gone = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep -c 'sleep 6[1]'"
    assert daemon.atoll("exec", sandbox, "--", "sh", "-c", gone).stdout == "0\n"


def test_detach_and_logs(daemon, sandbox):
    script = r"echo one; sleep 1; printf 'two\377\n' >&2; exit 6"
    job = daemon.atoll("exec", "--detach", sandbox, "--", "sh", "-c", script,
                       check=True).stdout.strip()
    followed = daemon.atoll("logs", "--follow", sandbox, job, binary=True)
    assert (followed.returncode, followed.stdout, followed.stderr) == (6, b"one\n", b"two\xff\n")
    again = daemon.atoll("logs", sandbox, job, binary=True)
    assert (again.returncode, again.stdout, again.stderr) == (6, b"one\n", b"two\xff\n")
    lines = [json.loads(line)
             for line in daemon.atoll("logs", "--json", sandbox, job).stdout.splitlines()]
    assert lines[0] == {"stream": "stdout", "offset": 0, "data": "one\n"}
    assert lines[-1]["result"]["exit_code"] == 6
    assert re.search(rf"{job} +exited 6 ", daemon.atoll("logs", sandbox).stdout)


def test_logs_of_a_running_command(daemon, sandbox):
    job = daemon.json("exec", "--detach", sandbox, "--", "sh", "-c", "echo one; sleep 60")
    deadline = time.monotonic() + 30
    while not (shown := daemon.atoll("logs", sandbox, job["exec_id"])).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (shown.returncode, shown.stdout) == (0, "one\n")
    assert daemon.atoll("logs", sandbox, "nosuchexec").returncode == 125


def test_stats(daemon, sandbox):
    stats = daemon.json("stats", sandbox)
    assert stats["memory"]["limit_bytes"] > 0 and stats["processes"]["count"] >= 1
    assert sandbox in [one["id"] for one in daemon.json("stats")["sandboxes"]]
    assert re.search(rf"{sandbox} .* / 512M .*%", daemon.atoll("stats", sandbox).stdout)
    assert sandbox in daemon.atoll("stats").stdout
    assert daemon.atoll("stats", "nosuchbox").returncode == 1


@pytest.mark.parametrize("option, value, says", [
    ("--memory", "1K", "--memory (in MiB) must be a number between"),
    ("--cpus", "100000", "--cpus must be a number between"),
    ("--network", "foo", '--network must be "none", "isolated" or "bridge" (got "foo")'),
    ("--template", "../x", "--template must be the name of a template"),
    ("--artifact", "../x", '--artifact: "../x" must not'),
])
def test_what_the_daemon_refuses_is_said_of_the_option(daemon, option, value, says):
    for verb in ("run", option, value, "--", "true"), ("create", option, value):
        done = daemon.atoll(*verb)
        assert done.returncode in (1, 125) and done.stderr.startswith(f"atoll: {says}"), done


def test_stats_that_nobody_measures(rootless_daemon):
    made = rootless_daemon.atoll("create", "--waive", "all").stdout.strip()
    rootless_daemon.atoll("exec", "--detach", made, "--", "sleep", "1000", check=True)
    memory = rootless_daemon.json("stats", made)["memory"]
    if memory["limit_bytes"]:
        pytest.skip("this host measures without root, too")
    assert memory["peak_bytes"] is None and memory["used_bytes"] > 0
    head, row = rootless_daemon.atoll("stats", made).stdout.splitlines()
    assert row[head.index("PEAK"):].split()[0] == "-"
    rootless_daemon.atoll("rm", made)


# --- cp


@pytest.fixture
def tree(tmp_path):
    source = tmp_path / "tree"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "empty").chmod(0o700)
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o750)
    (source / "sub" / "name with\n\033 in it").write_bytes(os.urandom(100_000))
    return source


def test_cp_a_directory_there_and_back(daemon, sandbox, tree, tmp_path):
    assert daemon.atoll("cp", tree, f"{sandbox}:work/").returncode == 0
    listed = daemon.atoll("exec", sandbox, "--", "stat", "-c", "%a %U", "work/tree/run",
                          "work/tree/sub/empty").stdout
    assert listed == "750 user\n700 user\n"
    report = daemon.json("cp", f"{sandbox}:work/tree", tmp_path / "back")
    assert report["files"] == 2 and report["skipped"] == []
    compared = subprocess.run(["diff", "-r", tree, tmp_path / "back"], capture_output=True)
    assert compared.returncode == 0, compared.stdout
    assert (tmp_path / "back" / "run").stat().st_mode & 0o777 == 0o750


def test_cp_single_files_and_streams(daemon, sandbox, tmp_path):
    (tmp_path / "f").write_text("x\n")
    daemon.atoll("cp", tmp_path / "f", f"{sandbox}:", check=True)
    daemon.atoll("cp", tmp_path / "f", f"{sandbox}:/tmp/g", check=True)
    data = os.urandom(2_000_000)
    daemon.atoll("cp", "-", f"{sandbox}:h", input=data, binary=True, check=True)
    assert daemon.atoll("cp", f"{sandbox}:h", "-", binary=True).stdout == data
    daemon.atoll("cp", f"{sandbox}:/tmp/g", tmp_path, check=True)
    assert (tmp_path / "g").read_text() == "x\n"
    assert daemon.atoll("exec", sandbox, "--", "cat", "f").stdout == "x\n"
    done = daemon.atoll("cp", f"{sandbox}:nothing", tmp_path)
    assert done.returncode == 1 and "nothing" in done.stderr
    assert daemon.atoll("cp", tmp_path / "nothing", f"{sandbox}:").returncode == 1


def test_cp_follows_no_link_out(daemon, sandbox, tmp_path):
    daemon.atoll("exec", sandbox, "--", "sh", "-c", "mkdir -p d/sub; cd d; echo ok > ok;"
                 "ln -s /etc/passwd abs; ln -s ../../../x up; ln -s ok in; ln -s ../ok sub/in;"
                 "ln -s sub/../../x trick; mkfifo fifo; printf x > \"$(printf '\\033[31mred')\"",
                 check=True)
    out = tmp_path / "out"
    out.mkdir()
    done = daemon.atoll("cp", f"{sandbox}:d", out)
    assert done.returncode == 1
    for name in "abs", "up", "trick", "fifo":
        assert f"skipped d/{name}" in done.stderr
        assert not (out / "d" / name).is_symlink() and not (out / "d" / name).exists()
    assert (out / "d" / "in").read_text() == (out / "d" / "sub" / "in").read_text() == "ok\n"
    assert (out / "d" / "\033[31mred").exists()
    assert "\033" not in done.stderr

    # A link of ours in the way is not followed either.
    shutil.rmtree(out / "d")
    (tmp_path / "elsewhere").mkdir()
    (out / "d").symlink_to(tmp_path / "elsewhere")
    assert daemon.atoll("cp", f"{sandbox}:d", out).returncode == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- terminals


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, daemon, *args):
        self.main, self.side = pty.openpty()
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        self.mode = termios.tcgetattr(self.side)
        self.seen = b""
        self.child = popen(daemon, *args, stdin=self.side, stdout=self.side, stderr=self.side,
                           start_new_session=True,
                           preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def expect(self, text, seconds=30):
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text} is not in {self.seen}"
            if select.select([self.main], [], [], left)[0]:
                self.seen += os.read(self.main, 65536)
        self.seen = self.seen.split(text, 1)[1]

    def type(self, text):
        os.write(self.main, text)

    def end(self):
        """Waits for the program; the terminal must be as it was."""
        status = self.child.wait(30)
        mode = termios.tcgetattr(self.side)
        os.close(self.main)
        os.close(self.side)
        assert mode == self.mode
        return status


def test_shell_is_a_terminal(daemon, sandbox):
    terminal = Terminal(daemon, "shell", sandbox)
    terminal.type(b"stty size; tty; echo $((6*7))\n")
    terminal.expect(b"33 111")
    terminal.expect(b"/dev/pts/")
    terminal.expect(b"42")
    fcntl.ioctl(terminal.side, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 122, 0, 0))
    terminal.child.send_signal(signal.SIGWINCH)
    terminal.type(b"until [ \"$(stty size)\" = '44 122' ]; do sleep 0.1; done; echo resi''zed\n")
    terminal.expect(b"resized")
    # Said by the job: a signal that comes before there is one would be for the shell.
    terminal.type(b"sh -c 'echo on\"\"ward; exec sleep 60'\n")
    terminal.expect(b"onward")
    terminal.type(b"\x03")  # reaches the job, not us
    terminal.type(b"exit 7\n")
    assert terminal.end() == 7


def test_shell_reads_commands_without_a_terminal(daemon, sandbox):
    done = daemon.atoll("shell", sandbox, input="echo $((6*7))\nexit 3\n")
    assert (done.returncode, done.stdout) == (3, "42\n")


def test_terminal_is_restored_when_killed(daemon, sandbox):
    terminal = Terminal(daemon, "exec", "-t", sandbox, "--", "sh", "-c",
                        "trap '' HUP; echo ready; sleep 60; sleep 60")
    terminal.expect(b"ready")
    send_twice(terminal.child, signal.SIGHUP)
    assert terminal.end() == 128 + signal.SIGHUP


def test_colours_only_on_a_terminal(daemon, sandbox):
    terminal = Terminal(daemon, "ls")
    terminal.expect(b"\033[32mrunning")
    assert terminal.end() == 0


# --- templates and the host


def test_template_import_use_and_rm(daemon, tmp_path):
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (tmp_path / "hello.c").write_text(
        '#include <stdio.h>\nint main(void) { return puts("hello from a template") < 0; }\n')
    subprocess.run(["cc", "-static", "-o", root / "bin" / "hello", tmp_path / "hello.c"],
                   check=True)
    subprocess.run(["tar", "-C", root, "-czf", tmp_path / "root.tgz", "."], check=True)
    daemon.atoll("template", "import", "fromdir", root, check=True)
    daemon.atoll("template", "import", "fromtar", tmp_path / "root.tgz", check=True)
    daemon.atoll("template", "import", "frominput", "-", binary=True,
                 input=(tmp_path / "root.tgz").read_bytes(), check=True)
    names = {"fromdir", "fromtar", "frominput"}
    listed = json.loads(daemon.atoll("template", "ls", "--json").stdout)["templates"]
    assert names | {"host"} <= {template["name"] for template in listed}
    assert "fromdir" in daemon.atoll("template", "ls").stdout
    for name in names:
        shown = daemon.atoll("run", "--template", name, "--", "/bin/hello", check=True)
        assert shown.stdout == "hello from a template\n"
    daemon.atoll("template", "rm", *names, check=True)
    assert daemon.atoll("template", "rm", "fromdir").returncode == 1
    assert daemon.atoll("template", "rm", "host").returncode == 1


def test_template_import_of_nothing_good(daemon, tmp_path):
    (tmp_path / "bad.tar").write_bytes(os.urandom(5000))
    assert daemon.atoll("template", "import", "bad", tmp_path / "bad.tar").returncode == 1
    assert daemon.atoll("template", "import", "bad", tmp_path / "none.tar").returncode == 1
    assert "bad" not in daemon.atoll("template", "ls").stdout


def test_template_debian_needs_mmdebstrap(daemon, tmp_path):
    env = {**daemon.env, "PATH": str(tmp_path)}
    done = subprocess.run([daemon.build / "atoll", "template", "debian", "deb"], env=env,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "apt install mmdebstrap" in done.stderr

    # Half a tar is not a template: a program that fails leaves none.
    fake = tmp_path / "mmdebstrap"
    fake.write_text('#!/bin/sh\necho "$@" >&2\necho half\nexit 3\n')
    fake.chmod(0o755)
    env["PATH"] += ":/usr/bin:/bin"
    command = [daemon.build / "atoll", "template", "debian", "--packages", "a,b", "deb"]
    done = subprocess.run(command, env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "--variant=minbase --include=a,b" in done.stderr
    assert "mmdebstrap failed with status 3" in done.stderr
    assert "deb " not in daemon.atoll("template", "ls").stdout


def test_template_debian_takes_its_time(daemon, tmp_path):
    """A daemon gives up a request in which nothing comes: it is made when there is something."""
    begun = tmp_path / "begun"
    fake = tmp_path / "mmdebstrap"
    asked = tmp_path / "asked"
    fake.write_text(f"#!/bin/sh\nsleep 1\ntouch {begun}\necho half\n"
                    f"while [ ! -e {asked} ]; do sleep 0.05; done\nexit 3\n")
    fake.chmod(0o755)
    seen = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "own.sock"))
        listening.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with listening.accept()[0]:
                        seen.append(begun.exists())
                        asked.touch()
        threading.Thread(target=serve, daemon=True).start()
        env = {**daemon.env, "PATH": f"{tmp_path}:/usr/bin:/bin",
               "ATOLL_SOCKET": str(tmp_path / "own.sock")}
        command = [daemon.build / "atoll", "template", "debian", "deb"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        listening.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 1 and seen and all(seen), (seen, done.stderr)

    # It hangs up on all of its group, as mmdebstrap does when its output cannot be written.
    fake.write_text("#!/bin/sh\nkill -HUP 0\nsleep 60\n")
    done = subprocess.run(command, env={**daemon.env, "PATH": env["PATH"]}, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, start_new_session=True)
    assert done.returncode == 1 and "mmdebstrap" in done.stderr, done


def test_doctor(daemon, tmp_path):
    # atoll-egress of a daemon that has just started.
    wait_until(lambda: "is being started" not in daemon.atoll("doctor").stdout, 20,
               lambda: daemon.atoll("doctor").stdout)
    done = daemon.atoll("doctor")
    assert done.returncode == 0
    assert "✓ user namespaces" in done.stdout and "This host supports: " in done.stdout
    report = daemon.json("doctor")
    assert {"name", "state", "detail"} <= set(report["checks"][0])
    assert {check["state"] for check in report["checks"]} <= {"ok", "missing", "warn", "info"}

    # Whatever is to be changed says how, and the sysctls among it make a file that sysctl reads.
    assert all(check.get("fix") for check in report["checks"] if check["state"] in ("missing", "warn"))
    wanted = [check["fix"].removeprefix("sysctl -w ") for check in report["checks"]
              if check.get("fix", "").startswith("sysctl -w ")]
    lines = daemon.atoll("doctor", "--sysctl", check=True).stdout.splitlines()
    assert [line for line in lines if not line.startswith("#")] == wanted
    assert all(re.fullmatch(r"[a-z0-9_.-]+=[0-9a-z]+", line) for line in wanted)

    env = {**daemon.env, "ATOLL_SOCKET": str(tmp_path / "none.sock")}
    alone = subprocess.run([daemon.build / "atoll", "doctor"], env=env, capture_output=True,
                           text=True, stdin=subprocess.DEVNULL)
    assert alone.returncode == 0
    assert "No daemon answers" in alone.stdout and "✓ user namespaces" in alone.stdout


def gvisor_of(report):
    return next(check for check in report["checks"] if check["name"] == "gVisor")


def test_doctor_promises_what_atoll_makes(daemon, rootless_daemon, tmp_path):
    line = '"gvisor: {}" under "providers:" in providers.yaml'
    report = daemon.json("doctor")
    assert "microVM" not in json.dumps(report)
    check = gvisor_of(report)
    assert line in check["detail"] + check.get("fix", "")
    assert (check["state"] == "ok") == ("gVisor" in report["summary"])

    env = {**daemon.env, "ATOLL_SOCKET": str(tmp_path / "none.sock"), "PATH": str(tmp_path)}
    bare = subprocess.run([daemon.build / "atoll", "doctor", "--json"], env=env,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check = gvisor_of(json.loads(bare.stdout))
    assert check["state"] == "info" and check["fix"].startswith("apt install runsc, then " + line)

    # It needs root, and so do most of the commands that are advised.
    shown = [line.split("→ ")[1] for line in rootless_daemon.atoll("doctor").stdout.splitlines()
             if "→ " in line]
    assert shown and not re.search(r"(^|; )(sysctl|modprobe|apt|systemctl) ", "\n".join(shown), re.M)
    report = rootless_daemon.json("doctor")
    assert gvisor_of(report)["state"] == "info" and "gVisor" not in report["summary"]


# --- lifetimes, states, artifacts, keys


def test_pause_and_resume(daemon, sandbox):
    assert daemon.atoll("pause", sandbox, check=True).stdout == f"{sandbox}\n"
    assert daemon.json("ls")["sandboxes"][-1]["state"] == "paused"
    refused = daemon.atoll("exec", sandbox, "--", "true")
    assert refused.returncode == 125 and "paused" in refused.stderr
    assert daemon.json("resume", sandbox) == {"resumed": [sandbox]}
    assert daemon.atoll("exec", sandbox, "--", "echo", "again").stdout == "again\n"


def test_pause_without_processes(daemon, sandbox):
    job = daemon.atoll("exec", "--detach", sandbox, "--", "sleep", "600", check=True).stdout.strip()
    daemon.atoll("pause", "--discard-processes", sandbox, check=True)
    daemon.atoll("resume", sandbox, check=True)
    assert "killed" in daemon.atoll("logs", sandbox, job).stderr


def test_stop_keeps_the_disk_of_a_persistent_sandbox(daemon):
    name = daemon.create("--persistent")
    try:
        daemon.atoll("exec", name, "--", "sh", "-c", "echo kept > note", check=True)
        assert daemon.json("stop", name) == {"stopped": [name]}
        daemon.atoll("resume", name, check=True)
        assert daemon.atoll("exec", name, "--", "cat", "note").stdout == "kept\n"
    finally:
        daemon.atoll("rm", name, check=True)


def test_stop_of_an_ordinary_sandbox_is_refused(daemon, sandbox):
    done = daemon.atoll("stop", sandbox)
    assert done.returncode == 1 and "persistent" in done.stderr


def test_lifetime_options_reach_the_sandbox(daemon):
    box = daemon.json("create", "--idle", "600", "--lease", "900", "--cpu-budget", "50",
                      "--output-budget", "1M", "--timeout", "60", "--on-deadline", "pause")
    lifetime = box["lifetime"]
    assert (lifetime["idleSeconds"], lifetime["leaseSeconds"]) == (600, 900)
    assert (lifetime["cpuSeconds"], lifetime["outputBytes"]) == (50, 1 << 20)
    assert lifetime["onDeadline"] == "pause"
    daemon.atoll("rm", box["id"], check=True)


def test_artifacts_are_listed_fetched_and_removed(daemon, tmp_path):
    name = daemon.create("--artifact", "out/*.txt", "--artifact", "report")
    daemon.atoll("exec", name, "--", "sh", "-c",
                 "mkdir out; echo one > out/1.txt; echo two > report; echo no > other", check=True)
    daemon.atoll("rm", name, check=True)
    assert name in daemon.atoll("artifacts", "ls", check=True).stdout
    paths = {file["path"] for file in json_of(daemon, "artifacts", "ls", name)["files"]}
    assert paths == {"out/1.txt", "report"}
    assert daemon.atoll("artifacts", "get", name, "out/1.txt", "-").stdout == "one\n"
    target = tmp_path / "copy"
    daemon.atoll("artifacts", "get", name, "report", target, check=True)
    assert target.read_text() == "two\n"
    again = daemon.atoll("artifacts", "get", name, "report", target)
    assert again.returncode == 1 and "exists" in again.stderr
    assert daemon.atoll("artifacts", "get", name, "other", "-").returncode == 1
    daemon.atoll("artifacts", "rm", name, check=True)
    assert daemon.atoll("artifacts", "ls", name).returncode == 1


def test_a_key_in_the_spelling_of_e2b(daemon):
    created = json_of(daemon, "key", "create", "--e2b", "--tenant", "spelling")
    assert re.fullmatch(r"e2b_[0-9a-f]{80}", created["key"])
    assert bytes.fromhex(created["key"][4:]).decode().isalnum()
    assert created["id"] in daemon.atoll("key", "ls").stdout
    daemon.atoll("key", "rm", created["id"], check=True)


def test_sandboxes_of_every_tenant(daemon):
    key = json_of(daemon, "key", "create", "--tenant", "other", "--scope", "write")
    mine = daemon.create()
    theirs = Rest(daemon.socket, {"X-API-Key": key["key"]}).post("/api/sandboxes", {}).json["id"]
    try:
        assert theirs not in ids(daemon)
        assert theirs in {box["id"] for box in daemon.json("ls", "--all-tenants")["sandboxes"]}
        daemon.atoll("rm", "--all", check=True)
        assert theirs in {box["id"] for box in daemon.json("ls", "--all-tenants")["sandboxes"]}
        daemon.atoll("rm", "--all-tenants", check=True)
        assert daemon.json("ls", "--all-tenants")["sandboxes"] == []
    finally:
        daemon.atoll("rm", mine)
        daemon.atoll("key", "rm", key["id"], check=True)
