/* The store: rows come back as they went in, survive reopening, and a newer schema is refused. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include "store/ended.h"
#include "store/keys.h"
#include "store/previews.h"
#include "store/store.h"
#include "sys/tree.h"
#include "test.h"

struct fixture {
    char dir[32];
    int dir_fd;
    struct atoll_store *store;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct atoll_error err;

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(atoll_store_open_sqlite(f->dir_fd, &f->store, &err), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->store = atoll_store_close(f->store);
    (void)close(f->dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

static const struct atoll_store_sandbox a_sandbox = {
    .id = "abcdefghijklmnopqrstuvwxyz",
    .owner = "team",
    .template_name = "host",
    .cause = "",
    .state = 1,
    .outside_id = 1u << 28,
    .boot_us = 12,
    .created_unix_ms = 13,
    .expires_unix_ms = 14,
    .history_bytes = UINT64_C(1) << 43,
    .options = {.limits = {.memory_bytes = UINT64_C(1) << 40,
                           .cpu_millis = 1500,
                           .pids = 7,
                           .disk_bytes = 8,
                           .inodes = 9,
                           .open_files = 10,
                           .timeout_s = 11,
                           .io_bytes = UINT64_C(1) << 41},
                .lifetime = {.idle_s = 15,
                             .lease_s = 16,
                             .connection_lease = true,
                             .cpu_budget_s = 17,
                             .output_budget_bytes = UINT64_C(1) << 42,
                             .at_deadline = ATOLL_DEADLINE_PAUSE_DISK,
                             .persistent = true},
                .waived = 3,
                .network = ATOLL_NETWORK_BRIDGE,
                .recreate = true,
                .network_json = "{\"secret\":\"in-a-header\"}",
                .metadata_json = "{\"k\":\"v\"}"},
};

static const struct atoll_store_exec an_exec = {
    .sandbox_id = "abcdefghijklmnopqrstuvwxyz",
    .id = "0123456789abcdef",
    .argv = "echo\0two words\0",
    .argv_len = 15,
    .user = "root",
    .cwd = "/tmp",
    .pty = true,
    .pid = 5,
    .started_unix_ms = 100,
    .reason = "",
    .oom_process = "",
};

static int check_sandbox(void *arg, const struct atoll_store_sandbox *row, struct atoll_error *err)
{
    (void)err;
    ++*(int *)arg;
    assert_string_equal(row->id, a_sandbox.id);
    assert_string_equal(row->owner, "team");
    assert_string_equal(row->template_name, "host");
    assert_int_equal(row->outside_id, 1u << 28);
    assert_int_equal(row->boot_us, 12);
    assert_int_equal(row->expires_unix_ms, 14);
    assert_true(row->history_bytes == a_sandbox.history_bytes);
    assert_string_equal(row->options.metadata_json, "{\"k\":\"v\"}");
    assert_string_equal(row->options.network_json, "{\"secret\":\"in-a-header\"}");
    assert_null(row->options.facade_json);
    assert_memory_equal(&row->options.limits, &a_sandbox.options.limits,
                        sizeof(struct atoll_limits));
    assert_int_equal(row->options.lifetime.idle_s, 15);
    assert_int_equal(row->options.lifetime.lease_s, 16);
    assert_int_equal(row->options.lifetime.cpu_budget_s, 17);
    assert_int_equal(row->options.lifetime.output_budget_bytes, UINT64_C(1) << 42);
    assert_int_equal(row->options.lifetime.at_deadline, ATOLL_DEADLINE_PAUSE_DISK);
    assert_true(row->options.lifetime.connection_lease && row->options.lifetime.persistent);
    assert_int_equal(row->options.waived, 3);
    assert_int_equal(row->options.network, ATOLL_NETWORK_BRIDGE);
    assert_true(row->options.recreate);
    return 0;
}

/* Runs a statement of another program. */
static int run_sql(const struct fixture *f, const char *sql)
{
    char path[64];
    sqlite3 *db;
    int code;

    (void)snprintf(path, sizeof(path), "%s/atoll.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    (void)sqlite3_close(db);
    return code;
}

static void reopen(struct fixture *f)
{
    struct atoll_error err;

    f->store = atoll_store_close(f->store);
    assert_int_equal(atoll_store_open_sqlite(f->dir_fd, &f->store, &err), 0);
}

static void sandboxes_survive(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    int rows = 0;

    assert_int_equal(atoll_store_put_sandbox(f->store, &a_sandbox, &err), 0);
    assert_int_equal(atoll_store_put_sandbox(f->store, &a_sandbox, &err), 0);
    reopen(f);
    assert_int_equal(atoll_store_each_sandbox(f->store, check_sandbox, &rows, &err), 0);
    assert_int_equal(rows, 1);
}

static int check_exec(void *arg, const struct atoll_store_exec *row, struct atoll_error *err)
{
    const struct atoll_store_exec *want = arg;

    (void)err;
    assert_string_equal(row->id, want->id);
    assert_int_equal(row->argv_len, 15);
    assert_memory_equal(row->argv, "echo\0two words\0", 15);
    assert_true(row->pty);
    assert_int_equal(row->kind, want->kind);
    assert_int_equal(row->signal, want->signal);
    assert_string_equal(row->reason, want->reason);
    assert_int_equal(row->oom_peak_bytes, want->oom_peak_bytes);
    assert_int_equal(row->duration_ms, want->duration_ms);
    return 0;
}

/* A policy may have secrets: it is sealed, and belongs to its sandbox. */
static void policies_are_sealed(void **state)
{
    struct fixture *f = *state;
    struct atoll_store_sandbox other = a_sandbox;
    struct atoll_error err;
    int rows = 0;

    other.id = "zyxwvutsrqponmlkjihgfedcba";
    assert_int_equal(atoll_store_put_sandbox(f->store, &a_sandbox, &err), 0);
    assert_int_equal(run_sql(f,
                             "SELECT CASE WHEN instr(network_policy, CAST('in-a-header' AS BLOB))"
                             " OR typeof(network_policy) != 'blob' THEN abs(-9223372036854775808)"
                             " END FROM sandboxes"),
                     SQLITE_OK);
    assert_int_equal(atoll_store_put_sandbox(f->store, &other, &err), 0);
    assert_int_equal(run_sql(f, "UPDATE sandboxes SET network_policy = (SELECT network_policy FROM "
                                "sandboxes WHERE id < 'b') WHERE id > 'b'"),
                     SQLITE_OK);
    reopen(f);
    assert_true(atoll_store_each_sandbox(f->store, check_sandbox, &rows, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
    assert_non_null(strstr(err.text, other.id));
    assert_int_equal(rows, 1);
    /* When its key is lost, a sandbox has no network. */
    f->store = atoll_store_close(f->store);
    assert_int_equal(unlinkat(f->dir_fd, "secret.key", 0), 0);
    assert_true(atoll_store_open_sqlite(f->dir_fd, &f->store, &err) < 0);
    assert_non_null(strstr(err.text, "2 network policies"));
    assert_int_equal(atoll_store_renew_key(f->dir_fd, &err), 0);
    assert_int_equal(atoll_store_open_sqlite(f->dir_fd, &f->store, &err), 0);
    assert_int_equal(run_sql(f, "SELECT CASE WHEN network != 0 OR network_policy IS NOT NULL "
                                "THEN abs(-9223372036854775808) END FROM sandboxes"),
                     SQLITE_OK);
}

static void the_end_of_a_command_replaces_its_beginning(void **state)
{
    struct fixture *f = *state;
    struct atoll_store_exec row = an_exec;
    struct atoll_error err;

    assert_int_equal(atoll_store_put_sandbox(f->store, &a_sandbox, &err), 0);
    assert_int_equal(atoll_store_put_exec(f->store, &row, &err), 0);
    assert_int_equal(atoll_store_each_exec(f->store, check_exec, &row, &err), 0);
    row.kind = 4;
    row.signal = 9;
    row.reason = "memory";
    row.oom_peak_bytes = 1000;
    row.duration_ms = 77;
    assert_int_equal(atoll_store_put_exec(f->store, &row, &err), 0);
    reopen(f);
    assert_int_equal(atoll_store_each_exec(f->store, check_exec, &row, &err), 0);
}

static int count_sandbox(void *arg, const struct atoll_store_sandbox *row, struct atoll_error *err)
{
    (void)row;
    (void)err;
    ++*(int *)arg;
    return 0;
}

static int count_exec(void *arg, const struct atoll_store_exec *row, struct atoll_error *err)
{
    (void)row;
    (void)err;
    ++*(int *)arg;
    return 0;
}

struct ended_seen {
    int count;
    char last[65], cause[64], facade[64];
};

static int see_ended(void *arg, const struct atoll_store_ended *row, struct atoll_error *err)
{
    struct ended_seen *seen = arg;

    (void)err;
    seen->count++;
    (void)snprintf(seen->last, sizeof(seen->last), "%s", row->id);
    (void)snprintf(seen->cause, sizeof(seen->cause), "%s", row->cause);
    (void)snprintf(seen->facade, sizeof(seen->facade), "%s", row->facade_json);
    return 0;
}

static void end_one(struct fixture *f, const char *id, const char *owner, int64_t unix_ms)
{
    const struct atoll_store_end end = {"failed", "a test", "it fell", unix_ms,
                                        "{\"runtime\":\"node22\"}"};
    struct atoll_store_sandbox row = a_sandbox;
    struct atoll_store_exec exec = an_exec;
    struct atoll_error err;

    row.id = exec.sandbox_id = id;
    row.owner = owner;
    assert_int_equal(atoll_store_put_sandbox(f->store, &row, &err), 0);
    for (int i = 0; i < 3; i++) {
        exec.id = (const char *[]){"one", "two", "three"}[i];
        exec.started_unix_ms = 100 + i;
        assert_int_equal(atoll_store_put_exec(f->store, &exec, &err), 0);
    }
    assert_int_equal(atoll_store_drop_sandbox(f->store, id, &end, 101, &err), 0);
}

static int count_ended(struct fixture *f, const char *owner, int64_t after, struct ended_seen *ret)
{
    struct atoll_error err;

    *ret = (struct ended_seen){0};
    assert_int_equal(atoll_store_each_ended(f->store, owner, after, 100, see_ended, ret, &err), 0);
    return ret->count;
}

static void an_ended_sandbox_leaves_a_record(void **state)
{
    struct fixture *f = *state;
    struct ended_seen seen = {0};
    struct atoll_error err;
    int execs = 0;

    end_one(f, "gone", "red", 1000);
    reopen(f);
    assert_int_equal(atoll_store_sweep_execs(f->store, &err), 0);
    assert_int_equal(atoll_store_find_ended(f->store, "gone", see_ended, &seen, &err), 1);
    assert_string_equal(seen.cause, "it fell");
    assert_string_equal(seen.facade, "{\"runtime\":\"node22\"}");
    assert_int_equal(atoll_store_find_ended(f->store, "never", see_ended, &seen, &err), 0);
    assert_int_equal(atoll_store_find_ended_session(f->store, "", see_ended, &seen, &err), 0);
    assert_int_equal(atoll_store_each_ended_exec(f->store, "gone", count_exec, &execs, &err), 0);
    assert_int_equal(execs, 2); /* those that started at 101 or later */
    execs = 0;
    assert_int_equal(atoll_store_each_exec(f->store, count_exec, &execs, &err), 0);
    assert_int_equal(execs, 0); /* they are not commands of a living sandbox */
}

static void count_gone(void *arg, const char *id)
{
    assert_non_null(id);
    ++*(size_t *)arg;
}

static void prune_all(struct fixture *f, int64_t before, uint64_t count, uint64_t bytes)
{
    const struct atoll_store_ended_sum most = {count, bytes};
    struct atoll_store_ended_sum was, is;
    struct atoll_error err;
    size_t gone = 0;
    int r;

    assert_int_equal(atoll_store_sum_ended(f->store, &was, &err), 0);
    while ((r = atoll_store_prune_ended(f->store, before, &most, count_gone, &gone, &err)) > 0)
        ;
    assert_int_equal(r, 0);
    assert_int_equal(atoll_store_sum_ended(f->store, &is, &err), 0);
    assert_int_equal(gone, was.count - is.count);
}

static void records_are_removed_by_age_number_and_size(void **state)
{
    struct fixture *f = *state;
    struct atoll_store_ended_sum sum;
    struct ended_seen seen;
    struct atoll_error err;
    char id[16];
    int execs = 0;

    end_one(f, "other", "blue", 2000);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(id, sizeof(id), "red%d", i);
        end_one(f, id, "red", 1000 + i);
    }
    prune_all(f, 1005, 1000, UINT64_MAX / 2);
    assert_int_equal(count_ended(f, "red", 0, &seen), 35);
    prune_all(f, 0, 3, UINT64_MAX / 2);
    assert_int_equal(count_ended(f, "red", 0, &seen), 2); /* of the tenant that has the most */
    assert_string_equal(seen.last, "red39");
    assert_int_equal(count_ended(f, "blue", 0, &seen), 1);
    assert_int_equal(count_ended(f, NULL, 0, &seen), 3);
    assert_int_equal(count_ended(f, NULL, 1, &seen), 2);
    assert_int_equal(atoll_store_sum_ended(f->store, &sum, &err), 0);
    assert_int_equal(sum.count, 3);
    prune_all(f, 0, 1000, sum.bytes - 1);
    assert_int_equal(count_ended(f, "red", 0, &seen), 1);
    prune_all(f, 0, 0, 0);
    assert_int_equal(count_ended(f, NULL, 0, &seen), 0);
    assert_int_equal(atoll_store_each_ended_exec(f->store, "red39", count_exec, &execs, &err), 0);
    assert_int_equal(execs, 0);
}

static void commands_go_with_their_sandbox(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    int rows = 0;

    assert_int_equal(atoll_store_put_sandbox(f->store, &a_sandbox, &err), 0);
    assert_int_equal(atoll_store_put_exec(f->store, &an_exec, &err), 0);
    assert_int_equal(atoll_store_drop_sandbox(f->store, a_sandbox.id, NULL, 0, &err), 0);
    assert_int_equal(atoll_store_drop_sandbox(f->store, a_sandbox.id, NULL, 0, &err), 0);
    assert_int_equal(atoll_store_each_sandbox(f->store, count_sandbox, &rows, &err), 0);
    assert_int_equal(atoll_store_each_exec(f->store, count_exec, &rows, &err), 0);
    assert_int_equal(rows, 0);
}

static void put_command(struct fixture *f, unsigned number, int kind)
{
    struct atoll_store_exec row = an_exec;
    struct atoll_error err;
    char id[17];

    /* Random ids, as the engine's: commits touch pages all over the table. */
    (void)snprintf(id, sizeof(id), "%08x%08x", number * 2654435761u, number);
    row.id = id;
    row.kind = kind;
    row.started_unix_ms = number;
    assert_int_equal(atoll_store_put_exec(f->store, &row, &err), 0);
}

static void drop_command(struct fixture *f, unsigned number)
{
    struct atoll_error err;
    char id[17];

    (void)snprintf(id, sizeof(id), "%08x%08x", number * 2654435761u, number);
    assert_int_equal(atoll_store_drop_exec(f->store, an_exec.sandbox_id, id, &err), 0);
}

static uint64_t log_bytes(struct fixture *f)
{
    uint64_t db, log;

    atoll_store_sizes(f->store, &db, &log);
    assert_true(db > 0);
    return log;
}

/* A sandbox that runs 50,000 commands one after the other and remembers the last 4,096. */
static void the_log_stays_small(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    uint64_t most = 0;

    assert_int_equal(atoll_store_put_sandbox(f->store, &a_sandbox, &err), 0);
    for (unsigned i = 0; i < 50000; i++) {
        put_command(f, i, 0);
        put_command(f, i, 1);
        if (i >= 4096)
            drop_command(f, i - 4096);
        if (i % 256 == 0)
            most = ATOLL_MAX(most, log_bytes(f));
    }
    assert_true(most > 0);
    /* Beside the bound it has what is written while one checkpoint waits for the disk, here at full
     * speed: a log that is never emptied gets more than 300 MiB. */
    if (most > 32 * (uint64_t)ATOLL_STORE_LOG_BYTES)
        fail_msg("the log grew to %llu bytes", (unsigned long long)most);
}

static uint64_t written_bytes(void)
{
    unsigned long long n = 0;
    char line[80];
    FILE *file = fopen("/proc/thread-self/io", "re");

    while (file && fgets(line, sizeof(line), file))
        (void)sscanf(line, "wchar: %llu", &n);
    if (file)
        (void)fclose(file);
    return n;
}

static void looking_writes_nothing(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    uint64_t before;

    put_command(f, 1, 0);
    before = written_bytes();
    for (int i = 0; i < 100; i++)
        assert_int_equal(atoll_store_check(f->store, &err), 0);
    assert_int_equal(written_bytes(), before);
    put_command(f, 2, 0); /* the control */
    assert_true(written_bytes() > before);
}

/* As another program would. */
static void write_behind(const struct fixture *f, const char *sql)
{
    char path[64];
    sqlite3 *db;

    (void)snprintf(path, sizeof(path), "%s/atoll.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
}

static int copy_key(void *arg, const struct atoll_key_row *row)
{
    *(struct atoll_key_row *)arg = *row;
    return 0;
}

static void keys_are_unique_and_whole(void **state)
{
    struct fixture *f = *state;
    struct atoll_key_row key = {.id = "abcdefghijkl", .tenant = "team", .scope = 200}, read;
    struct atoll_error err;

    key.created_unix_ms = 12;
    memset(key.sha256, 0xa5, sizeof(key.sha256));
    assert_int_equal(atoll_keys_add(f->store, &key, &err), 0);
    assert_true(atoll_keys_add(f->store, &key, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ALREADY_EXISTS);
    reopen(f);
    assert_int_equal(atoll_keys_load(f->store, copy_key, &read, &err), 0);
    assert_string_equal(read.id, key.id);
    assert_string_equal(read.tenant, "team");
    assert_int_equal(read.scope, 200);
    assert_memory_equal(read.sha256, key.sha256, sizeof(key.sha256));
    assert_int_equal(read.created_unix_ms, 12);
    write_behind(f, "UPDATE api_keys SET sha256 = x'00'");
    assert_true(atoll_keys_load(f->store, copy_key, &read, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
    write_behind(f, "UPDATE api_keys SET sha256 = zeroblob(32), id = 'abcdefghijklm'");
    assert_true(atoll_keys_load(f->store, copy_key, &read, &err) < 0);
    assert_int_equal(atoll_keys_remove(f->store, "abcdefghijklm", &err), 0);
    assert_int_equal(atoll_keys_load(f->store, copy_key, &read, &err), 0);
}

static int stop_at_port(void *arg, const struct atoll_store_preview *row, struct atoll_error *err)
{
    (void)err;
    ++*(int *)arg;
    return row->port == 65535 ? -ECANCELED : 0;
}

static void a_walk_ends_early(void **state)
{
    struct fixture *f = *state;
    struct atoll_store_preview row = {.sandbox_id = "s", .token = "t"};
    struct atoll_error err;
    const uint16_t ports[] = {80, 65535};
    int seen = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ports); i++) {
        row.port = ports[i];
        assert_int_equal(atoll_store_put_preview(f->store, &row, &err), 0);
    }
    assert_int_equal(atoll_store_each_preview(f->store, stop_at_port, &seen, &err), -ECANCELED);
    assert_int_equal(seen, 2);
    assert_int_equal(atoll_store_drop_preview(f->store, "s", 65535, &err), 0);
    assert_int_equal(atoll_store_each_preview(f->store, stop_at_port, &seen, &err), 0);
    assert_int_equal(seen, 3);
}

static void a_newer_schema_is_refused(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;

    f->store = atoll_store_close(f->store);
    write_behind(f, "PRAGMA user_version = 9999");
    assert_true(atoll_store_open_sqlite(f->dir_fd, &f->store, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "newer version"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sandboxes_survive, setup, teardown),
        cmocka_unit_test_setup_teardown(policies_are_sealed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_command_replaces_its_beginning, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(commands_go_with_their_sandbox, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ended_sandbox_leaves_a_record, setup, teardown),
        cmocka_unit_test_setup_teardown(records_are_removed_by_age_number_and_size, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_log_stays_small, setup, teardown),
        cmocka_unit_test_setup_teardown(looking_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_unique_and_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_walk_ends_early, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_schema_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
