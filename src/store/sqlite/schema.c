#include "store/sqlite/db.h"

/* One entry per released schema change, oldest first. Append only. */
const char *const atoll_db_migrations[] = {
    /* 1: sandboxes and their commands */
    "CREATE TABLE sandboxes ("
    "  id TEXT PRIMARY KEY,"
    "  owner TEXT NOT NULL,"
    "  state INTEGER NOT NULL,"
    "  template TEXT NOT NULL,"
    "  hidden INTEGER NOT NULL,"
    "  pooled INTEGER NOT NULL,"
    "  outside_id INTEGER NOT NULL," /* its id range; used as root only */
    "  waived INTEGER NOT NULL,"
    "  memory_bytes INTEGER NOT NULL,"
    "  cpu_millis INTEGER NOT NULL,"
    "  pids INTEGER NOT NULL,"
    "  disk_bytes INTEGER NOT NULL,"
    "  inodes INTEGER NOT NULL,"
    "  open_files INTEGER NOT NULL,"
    "  timeout_s INTEGER NOT NULL,"
    "  boot_us INTEGER NOT NULL,"
    "  created_unix_ms INTEGER NOT NULL,"
    "  expires_unix_ms INTEGER NOT NULL," /* 0: never */
    "  metadata TEXT,"
    "  cause TEXT NOT NULL"
    ") WITHOUT ROWID;"
    "CREATE TABLE execs ("
    "  sandbox_id TEXT NOT NULL,"
    "  id TEXT NOT NULL,"
    "  argv BLOB NOT NULL," /* NUL-terminated strings, one after the other */
    "  user TEXT NOT NULL,"
    "  cwd TEXT NOT NULL,"
    "  pty INTEGER NOT NULL,"
    "  pid INTEGER NOT NULL,"
    "  started_unix_ms INTEGER NOT NULL,"
    "  kind INTEGER NOT NULL," /* enum atoll_end_kind; 0 while it runs */
    "  code INTEGER NOT NULL DEFAULT 0,"
    "  signal INTEGER NOT NULL DEFAULT 0,"
    "  reason TEXT NOT NULL DEFAULT '',"
    "  user_us INTEGER NOT NULL DEFAULT 0,"
    "  system_us INTEGER NOT NULL DEFAULT 0,"
    "  max_rss_bytes INTEGER NOT NULL DEFAULT 0,"
    "  oom_kills INTEGER NOT NULL DEFAULT 0,"
    "  oom_pid INTEGER NOT NULL DEFAULT 0,"
    "  oom_process TEXT NOT NULL DEFAULT '',"
    "  oom_peak_bytes INTEGER NOT NULL DEFAULT 0,"
    "  oom_limit_bytes INTEGER NOT NULL DEFAULT 0,"
    "  stdout_bytes INTEGER NOT NULL DEFAULT 0,"
    "  stderr_bytes INTEGER NOT NULL DEFAULT 0,"
    "  duration_ms INTEGER NOT NULL DEFAULT 0,"
    "  PRIMARY KEY (sandbox_id, id)"
    ") WITHOUT ROWID;",
    /* 2: API keys */
    "CREATE TABLE api_keys ("
    "  id TEXT PRIMARY KEY,"
    "  tenant TEXT NOT NULL,"
    "  scope INTEGER NOT NULL,"
    "  sha256 BLOB NOT NULL UNIQUE,"
    "  created_unix_ms INTEGER NOT NULL"
    ") WITHOUT ROWID;",
    /* 4: sessions */
    "CREATE TABLE sessions ("
    "  id TEXT PRIMARY KEY,"
    "  sandbox_id TEXT NOT NULL,"
    "  environment TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  start_exec TEXT NOT NULL,"
    "  created_unix_ms INTEGER NOT NULL"
    ") WITHOUT ROWID;",
    /* previews */
    "CREATE TABLE previews ("
    "  sandbox_id TEXT NOT NULL,"
    "  port INTEGER NOT NULL,"
    "  public INTEGER NOT NULL,"
    "  token TEXT NOT NULL,"
    "  created_unix_ms INTEGER NOT NULL,"
    "  PRIMARY KEY (sandbox_id, port)"
    ") WITHOUT ROWID;",
    /* deadlines, budgets, and data of the facade */
    "ALTER TABLE sandboxes ADD COLUMN facade TEXT;"
    "ALTER TABLE sandboxes ADD COLUMN persistent INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN idle_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN lease_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN cpu_budget_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN at_deadline INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN output_budget_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN cpu_spent_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sandboxes ADD COLUMN output_spent_bytes INTEGER NOT NULL DEFAULT 0;",
    /* leases bound to a connection; events and answers of idempotent requests */
    "ALTER TABLE sandboxes ADD COLUMN connection_lease INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE events ("
    "  id INTEGER PRIMARY KEY,"
    "  unix_ms INTEGER NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  sandbox_id TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  exec_id TEXT NOT NULL,"
    "  detail TEXT NOT NULL"
    ");"
    "CREATE TABLE answers ("
    "  name TEXT PRIMARY KEY," /* hashes: the tenant, then its request key */
    "  request BLOB NOT NULL,"
    "  status INTEGER NOT NULL,"
    "  answer TEXT," /* NULL: too large to store */
    "  until_unix_ms INTEGER NOT NULL"
    ") WITHOUT ROWID;",
    /* artifacts of destroyed sandboxes, and artifact requests of live ones */
    "CREATE TABLE artifact_wishes ("
    "  sandbox_id TEXT PRIMARY KEY,"
    "  session_id TEXT NOT NULL,"
    "  patterns TEXT NOT NULL"
    ") WITHOUT ROWID;"
    "CREATE TABLE artifact_sets ("
    "  sandbox_id TEXT PRIMARY KEY,"
    "  session_id TEXT NOT NULL,"
    "  owner TEXT NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  complete INTEGER NOT NULL,"
    "  count INTEGER NOT NULL,"
    "  size_bytes INTEGER NOT NULL,"
    "  created_unix_ms INTEGER NOT NULL"
    ") WITHOUT ROWID;"
    "CREATE TABLE artifacts ("
    "  sandbox_id TEXT NOT NULL,"
    "  path TEXT NOT NULL,"
    "  number INTEGER NOT NULL," /* name of the copy on disk */
    "  size_bytes INTEGER NOT NULL,"
    "  mtime_ms INTEGER NOT NULL,"
    "  PRIMARY KEY (sandbox_id, path)"
    ") WITHOUT ROWID;",
    /* interpreter contexts, and commands whose output is held for one reader */
    "ALTER TABLE execs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE contexts ("
    "  id TEXT PRIMARY KEY,"
    "  sandbox_id TEXT NOT NULL,"
    "  language TEXT NOT NULL,"
    "  cwd TEXT NOT NULL,"
    "  user TEXT NOT NULL,"
    "  exec_id TEXT NOT NULL,"
    "  is_default INTEGER NOT NULL,"
    "  is_busy INTEGER NOT NULL,"
    "  number INTEGER NOT NULL" /* in the order they were made */
    ") WITHOUT ROWID;",
    /* paused sandboxes */
    ("ALTER TABLE sandboxes ADD COLUMN paused_unix_ms INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandboxes ADD COLUMN layer TEXT NOT NULL DEFAULT '';"),
    /* sandboxes of several providers */
    ("ALTER TABLE sandboxes ADD COLUMN network INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandboxes ADD COLUMN recreate INTEGER NOT NULL DEFAULT 0;"
     "ALTER TABLE sandboxes ADD COLUMN provider TEXT NOT NULL DEFAULT 'native';"
     "ALTER TABLE sandboxes ADD COLUMN handle TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE sandboxes ADD COLUMN image TEXT NOT NULL DEFAULT '';"),
    /* mounts */
    "ALTER TABLE sandboxes ADD COLUMN mounts TEXT NOT NULL DEFAULT '';",
    /* bytes of long command lines that are not stored */
    "ALTER TABLE execs ADD COLUMN argv_left_out INTEGER NOT NULL DEFAULT 0;",
    /* the bandwidth of their disks */
    "ALTER TABLE sandboxes ADD COLUMN io_bytes INTEGER NOT NULL DEFAULT 0;",
    /* names that clients give */
    "ALTER TABLE sandboxes ADD COLUMN name TEXT;",
    /* what clients keep about the agent of a session */
    "ALTER TABLE sessions ADD COLUMN agent_config TEXT;",
    /* working directories */
    "ALTER TABLE sandboxes ADD COLUMN workdir TEXT;",
    /* records of ended sandboxes; their commands stay in execs */
    ("CREATE TABLE ended ("
     "  number INTEGER PRIMARY KEY," /* in the order in which they ended */
     "  id TEXT NOT NULL UNIQUE,"
     "  owner TEXT NOT NULL,"
     "  ended_unix_ms INTEGER NOT NULL,"
     "  size_bytes INTEGER NOT NULL," /* about, with its commands */
     "  created_unix_ms INTEGER NOT NULL,"
     "  session_id TEXT NOT NULL,"
     "  environment TEXT NOT NULL,"
     "  name TEXT,"
     "  template TEXT NOT NULL,"
     "  image TEXT NOT NULL,"
     "  provider TEXT NOT NULL,"
     "  how TEXT NOT NULL,"
     "  ended_by TEXT NOT NULL,"
     "  cause TEXT NOT NULL,"
     "  boot_us INTEGER NOT NULL,"
     "  persistent INTEGER NOT NULL,"
     "  network INTEGER NOT NULL,"
     "  waived INTEGER NOT NULL,"
     "  memory_bytes INTEGER NOT NULL,"
     "  disk_bytes INTEGER NOT NULL,"
     "  inodes INTEGER NOT NULL,"
     "  cpu_millis INTEGER NOT NULL,"
     "  pids INTEGER NOT NULL,"
     "  open_files INTEGER NOT NULL,"
     "  timeout_s INTEGER NOT NULL,"
     "  io_bytes INTEGER NOT NULL,"
     "  metadata TEXT,"
     "  agent_config TEXT"
     ");"
     "CREATE INDEX ended_of_owner ON ended (owner, number, size_bytes);"
     "CREATE INDEX ended_of_session ON ended (session_id) WHERE session_id != '';"
     "CREATE INDEX sessions_of_sandbox ON sessions (sandbox_id);"),
    /* read-only roots */
    "ALTER TABLE sandboxes ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;",
    /* policies of networks; sealed */
    "ALTER TABLE sandboxes ADD COLUMN network_policy TEXT;",
    /* secrets of tenants */
    ("CREATE TABLE secrets ("
     "  tenant TEXT NOT NULL,"
     "  name TEXT NOT NULL,"
     "  id TEXT NOT NULL UNIQUE,"
     "  version INTEGER NOT NULL,"
     "  size_bytes INTEGER NOT NULL," /* of the value */
     "  metadata TEXT,"
     "  created_unix_ms INTEGER NOT NULL,"
     "  updated_unix_ms INTEGER NOT NULL,"
     "  value BLOB NOT NULL," /* sealed */
     "  PRIMARY KEY (tenant, name)"
     ");"),
    /* default users */
    "ALTER TABLE sandboxes ADD COLUMN user TEXT;",
    /* stacks of layers */
    "ALTER TABLE sandboxes ADD COLUMN layers TEXT NOT NULL DEFAULT '';",
    /* ports that are published at addresses of the host */
    "ALTER TABLE previews ADD COLUMN address TEXT NOT NULL DEFAULT '';",
    /* versions and tags of templates, layers, cached steps of builds; which version a sandbox has */
    ("CREATE TABLE templates ("
     "  owner TEXT NOT NULL," /* '': of all tenants */
     "  name TEXT NOT NULL,"
     "  shares TEXT NOT NULL,"
     "  created_unix_ms INTEGER NOT NULL,"
     "  PRIMARY KEY (owner, name)"
     ") WITHOUT ROWID;"
     "CREATE TABLE template_versions ("
     "  id TEXT PRIMARY KEY,"
     "  owner TEXT NOT NULL,"
     "  name TEXT NOT NULL,"
     "  digest TEXT NOT NULL,"
     "  kind INTEGER NOT NULL,"
     "  layers TEXT NOT NULL," /* a stack: names of layers, bottom first */
     "  layer_base INTEGER NOT NULL,"
     "  provider TEXT NOT NULL,"
     "  image TEXT NOT NULL,"
     "  size_bytes INTEGER NOT NULL,"
     "  config TEXT NOT NULL,"
     "  source TEXT NOT NULL,"
     "  definition TEXT NOT NULL,"
     "  start_cmd TEXT NOT NULL,"
     "  ready_cmd TEXT NOT NULL,"
     "  report TEXT NOT NULL,"
     "  cpu_millis INTEGER NOT NULL,"
     "  memory_bytes INTEGER NOT NULL,"
     "  created_unix_ms INTEGER NOT NULL,"
     "  UNIQUE (owner, name, digest)"
     ") WITHOUT ROWID;"
     "CREATE TABLE template_tags ("
     "  owner TEXT NOT NULL,"
     "  name TEXT NOT NULL,"
     "  tag TEXT NOT NULL,"
     "  version_id TEXT NOT NULL,"
     "  PRIMARY KEY (owner, name, tag)"
     ") WITHOUT ROWID;"
     "CREATE TABLE layers ("
     "  name TEXT PRIMARY KEY,"
     "  diff_id TEXT NOT NULL,"
     "  size_bytes INTEGER NOT NULL,"
     "  files INTEGER NOT NULL,"
     "  created_unix_ms INTEGER NOT NULL"
     ") WITHOUT ROWID;"
     "CREATE TABLE build_steps ("
     "  tenant TEXT NOT NULL,"
     "  key TEXT NOT NULL,"
     "  layers TEXT NOT NULL,"
     "  config TEXT NOT NULL,"
     "  created_unix_ms INTEGER NOT NULL,"
     "  used_unix_ms INTEGER NOT NULL,"
     "  PRIMARY KEY (tenant, key)"
     ") WITHOUT ROWID;"
     "ALTER TABLE sandboxes ADD COLUMN version TEXT NOT NULL DEFAULT '';"),
    /* keys of clients at services, sealed */
    "ALTER TABLE sandboxes ADD COLUMN credential BLOB;",
    /* snapshots: the version below, and the sandbox */
    ("ALTER TABLE template_versions ADD COLUMN parent TEXT NOT NULL DEFAULT '';"
     "ALTER TABLE template_versions ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';"),
    /* how many directories of the layer its archive only implies */
    "ALTER TABLE layers ADD COLUMN implied INTEGER NOT NULL DEFAULT 0;",
    ("CREATE TABLE tasks ("
     "  id TEXT PRIMARY KEY,"
     "  tenant TEXT NOT NULL,"
     "  kind TEXT NOT NULL," /* 'task', 'swarm' */
     "  state TEXT NOT NULL,"
     "  step TEXT NOT NULL,"
     "  attempt INTEGER NOT NULL,"
     "  request BLOB," /* sealed */
     "  facts TEXT NOT NULL,"
     "  error_kind TEXT NOT NULL,"
     "  error TEXT NOT NULL,"
     "  created_unix_ms INTEGER NOT NULL,"
     "  started_unix_ms INTEGER NOT NULL,"
     "  ended_unix_ms INTEGER NOT NULL"
     ") WITHOUT ROWID;"),
    /* commands of sandboxes with checkpoints: the stacks before and after them */
    ("ALTER TABLE sandboxes ADD COLUMN checkpoints INTEGER NOT NULL DEFAULT 0;"
     "CREATE TABLE checkpoints ("
     "  sandbox_id TEXT NOT NULL,"
     "  number INTEGER NOT NULL,"
     "  exec_id TEXT NOT NULL,"
     "  command TEXT NOT NULL,"
     "  started_unix_ms INTEGER NOT NULL,"
     "  before_layers TEXT NOT NULL," /* '': not kept */
     "  after_layers TEXT NOT NULL,"
     "  before_bytes INTEGER NOT NULL,"
     "  after_bytes INTEGER NOT NULL,"
     "  shared INTEGER NOT NULL,"
     "  counted INTEGER NOT NULL,"
     "  added INTEGER NOT NULL,"
     "  changed INTEGER NOT NULL,"
     "  removed INTEGER NOT NULL,"
     "  bytes INTEGER NOT NULL,"
     "  PRIMARY KEY (sandbox_id, number)"
     ") WITHOUT ROWID;"),
    ("CREATE TABLE connectors ("
     "  key TEXT PRIMARY KEY," /* tenant and name */
     "  tenant TEXT NOT NULL,"
     "  name TEXT NOT NULL,"
     "  definition BLOB," /* sealed */
     "  created_unix_ms INTEGER NOT NULL,"
     "  updated_unix_ms INTEGER NOT NULL"
     ") WITHOUT ROWID;"
     "CREATE INDEX connectors_of ON connectors (tenant, name);"),
    /* sandboxes that wait for their builds */
    ("CREATE TABLE waiting_sandboxes ("
     "  id TEXT PRIMARY KEY,"
     "  tenant TEXT NOT NULL,"
     "  build TEXT NOT NULL,"
     "  request BLOB," /* sealed */
     "  state TEXT NOT NULL,"
     "  reason TEXT NOT NULL,"
     "  created_unix_ms INTEGER NOT NULL"
     ") WITHOUT ROWID;"),
    "ALTER TABLE sandboxes ADD COLUMN disk_choice INTEGER NOT NULL DEFAULT 0;",
    /* calls of tools, and policies about them */
    ("CREATE TABLE tool_calls ("
     "  number INTEGER PRIMARY KEY,"
     "  id TEXT NOT NULL UNIQUE,"
     "  tenant TEXT NOT NULL,"
     "  sandbox_id TEXT NOT NULL," /* '': it is about none */
     "  tool TEXT NOT NULL,"
     "  arguments TEXT NOT NULL," /* without secrets */
     "  state TEXT NOT NULL,"
     "  decision TEXT NOT NULL,"
     "  decided_by TEXT NOT NULL,"
     "  reason TEXT NOT NULL,"
     "  is_error INTEGER NOT NULL,"
     "  result_bytes INTEGER NOT NULL,"
     "  started_unix_ms INTEGER NOT NULL,"
     "  waited_ms INTEGER NOT NULL,"
     "  duration_ms INTEGER NOT NULL"
     ");"
     "CREATE INDEX tool_calls_of_sandbox ON tool_calls (sandbox_id, number);"
     "CREATE INDEX tool_calls_of_tenant ON tool_calls (tenant, number);"
     "CREATE TABLE tool_policies ("
     "  tenant TEXT PRIMARY KEY,"
     "  policy BLOB" /* sealed */
     ") WITHOUT ROWID;"
     "ALTER TABLE sandboxes ADD COLUMN tool_policy BLOB;"), /* sealed */
    /* tokens that open one sandbox */
    ("CREATE TABLE sandbox_tokens ("
     "  id TEXT PRIMARY KEY,"
     "  sandbox_id TEXT NOT NULL,"
     "  sha256 BLOB NOT NULL UNIQUE,"
     "  created_unix_ms INTEGER NOT NULL,"
     "  expires_unix_ms INTEGER NOT NULL"
     ") WITHOUT ROWID;"),
    /* what facades keep of ended sandboxes */
    "ALTER TABLE ended ADD COLUMN facade TEXT;",
    /* snapshots: the disk of the sandbox */
    "ALTER TABLE template_versions ADD COLUMN disk_bytes INTEGER NOT NULL DEFAULT 0;",
    /* what disks have for checkpoints: those of before have nothing */
    "ALTER TABLE sandboxes ADD COLUMN history_bytes INTEGER NOT NULL DEFAULT 0;",
};
const size_t atoll_db_migration_count = ATOLL_ARRAY_LEN(atoll_db_migrations);
