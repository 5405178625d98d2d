#include "engine/build/trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "engine/json_memory.h"
#include "engine/template/defaults.h"
#include "engine/template/start.h"

#define WHO "the end of the trial of its template"
#define LOOK_MS 10000
#define SAID_MAX 4096

/* Only what every shell has built in: an image may have nothing else. */
static const char look_script[] = "user=$(id -un 2>/dev/null || id -u 2>/dev/null); "
                                  "echo \"user=$user\"; echo \"home=$HOME\"; "
                                  "[ ! -d \"$HOME\" ] || echo exists=yes";
static const char ports_script[] =
    "for file in /proc/net/tcp /proc/net/tcp6; do [ -r $file ] || continue; "
    "while read -r number address peer state rest; do "
    "[ \"$state\" != 0A ] || echo \"port=${address##*:}\"; done <$file; done";

struct trial {
    struct atoll_engine *engine;
    struct atoll_list node; /* in makes->trials */
    char sandbox_id[ATOLL_ID_LEN + 1];
    char *start_cmd, *ready_cmd; /* owned, or NULL */
    json_t *checks;              /* owned */
    bool ok;
    int64_t since_ms;
    struct atoll_reader *reader;
    char said[SAID_MAX]; /* stdout of a script */
    size_t said_len;
    void (*told)(struct trial *t, bool ran); /* what the script said */
    bool failed;
    struct atoll_error error;
    atoll_trial_fn *done;
    void *arg;
};

static char *copy(const char *text)
{
    char *made = text && *text ? strdup(text) : NULL;

    if (text && *text && !made)
        abort();
    return made;
}

static void trial_free(struct trial *t)
{
    atoll_list_remove(&t->node);
    t->reader = atoll_reader_close(t->reader);
    json_decref(t->checks);
    free(t->start_cmd);
    free(t->ready_cmd);
    free(t);
}

void atoll_trials_done(struct atoll_list *trials)
{
    ATOLL_LIST_FOREACH (trials, node)
        trial_free(ATOLL_CONTAINER_OF(node, struct trial, node));
}

/* The report. */

static void add(struct trial *t, const char *name, const char *result, const char *detail,
                int64_t ms)
{
    json_t *check = json_pack("{s:s, s:s}", "name", name, "result", result);
    json_t *text = detail && *detail ? json_string(detail) : NULL; /* NULL: not UTF-8 */

    if (text)
        (void)json_object_set_new(check, "detail", text);
    if (ms >= 0)
        (void)json_object_set_new(check, "ms", json_integer(ms));
    (void)json_array_append_new(t->checks, check);
    t->ok = t->ok && strcmp(result, "failed") != 0;
}

static void end(struct trial *t)
{
    json_t *report = json_pack("{s:b, s:O}", "ok", t->ok, "checks", t->checks);
    char *text = report ? atoll_json_dump(report, JSON_COMPACT) : NULL;

    t->done(t->arg, text ? text : "{}", t->failed ? &t->error : NULL);
    free(text);
    json_decref(report);
    trial_free(t);
}

static void on_destroyed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    end(arg);
}

static void finish(struct trial *t)
{
    struct atoll_sandbox *s = atoll_map_get(&t->engine->sandboxes, t->sandbox_id);

    if (s)
        atoll_sandbox_destroy(s, WHO, on_destroyed, t);
    else
        end(t);
}

/* A script, whose lines are NAME=VALUE. */

static void on_said(void *arg)
{
    struct trial *t = arg;
    struct atoll_reader_item item;

    int r = 0;

    while (t->reader && (r = atoll_reader_next(t->reader, &item)) > 0) {
        if (item.kind == ATOLL_READ_DATA && item.stream == ATOLL_STREAM_STDOUT) {
            size_t n = ATOLL_MIN((size_t)item.length, sizeof(t->said) - 1 - t->said_len);
            memcpy(t->said + t->said_len, item.data, n);
            t->said_len += n;
            t->said[t->said_len] = '\0';
        } else if (item.kind == ATOLL_READ_END) {
            t->reader = atoll_reader_close(t->reader);
            t->told(t, true);
            return;
        }
    }
    if (r < 0) {
        t->reader = atoll_reader_close(t->reader);
        t->told(t, false);
    }
}

static void on_script(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct trial *t = arg;
    struct atoll_error err;

    if (error || atoll_reader_open(exec, 0, 0, on_said, t, &t->reader, &err) < 0)
        t->told(t, false);
}

static void run_script(struct trial *t, const char *script, void (*told)(struct trial *t, bool ran))
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    const struct atoll_exec_start start = {.argv = argv, .timeout_ms = LOOK_MS};

    t->said_len = 0;
    t->said[0] = '\0';
    t->told = told;
    atoll_engine_exec_now(t->engine, t->sandbox_id, &start, on_script, t);
}

/* The value of the next line "NAME=…" at *pos, which moves behind it; false: no such line follows. */
static bool next_value(const char **pos, const char *name, char *out, size_t cap)
{
    for (const char *line = *pos; *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n"), skip = strlen(name);

        if (n > skip && strncmp(line, name, skip) == 0 && line[skip] == '=') {
            (void)snprintf(out, cap, "%.*s", (int)(n - skip - 1), line + skip + 1);
            *pos = line + n;
            return true;
        }
        line += n;
    }
    return false;
}

