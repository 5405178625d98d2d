// Each failure is the error that the SDK has for it.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import {
  AuthenticationError, Sandbox, SandboxError, SandboxNotFoundError, Template, TimeoutError,
} from 'e2b'
import { boxTest, rejection } from './helpers.mjs'

test('a wrong key', async () => {
  const apiKey = `e2b_${'0'.repeat(80)}`
  await rejection(Sandbox.create({ apiKey }), AuthenticationError)
  await rejection(Sandbox.list({ apiKey }).nextItems(), AuthenticationError)
})

test('an unknown template', async () => {
  const error = await rejection(Sandbox.create('no-such-template'), SandboxError)
  assert.match(error.message, /404.*template 'no-such-template' not found/)
})

test('limits that make no sense', async () => {
  const error = await rejection(Sandbox.create({ timeoutMs: 1000 * 3600 * 25 }), SandboxError)
  assert.match(error.message, /400.*Timeout cannot be greater than 24 hours/)
  const denied = { network: { allowOut: ['example.com'] } }
  assert.match((await rejection(Sandbox.create(denied), SandboxError)).message, /400/)
})

test('a killed sandbox', async () => {
  const box = await Sandbox.create()
  await box.kill()
  await rejection(box.commands.run('true'), SandboxNotFoundError)
  await rejection(box.files.read('x'), TimeoutError)
  await rejection(box.files.list('/'), SandboxError)
  await rejection(Sandbox.connect(box.sandboxId), SandboxNotFoundError)
  await rejection(box.setTimeout(1000), SandboxNotFoundError)
})

boxTest(Sandbox, 'a wrong access token', async (box) => {
  const other = await Sandbox.create()
  try {
    const info = await box.getInfo()
    const stolen = new Sandbox({
      sandboxId: other.sandboxId, envdVersion: info.envdVersion, envdAccessToken: 'x'.repeat(20),
    })
    await rejection(stolen.commands.run('true'), AuthenticationError)
    await rejection(stolen.files.read('/etc/hostname'), AuthenticationError)
  } finally {
    await other.kill()
  }
})

test('templates', async () => {
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.exists('code-interpreter-v1'), true)
  assert.equal(await Template.exists('no-such-template'), false)
  assert.equal(await Template.exists('team/Base'), true)
})
