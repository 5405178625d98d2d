// runCode and contexts, in the languages that the host has.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { NotFoundError, Sandbox, SandboxError, TimeoutError } from '@e2b/code-interpreter'
import { boxTest, rejection } from './helpers.mjs'

const hostHas = (...command) => spawnSync(command[0], command.slice(1)).status === 0
const plots = hostHas('/usr/bin/python3', '-c', 'import matplotlib, pandas')
const pythonTest = (name, body) =>
  plots ? boxTest(Sandbox, name, body) : test(name, { skip: 'no matplotlib and pandas' }, () => {})

boxTest(Sandbox, 'values, output, state, count', async (box) => {
  const first = await box.runCode('import sys\nprint("out")\nprint("err", file=sys.stderr)\nx = 40\nx')
  assert.equal(first.text, '40')
  assert.deepEqual(first.logs, { stdout: ['out\n'], stderr: ['err\n'] })
  assert.equal(first.executionCount, 1)
  assert.equal(first.error, undefined)
  assert.deepEqual(first.results.map((r) => [r.text, r.isMainResult]), [['40', true]])
  const second = await box.runCode('x + 2')
  assert.deepEqual([second.text, second.executionCount], ['42', 2])
  assert.equal((await box.runCode('x = 1')).text, undefined)
})

