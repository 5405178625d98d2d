// kill -9 of the daemon while a follower and a terminal are open: the SDK goes on, and nothing is lost.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { SDKS, until } from './helpers.mjs'

// A daemon of our own; see mortal.py.
const mortal = spawn('/usr/bin/python3', [join(import.meta.dirname, '..', 'mortal.py')], { stdio: ['pipe', 'pipe', 'inherit'] })
const lines = createInterface({ input: mortal.stdout })[Symbol.asyncIterator]()
const { url, key } = JSON.parse((await lines.next()).value)

async function kill() {
  mortal.stdin.write('kill\n')
  assert.equal((await lines.next()).value, 'started')
}

after(async () => {
  mortal.stdin.end()
  assert.equal((await once(mortal, 'exit'))[0], 0)
})

for (const [name, sdk] of Object.entries(SDKS)) {
  describe(name, () => {
    const daytona = new sdk.Daytona({ apiUrl: url, apiKey: key })
    let sandbox, process
    before(async () => {
      sandbox = await daytona.create()
      ;({ process } = sandbox)
    })
    after(async () => {
      await sandbox.delete()
      await daytona[Symbol.asyncDispose]()
    })

    test('logs of a session are followed again, from their beginning', async () => {
      await process.createSession('s')
      const { cmdId } = await process.executeSessionCommand('s',
        { command: 'echo first; read x; echo "got $x"; read y; echo "then $y"', runAsync: true })
      const follow = () => {
        const seen = { out: '' }
        seen.ended = Promise.allSettled([
          process.getSessionCommandLogs('s', cmdId, (text) => { seen.out += text }, () => {})])
        return seen
      }
      const cut = follow()
      await until(() => cut.out.includes('first'), 'output')
      await kill()
      await cut.ended // it does not hang
      await process.sendSessionCommandInput('s', cmdId, 'one')
      const again = follow()
      await until(() => again.out.includes('got one'), 'output after the kill')
      await process.sendSessionCommandInput('s', cmdId, 'two')
      const [ended] = await again.ended
      assert.deepEqual([ended.status, again.out], ['fulfilled', 'first\none\ngot one\ntwo\nthen two\n'])
      assert.equal((await process.getSessionCommand('s', cmdId)).exitCode, 0)
      assert.equal((await process.executeSessionCommand('s', { command: 'echo on' })).stdout, 'on\n')
    })

    test('a terminal is connected to again', async () => {
      let text = ''
      const onData = (data) => { text += new TextDecoder().decode(data) }
      const cut = await process.createPty({ id: 'p', onData })
      await cut.sendInput('x=kept; echo ready-$((1 + 1))\n')
      await until(() => text.includes('ready-2'), 'output')
      const ended = Promise.allSettled([cut.wait()])
      await kill()
      await ended // it does not hang
      const again = await process.connectPty('p', { onData })
      await again.sendInput('echo $x-$((2 + 3))\n')
      await until(() => text.includes('kept-5'), 'output after the kill')
      await again.sendInput('exit 3\n')
      assert.equal((await again.wait()).exitCode, 3)
      await again.disconnect()
    })
  })
}
