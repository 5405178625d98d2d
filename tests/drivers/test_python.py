"""drivers/python.py: values, output, errors, magics and interrupts."""

import base64
import json
import textwrap
import time

import pytest

LANGUAGE = "python"


def test_last_expression_is_the_result(driver):
    done = driver.run("x = 1\nx + 1")
    assert done.main == {"id": done.main["id"], "type": "result", "text": "2", "extra": {},
                         "is_main_result": True}


def test_variables_stay_and_executions_are_counted(fresh):
    assert fresh.run("kept = 20").count == 1
    done = fresh.run("kept += 1; kept")
    assert (done.count, done.text) == (2, "21")


def test_no_result_for_none_statements_and_a_last_semicolon(driver):
    for code in ("None", "y = 5", "5;", "", "# nothing", "print('x')"):
        assert driver.run(code).results == []


def test_underscore_is_the_last_value(driver):
    driver.run("6 * 7")
    assert driver.value("_ + 1") == "43"


def test_enclosing_quotes_are_stripped_once(driver):
    assert driver.value("'plain'") == "plain"
    assert driver.value('"it\'s"') == "it's"
    assert driver.value("['a']") == "['a']"


def test_lists_and_dicts_are_json_too(driver):
    assert driver.run("[1, 'a', None]").main["json"] == [1, "a", None]
    done = driver.run("{1: {'b': float('nan')}, 'big': 2**70}")
    assert done.main["json"] == {"1": {"b": None}, "big": str(2**70)}
    assert "json" not in driver.run("[object()]").main
    assert driver.run("a = []; a.append(a); a").text == "[[...]]"


@pytest.mark.parametrize("method,key,value", [
    ("_repr_html_", "html", "<b>x</b>"), ("_repr_markdown_", "markdown", "# x"),
    ("_repr_latex_", "latex", "$x$"), ("_repr_svg_", "svg", "<svg/>"),
    ("_repr_javascript_", "javascript", "x()"), ("_repr_json_", "json", {"a": 1})])
def test_repr_methods(driver, method, key, value):
    done = driver.run(f"class R:\n  def {method}(self): return {value!r}\nR()")
    assert done.main[key] == value and done.text.startswith("<__main__.R object")


def test_binary_repr_is_base64(driver):
    done = driver.run("class P:\n  def _repr_png_(self): return b'\\x89PNG'\nP()")
    assert base64.b64decode(done.main["png"]) == b"\x89PNG"


def test_mimebundle_with_types_of_its_own(driver):
    done = driver.run("""
class B:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "'p'", "text/html": "h", "application/x-own": {"a": 1}}
B()""")
    assert (done.text, done.main["html"]) == ("p", "h")
    assert done.main["extra"] == {"application/x-own": {"a": 1}}


def test_a_failing_repr_method_is_told_and_survived(driver):
    done = driver.run("class F:\n  def _repr_html_(self): 1/0\nF()")
    assert "ZeroDivisionError" in done.stderr and done.text and "html" not in done.main


def test_display_helpers_with_and_without_ipython_import(driver):
    done = driver.run("""
from IPython.display import display, HTML, Markdown as M, JSON, Latex, SVG, Javascript, Image
display(HTML('<i>1</i>'), M('**2**'))
display(JSON({'a': 1})); display(Latex('$x$')); display(SVG('<svg/>')); display(Javascript('a()'))
display(Image(b'\\x89PNGdata')); display({'text/html': 'raw'}, raw=True)
import IPython.core.display
'last'""")
    shown = [r for r in done.results if not r["is_main_result"]]
    keys = ["html", "markdown", "json", "latex", "svg", "javascript", "png", "html"]
    assert [key in r for key, r in zip(keys, shown)] == [True] * 8
    assert done.results[-1]["text"] == "last"
    assert driver.run("display(HTML('x'))").results[0]["html"] == "x"


def test_one_print_is_one_line(driver):
    assert driver.run("print(1); print('a\\nb')").texts("stdout") == ["1\n", "a\nb\n"]
    assert driver.run("print('no end', end='')").texts("stdout") == ["no end"]
    assert driver.run("import sys; print('x', file=sys.stderr)").texts("stderr") == ["x\n"]


