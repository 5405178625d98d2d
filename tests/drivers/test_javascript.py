"""drivers/javascript.mjs: values, modules, output, errors and interrupts of JavaScript."""

import re
import time

import pytest

LANGUAGE = "javascript"


def test_last_expression_is_the_result(driver):
    assert driver.value("40 + 2") == "42"
    assert driver.value("'no quotes'") == "no quotes"
    assert driver.value("null") == "null"
    for code in ("undefined", "const unused1 = 5", "if (true) { 5 }", "", "// nothing"):
        assert driver.run(code).results == []


def test_objects_are_text_and_json(driver):
    assert driver.run("[1, {a: 'x'}]").main["json"] == [1, {"a": "x"}]
    assert driver.value("{a: 1, b: 'x'}") == "{ a: 1, b: 'x' }"
    assert driver.value("new Map([[1, 2]])") == "Map(1) { 1 => 2 }"
    done = driver.run("const circle = {}; circle.self = circle; circle")
    assert "json" not in done.main and "Circular" in done.text


def test_declarations_stay_and_can_be_repeated(driver):
    driver.run("const c1 = 1; let l1 = 2; var v1 = 3; function f1() { return c1 + l1 + v1 }\n"
               "class K1 { get() { return f1() } }")
    assert driver.value("new K1().get()") == "6"
    driver.run("const c1 = 10; let l1; class K1 { get() { return [c1, l1] } }")
    assert driver.run("new K1().get()").main["json"] == [10, None]


def test_declarations_of_a_cell_that_awaits_stay(driver):
    driver.run("""
const {a2, b2: [c2, ...d2], ...e2} = await Promise.resolve({a2: 1, b2: [2, 3, 4], f: 5})
let g2
for (var h2 = 0; h2 < 3; h2++) { var i2 = h2 }
if (true) var j2 = 'j'
function k2() { return 'k' }
class L2 { name() { return 'l' } }""")
    done = driver.run("[a2, c2, d2, e2, g2 === undefined, h2, i2, j2, k2(), new L2().name()]")
    assert done.main["json"] == [1, 2, [3, 4], {"f": 5}, True, 3, 2, "j", "k", "l"]


def test_top_level_await_and_promises(driver):
    assert driver.value("await Promise.resolve('Hello World!')") == "Hello World!"
    done = driver.run("async function main() { await null; console.log('in'); return 7 }\nmain()")
    assert (done.stdout, done.text) == ("in\n", "7")
    assert driver.run("for await (const v of [Promise.resolve(1)]) console.log(v)").stdout == "1\n"


def test_static_imports(driver):
    done = driver.run("""
    import { readFileSync as read } from 'fs'
    import os, { EOL } from 'node:os'
    import * as path from 'path'
    console.log(typeof read, typeof os.cpus, EOL.length, path.basename('/a/b'))
    """)
    assert done.stdout == "function function 1 b\n"
    assert driver.value("typeof read + typeof path.join") == "functionfunction"
    error = driver.run("import { nosuch } from 'fs'").error
    assert error["name"] == "SyntaxError" and "nosuch" in error["value"]


def test_dynamic_imports_require_and_meta(driver):
    assert driver.value("(await import('node:path')).sep") == "/"
    assert driver.value("const later = () => import('fs'); typeof (await later()).statSync") == (
        "function")
    assert driver.value("require('path').sep") == "/"
    assert driver.value("import.meta.url").startswith("file:///")


def test_modules_and_packages_of_the_directory(fresh, tmp_path):
    (tmp_path / "own.mjs").write_text("export const x = 1; export default 'd'")
    assert fresh.value("import d, { x } from './own.mjs'\n`${d}${x}`") == "d1"
    time.sleep(0.02)
    (tmp_path / "own.mjs").write_text("export const x = 2; export default 'd'")
    assert fresh.value("import { x } from './own.mjs'\nx") == "2"
    package = tmp_path / "node_modules" / "esm-only"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "esm-only", "exports": {"import": "./i.mjs"}}')
    (package / "i.mjs").write_text("export const where = 'package'")
    assert fresh.value("import { where } from 'esm-only'\nwhere") == "package"
    assert "npm install" in fresh.run("import x from 'nosuch-package'").error["value"]


def test_output(driver):
    assert driver.run("console.log('Hello World!')").texts("stdout") == ["Hello World!\n"]
    assert driver.run("console.error('e')").texts("stderr") == ["e\n"]
    assert driver.run("process.stdout.write('part')").stdout == "part"
    assert driver.run("console.log('é😀')").stdout == "é😀\n"


def test_children(driver):
    done = driver.run("require('child_process').execSync('echo out; echo err >&2', "
                      "{stdio: 'inherit'}); console.log('then')")
    assert (done.stdout, done.stderr) == ("out\nthen\n", "err\n")
    done = driver.run("require('child_process').execSync('seq 1 50000', {stdio: 'inherit'}); 1")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 50001))
    assert driver.value("require('fs').readFileSync(0, 'utf8')") == ""


def test_late_output_belongs_to_the_next_execution(driver):
    driver.run("let goOn; const speak = (then) => { console.log('late'); then() }\n"
               "const asked = new Promise(then => { goOn = then })\n"
               "const spoken = asked.then(() => new Promise(then => setTimeout(speak, 1, then))); 1")
    assert driver.run("goOn(); await spoken").stdout == "late\n"


