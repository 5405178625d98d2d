// What the suites share: a sandbox for a test, and waiting for a condition.
import { after, test } from 'node:test'
import assert from 'node:assert/strict'

/** A test with a sandbox of its own, killed at the end. */
export function boxTest(Sandbox, name, options, body) {
  if (typeof options === 'function') [options, body] = [{}, options]
  test(name, async (t) => {
    const box = await Sandbox.create(options)
    try {
      await body(box, t)
    } finally {
      await box.kill()
    }
  })
}

/** The first truthy value of check(); fails after some seconds. A complaint may be a function. */
export async function until(check, complaint = 'it does not become so', seconds = 30) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const value = await check()
    if (value) return value
    if (Date.now() > end) {
      // Quoted: what a terminal shows is no text for a report in XML.
      assert.fail(typeof complaint === 'function' ? JSON.stringify(complaint()) : complaint)
    }
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

/** The error that a promise is rejected with, checked for its class. */
export async function rejection(promise, Class) {
  const error = await promise.then(
    () => assert.fail(`no ${Class.name}`),
    (e) => e
  )
  assert.ok(error instanceof Class, `${error?.constructor?.name}: ${error?.message}`)
  return error
}

export async function bytesOf(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

// The SDK leaves timers of a minute behind, which nobody needs to wait for.
after(() => setTimeout(() => process.exit(), 200).unref())