static bool value_of(const struct trial *t, const char *name, char *out, size_t cap)
{
    const char *pos = t->said;

    out[0] = '\0';
    return next_value(&pos, name, out, cap);
}

/* The start command. */

static void on_ports(struct trial *t, bool ran)
{
    const char *pos = t->said;
    char hex[16], list[200] = "";
    size_t n = 0;

    while (ran && next_value(&pos, "port", hex, sizeof(hex)) && n + 8 < sizeof(list)) {
        unsigned number = strtoul(hex, NULL, 16) & 0xffff;
        char port[8];

        (void)snprintf(port, sizeof(port), "%u", number);
        if (!atoll_words_have(list, port) &&
            !atoll_engine_is_network_port(t->engine, t->sandbox_id, number))
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? " " : "", port);
    }
    add(t, "ports", *list ? "ok" : "absent", *list ? list : "it does not listen", -1);
    finish(t);
}

static void on_ready(void *arg, const struct atoll_error *error)
{
    struct trial *t = arg;

    t->failed = error != NULL;
    if (error)
        t->error = *error;
    add(t, "start", error ? "failed" : "ok", error ? error->text : t->start_cmd,
        atoll_clock_ms() - t->since_ms);
    if (error)
        finish(t);
    else
        run_script(t, ports_script, on_ports);
}

static void start(struct trial *t)
{
    const struct atoll_start_commands commands = {.start = t->start_cmd,
                                                  .ready = t->ready_cmd,
                                                  .ready_ms = ATOLL_READY_BUILD_MS,
                                                  .building = true};

    t->since_ms = atoll_clock_ms();
    if (t->start_cmd || t->ready_cmd)
        atoll_start_run(t->engine, t->sandbox_id, &commands, on_ready, t);
    else
        finish(t);
}

/* The sandbox. */

static void on_look(struct trial *t, bool ran)
{
    char user[64], home[256], exists[8];
    bool has_home;

    if (!ran || !t->said_len) {
        add(t, "sh", "absent", "/bin/sh cannot be run: commands have to name a program", -1);
        start(t);
        return;
    }
    add(t, "sh", "ok", NULL, -1);
    add(t, "user", value_of(t, "user", user, sizeof(user)) && *user ? "ok" : "absent",
        *user ? user : "the image has no program to tell", -1);
    has_home = value_of(t, "exists", exists, sizeof(exists));
    (void)value_of(t, "home", home, sizeof(home));
    add(t, "home", has_home ? "ok" : "absent", home, -1);
    start(t);
}

static void on_created(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct trial *t = arg;

    add(t, "agent", error ? "failed" : "ok", error ? error->text : NULL,
        atoll_clock_ms() - t->since_ms);
    if (error) {
        t->failed = t->start_cmd || t->ready_cmd;
        t->error = *error;
        t->sandbox_id[0] = '\0';
        end(t);
        return;
    }
    memcpy(t->sandbox_id, s->spec.id, sizeof(t->sandbox_id));
    run_script(t, look_script, on_look);
}

/* Without commands it needs no network, and does not count for the tenant. */
static void create_hidden(struct trial *t, struct atoll_version *v)
{
    struct atoll_spec spec = {.limits = atoll_limits_default(),
                              .template_kind = v->kind,
                              .layer_base = v->layer_base,
                              .layers = v->layers,
                              .allow_sudo = true};
    struct atoll_options options = {0};
    struct atoll_defaults defaults;
    struct atoll_sandbox *s;
    struct atoll_error err;
    int r = atoll_room_admit(t->engine, &err);

    spec.waived = atoll_place_missing_limits(t->engine->builder->provider, &spec);
    s = r == 0 ? atoll_sandbox_prepare(t->engine, &spec, v) : NULL;
    if (r == 0 && !s)
        (void)atoll_fail_errno(&err, ENOMEM, "trial");
    if (s) {
        s->hidden = true;
        atoll_defaults_apply(&defaults, v->config, v->source, &options);
        r = atoll_options_dup(&s->options, &options, &err);
        atoll_defaults_done(&defaults);
    }
    if (s && r < 0) {
        atoll_sandbox_discard(s);
        s = NULL;
    }
    if (s)
        atoll_sandbox_launch(s, on_created, t);
    else
        on_created(t, NULL, &err);
}

void atoll_trial_run(struct atoll_engine *engine, const struct atoll_trial_request *request,
                     atoll_trial_fn *done, void *arg)
{
    struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, request->version_id);
    struct trial *t = atoll_alloc(sizeof(*t));
    const struct atoll_options options = {.owner = request->tenant,
                                          .template_name = request->reference,
                                          .network = request->network,
                                          .network_is_given = true,
                                          .network_json = request->policy,
                                          .without_start = true};

    t->engine = engine;
    t->ok = true;
    t->checks = json_array();
    if (!t->checks)
        abort();
    t->start_cmd = copy(request->start_cmd);
    t->ready_cmd = copy(request->ready_cmd);
    t->since_ms = atoll_clock_ms();
    t->done = done;
    t->arg = arg;
    atoll_list_push_back(&atoll_makes(engine)->trials, &t->node);
    if (t->start_cmd || t->ready_cmd || !v)
        atoll_engine_create(engine, &options, on_created, t);
    else
        create_hidden(t, v);
}
