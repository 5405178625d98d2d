// The command `sandbox`.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { HERE, program } from './helpers.mjs'

const CLI = join(HERE, 'node_modules', 'sandbox', 'bin', 'sandbox.mjs')
const sandbox = async (...args) => {
  const ended = await program(process.execPath, [CLI, ...args])
  if (ended.code !== 0) throw new Error(`sandbox ${args.join(' ')}: ${ended.code}\n${ended.stdout}${ended.stderr}`)
  return ended
}

// A command of it in a terminal: types the line when the prompt is there. {code, shown}.
async function terminal(args, line) {
  const command = `stty cols 80 rows 24; ${process.execPath} ${CLI} ${args}`
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: HERE, stdio: ['pipe', 'pipe', 'inherit'], timeout: 30_000 })
  let shown = ''
  child.stdout.on('data', (data) => {
    const before = shown
    shown += data
    if (!before.includes('▲ ') && shown.includes('▲ ')) child.stdin.write(`${line}\n`)
  })
  const code = await new Promise((resolve) => child.on('exit', resolve))
  return { code, shown }
}

describe('the command', () => {
  const name = `cli-${Math.random().toString(36).slice(2, 10)}`
  before(() => sandbox('create', '--name', name, '--timeout', '10m', '--image', 'vercel/sandbox/node:24', '--network-id', 'net_1'))
  after(() => sandbox('remove', name).catch(() => {}))

  test('list, with the image', async () => {
    assert.match((await sandbox('list')).stdout, new RegExp(`${name}.*vercel/sandbox/node:24`))
  })

  test('create from an image that is not here', async () => {
    const refused = await program(process.execPath, [CLI, 'create', '--image', 'vercel/sandbox/arch'])
    assert.notEqual(refused.code, 0)
    assert.match(refused.stderr, /docker\.io\/library\/archlinux/)
  })

  test('config: a network id is removed', async () => {
    await sandbox('config', 'network-id', name, 'none')
    assert.doesNotMatch((await sandbox('config', 'list', name)).stdout, /net_1/)
  })

  test('exec: output and status', async () => {
    const { stdout } = await sandbox('exec', name, 'sh', '-c', 'echo out; pwd')
    assert.equal(stdout, 'out\n/vercel/sandbox\n')
    const ended = await program(process.execPath, [CLI, 'exec', name, 'sh', '-c', 'exit 7'])
    assert.equal(ended.code, 7)
  })

  test('exec: variables, directory and sudo', async () => {
    const { stdout } = await sandbox('exec', '--sudo', '--env', 'A=b', '--workdir', '/tmp', name, 'sh', '-c', 'echo $A; pwd; id -un')
    assert.equal(stdout, 'b\n/tmp\nroot\n')
  })

  test('copy', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'vercel-cli-'))
    await writeFile(join(directory, 'up.txt'), 'carried')
    await sandbox('copy', join(directory, 'up.txt'), `${name}:/vercel/sandbox/up.txt`)
    await sandbox('copy', `${name}:/vercel/sandbox/up.txt`, join(directory, 'down.txt'))
    assert.equal(await readFile(join(directory, 'down.txt'), 'utf8'), 'carried')
  })

  test('exec --interactive: a shell in a terminal', async () => {
    const { code, shown } = await terminal(`exec --interactive ${name} sh`, 'tty; echo $((6 * 7)); exit 5')
    assert.match(shown, /\/dev\/pts\/\d+\s+42/)
    assert.equal(code, 5, shown)
  })

  test('connect: a shell in a sandbox that is there', async () => {
    const { shown } = await terminal(`connect ${name}`, 'tty; echo $((6 * 7)); exit')
    assert.match(shown, /\/dev\/pts\/\d+\s+42/)
  })

  test('sh: a new sandbox and a shell in it', async () => {
    const { shown } = await terminal(`sh --rm --name ${name}-sh`, 'tty; pwd; echo $((6 * 7)); exit')
    assert.match(shown, /\/dev\/pts\/\d+\s+\/vercel\/sandbox\s+42/)
    assert.doesNotMatch((await sandbox('list', '--all')).stdout, new RegExp(`${name}-sh`))
  })

  test('run: output and status of a command in a new sandbox', async () => {
    const ended = await program(process.execPath, [CLI, 'run', '--rm', '--name', `${name}-run`, '--env', 'A=b', '--', 'sh', '-c', 'echo ran $A; exit 7'])
    assert.match(ended.stdout, /ran b\n$/)
    assert.equal(ended.code, 7, ended.stderr)
    assert.doesNotMatch((await sandbox('list', '--all')).stdout, new RegExp(`${name}-run`))
  })

  test('snapshot, fork and sessions', async () => {
    await sandbox('exec', name, 'sh', '-c', 'echo forked >file')
    const taken = await sandbox('snapshot', '--stop', name)
    const [id] = (taken.stdout + taken.stderr).match(/snap_[0-9a-f-]+/)
    assert.match((await sandbox('snapshots', 'get', id)).stdout, new RegExp(id))
    await sandbox('fork', name, '--name', `${name}-fork`)
    try {
      assert.equal((await sandbox('exec', `${name}-fork`, 'cat', 'file')).stdout, 'forked\n')
    } finally {
      await sandbox('remove', `${name}-fork`)
    }
    await sandbox('exec', name, 'true')
    const { stdout } = await sandbox('sessions', 'list', '--all', name)
    assert.equal(stdout.match(/sbx_/g)?.length, 2, stdout)
  })

  test('stop, and start again by the next command', async () => {
    await sandbox('exec', name, 'touch', 'kept')
    await sandbox('stop', name)
    await sandbox('exec', name, 'test', '-e', 'kept')
  })
})
