"""drivers/console.py with R."""

import base64
import time

import pytest

LANGUAGE = "r"


def test_values_and_output(driver):
    assert driver.value('"x"') == '[1] "x"'
    done = driver.run('cat("out\\n"); message("msg"); print(1); 2; 3')
    assert (done.stdout, done.stderr, done.text) == ("out\n[1] 1\n[1] 2\n", "msg\n", "[1] 3")
    assert driver.run("invisible(5)").results == [] and driver.run("x <- 1").results == []
    assert "é" in driver.value("data.frame(a = 'é')")


def test_state_stays(driver):
    driver.run("n <- 20; half <- function(v) v / 2")
    assert driver.value("half(n)") == "[1] 10"


def test_errors_and_warnings(driver):
    driver.run("f <- function(a) stop('bad ', a)")
    error = driver.run("f(3)").error
    assert error["value"] == "bad 3" and error["traceback"] == "Error in f(3): bad 3"
    assert "unexpected" in driver.run("1 +").error["value"]
    assert "not found" in driver.run("nosuch").error["value"]
    assert driver.run("warning('careful')").stderr == "Warning: careful\n"


def test_plots(driver):
    if driver.value("capabilities('cairo') || capabilities('png')") == "[1] FALSE":
        pytest.skip("this R cannot draw PNG")
    done = driver.run("plot(1:10)\nhist(c(1, 2, 2, 3))")
    assert len(done.results) == 2, done.error
    assert all(base64.b64decode(r["png"]).startswith(b"\x89PNG") for r in done.results)
    assert driver.run("1").results[0]["text"] == "[1] 1"


def test_children(driver):
    done = driver.run("system('echo child; echo err >&2')")
    assert (done.stdout, done.stderr) == ("child\n", "err\n")


def test_env_and_directory(driver):
    ask = 'Sys.getenv("FOO", unset = "default")'
    assert driver.value(ask, env={"FOO": 'b"a\\r'}) == '[1] "b\\"a\\\\r"'
    assert driver.value(ask) == '[1] "default"'
    assert driver.value('Sys.getenv("FROM_SANDBOX")', env={"FROM_SANDBOX": "x"}) == '[1] "x"'
    assert driver.value('Sys.getenv("FROM_SANDBOX")') == '[1] "supertest"'
    assert driver.value("setwd('/'); getwd()") == '[1] "/"'


@pytest.mark.parametrize("code", ["repeat {}", "Sys.sleep(60)", "system('sleep 60')"])
def test_interrupt_keeps_variables(driver, code):
    driver.run("precious <- 'kept'")
    start = time.monotonic()
    done = driver.run(f"cat('go\\n'); {code}", interrupt_at="go")
    assert done.error["name"] == "KeyboardInterrupt" and time.monotonic() - start < 30
    assert driver.value("precious") == '[1] "kept"'


def test_an_interpreter_that_quits_is_replaced(fresh):
    assert fresh.run("q(status = 4)").error["name"] == "InterpreterEnded"
    assert fresh.value("1 + 1") == "[1] 2"
