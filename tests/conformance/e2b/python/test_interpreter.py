"""run_code and contexts."""

import pytest
from e2b_code_interpreter import NotFoundException, Sandbox, SandboxException, TimeoutException


def test_values_output_state(interpreter):
    done = interpreter.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nx = 40\nx")
    assert (done.text, done.logs.stdout, done.logs.stderr) == ("40", ["out\n"], ["err\n"])
    assert (done.execution_count, done.error) == (1, None)
    assert interpreter.run_code("x + 2").text == "42"


def test_errors_and_callbacks(interpreter):
    seen = []
    done = interpreter.run_code(
        "print('before')\ndisplay('shown')\n1/0",
        on_stdout=lambda m: seen.append(("stdout", m.line)),
        on_result=lambda r: seen.append(("result", r.text)),
        on_error=lambda e: seen.append(("error", e.name)))
    assert seen == [("stdout", "before\n"), ("result", "shown"), ("error", "ZeroDivisionError")]
    assert done.error.value == "division by zero"
    assert "ZeroDivisionError" in done.error.traceback


def test_environment(interpreter):
    code = "import os\nos.environ.get('K')"
    assert interpreter.run_code(code, envs={"K": "v"}).text == "v"
    assert interpreter.run_code(code).text in (None, "None")


def test_contexts(interpreter):
    made = interpreter.create_code_context(cwd="/tmp")
    assert (made.language, made.cwd) == ("python", "/tmp")
    assert interpreter.run_code("import os\ny = 5\nos.getcwd()", context=made).text == "/tmp"
    assert interpreter.run_code("y").error.name == "NameError"
    assert interpreter.list_code_contexts()[-1].id == made.id
    interpreter.restart_code_context(made)
    assert interpreter.run_code("y", context=made).error.name == "NameError"
    interpreter.remove_code_context(made)
    assert made.id not in [c.id for c in interpreter.list_code_contexts()]
    with pytest.raises(NotFoundException):
        interpreter.run_code("1", context=made)


@pytest.mark.parametrize("language, code, text", [
    ("javascript", "[1, 2].map((x) => x * 3).join('-')", "3-6"),
    ("js", "await Promise.resolve(7)", "7"),
])
def test_languages(interpreter, language, code, text):
    assert interpreter.run_code(code, language=language).text == text


def test_bash(interpreter):
    assert interpreter.run_code("N=5; echo $N", language="bash").logs.stdout == ["5\n"]
    assert interpreter.run_code("echo $((N+1))", language="bash").logs.stdout == ["6\n"]


def test_unknown_language(interpreter):
    with pytest.raises(SandboxException):
        interpreter.run_code("1", language="cobol")


def test_too_long_is_interrupted(interpreter):
    interpreter.run_code("kept = 7")
    with pytest.raises(TimeoutException):
        interpreter.run_code("import time\ntime.sleep(60)", timeout=0.5)
    assert interpreter.run_code("kept", timeout=20).text == "7"


def test_rich_results(interpreter):
    results = interpreter.run_code("display(HTML('<b>x</b>'))\n{'a': [1, 2]}").results
    assert results[0].html == "<b>x</b>"
    assert results[1].json == {"a": [1, 2]} and results[1].is_main_result


def test_chart(interpreter):
    if interpreter.run_code("import matplotlib").error:
        pytest.skip("the host has no matplotlib")
    code = ("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='up')\n"
            "plt.title('T')\nplt.show()")
    result = interpreter.run_code(code).results[0]
    assert result.png
    assert (result.chart.type.value, result.chart.title) == ("line", "T")
    assert [(e.label, e.points) for e in result.chart.elements] == [("up", [(1, 3), (2, 4)])]


def test_not_public():
    box = Sandbox.create(network={"allow_public_traffic": False})
    try:
        assert box.run_code("1 + 1").text == "2"
    finally:
        box.kill()