def test_flush_sends_what_there_is(driver):
    done = driver.run("print('a', end='', flush=True); print('b')")
    assert done.texts("stdout") == ["a", "b\n"]


def test_half_a_line_is_sent_after_a_moment(driver):
    done = driver.run("import sys, time\nsys.stdout.write('half')\nwhile True: time.sleep(.01)",
                      interrupt_at="half")  # which needs the text to come while the code runs
    assert done.texts("stdout") == ["half"]


def test_children_and_descriptors_in_order(driver):
    done = driver.run("""
import os, subprocess, sys
print('1'); os.system('echo 2'); print('3'); os.write(1, b'4\\n'); print('5')
subprocess.run(['sh', '-c', 'echo 6; echo e >&2']); sys.stdout.buffer.write(b'7\\n')""")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 8)) and done.stderr == "e\n"


def test_output_of_c_libraries(driver):
    done = driver.run("import ctypes; ctypes.CDLL(None).puts(b'from C'); print('then')")
    assert sorted(done.stdout.split("\n")) == ["", "from C", "then"]


def test_much_output_from_a_child(driver):
    done = driver.run("!seq 1 200000")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 200001))


def test_long_text_is_cut_into_pieces(driver):
    done = driver.run("print('é' * 300000)")
    assert done.stdout == "é" * 300000 + "\n" and len(done.texts("stdout")) > 5


def test_odd_characters(driver):
    assert driver.run(r"print('\ud800é😀\0')").stdout == "\ufffdé😀\0\n"
    assert driver.value(r"'\udc80😀'") == r"\udc80😀"


def test_late_output_belongs_to_the_next_execution(driver):
    driver.run("""
import threading
def speak():
    go_on.wait(); print('late')
go_on = threading.Event(); speaker = threading.Thread(target=speak); speaker.start()""")
    done = driver.run("go_on.set(); speaker.join()")
    assert done.stdout == "late\n"
    driver.run("import subprocess\n"
               "p = subprocess.Popen('read x; echo bg', shell=True, stdin=subprocess.PIPE)")
    assert driver.run("_ = p.communicate(b'\\n')").stdout == "bg\n"


def test_threads_do_not_mix_their_lines(driver):
    done = driver.run("""
import threading
def many(c):
    for _ in range(200): print(c * 20)
ts = [threading.Thread(target=many, args=(c,)) for c in 'abc']
[t.start() for t in ts]; [t.join() for t in ts]; None""")
    assert set(done.texts("stdout")) == {"a" * 20 + "\n", "b" * 20 + "\n", "c" * 20 + "\n"}


def test_forked_children(driver):
    done = driver.run("""
import os
child = os.fork()
if child == 0:
    print('in the child')
else:
    os.waitpid(child, 0)
    print('in the parent')""")
    assert done.stdout == "in the child\nin the parent\n"
    done = driver.run("""
import multiprocessing
def double(x): return 2 * x
with multiprocessing.get_context('fork').Pool(2) as pool:
    answer = pool.map(double, [1, 2, 3])
answer""")
    assert done.text == "[2, 4, 6]", done.error


def test_error_shows_only_the_code(driver):
    done = driver.run("def divide():\n    return 1 / 0\n\ndivide()")
    assert (done.error["name"], done.error["value"]) == ("ZeroDivisionError", "division by zero")
    trace = done.error["traceback"]
    assert "return 1 / 0" in trace and "line 4" in trace and "python.py" not in trace


def test_error_of_an_earlier_cell_has_its_source(driver):
    driver.run("def later():\n    raise KeyError('gone')")
    assert "raise KeyError('gone')" in driver.run("later()").error["traceback"]


def test_chained_errors(driver):
    done = driver.run("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('v') from e")
    trace = done.error["traceback"]
    assert "ZeroDivisionError" in trace and "direct cause" in trace and "python.py" not in trace


def test_unknown_name_and_syntax_error(driver):
    assert driver.run("nosuch").error["value"] == "name 'nosuch' is not defined"
    done = driver.run("a = 1\nb = = 2")
    assert done.error["name"] == "SyntaxError" and "b = = 2" in done.error["traceback"]