@pytest.mark.parametrize("code, places", [
    ("nix.bar", [(1, 1)]),
    ("let a1 = 1\n  nix.bar", [(2, 3)]),
    ("let a2 = 1; nix.bar", [(1, 13)]),
    ("let a3 = 1, b3; await nix.bar", [(1, 23)]),
    ("const {a4} = {}; let b4; const c4 = b4 + nix", [(1, 42)]),
    ("import fs1, {\n  readFileSync as r1 } from 'fs'; nix.bar", [(2, 35)]),
    ("function f1() { nix.bar }\n  f1()", [(1, 17), (2, 3)]),
    ("export class C1 { constructor() { nix } }; new C1()", [(1, 35), (1, 44)]),
    ("{ a: 1, b: nix }", [(1, 12)]),
    ("await 1\nasync function f2() { await 1; nix.bar }\n  await f2()", [(2, 32), (3, 3)]),
])
def test_places_are_those_of_the_code_as_it_was_written(driver, code, places):
    found = re.findall(r"<cell \d+>:(\d+):(\d+)", driver.run(code).error["traceback"])
    assert [(int(line), int(column)) for line, column in found] == places


def test_errors(driver):
    error = driver.run("function deep() { null.x }\n\ndeep()").error
    assert error["name"] == "TypeError" and "null" in error["value"]
    assert "deep" in error["traceback"] and ":3:" in error["traceback"]
    assert "javascript.mjs" not in error["traceback"] and "node:" not in error["traceback"]
    assert driver.run("unheard").error["value"] == "unheard is not defined"
    assert driver.run("throw 42").error["value"] == "42"
    error = driver.run("let a = 1\nconst = 5").error
    assert error["name"] == "SyntaxError" and "const = 5" in error["traceback"]
    error = driver.run("await Promise.reject(new RangeError('far'))").error
    assert (error["name"], error["value"]) == ("RangeError", "far")


def test_errors_nobody_waits_for_do_not_end_the_interpreter(driver):
    runs = [driver.run("kept3 = 1; setTimeout(() => { throw new Error('in a timer') }, 1); 1"),
            driver.run("await new Promise(r => setTimeout(r, 30))")]
    assert "in a timer" in "".join(run.stderr for run in runs)  # the first, if that took its time
    assert driver.value("kept3") == "1"
    assert driver.run("process.exit(1)").error["name"] == "ProcessExit"
    assert driver.value("kept3") == "1"


def test_env_and_directory(fresh, tmp_path):
    ask = "process.env.FOO ?? 'default'"
    assert fresh.value(ask, env={"FOO": "bar"}) == "bar"
    assert fresh.value(ask) == "default"
    assert fresh.value("process.cwd()") == str(tmp_path)
    assert fresh.value("process.chdir('/'); process.cwd()") == "/"


def test_env_of_the_sandbox_comes_back(driver):
    assert driver.value("process.env.FROM_SANDBOX", env={"FROM_SANDBOX": "over"}) == "over"
    assert driver.value("process.env.FROM_SANDBOX") == "supertest"


def test_display(driver):
    done = driver.run("display.html('<b>'); display({q: 1}); display.png(Buffer.from([1, 2, 3]))\n"
                      "display.json([1]); display.markdown('# x'); 'last'")
    assert [sorted(set(r) - {"id", "type", "extra", "is_main_result"}) for r in done.results] == [
        ["html"], ["json", "text"], ["png"], ["json", "text"], ["markdown"], ["text"]]
    assert done.results[2]["png"] == "AQID"
    done = driver.run("({[Symbol.for('Jupyter.display')]: () => ({'text/html': '<i>', 'x/y': 1})})")
    assert done.main["html"] == "<i>" and done.main["extra"] == {"x/y": 1}


@pytest.mark.parametrize("code", [
    "console.log('go'); while (true) {}",
    "console.log('go'); await new Promise(r => setTimeout(r, 1)); while (true) {}",
    "console.log('go'); await new Promise(() => {})",
    "console.log('go'); for (;;) { try { for (;;) {} } catch { } finally { } }",
    "console.log('go'); require('child_process').execSync('sleep 60')",
    "console.log('go'); for (;;) console.log('x'.repeat(1000))",
], ids=["loop", "loop after await", "await", "loop that catches", "child", "flood"])
def test_interrupt_keeps_variables(driver, code):
    driver.run("var precious = 'kept'")
    start = time.monotonic()
    done = driver.run(code, interrupt_at="go")
    assert done.error["name"] == "KeyboardInterrupt" and time.monotonic() - start < 30
    assert driver.value("precious") == "kept"
    assert driver.value("await Promise.resolve(1)") == "1"
    assert driver.run("console.log('still')").stdout == "still\n"


def test_interrupt_between_executions_is_ignored(driver):
    driver.process.send_signal(2)
    assert driver.value("1 + 1") == "2"


def test_a_text_that_was_cut_says_so(driver):
    done = driver.run("'x'.repeat(3000000)")
    assert len(done.text) < 2_000_000 and done.text.endswith("…")
    assert done.main["extra"]["truncated"] == ["text"]
    assert "[the text of a result was cut to 1048576 characters]" in done.stderr
    assert "truncated" not in driver.run("1 + 1").main["extra"]
