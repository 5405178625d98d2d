// The MCP inspector without its page: one request a command.
import assert from "node:assert";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const { ATOLL_URL, ATOLL_API_KEY, ATOLL_TEST_CLI } = process.env;
const inspector = new URL("../node_modules/.bin/mcp-inspector", import.meta.url).pathname;
const servers = {
  http: [`${ATOLL_URL}/mcp`, "--transport", "http", "--header", `Authorization: Bearer ${ATOLL_API_KEY}`],
  stdio: [ATOLL_TEST_CLI, "mcp", "-e", `ATOLL_URL=${ATOLL_URL}`, "-e", `ATOLL_API_KEY=${ATOLL_API_KEY}`],
};

async function inspect(kind, ...args) {
  const [target, ...options] = servers[kind];
  const given = kind === "http" ? [target, ...args, ...options] : [target, ...options, ...args];
  const { stdout } = await promisify(execFile)(process.execPath, [inspector, "--cli", ...given], { timeout: 60000 });
  return JSON.parse(stdout);
}

for (const kind of Object.keys(servers)) {
  test(`${kind}: the inspector's command line`, async () => {
    const { tools } = await inspect(kind, "--method", "tools/list");
    assert.ok(tools.some((tool) => tool.name === "run_command"));
    const ran = await inspect(kind, "--method", "tools/call", "--tool-name", "run_command", "--tool-arg", "command=echo hi");
    assert.equal(ran.content[0].text, "hi\n");
    const { resourceTemplates } = await inspect(kind, "--method", "resources/templates/list");
    assert.equal(resourceTemplates.length, 2);
  });
}