def test_what_was_printed_before_an_error_is_there(driver):
    done = driver.run("print('before')\n1/0")
    assert done.stdout == "before\n" and done.error and done.lines[-2]["type"] == "error"


def test_exit_ends_the_cell_only(driver):
    driver.run("still = 'here'")
    for code in ("import sys; sys.exit(3)", "exit()", "quit()"):
        assert driver.run(code).error["name"] == "SystemExit"
    assert driver.value("still") == "here"


def test_input_says_what_to_do(driver):
    done = driver.run("name = input('name? ')")
    assert done.error["name"] == "EOFError" and "nobody to ask" in done.error["value"]
    assert driver.value("import sys; sys.stdin.read()") == ""


def test_indented_cells_and_top_level_await(driver):
    done = driver.run("""
        import asyncio
        async def answer():
            await asyncio.sleep(0)
            return 42
        if await answer() == 42:
            print('ok')
        await answer()
    """)
    assert (done.stdout, done.text) == ("ok\n", "42")
    assert driver.value("asyncio.run(answer())") == "42"
    assert driver.value("asyncio.get_event_loop().run_until_complete(answer())") == "42"
    assert driver.value("asyncio.run(answer())\nawait answer()") == "42"
    driver.run("own = asyncio.new_event_loop(); asyncio.set_event_loop(own)")
    assert driver.value("asyncio.get_event_loop() is own") == "True"


def test_future_statements_stay(driver):
    driver.run("from __future__ import annotations")
    assert driver.run("def f(x: Nosuch): pass").error is None


def test_pickling_of_own_classes(driver):
    done = driver.run("import pickle\nclass K: pass\ntype(pickle.loads(pickle.dumps(K()))) is K")
    assert done.text == "True"


def test_env_is_set_for_one_call(driver):
    ask = "import os; os.environ.get('FOO', 'default') + os.environ['FROM_SANDBOX']"
    assert driver.value(ask, env={"FOO": "bar", "FROM_SANDBOX": "over"}) == "barover"
    assert driver.value(ask) == "defaultsupertest"


def test_shell_commands(driver):
    assert driver.run("word = 'hi'\n!echo {word.upper()} $word $HOME $$word").stdout == (
        "HI hi /tmp\n")
    assert driver.value("lines = !printf 'a\\nb\\n'\nlines") == "['a', 'b']"
    assert driver.run("for n in range(2):\n    !echo n={n}").stdout == "n=0\nn=1\n"
    assert driver.run("!echo one \\\n two").stdout == "one two\n"


def test_strings_and_operators_are_no_magics(driver):
    done = driver.run('a = 7\nb = (a\n  % 4)\ns = """\n!no\n%cd /\n"""\n!echo yes\nb, len(s)')
    assert (done.stdout, done.text) == ("yes\n", "(3, 11)")


def test_cd_pwd_env(fresh, tmp_path):
    (tmp_path / "below").mkdir()
    assert fresh.run("%cd below").stdout == f"{tmp_path}/below\n"
    assert fresh.value("%pwd") == f"{tmp_path}/below"
    assert fresh.run("!pwd").stdout == f"{tmp_path}/below\n"
    fresh.run("%env COLOUR=red")
    assert fresh.value("%env COLOUR") == "red"
    assert fresh.value("import os; os.environ['COLOUR']") == "red"


def test_time_timeit_matplotlib(driver):
    assert "Wall time" in driver.run("%time 1 + 1").stdout
    assert driver.value("%time 1 + 1") == "2"
    assert "per loop" in driver.run("%timeit pass").stdout
    assert "best of 2 runs, 3 loops" in driver.run("%timeit -n3 -r 2 -1").stdout
    assert "best of 5 runs, 4 loops" in driver.run("%%timeit -n 4\npass").stdout
    assert driver.run("%matplotlib inline\n%load_ext autoreload").error is None


