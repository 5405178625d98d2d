// What the tests with Vercel's clients share.
import { execFile } from 'node:child_process'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as v0 from 'vercel-sandbox-0'
import * as v1 from 'vercel-sandbox-1'
import * as v2 from 'vercel-sandbox-2'
import * as v3 from '@vercel/sandbox'

// Generations of the SDK; those from 2 on have named sandboxes with sessions.
export const SDKS = { '0.0.21': v0, '1.10': v1, '2.9': v2, '3.5': v3 }
export const NAMED = { '2.9': v2, '3.5': v3 }
export { v3 }

export const CREDENTIALS = {
  token: process.env.VERCEL_TOKEN,
  teamId: process.env.VERCEL_TEAM_ID,
  projectId: process.env.VERCEL_PROJECT_ID,
}
export const HERE = fileURLToPath(new URL('..', import.meta.url))

// Creates sandboxes that are stopped, and deleted, after the tests of the file.
export function creator(sdk) {
  const made = []
  after(async () => {
    await Promise.allSettled(made.map((sandbox) => (sandbox.delete ? sandbox.delete() : sandbox.stop())))
  })
  return async (options = {}) => {
    const sandbox = await sdk.Sandbox.create({ ...CREDENTIALS, ...options })
    made.push(sandbox)
    return sandbox
  }
}

export async function collect(lines) {
  const all = { stdout: '', stderr: '' }
  for await (const line of lines) all[line.stream] += line.data
  return all
}

// A program and its end: {code, stdout, stderr}.
export function program(file, args, options = {}) {
  return new Promise((resolve) => {
    execFile(file, args, { cwd: HERE, timeout: 60_000, ...options }, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, stdout, stderr })
    })
  })
}

export async function until(condition, what, ms = 20_000) {
  const end = Date.now() + ms
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
