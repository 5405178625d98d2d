"""drivers/console.py with Bash."""

import time

import pytest

LANGUAGE = "bash"


def test_output_and_status(driver):
    done = driver.run("echo hi; echo err >&2")
    assert (done.stdout, done.stderr, done.error) == ("hi\n", "err\n", None)
    assert driver.run("printf part").stdout == "part"
    error = driver.run("echo before; (exit 7)").error
    assert (error["name"], error["value"]) == ("ExitStatus", "7")
    assert driver.run("nosuchprogram").error["value"] == "127"


def test_variables_functions_and_directory_stay(driver, tmp_path):
    driver.run(f"word=hello; greet() {{ echo \"$word $1\"; }}; cd {tmp_path}; declare -A m=([k]=v)")
    assert driver.run('greet you; pwd; echo "${m[k]}"').stdout == f"hello you\n{tmp_path}\nv\n"


def test_the_shell_itself_says_nothing(fresh):
    """Neither of jobs nor of its end; and lines are those of the code."""
    for code in ("sleep 0 &", "sleep 0 & wait", "sleep 60 & kill -9 $!; wait $!", "sh -c 'kill -9 $$'"):
        assert fresh.run(code).stderr == ""
    assert "line 2: syntax error" in fresh.run("true\necho (").stderr
    done = fresh.run("echo last >&2; exit 3")
    assert (done.stderr, done.error["name"]) == ("last\n", "InterpreterEnded")
    assert fresh.run("exit").stderr == ""


def test_here_documents_and_empty_input(driver):
    assert driver.run("cat <<X\nline $((1 + 1))\nX").stdout == "line 2\n"
    assert driver.run("cat; read x || echo end").stdout == "end\n"


def test_syntax_error(driver):
    done = driver.run("if true; do")
    assert done.error and "syntax error" in done.stderr
    assert driver.run("echo on").stdout == "on\n"


def test_odd_bytes(driver):
    assert driver.run(r"printf '\xff\n'; echo é").stdout == "\ufffd\né\n"
    assert driver.run("echo \0").error["name"] == "ValueError"


def test_much_output(driver):
    assert driver.run("seq 1 100000").stdout == "".join(f"{n}\n" for n in range(1, 100001))


def test_background_jobs(driver, tmp_path):
    gate = tmp_path / "gate"
    done = driver.run(f"mkfifo {gate}\n{{ read x <{gate}; echo from the background; }} &\necho started")
    assert done.stdout == "started\n"
    assert driver.run(f"echo >{gate}; wait").stdout == "from the background\n"


def test_env_is_set_for_one_call(driver):
    ask = "echo ${FOO:-default} $FROM_SANDBOX; sh -c 'echo in child: $FOO'"
    env = {"FOO": "it's \"bar\"", "FROM_SANDBOX": "over"}
    assert driver.run(ask, env=env).stdout == 'it\'s "bar" over\nin child: it\'s "bar"\n'
    assert driver.run(ask).stdout == "default supertest\nin child:\n"
    driver.run("unexported=1")
    driver.run("true", env={"unexported": "2"})
    assert driver.run("echo $unexported; env | grep -c '^unexported'").stdout == "1\n0\n"


@pytest.mark.parametrize("code,status", [("exit 3", 3), ("set -e; false; echo never", 1)])
def test_a_shell_that_exits_is_replaced_where_it_was(fresh, code, status):
    fresh.run("cd /; x=1")
    done = fresh.run(code)
    assert done.error["name"] == "InterpreterEnded" and str(status) in done.error["value"]
    assert fresh.run("echo \"$PWD ${x-gone}\"").stdout == "/ gone\n"


@pytest.mark.parametrize("code", [
    "echo go; while true; do :; done", "echo go; sleep 60; echo after",
    "f() { sleep 60; echo inner; }; echo go; f; echo outer",
    "echo go; bash -c 'sleep 60; echo x'; echo after", "echo go; yes | cat >/dev/null"])
def test_interrupt_keeps_variables(driver, code):
    driver.run("precious=kept")
    start = time.monotonic()
    done = driver.run(code, interrupt_at="go")
    assert done.error["name"] == "KeyboardInterrupt" and time.monotonic() - start < 30
    assert done.stdout == "go\n"
    assert driver.run("echo $precious").stdout == "kept\n"


def test_background_jobs_survive_an_interrupt(driver):
    # So many that the last of them have hardly begun when the signal comes.
    driver.run('jobs=; for i in {1..40}; do sleep 60 & jobs="$jobs $!"; done')
    driver.run("echo go; sleep 60", interrupt_at="go")
    alive = driver.run("for job in $jobs; do kill -0 $job && echo alive; done; kill $jobs; wait; true")
    assert alive.stdout == 40 * "alive\n"


def test_private_descriptors_are_not_for_commands(driver):
    assert driver.run("ls /proc/self/fd").stdout.split() == ["0", "1", "2", "3"]
