// An agent of the Claude Agent SDK in the current directory, whose tools work in a sandbox:
//   sdk.mjs hook PROGRAM              a hook in this process asks PROGRAM, a hook of Claude Code
//   sdk.mjs mcp PROGRAM ARGUMENT…     Bash is that of an MCP server
// $CLAUDE is Claude Code, of the version that belongs to the SDK: a second one need not be installed.
import { execFileSync } from 'node:child_process'
import { query } from '@anthropic-ai/claude-agent-sdk'

const [how, program, ...args] = process.argv.slice(2)

async function redirect(call) {
  const said = execFileSync(program, { input: JSON.stringify(call), encoding: 'utf8' })
  return said ? JSON.parse(said) : {}
}

const options = {
  model: 'test',
  pathToClaudeCodeExecutable: process.env.CLAUDE,
  settingSources: [],
  stderr: (text) => process.stderr.write(text),
}
if (how === 'hook') {
  options.hooks = { PreToolUse: [{ matcher: '*', hooks: [redirect] }] }
} else {
  const env = { ATOLL_SOCKET: process.env.ATOLL_SOCKET, PATH: process.env.PATH }
  options.mcpServers = { box: { type: 'stdio', command: program, args, env } }
  options.strictMcpConfig = true
  options.allowedTools = ['mcp__box__Bash']
  options.disallowedTools = ['Bash']
}
for await (const message of query({ prompt: 'Write a note.', options })) {
  if (message.type === 'result') console.log(message.subtype, message.result)
}
