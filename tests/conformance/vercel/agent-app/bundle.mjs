// Makes one module of the server code of vercel-labs/coding-agent-template, as its checkout has it:
//   node bundle.mjs CHECKOUT OUTPUT
// What is replaced is not about sandboxes: the database keeps rows in memory, and ids are random.
import { build } from 'esbuild'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const [checkout, outfile] = process.argv.slice(2)

const ENTRY = `
export { createSandbox } from '@/lib/sandbox/creation'
export { executeAgentInSandbox } from '@/lib/sandbox/agents'
export { pushChangesToBranch, shutdownSandbox } from '@/lib/sandbox/git'
export { runCommandInSandbox, runInProject, PROJECT_DIR } from '@/lib/sandbox/commands'
export { createTaskLogger } from '@/lib/utils/task-logger'
export { db } from '@/lib/db/client'
export { Sandbox } from '@vercel/sandbox'`

const STANDINS = {
  '@/lib/db/client': `
    export const db = {
      task: { logs: [] },
      messages: [],
      insert: () => ({ values: async (row) => { db.messages.push({ ...row }) } }),
      select: () => ({ from: () => ({ where: () => ({ limit: async () => [db.task] }) }) }),
      update: (table) => ({ set: (fields) => ({ where: async () => {
        Object.assign(table.name === 'tasks' ? db.task : db.messages.at(-1), fields)
      } }) }),
    }`,
  '@/lib/db/schema': `
    export const tasks = { name: 'tasks' }
    export const taskMessages = { name: 'messages' }
    export const connectors = {}`,
  '@/lib/github/user-token': 'export const getUserGitHubToken = async () => undefined',
  'drizzle-orm': 'export const eq = () => undefined',
  nanoid: `
    import { randomBytes } from 'node:crypto'
    export const nanoid = (n) => randomBytes(n).toString('hex').slice(0, n)`,
}

const fileOf = (name) =>
  [`${name}.ts`, join(name, 'index.ts')].map((path) => join(checkout, path)).find((path) => existsSync(path))

const app = {
  name: 'app',
  setup(made) {
    made.onResolve({ filter: /^(@\/|drizzle-orm$|nanoid$)/ }, ({ path }) =>
      path in STANDINS ? { path, namespace: 'standin' } : { path: fileOf(path.slice(2)) })
    made.onResolve({ filter: /^@vercel\/sandbox$/ }, () => ({ path: 'vercel-sandbox-0', external: true }))
    made.onLoad({ filter: /.*/, namespace: 'standin' }, ({ path }) => ({ contents: STANDINS[path] }))
  },
}

await build({
  stdin: { contents: ENTRY, resolveDir: checkout, loader: 'ts' },
  outfile, bundle: true, format: 'esm', platform: 'node', plugins: [app], tsconfigRaw: {}, logLevel: 'error',
})
