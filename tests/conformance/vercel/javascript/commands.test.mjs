// Commands and files of a sandbox, with every generation of the SDK.
import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { before, describe, test } from 'node:test'
import { SDKS, collect, creator, until } from './helpers.mjs'

class Text extends Writable {
  text = ''
  _write(chunk, _encoding, done) {
    this.text += chunk
    done()
  }
}

async function read(stream) {
  const pieces = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

for (const [version, sdk] of Object.entries(SDKS)) {
  describe(version, () => {
    const create = creator(sdk)
    let sandbox
    before(async () => {
      sandbox = await create({ timeout: 600_000 })
    })

    test('a command with its output', async () => {
      const done = await sandbox.runCommand('sh', ['-c', 'echo out; echo err >&2; exit 3'])
      assert.equal(done.exitCode, 3)
      assert.equal(await done.stdout(), 'out\n')
      assert.equal(await done.stderr(), 'err\n')
      assert.ok(done.cmdId.startsWith('cmd_'))
    })

    test('arguments are passed as they are', async () => {
      const done = await sandbox.runCommand('printf', ['%s|', 'a b', '$HOME', '"', '', 'ü\n'])
      assert.equal(await done.stdout(), 'a b|$HOME|"||ü\n|')
    })

    test('directory, variables and user', async () => {
      const done = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'pwd; echo $A; id -un'], cwd: '/tmp', env: { A: 'x y' } })
      assert.equal(await done.stdout(), '/tmp\nx y\nvercel-sandbox\n')
      assert.equal(await (await sandbox.runCommand('pwd')).stdout(), '/vercel/sandbox\n')
    })

    test('sudo', async () => {
      const done = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'id -un; echo $USER $SUDO_USER $A; pwd'], sudo: true, env: { A: '1' } })
      assert.equal(await done.stdout(), 'root\nroot vercel-sandbox 1\n/vercel/sandbox\n')
      const inside = await sandbox.runCommand('sudo', ['id', '-un'])
      assert.equal(await inside.stdout(), 'root\n')
    })

    test('output goes to streams as it comes', async () => {
      const [stdout, stderr] = [new Text(), new Text()]
      await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo 1; echo 2 >&2; echo 3'], stdout, stderr })
      await until(() => stdout.text === '1\n3\n' && stderr.text === '2\n', 'output')
    })

    test('a detached command: logs, wait, kill', async () => {
      const command = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo begun; exec sleep 1000'], detached: true })
      for await (const line of command.logs()) {
        assert.deepEqual(line, { stream: 'stdout', data: 'begun\n' })
        break
      }
      await command.kill('SIGTERM')
      assert.equal((await command.wait()).exitCode, 143)
      const again = await sandbox.getCommand(command.cmdId)
      assert.equal(again.exitCode, 143)
      assert.deepEqual(await collect(again.logs()), { stdout: 'begun\n', stderr: '' })
    })

    test('a program that does not exist is an error of the request', async () => {
      await assert.rejects(sandbox.runCommand('no-such-program'), (error) => error.response.status === 400)
    })

    test('much output, none of it lost', async () => {
      const done = await sandbox.runCommand('seq', ['1', '200000'])
      const text = await done.stdout()
      assert.equal(text.length, 1288895)
      assert.ok(text.endsWith('\n200000\n'))
    })

    test('many commands at the same time', async () => {
      const all = await Promise.all(Array.from({ length: 12 }, (_, i) => sandbox.runCommand('echo', [String(i)])))
      assert.deepEqual(await Promise.all(all.map((done) => done.stdout())), all.map((_, i) => `${i}\n`))
    })

    test('files', async () => {
      const bytes = Buffer.from(Array.from({ length: 3000 }, (_, i) => i % 256))
      await sandbox.writeFiles([
        { path: 'dir/a.txt', content: Buffer.from('text') },
        { path: '/tmp/b.bin', content: bytes },
      ])
      assert.equal((await read(await sandbox.readFile({ path: 'dir/a.txt' }))).toString(), 'text')
      assert.deepEqual(await read(await sandbox.readFile({ path: 'b.bin', cwd: '/tmp' })), bytes)
      assert.equal(await sandbox.readFile({ path: 'nope' }), null)
      const owner = await sandbox.runCommand('stat', ['-c', '%U %F', 'dir', 'dir/a.txt'])
      assert.equal(await owner.stdout(), 'vercel-sandbox directory\nvercel-sandbox regular file\n')
      await sandbox.mkDir('made')
      assert.equal((await sandbox.runCommand('test', ['-d', '/vercel/sandbox/made'])).exitCode, 0)
      await assert.rejects(sandbox.mkDir('made'), (error) => error.response.status === 400)
      await assert.rejects(sandbox.mkDir('not/there'), (error) => error.response.status === 400)
    })

    if (version >= '1') {
      test('a file has the mode that it was given', async () => {
        await sandbox.writeFiles([{ path: 'run.sh', content: Buffer.from('#!/bin/sh\necho ran'), mode: 0o755 }])
        assert.equal(await (await sandbox.runCommand('./run.sh')).stdout(), 'ran\n')
      })

      test('a client that gives up does not end the command', async () => {
        const abort = new AbortController()
        const run = sandbox.runCommand({ cmd: 'sh', args: ['-c', 'sleep 0.3; touch lived'], signal: abort.signal })
        setTimeout(() => abort.abort(), 100)
        await assert.rejects(run)
        await until(async () => (await sandbox.runCommand('test', ['-e', 'lived'])).exitCode === 0, 'the file')
      })
    }

    if (version >= '2') {
      test('a command that takes too long is killed', async () => {
        const done = await sandbox.runCommand({ cmd: 'sleep', args: ['100'], timeoutMs: 300 })
        assert.equal(done.exitCode, 137)
      })
    }

    test('a sandbox that is stopped', async () => {
      const short = await create()
      const { cmdId } = await short.runCommand('echo', ['kept'])
      await short.stop({ blocking: true })
      if (version >= '2') return
      await assert.rejects(short.runCommand('true'), (error) => error.response.status === 410)
      const command = await short.getCommand(cmdId)
      assert.equal((await collect(command.logs())).stdout, 'kept\n')
    })
  })
}
