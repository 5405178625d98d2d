// The life of a sandbox with an older SDK, for scripts that name its version.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as older from 'older'
import { client, until } from './helpers.mjs'

const { daytona, create } = client(older)

test('from create to delete', async () => {
  const sandbox = await create({ labels: { a: 'b' }, envVars: { GREETING: 'hi' } })
  assert.equal(sandbox.state, 'started')
  assert.equal((await sandbox.process.executeCommand('echo $GREETING')).result, 'hi\n')
  assert.equal((await sandbox.process.codeRun('print(6 * 7)')).result, '42\n')
  await sandbox.fs.uploadFile(Buffer.from('text'), 'd/file')
  assert.equal((await sandbox.fs.downloadFile('d/file')).toString(), 'text')
  await sandbox.process.createSession('s')
  await sandbox.process.executeSessionCommand('s', { command: 'cd /tmp' })
  const { cmdId } = await sandbox.process.executeSessionCommand('s', { command: 'pwd; echo e >&2', runAsync: true })
  const seen = { out: '', err: '' }
  await sandbox.process.getSessionCommandLogs('s', cmdId, (text) => { seen.out += text }, (text) => { seen.err += text })
  assert.deepEqual(seen, { out: '/tmp\n', err: 'e\n' })
  let text = ''
  const pty = await sandbox.process.createPty({ id: 'p', onData: (data) => { text += new TextDecoder().decode(data) } })
  await pty.sendInput('echo $((1 + 1))-\n')
  await until(() => text.includes('2-'), 'output')
  await pty.sendInput('exit 3\n')
  assert.equal((await pty.wait()).exitCode, 3)
  await sandbox.stop()
  assert.equal(sandbox.state, 'stopped')
  await sandbox.start()
  assert.equal((await sandbox.fs.downloadFile('d/file')).toString(), 'text')
  assert.ok((await sandbox.getPreviewLink(3000)).url.includes(sandbox.id))
  await sandbox.delete()
  await assert.rejects(daytona.get(sandbox.id), older.DaytonaNotFoundError)
})
