// Commands and terminals.
import assert from 'node:assert/strict'
import {
  CommandExitError, InvalidArgumentError, NotFoundError, Sandbox, SandboxError, TimeoutError,
  AuthenticationError,
} from 'e2b'
import { boxTest, rejection, until } from './helpers.mjs'

boxTest(Sandbox, 'run: output, exit code, callbacks', async (box) => {
  const out = [], err = []
  const done = await box.commands.run('printf "ä\\n"; echo no >&2; echo 2', {
    onStdout: (s) => out.push(s),
    onStderr: (s) => err.push(s),
  })
  assert.deepEqual([done.exitCode, done.stdout, done.stderr, done.error], [0, 'ä\n2\n', 'no\n', undefined])
  assert.deepEqual([out.join(''), err.join('')], ['ä\n2\n', 'no\n'])

  const failed = await rejection(box.commands.run('echo partly; echo why >&2; exit 7'), CommandExitError)
  assert.deepEqual([failed.exitCode, failed.stdout, failed.stderr], [7, 'partly\n', 'why\n'])
  assert.equal((await rejection(box.commands.run('no-such-program'), CommandExitError)).exitCode, 127)
})

boxTest(Sandbox, 'a megabyte of output arrives whole', async (box) => {
  const { stdout } = await box.commands.run("head -c 1000000 /dev/zero | tr '\\0' x; echo end")
  assert.equal(stdout.length, 1000004)
  assert.ok(/^x{1000000}end\n$/.test(stdout))
})

boxTest(Sandbox, 'environment, directory, user', { envs: { A: 'box', B: 'box' } }, async (box) => {
  const run = async (cmd, opts) => (await box.commands.run(cmd, opts)).stdout.trim()
  assert.equal(await run('echo $A $B $C', { envs: { B: 'call', C: "it's" } }), "box call it's")
  assert.equal(await run('echo $A $B $C'), 'box box', 'of one call only')
  assert.equal(await run('pwd; whoami; echo $HOME'), '/home/user\nuser\n/home/user')
  assert.equal(await run('pwd', { cwd: '/tmp' }), '/tmp')
  assert.equal(await run('whoami; pwd', { user: 'root' }), 'root\n/root')
  assert.equal(await run('sudo whoami'), 'root')
  const missing = await rejection(box.commands.run('true', { cwd: '/no/such' }), InvalidArgumentError)
  assert.match(missing.message, /cwd '\/no\/such' does not exist/)
  const stranger = await rejection(box.commands.run('true', { user: 'nobody-here' }), AuthenticationError)
  assert.match(stranger.message, /invalid username: 'nobody-here'/)
})

boxTest(Sandbox, 'background, wait, list, kill', async (box) => {
  const handle = await box.commands.run('sleep 0.1; echo done; exit 3', { background: true })
  assert.ok(handle.pid > 1)
  const failed = await rejection(handle.wait(), CommandExitError)
  assert.deepEqual([failed.exitCode, failed.stdout], [3, 'done\n'])

  const sleeper = await box.commands.run('sleep 60', { background: true, envs: { K: 'v' }, cwd: '/tmp' })
  const listed = (await box.commands.list()).find((p) => p.pid === sleeper.pid)
  assert.deepEqual([listed.cmd, listed.args.at(-1), listed.cwd, listed.envs.K],
    ['/bin/bash', 'sleep 60', '/tmp', 'v'])
  assert.equal(await sleeper.kill(), true)
  const killed = await rejection(sleeper.wait(), CommandExitError)
  assert.equal(killed.exitCode, -1)
  assert.match(killed.error, /signal: killed/)
  await rejection(box.commands.run(`kill -0 ${sleeper.pid}`), CommandExitError)
  assert.equal(await box.commands.kill(sleeper.pid), false)
  assert.ok(!(await box.commands.list()).some((p) => p.pid === sleeper.pid))
})

