"""drivers/javascript.mjs with TypeScript."""

import pytest

LANGUAGE = "typescript"


@pytest.fixture(autouse=True)
def typescript(driver):
    error = driver.run("1").error
    if error and error["name"] == "TypeScriptMissing":
        pytest.skip(error["value"])


def test_types_are_stripped(driver):
    done = driver.run('const message: string = "Hello World!"; console.log(message)')
    assert done.stdout == "Hello World!\n"
    assert driver.value("process.cwd()").startswith("/")


def test_enums_classes_and_generics(driver):
    driver.run("interface P { a: number }\nenum E { A = 1, B }\n"
               "class C<T> { constructor(private v: T) {} get(): T { return this.v } }")
    assert driver.value("const p: P = { a: E.B }; new C<number>(p.a).get()") == "2"
    assert driver.value("await Promise.resolve<number>(7)") == "7"


def test_imports_stay_for_later_cells(driver):
    driver.run("import { readFileSync } from 'fs'")
    assert driver.value("typeof readFileSync") == "function"


def test_syntax_errors(driver):
    error = driver.run("const ok = 1\nconst x: = 5").error
    assert error["name"] == "SyntaxError" and "const x: = 5" in error["traceback"]
