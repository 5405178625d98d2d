"""drivers/Java.java."""

import time

import pytest

LANGUAGE = "java"


def test_values_and_output(driver):
    assert driver.value("6 * 7") == "42"
    assert driver.value('String s = "a\\"b\\né"; s') == 'a"b\né'
    done = driver.run('System.out.println("out"); System.err.println("err"); System.out.print("p")')
    assert (done.stdout, done.stderr) == ("out\np", "err\n")
    assert done.texts("stdout") == ["out", "\n", "p"]
    assert driver.run('System.out.println()').texts("stdout") == ["\n"]
    assert driver.run("int x = 5;").results == [] and driver.run("x = 6").results == []


def test_state_stays(driver):
    driver.run("int n = 20;\nint twice(int v) { return 2 * v; }\n"
               "class Box { int v; Box(int v) { this.v = v; } }")
    assert driver.value("twice(new Box(n).v)") == "40"
    assert driver.value("""
for (int i = 0; i < 2; i++) {
    System.out.println(i);
}
List.of(1, 2).stream().map(v -> v * n).collect(Collectors.toList())""") == "[20, 40]"


def test_errors(driver):
    error = driver.run('void boom() { throw new IllegalStateException("bad"); }\nboom();').error
    assert (error["name"], error["value"]) == ("IllegalStateException", "bad")
    assert "boom" in error["traceback"]
    error = driver.run('int y = "no";').error
    assert error["name"] == "CompilationError" and "incompatible types" in error["value"]
    assert driver.run("int broken( {").error["name"] == "CompilationError"
    assert driver.run("1 / 0").error["name"] == "ArithmeticException"


def test_environment_as_properties(driver):
    assert driver.value('System.getProperty("FROM_SANDBOX")') == "supertest"
    ask = 'System.getProperty("FOO", "default")'
    assert driver.value(ask, env={"FOO": 'b"a\\r'}) == 'b"a\\r'
    assert driver.value(ask) == "default"
    assert driver.value('System.getProperty("FROM_SANDBOX")', env={"FROM_SANDBOX": "x"}) == "x"
    assert driver.value('System.getProperty("FROM_SANDBOX")') == "supertest"
    assert driver.value('System.getProperty("user.dir")').startswith("/")


@pytest.mark.parametrize("code", ["while (true) {}", "Thread.sleep(60000);"])
def test_interrupt_keeps_variables(driver, code):
    driver.run('String precious = "kept";')
    start = time.monotonic()
    done = driver.run(f'System.out.println("go"); {code}', interrupt_at="go")
    assert done.error["name"] == "KeyboardInterrupt" and time.monotonic() - start < 45
    assert driver.value("precious") == "kept"


def test_exit_is_told_and_survived(driver):
    assert driver.run("System.exit(3)").error["name"] == "InterpreterEnded"
    assert driver.value("1 + 1") == "2"