boxTest(Sandbox, 'connect to a running command', async (box) => {
  const first = await box.commands.run('read x; echo "got $x"', { background: true, stdin: true })
  let seen = ''
  const second = await box.commands.connect(first.pid, { onStdout: (s) => { seen += s } })
  assert.equal(second.pid, first.pid)
  await box.commands.sendStdin(first.pid, 'word\n')
  const ended = await second.wait()
  assert.deepEqual([ended.exitCode, ended.stdout, seen], [0, 'got word\n', 'got word\n'])
  assert.equal((await first.wait()).stdout, 'got word\n')
  await rejection(box.commands.connect(999999), NotFoundError)
})

boxTest(Sandbox, 'disconnect leaves it running', async (box) => {
  const handle = await box.commands.run('sleep 0.3; echo x > /tmp/after', { background: true })
  await handle.disconnect()
  await until(() => box.files.exists('/tmp/after'), 'it was ended with its client')
})

boxTest(Sandbox, 'standard input: text, bytes, end', async (box) => {
  const handle = await box.commands.run('cat; echo end', { background: true, stdin: true })
  await handle.sendStdin('text ')
  await box.commands.sendStdin(handle.pid, new Uint8Array([0xc3, 0xa4, 10]))
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout, 'text ä\nend\n')

  const big = 'y'.repeat(300_000)
  const counter = await box.commands.run('wc -c', { background: true, stdin: true })
  await box.commands.sendStdin(counter.pid, big)
  await box.commands.closeStdin(counter.pid)
  assert.equal((await counter.wait()).stdout.trim(), '300000')

  const closed = await box.commands.run('sleep 5', { background: true })
  await rejection(box.commands.sendStdin(closed.pid, 'x'), SandboxError)
})

boxTest(Sandbox, 'a command that takes too long', async (box) => {
  await rejection(box.commands.run('sleep 30', { timeoutMs: 300 }), TimeoutError)
  await until(async () => (await box.commands.list()).length === 0, 'it still runs')
  assert.equal((await box.commands.run('sleep 0.2; echo ok', { timeoutMs: 0 })).stdout, 'ok\n')
})

boxTest(Sandbox, 'the sandbox is killed while a command runs', async (box) => {
  const handle = await box.commands.run('sleep 60', { background: true })
  const ending = rejection(handle.wait(), TimeoutError)
  await box.kill()
  assert.match((await ending).message, /sandbox was killed or reached its end of life/)
})

// Terminals.

const decoder = new TextDecoder()
const encode = (s) => new TextEncoder().encode(s)

boxTest(Sandbox, 'a terminal: size, input, resize, end', async (box) => {
  let seen = ''
  const pty = await box.pty.create({
    cols: 81, rows: 25, envs: { MARK: 'm1' }, cwd: '/tmp',
    onData: (data) => { seen += decoder.decode(data) },
  })
  await box.pty.sendInput(pty.pid, encode('stty size; echo "$MARK-$TERM-$PWD"\n'))
  await until(() => seen.includes('m1-xterm-256color-/tmp'), () => `no answer in ${seen}`)
  assert.match(seen, /25 81/)
  await box.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await box.pty.sendInput(pty.pid, encode('tput cols\n'))
  await until(() => /[\r\n]100\r\n/.test(seen), () => `not resized: ${seen}`)
  await box.pty.sendInput(pty.pid, encode('exit 0\n'))
  assert.equal((await pty.wait()).exitCode, 0)
})

boxTest(Sandbox, 'a terminal: leave and come back, kill', async (box) => {
  const pty = await box.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await pty.disconnect()
  let seen = ''
  const again = await box.pty.connect(pty.pid, { onData: (data) => { seen += decoder.decode(data) } })
  await box.pty.sendInput(pty.pid, encode('echo back-$((6*7))\n'))
  await until(() => seen.includes('back-42'), () => `no answer in ${seen}`)
  assert.equal(await box.pty.kill(pty.pid), true)
  await rejection(again.wait(), CommandExitError)
  assert.equal(await box.pty.kill(pty.pid), false)
})
