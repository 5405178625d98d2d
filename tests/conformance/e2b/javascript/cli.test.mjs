// E2B's command line, unmodified: templates and sandboxes.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { Sandbox, Template } from 'e2b'

const folder = mkdtempSync(join(tmpdir(), 'atoll-cli-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const program = join(import.meta.dirname, '..', 'node_modules', '.bin', 'e2b')

/** Runs the command line; its output without colours. */
async function e2b(...args) {
  const env = { ...process.env, HOME: folder, NO_COLOR: '1', FORCE_COLOR: '0' }
  const run = promisify(execFile)(program, args, { cwd: folder, env, timeout: 90000 })
  run.child.stdin.end()
  return (await run).stdout.replace(/\x1b\[[0-9;]*m/g, '')
}

const unique = () => `cli-${randomUUID().slice(0, 8)}`

test('template create, list, publish, delete', async () => {
  const name = unique()
  writeFileSync(join(folder, 'hello.txt'), 'hello\n')
  writeFileSync(join(folder, 'e2b.Dockerfile'),
    'FROM e2bdev/base\nWORKDIR /app\nCOPY hello.txt .\nRUN cat hello.txt > copy\n')
  const said = await e2b('template', 'create', name, '--cpu-count', '1', '--memory-mb', '512',
    '--cmd', 'sleep 1000', '--ready-cmd', 'true')
  assert.match(said, /Building sandbox template .* finished/)
  const listed = () => e2b('template', 'list', '--format', 'json')
    .then((text) => JSON.parse(text).find((t) => t.templateID === name))
  assert.equal((await listed()).public, false)
  assert.equal((await listed()).memoryMB, 512)
  assert.match(await e2b('template', 'list'), new RegExp(name))
  const box = await Sandbox.create(name)
  assert.equal((await box.commands.run('cat /app/copy')).stdout, 'hello\n')
  assert.match((await box.commands.run('ps ax')).stdout, /sleep 1000/)
  await box.kill()
  assert.match(await e2b('template', 'publish', name, '--yes'), new RegExp(`Published as: ${name}`))
  assert.equal((await listed()).public, true)
  await e2b('template', 'unpublish', name, '--yes')
  assert.equal((await listed()).public, false)
  await e2b('template', 'delete', name, '--yes')
  assert.equal(await Template.exists(name), false)
})

test('template create says which step failed', async () => {
  writeFileSync(join(folder, 'e2b.Dockerfile'), 'FROM e2bdev/base\nRUN echo doomed && exit 9\n')
  const error = await e2b('template', 'create', unique()).then(() => null, (e) => e)
  assert.match(error.stdout + error.stderr, /failed to run command 'echo doomed && exit 9'/)
})

test('template init and migrate', async () => {
  await e2b('template', 'init', '--name', 'my-app', '--language', 'python-sync')
  assert.ok(existsSync(join(folder, 'my-app', 'template.py')))
  const old = mkdtempSync(join(folder, 'old-'))
  writeFileSync(join(old, 'e2b.Dockerfile'), 'FROM e2bdev/base\nRUN true\n')
  writeFileSync(join(old, 'e2b.toml'), 'template_id = "abc"\ndockerfile = "e2b.Dockerfile"\n' +
    'template_name = "old-one"\nstart_cmd = "sleep 5"\ncpu_count = 2\nmemory_mb = 1_024\n')
  await e2b('template', 'migrate', '--path', old, '--language', 'typescript')
  assert.match(readFileSync(join(old, 'template.ts'), 'utf8'), /e2bdev\/base/)
})

test('sandbox list and kill', async () => {
  const box = await Sandbox.create('base', { metadata: { made: 'for-cli' } })
  assert.match(await e2b('sandbox', 'list'), new RegExp(box.sandboxId))
  await e2b('sandbox', 'kill', box.sandboxId)
  assert.equal(await box.isRunning(), false)
})
