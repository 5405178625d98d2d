// The calls of a web application for coding agents (vercel-labs/coding-agent-template, which pins SDK 0.0.21), from
// the sandbox to the push. Its git server is one of the test, in the sandbox; its agent is a script.
import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { CREDENTIALS, SDKS, until } from './helpers.mjs'

const { Sandbox } = SDKS['0.0.21']
const PROJECT_DIR = '/vercel/sandbox/project'
const REPOSITORY = 'git://127.0.0.1:9418/origin.git'

const AGENT = `#!/bin/sh
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo "$2" > answer.txt
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"done"}]}}'
sleep 0.3
echo 'a line that is not JSON'
echo '{"type":"result","session_id":"s-1"}'
`

const ORIGIN = `
set -e
git init -q --bare -b main /tmp/git/origin.git
git daemon --detach --reuseaddr --listen=127.0.0.1 --base-path=/tmp/git --export-all --enable=receive-pack
git init -q -b main /tmp/work
cd /tmp/work
printf '{"name":"app","version":"1.0.0"}' > package.json
git add . && git -c user.name=a -c user.email=a@b commit -qm first
git push -q /tmp/git/origin.git main`

async function run(sandbox, command, args = []) {
  const result = await sandbox.runCommand(command, args)
  return { success: result.exitCode === 0, exitCode: result.exitCode, output: await result.stdout(), error: await result.stderr() }
}

function inProject(sandbox, command, args = []) {
  const quoted = args.map((arg) => `'${arg.replace(/'/g, "'\\''")}'`)
  return run(sandbox, 'sh', ['-c', `cd ${PROJECT_DIR} && ${[command, ...quoted].join(' ')}`])
}

function good(result) {
  assert.ok(result.success, result.error)
  return result.output
}

// Lines of JSON on the standard output of a command that runs by itself.
function lines(events) {
  let rest = ''
  return new Writable({
    write(chunk, _encoding, done) {
      const all = (rest + chunk).split('\n')
      rest = all.pop()
      for (const line of all.filter(Boolean)) {
        try {
          events.push(JSON.parse(line))
        } catch {
          // not an event of the agent
        }
      }
      done()
    },
  })
}

test('a task of a coding agent', async () => {
  const created = await Sandbox.create({ ...CREDENTIALS, timeout: 300_000, ports: [3000, 5173], runtime: 'node22', resources: { vcpus: 4 } })
  assert.match(created.domain(3000), /^https:\/\//)
  good(await run(created, 'sh', ['-c', ORIGIN]))

  const sandbox = await Sandbox.get({ ...CREDENTIALS, sandboxId: created.sandboxId })
  good(await run(sandbox, 'mkdir', ['-p', PROJECT_DIR]))
  good(await run(sandbox, 'git', ['clone', '--depth', '1', REPOSITORY, PROJECT_DIR]))
  good(await inProject(sandbox, 'test', ['-f', 'package.json']))
  assert.equal((await inProject(sandbox, 'test', ['-f', 'requirements.txt'])).exitCode, 1)
  good(await inProject(sandbox, 'npm', ['install', '--no-audit', '--no-fund', '--offline']))
  good(await inProject(sandbox, 'git', ['config', 'user.name', 'Coding Agent']))
  good(await inProject(sandbox, 'git', ['config', 'user.email', 'agent@example.com']))
  good(await inProject(sandbox, 'git', ['checkout', '-b', 'agent/branch']))

  await sandbox.writeFiles([{ path: '/tmp/agent', content: Buffer.from(AGENT) }])
  good(await run(sandbox, 'chmod', ['+x', '/tmp/agent']))
  const events = []
  const stderr = new Writable({ write: (_chunk, _encoding, done) => done() })
  await sandbox.runCommand({
    cmd: 'sh',
    args: ['-c', '/tmp/agent --print "do it"'],
    cwd: PROJECT_DIR,
    detached: true,
    stdout: lines(events),
    stderr,
  })
  await until(() => events.some((event) => event.type === 'result'), 'the result of the agent')
  assert.deepEqual(events.map((event) => event.type), ['system', 'assistant', 'result'])

  assert.match(good(await inProject(sandbox, 'git', ['status', '--porcelain'])), /answer\.txt/)
  good(await inProject(sandbox, 'git', ['add', '.']))
  good(await inProject(sandbox, 'git', ['commit', '-m', "the agent's work"]))
  good(await inProject(sandbox, 'git', ['push', 'origin', 'agent/branch']))
  const pushed = good(await run(sandbox, 'git', ['--git-dir=/tmp/git/origin.git', 'show', 'agent/branch:answer.txt']))
  assert.equal(pushed, 'do it\n')

  await run(sandbox, 'pkill', ['-f', 'node'])
  await sandbox.stop()
})
