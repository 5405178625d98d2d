// The back end of a web application that runs what a model wrote, with Node's own HTTP server.
//   npm install @e2b/code-interpreter && PORT=3000 node server.mjs
//
// POST /api/sandbox {template, user, team, code | files, install, start, port}
//   With `code` it is run, and the answer has stdout, stderr, error and results. Else `files` ({path:
//   content}) are written, `install` is run and `start` left running, and the answer has the URL of what
//   listens on `port`. The sandbox stays for ten minutes, so that a preview can be looked at.
// DELETE /api/sandbox/ID ends one earlier.
// PREVIEW_SCHEME=http is for a daemon that serves no TLS, as after `atoll up`.
import { createServer } from 'node:http'
import { CommandExitError, Sandbox } from '@e2b/code-interpreter'

const TEN_MINUTES = 10 * 60 * 1000
const BODY_MAX = 1 << 20
const SCHEME = process.env.PREVIEW_SCHEME ?? 'https'

class BadRequest extends Error {}

async function bodyOf(request) {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk
    if (text.length > BODY_MAX) throw new BadRequest('the request is too large')
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new BadRequest('the request is no JSON')
  }
}

function open({ template = 'code-interpreter-v1', user = '', team = '' }) {
  return Sandbox.create(template, {
    metadata: { template, user, team },
    timeoutMs: TEN_MINUTES,
    apiHeaders: { 'X-Team': team, 'X-User': user },
  })
}

async function runCode(sandbox, { code }) {
  const { logs, error, results } = await sandbox.runCode(code)
  return { stdout: logs.stdout, stderr: logs.stderr, error: error ?? null, results }
}

async function startServer(sandbox, { install, start, port = 8000 }) {
  if (install) await sandbox.commands.run(install)
  await sandbox.commands.run(start, { background: true, timeoutMs: 0 })
  return { url: `${SCHEME}://${sandbox.getHost(port)}` }
}

async function make(request) {
  const wish = await bodyOf(request)
  if (!wish.code && !wish.start) throw new BadRequest('code or start is needed')
  const sandbox = await open(wish)
  try {
    const files = Object.entries(wish.files ?? {}).map(([path, data]) => ({ path, data }))
    if (files.length > 0) await sandbox.files.write(files)
    const done = await (wish.code ? runCode : startServer)(sandbox, wish)
    return { id: sandbox.sandboxId, ...done }
  } catch (e) {
    await sandbox.kill()
    throw e
  }
}

async function answer(request) {
  const id = request.url.match(/^\/api\/sandbox\/([a-z0-9]+)$/)?.[1]
  if (request.method === 'POST' && request.url === '/api/sandbox') return make(request)
  if (request.method === 'DELETE' && id) return { killed: await Sandbox.kill(id) }
  throw new BadRequest('there is POST /api/sandbox and DELETE /api/sandbox/ID')
}

function statusOf(error) {
  return error instanceof BadRequest ? 400 : error instanceof CommandExitError ? 422 : 502
}

const server = createServer(async (request, response) => {
  const [status, body] = await answer(request).then(
    (result) => [200, result],
    (error) => [statusOf(error), { error: { name: error.constructor.name, value: error.message } }]
  )
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify(body))
})
server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}`)
})
