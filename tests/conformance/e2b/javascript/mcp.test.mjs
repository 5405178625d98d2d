// The option mcp: the client starts the gateway in the sandbox, and reaches its endpoint.
import { test } from 'node:test'
import assert from 'node:assert/strict'

// Before the SDK looks: the endpoint is a host name of the sandbox.
delete process.env.E2B_API_URL
delete process.env.E2B_SANDBOX_URL
process.env.E2B_DOMAIN = process.env.ATOLL_TEST_DOMAIN

const { Sandbox } = await import('e2b')
const { boxTest } = await import('./helpers.mjs')

const SERVER = `
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    result = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "t", "version": "1"}},
              "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
              "tools/call": {"content": [{"type": "text", "text": "hello"}]}}.get(ask.get("method"))
    if "id" in ask:
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
`

const ask = (box, token, method, params = {}) =>
  fetch(box.getMcpUrl(), {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      Authorization: `Bearer ${token}`,
    },
  })

boxTest(
  Sandbox,
  'servers in the sandbox',
  { mcp: { own: { command: 'python3', args: ['-c', SERVER] } } },
  async (box) => {
    const token = await box.getMcpToken()
    const listed = await (await ask(box, token, 'tools/list')).json()
    assert.deepEqual(listed.result.tools.map((tool) => tool.name), ['own__greet'])
    const called = await (await ask(box, token, 'tools/call', { name: 'greet', arguments: {} })).json()
    assert.equal(called.result.content[0].text, 'hello')
    const connected = await Sandbox.connect(box.sandboxId)
    assert.equal(await connected.getMcpToken(), token)
    assert.equal((await ask(box, 'wrong', 'tools/list')).status, 401)
  }
)

test('a server that is not known', async () => {
  await assert.rejects(Sandbox.create({ mcp: { nosuch: {} } }), /MCP gateway/)
})
