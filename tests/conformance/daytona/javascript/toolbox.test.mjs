// The toolbox, method by method, with both SDKs.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { before, describe, test } from 'node:test'
import { SDKS, client, until } from './helpers.mjs'

for (const [name, sdk] of Object.entries(SDKS)) {
  describe(name, () => {
    const { create } = client(sdk)
    let sandbox, fs, process
    before(async () => {
      sandbox = await create()
      ;({ fs, process } = sandbox)
    })

    test('directories of the sandbox', async () => {
      assert.equal((await process.executeCommand('pwd')).result, `${await sandbox.getWorkDir()}\n`)
      assert.equal((await process.executeCommand('echo ~')).result, `${await sandbox.getUserHomeDir()}\n`)
      assert.equal(await sandbox.getUserRootDir(), await sandbox.getUserHomeDir())
    })

    test('executeCommand', async () => {
      const done = await process.executeCommand('pwd; echo $A; echo e >&2; exit 5', '/tmp', { A: 'x y' })
      assert.equal(done.exitCode, 5)
      assert.deepEqual(done.result.split('\n').sort(), ['', '/tmp', 'e', 'x y'])
      await assert.rejects(process.executeCommand('sleep 60', undefined, undefined, 1),
        (error) => error.statusCode === 408 && /command execution timeout/.test(error.message))
      await assert.rejects(process.executeCommand(''), /invalid request body/)
    })

    test('codeRun', async () => {
      const done = await process.codeRun('import sys; print(sys.argv[1:])', { argv: ['a', 'b c'] })
      assert.deepEqual([done.exitCode, done.result], [0, "['a', 'b c']\n"])
      assert.notEqual((await process.codeRun('def (')).exitCode, 0)
    })

    test('a session keeps its state and its commands', async () => {
      await process.createSession('s')
      await process.executeSessionCommand('s', { command: 'cd /tmp && export V=1' })
      const done = await process.executeSessionCommand('s', { command: 'pwd; echo $V; echo err >&2' })
      assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, '/tmp\n1\n', 'err\n'])
      const { commands } = await process.getSession('s')
      assert.deepEqual(commands.map((command) => command.exitCode), [0, 0])
      assert.equal((await process.getSessionCommand('s', done.cmdId)).command, commands[1].command)
      assert.ok((await process.listSessions()).some((session) => session.sessionId === 's'))
      await assert.rejects(process.createSession('s'), (error) => error.statusCode === 409)
      await process.deleteSession('s')
      await assert.rejects(process.getSession('s'), (error) => error.statusCode === 404)
    })

    test('logs of a command are followed, and it takes input', async () => {
      await process.createSession('follow')
      const { cmdId } = await process.executeSessionCommand('follow',
        { command: 'echo first; echo oops >&2; read x; echo "got $x"', runAsync: true })
      const seen = { out: '', err: '' }
      const followed = process.getSessionCommandLogs('follow', cmdId,
        (text) => { seen.out += text }, (text) => { seen.err += text })
      await until(() => seen.out.includes('first'), 'output')
      await process.sendSessionCommandInput('follow', cmdId, 'ünï')
      await followed
      assert.deepEqual(seen, { out: 'first\nünï\ngot ünï\n', err: 'oops\n' })
      const logs = await process.getSessionCommandLogs('follow', cmdId)
      assert.deepEqual([logs.stdout, logs.stderr], [seen.out, seen.err])
      await process.deleteSession('follow')
    })

    test('a session that has exited says so', async () => {
      await process.createSession('gone')
      assert.equal((await process.executeSessionCommand('gone', { command: 'exit 7' })).exitCode, 7)
      await assert.rejects(process.executeSessionCommand('gone', { command: 'true' }),
        (error) => error.statusCode === 410)
      await process.deleteSession('gone')
    })

    test('the entrypoint is a session', async () => {
      assert.equal((await process.getEntrypointSession()).sessionId, 'entrypoint')
      assert.equal((await process.getEntrypointLogs()).stdout, '')
    })

    test('a terminal', async () => {
      let text = ''
      const onData = (data) => { text += new TextDecoder().decode(data) }
      const pty = await process.createPty({ id: 'p', cols: 90, rows: 20, envs: { E: 'e1' }, onData })
      await pty.sendInput('stty size; echo $E-$((1 + 1))\n')
      await until(() => text.includes('20 90') && text.includes('e1-2'), 'output')
      assert.equal((await process.resizePtySession('p', 100, 30)).cols, 100)
      assert.equal((await process.getPtySessionInfo('p')).rows, 30)
      assert.deepEqual((await process.listPtySessions()).map((info) => info.id), ['p'])
      const second = await process.connectPty('p', { onData })
      await second.sendInput('exit 3\n')
      assert.equal((await pty.wait()).exitCode, 3)
      await Promise.all([pty.disconnect(), second.disconnect()])
      const killed = await process.createPty({ id: 'k', onData })
      await process.killPtySession('k')
      assert.deepEqual(await killed.wait(), { exitCode: 137, error: 'SIGKILL' })
      const own = await process.createPty({ id: 'o', onData })
      await own.kill()
      assert.deepEqual(await own.wait(), { exitCode: 137, error: 'SIGKILL' })
    })

    test('contexts of the code interpreter', async () => {
      const { codeInterpreter } = sandbox
      const context = await codeInterpreter.createContext()
      await codeInterpreter.runCode('x = 1', { context })
      assert.equal((await codeInterpreter.runCode('print(x)', { context })).stdout, '1\n')
      assert.equal((await codeInterpreter.runCode('x')).error.name, 'NameError')
      assert.deepEqual(await codeInterpreter.runCode('import time; print(1); time.sleep(600)', { timeout: 1 }),
        { stdout: '1\n', stderr: '' })
      assert.ok((await codeInterpreter.listContexts()).some(({ id }) => id === context.id))
      await codeInterpreter.deleteContext(context)
      await assert.rejects(codeInterpreter.runCode('1', { context }))
    })

    test('files', async () => {
      await fs.createFolder('d/e', '750')
      await fs.uploadFile(Buffer.from('hello\nworld\n'), 'd/f.txt')
      await fs.uploadFiles([{ source: Buffer.from('1'), destination: 'd/e/1' },
        { source: Buffer.from([0, 255, 13, 10]), destination: 'd/ž 2' }])
      assert.deepEqual((await fs.listFiles('d')).map((file) => file.name).sort(), ['e', 'f.txt', 'ž 2'])
      assert.equal((await fs.getFileDetails('d/e')).mode, 'drwxr-x---')
      assert.deepEqual([...await fs.downloadFile('d/ž 2')], [0, 255, 13, 10])
      const [one, none] = await fs.downloadFiles([{ source: 'd/e/1' }, { source: 'no' }])
      assert.equal(one.result.toString(), '1')
      assert.match(none.error, /not found/)
      await assert.rejects(fs.downloadFile('no'), (error) => error.statusCode === 404)
      assert.deepEqual(await fs.findFiles('d', 'wor'), [{ file: 'd/f.txt', line: 2, content: 'world' }])
      assert.deepEqual(await fs.searchFiles('d', '*.txt'), { files: ['d/f.txt'] })
      assert.equal((await fs.replaceInFiles(['d/f.txt'], 'world', 'all'))[0].success, true)
      await fs.setFilePermissions('d/f.txt', { mode: '600' })
      assert.equal((await fs.getFileDetails('d/f.txt')).permissions, '0600')
      await fs.moveFiles('d/f.txt', 'd/g')
      assert.equal((await fs.downloadFile('d/g')).toString(), 'hello\nall\n')
      await assert.rejects(fs.deleteFile('d'), (error) => error.statusCode === 400)
      await fs.deleteFile('d', true)
      await assert.rejects(fs.listFiles('d'), (error) => error.statusCode === 404)
    })

    test('streams of files', async () => {
      const data = Buffer.alloc(3 << 20, 'abc')
      await fs.uploadFileStream(Readable.from([data.subarray(0, 1 << 20), data.subarray(1 << 20)]), 'stream')
      const pieces = []
      for await (const piece of await fs.downloadFileStream('stream')) pieces.push(piece)
      assert.ok(Buffer.concat(pieces).equals(data))
      await assert.rejects(fs.downloadFileStream('no'), (error) => error.statusCode === 404)
    })

    test('a language server', async () => {
      await fs.createFolder('lsp', '755')
      await fs.uploadFile(Buffer.from('class Greeter:\n    def greet(self):\n        return 1\n\nGreeter().gre'), 'lsp/a.py')
      const server = await sandbox.createLspServer('python', 'lsp')
      await assert.rejects(server.documentSymbols('lsp/a.py'), (error) => error.statusCode === 400)
      await server.start()
      await server.didOpen('lsp/a.py')
      assert.ok((await server.documentSymbols('lsp/a.py')).some((symbol) => symbol.name === 'Greeter'))
      assert.ok((await server.sandboxSymbols('GREET')).some((symbol) => symbol.name === 'greet'))
      const { items } = await server.completions('lsp/a.py', { line: 4, character: 13 })
      assert.ok(items.some((item) => item.label.startsWith('greet')))
      await server.didClose('lsp/a.py')
      await server.stop()
      await assert.rejects(server.documentSymbols('lsp/a.py'), (error) => error.statusCode === 400)
    })

    test('a refused upload does not take the next call with it', async () => {
      for (let i = 0; i < 3; i++) {
        await assert.rejects(fs.uploadFile(Buffer.alloc(1 << 20), '/root/x'), (error) => error.statusCode === 400)
        assert.equal((await process.executeCommand('echo on')).result, 'on\n')
      }
    })

    test('a desktop is not offered', async () => {
      await assert.rejects(sandbox.computerUse.start(), (error) => error.statusCode === 503)
    })
  })
}
