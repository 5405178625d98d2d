// What the tests with Daytona's SDKs for TypeScript share.
import { after } from 'node:test'
import * as current from '@daytona/sdk'
import * as legacy from '@daytonaio/sdk'

// The same SDK under its two names, in different versions.
export const SDKS = { '@daytona/sdk': current, '@daytonaio/sdk': legacy }

// A client that is closed, and whose sandboxes are deleted, after the tests of the file.
export function client(sdk) {
  const daytona = new sdk.Daytona()
  const made = []
  after(async () => {
    await Promise.allSettled(made.map((sandbox) => sandbox.delete()))
    await daytona[Symbol.asyncDispose]()
  })
  const create = async (...args) => {
    const sandbox = await daytona.create(...args)
    made.push(sandbox)
    return sandbox
  }
  return { daytona, create }
}

// Polls until the condition holds.
export async function until(condition, what, ms = 20_000) {
  const end = Date.now() + ms
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

export async function all(list) {
  const items = []
  for await (const item of list) items.push(item)
  return items
}