boxTest(Sandbox, 'errors of the code', async (box) => {
  const { error, logs } = await box.runCode('print("before")\n1/0')
  assert.deepEqual([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
  assert.match(error.traceback, /ZeroDivisionError/)
  assert.deepEqual(logs.stdout, ['before\n'])
  assert.equal((await box.runCode('def f(:')).error.name, 'SyntaxError')
  assert.equal((await box.runCode('"still there"')).text, 'still there')
})

boxTest(Sandbox, 'callbacks come while it runs', async (box) => {
  const seen = []
  const done = await box.runCode(
    'import sys, time\nprint(1)\nsys.stdout.flush()\ntime.sleep(0.2)\nprint(2, file=sys.stderr)\n'
    + 'display("shown")\n1/0', {
      onStdout: (m) => seen.push(['stdout', m.line, m.error]),
      onStderr: (m) => seen.push(['stderr', m.line, m.error]),
      onResult: (r) => seen.push(['result', r.text, r.isMainResult]),
      onError: (e) => seen.push(['error', e.name]),
    })
  assert.deepEqual(seen, [['stdout', '1\n', false], ['stderr', '2\n', true],
    ['result', 'shown', false], ['error', 'ZeroDivisionError']])
  assert.equal(done.results.length, 1)
})

boxTest(Sandbox, 'environment', { envs: { A: 'box', B: 'box' } }, async (box) => {
  const code = 'import os\n[os.environ.get(k) for k in "ABC"]'
  assert.equal((await box.runCode(code, { envs: { B: 'call', C: 'call' } })).text, "['box', 'call', 'call']")
  assert.equal((await box.runCode(code)).text, "['box', 'box', None]")
})

boxTest(Sandbox, 'contexts', async (box) => {
  const defaults = await box.listCodeContexts()
  assert.deepEqual(defaults.map((c) => c.language).sort(), ['javascript', 'python'])
  const made = await box.createCodeContext({ language: 'python', cwd: '/tmp' })
  assert.deepEqual([made.language, made.cwd], ['python', '/tmp'])
  assert.equal((await box.runCode('import os; y = 5; os.getcwd()', { context: made })).text, '/tmp')
  assert.equal((await box.runCode('y')).error.name, 'NameError', 'contexts are apart')
  assert.equal((await box.runCode('y', { context: made })).text, '5')
  assert.deepEqual((await box.listCodeContexts()).at(-1), made)
  await box.restartCodeContext(made.id)
  assert.equal((await box.runCode('y', { context: made })).error.name, 'NameError')
  await box.removeCodeContext(made)
  assert.ok(!(await box.listCodeContexts()).some((c) => c.id === made.id))
  await rejection(box.runCode('1', { context: made }), NotFoundError)
  await rejection(box.removeCodeContext('no-such-context'), NotFoundError)
})

boxTest(Sandbox, 'code that takes too long is interrupted', async (box) => {
  await box.runCode('kept = 7')
  await rejection(box.runCode('import time\ntime.sleep(60)', { timeoutMs: 500 }), TimeoutError)
  assert.equal((await box.runCode('kept', { timeoutMs: 20_000 })).text, '7')
})

boxTest(Sandbox, 'the sandbox is killed while code runs', async (box) => {
  let started
  const runs = new Promise((resolve) => { started = resolve })
  const code = 'import time\nprint("on", flush=True)\ntime.sleep(60)'
  const running = rejection(box.runCode(code, { onStdout: started }), Error)
  await runs
  await box.kill()
  assert.match((await running).message, /killed/)
})

boxTest(Sandbox, 'JavaScript and TypeScript', async (box) => {
  const run = (code, opts) => box.runCode(code, { language: 'javascript', ...opts })
  assert.equal((await run('const a = [1, 2].map((x) => x * 2); a.reduce((x, y) => x + y)')).text, '6')
  assert.equal((await run('console.log(a.length); await Promise.resolve("later")')).text, 'later')
  assert.equal((await run('import os from "node:os"; typeof os.cpus')).text, 'function')
  assert.equal((await run('process.env.K', { envs: { K: 'v' } })).text, 'v')
  const { error } = await run('throw new TypeError("no")')
  assert.deepEqual([error.name, error.value], ['TypeError', 'no'])
})

boxTest(Sandbox, 'Bash', async (box) => {
  const first = await box.runCode('N=5; echo "N=$N"; pwd; echo no >&2', { language: 'bash' })
  assert.equal(first.logs.stdout.join(''), 'N=5\n/home/user\n')
  assert.equal(first.logs.stderr.join(''), 'no\n')
  assert.equal((await box.runCode('echo $((N + 1))', { language: 'bash' })).logs.stdout.join(''), '6\n')
})

for (const [language, probe, code, text] of [
  ['typescript', ['tsc', '--version'], 'const x: number = 6 * 7; x', '42'],
  ['r', ['Rscript', '--version'], 'x <- 6 * 7; paste("R", x)', '[1] "R 42"'],
  ['java', ['javac', '--version'], 'int x = 6 * 7; x', '42'],
]) {
  test(language, { skip: !hostHas(...probe) && `no ${probe[0]}` }, async () => {
    const box = await Sandbox.create()
    try {
      assert.equal((await box.runCode(code, { language })).text, text)
    } finally {
      await box.kill()
    }
  })
}

boxTest(Sandbox, 'an unknown language', async (box) => {
  const error = await rejection(box.runCode('1', { language: 'cobol' }), SandboxError)
  assert.match(error.message, /500 .*cobol/)
  const nowhere = await rejection(box.createCodeContext({ cwd: '/nope' }), SandboxError)
  assert.match(nowhere.message, /500 .*\/nope/)
})

boxTest(Sandbox, 'rich results', async (box) => {
  const { results } = await box.runCode(`
display(HTML('<b>x</b>')); display(Markdown('# x')); display(SVG('<svg></svg>')); display(Latex('$x$'))
{'a': [1, 2]}`)
  assert.deepEqual([results[0].html, results[1].markdown, results[2].svg, results[3].latex],
    ['<b>x</b>', '# x', '<svg></svg>', '$x$'])
  assert.deepEqual(results[4].json, { a: [1, 2] })
  assert.deepEqual([results[4].text, results[4].formats()], ["{'a': [1, 2]}", ['json']])
})

pythonTest('tables', async (box) => {
  const { results: [table] } = await box.runCode('import pandas\npandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})')
  assert.deepEqual(table.data, { a: [1, 2], b: ['x', 'y'] })
  assert.match(table.html, /<table/)
  assert.match(table.text, /a\s+b/)
})

const PLOT = 'import matplotlib.pyplot as plt\n'

pythonTest('charts', async (box) => {
  const chartOf = async (code) => {
    const { results, error } = await box.runCode(`${PLOT}plt.close("all")\n${code}\nplt.show()`)
    assert.equal(error, undefined)
    assert.equal(Buffer.from(results[0].png, 'base64').subarray(1, 4).toString(), 'PNG')
    return results[0].chart
  }
  const line = await chartOf('plt.plot([1, 2], [3, 4], label="up"); plt.title("T"); plt.xlabel("t (s)")')
  assert.deepEqual([line.type, line.title, line.x_label, line.x_unit], ['line', 'T', 't (s)', 's'])
  assert.deepEqual(line.elements, [{ label: 'up', points: [[1, 3], [2, 4]] }])
  const bar = await chartOf('plt.bar(["a", "b"], [1, 2])')
  assert.deepEqual([bar.type, bar.elements.map((e) => [e.label, Number(e.value)])], ['bar', [['a', 1], ['b', 2]]])
  const pie = await chartOf('plt.pie([1, 3], labels=["q", "r"])')
  assert.deepEqual([pie.type, pie.elements.map((e) => [e.label, Math.round(e.angle)])], ['pie', [['q', 90], ['r', 270]]])
  const scatter = await chartOf('plt.scatter([1, 2], [5, 6])')
  assert.deepEqual([scatter.type, scatter.elements[0].points], ['scatter', [[1, 5], [2, 6]]])
  const box_ = await chartOf('plt.boxplot([[1, 2, 3, 4, 50]])')
  assert.deepEqual([box_.type, box_.elements[0].median, box_.elements[0].outliers], ['box_and_whisker', 3, [50]])
  const both = await chartOf('f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(["x"], [1])')
  assert.deepEqual([both.type, both.elements.map((c) => c.type)], ['superchart', ['line', 'bar']])
})
