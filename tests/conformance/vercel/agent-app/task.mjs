// One task of the application, by its own functions in the order of its server (app/api/tasks/route.ts):
//   node task.mjs BUNDLE REPOSITORY    prints what came of it as JSON
import { pathToFileURL } from 'node:url'

const [bundle, repoUrl] = process.argv.slice(2)
const app = await import(pathToFileURL(bundle))
const taskId = 'task-1'
const logger = app.createTaskLogger(taskId)
const progress = []
console.error = () => {} // the application says there what is also in its result

const made = await app.createSandbox({
  taskId, repoUrl, githubToken: 'ghp_none', timeout: '5m', ports: [3000, 5173], runtime: 'node22',
  resources: { vcpus: 4 }, installDependencies: true, selectedAgent: 'claude', preDeterminedBranchName: 'agent/work',
  gitAuthorName: 'Ann', gitAuthorEmail: 'ann@example.org',
  onProgress: async (percent) => { progress.push(percent) }, onCancellationCheck: async () => false,
}, logger)
if (!made.success) throw new Error(`${made.error}\n${JSON.stringify(app.db.task.logs, null, 1)}`)

const page = await fetch(made.domain)
const result = await app.executeAgentInSandbox(made.sandbox, 'add the answer', 'claude', logger, undefined, undefined,
  async () => false, {}, false, undefined, taskId, 'message-1')
const pushed = await app.pushChangesToBranch(made.sandbox, made.branchName, "the agent's work", logger)
const shut = await app.shutdownSandbox(made.sandbox)

// Its requests to stop a sandbox come later, from another process.
const credentials = {
  teamId: process.env.SANDBOX_VERCEL_TEAM_ID, projectId: process.env.SANDBOX_VERCEL_PROJECT_ID,
  token: process.env.SANDBOX_VERCEL_TOKEN,
}
const again = await app.Sandbox.get({ ...credentials, sandboxId: made.sandbox.sandboxId })
await again.stop()
const ended = await app.Sandbox.get({ ...credentials, sandboxId: made.sandbox.sandboxId })
console.log(JSON.stringify({
  branch: made.branchName, domain: made.domain, page: await page.text(), result, pushed, shut, progress,
  message: app.db.messages.at(-1).content, logs: app.db.task.logs.map(({ type, message }) => `${type} ${message}`),
  status: ended.status,
}))