def test_cell_magics(driver, tmp_path):
    done = driver.run("%%bash\necho $((6 * 7))\nexit 3")
    assert done.stdout == "42\n" and "3" in done.error["value"]
    path = tmp_path / "written.txt"
    assert driver.run(f"%%writefile {path}\nline\n").stdout == f"Writing {path}\n"
    assert path.read_text() == "line\n"
    assert driver.run("%%html\n<b>x</b>").results[0]["html"] == "<b>x</b>"
    assert "Wall time" in driver.run("%%time\nz = 9").stdout and driver.value("z") == "9"
    done = driver.run("%%capture kept\nimport sys\nprint(5); print(6, file=sys.stderr)")
    assert (done.error, done.stdout, done.stderr) == (None, "", "")
    assert driver.value("kept.stdout + kept.stderr") == "5\\n6\\n"
    assert driver.run("kept.show()").stdout == "5\n"
    assert driver.run("%%capture --no-stderr\nprint(7)").stdout == ""


def test_unknown_magic_names_those_there_are(driver):
    assert "%cd" in driver.run("%nosuch").error["value"]
    assert "%%bash" in driver.run("%%nosuch\n").error["value"]


def test_pip_runs_without_a_cell_of_shell(driver):
    done = driver.run("%pip --version")
    assert done.stdout.startswith("pip ") or "No module named pip" in done.stderr


@pytest.mark.parametrize("code", [
    "print('go')\nwhile True: pass",
    "import time; print('go'); time.sleep(60)",
    "print('go'); import os; os.system('sleep 60')",
    "print('go'); import subprocess; subprocess.run(['sleep', '60'])",
    "!echo go; sleep 60",
    "import asyncio; print('go'); await asyncio.sleep(60)",
    "print('go'); import threading; threading.Event().wait()",
    "print('go')\nwhile True: print('x' * 1000)",
], ids=["loop", "sleep", "os.system", "subprocess", "shell", "await", "lock", "flood"])
def test_interrupt_keeps_variables(driver, code):
    driver.run("precious = 'kept'")
    start = time.monotonic()
    done = driver.run(code, interrupt_at="go")
    assert done.error["name"] == "KeyboardInterrupt" and time.monotonic() - start < 30
    assert driver.value("precious") == "kept"


def test_interrupt_that_no_system_call_notices(driver):
    """A signal handled by another thread does not wake the main one: like one that comes just
    before a system call blocks. Also right after an earlier interrupt."""
    code = ("import signal, threading, time\n"
            "def strike():\n"
            "    time.sleep(0.1)\n"
            "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
            "threading.Thread(target=strike).start()\n"
            "threading.Event().wait()")
    for _ in range(3):
        done = driver.run(code)
        assert done.error["name"] == "KeyboardInterrupt"
        assert driver.value("1 + 1") == "2"


def test_interrupt_between_executions_is_ignored(driver):
    driver.process.send_signal(2)
    assert driver.value("1 + 1") == "2"


def test_interrupt_can_be_caught(driver):
    done = driver.run(textwrap.dedent("""
        import time
        try:
            print('go'); time.sleep(60)
        except KeyboardInterrupt:
            print('caught')
    """), interrupt_at="go")
    assert done.error is None and "caught" in done.stdout


def test_results_that_are_too_long_are_cut_not_sent(driver):
    done = driver.run("class H:\n  def _repr_html_(self): return 'x' * (30 << 20)\nH()")
    assert "html" not in done.main and "too large" in done.stderr
    assert len(driver.value("'y' * (3 << 20)")) < 2 << 20


def test_starts_with_nothing_heavy(fresh):
    loaded = json.loads(fresh.value(
        "import json, sys; json.dumps([m for m in ('asyncio', 'subprocess', 'traceback', 'typing', "
        "'inspect', 'numpy', 'matplotlib') if m in sys.modules])"))
    assert loaded == []


def test_a_text_that_was_cut_says_so(driver):
    done = driver.run("'x' * 3_000_000")
    assert len(done.text) < 2_000_000 and done.text.endswith("…")
    assert done.main["extra"]["truncated"] == ["text"]
    assert "[the text of a result was cut to 1048576 characters]" in done.stderr
    assert "truncated" not in driver.run("1 + 1").main["extra"]
