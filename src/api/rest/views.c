#include "api/rest/views.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/requests.h"
#include "base/clock.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "engine/network/request.h"
#include "engine/provider/providers.h"

#define MIB 1048576.0

/* JSON has one kind of number; 15 digits express any byte count in MiB exactly. */
#define VIEW_MIB(name, value) atoll_json_double(out, name, (double)(value) / MIB, 15)
#define VIEW_MILLI(name, value) atoll_json_double(out, name, (value) / 1000.0, 9)
#define VIEW_CEIL(name, value) atoll_json_u64(out, name, value)
#define VIEW_U32(name, value) atoll_json_u64(out, name, value)
#define VIEW_U64(name, value) atoll_json_u64(out, name, value)

void atoll_view_limits(struct atoll_json_out *out, const char *key,
                       const struct atoll_limits *limits, bool zeros)
{
    atoll_json_open(out, key, '{');
#define LIMIT(member, name, unit, least, most)     \
    if (limits->member || (zeros && (least) == 0)) \
        VIEW_##unit(name, limits->member);
#include "sandbox/limits.def"
    atoll_json_close(out, '}');
}

void atoll_view_waived(struct atoll_json_out *out, uint32_t waived)
{
    atoll_json_open(out, "waived", '[');
    for (uint32_t bit = 1; bit <= ATOLL_LIMIT_ALL; bit <<= 1)
        if (waived & bit)
            atoll_json_text(out, NULL, atoll_limit_name(bit));
    atoll_json_close(out, ']');
}

static void view_lifetime(struct atoll_json_out *out, const struct atoll_sandbox_view *v)
{
    const struct atoll_lifetime *l = &v->options.lifetime;

    atoll_json_bool(out, "persistent", l->persistent);
    atoll_json_open(out, "lifetime", '{');
    atoll_json_u64(out, "idleSeconds", l->idle_s);
    atoll_json_u64(out, "leaseSeconds", l->lease_s);
    atoll_json_bool(out, "leaseConnection", l->connection_lease);
    atoll_json_u64(out, "cpuSeconds", l->cpu_budget_s);
    atoll_json_u64(out, "outputBytes", l->output_budget_bytes);
    atoll_json_text(out, "onDeadline",
                    l->at_deadline == ATOLL_DEADLINE_DESTROY ? "destroy" : "pause");
    atoll_json_close(out, '}');
    atoll_json_open(out, "spent", '{');
    if (l->cpu_budget_s > 0) /* counted only with a budget */
        atoll_json_u64(out, "cpuSeconds", v->cpu_spent_s);
    atoll_json_u64(out, "outputBytes", v->output_spent_bytes);
    atoll_json_close(out, '}');
}

static void view_mounts(struct atoll_json_out *out, const struct atoll_sandbox_view *v)
{
    atoll_json_open(out, "volumes", '[');
    for (size_t i = 0; i < v->options.mount_count; i++) {
        const struct atoll_mount *m = &v->options.mounts[i];
        atoll_json_open(out, NULL, '{');
        if (*m->volume)
            atoll_json_text(out, "name", m->volume);
        else
            atoll_json_text(out, "hostPath", m->source);
        atoll_json_text(out, "path", m->path);
        atoll_json_bool(out, "readOnly", m->read_only);
        if (!*m->volume)
            atoll_json_text(out, "mode", m->cow ? "cow" : m->read_only ? "ro" : "rw");
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

void atoll_view_network(struct atoll_json_out *out, const char *key,
                        const struct atoll_sandbox_view *v)
{
    json_t *view = atoll_network_view(v->options.network, v->options.network_json);
    char *text = atoll_json_dump(view, JSON_COMPACT);

    atoll_json_raw(out, key, text ? text : "{}");
    free(text);
    json_decref(view);
}

const char *atoll_view_silence(const struct atoll_sandbox_view *v, char *out, size_t cap)
{
    (void)snprintf(out, cap, "the agent has not answered for %lld s",
                   (long long)v->silent_ms / 1000);
    return out;
}

void atoll_view_state(struct atoll_json_out *out, const struct atoll_sandbox_view *v)
{
    char cause[80];

    if (v->silent_ms > 0) {
        atoll_json_text(out, "state", atoll_sandbox_state_name(ATOLL_SANDBOX_UNREACHABLE));
        atoll_json_text(out, "cause", atoll_view_silence(v, cause, sizeof(cause)));
        return;
    }
    atoll_json_text(out, "state", atoll_sandbox_state_name(v->state));
    if (v->cause && *v->cause)
        atoll_json_text(out, "cause", v->cause);
}

void atoll_view_sandbox(struct atoll_json_out *out, const char *key,
                        const struct atoll_sandbox *sandbox)
{
    atoll_view_sandbox_open(out, key, sandbox);
    atoll_json_close(out, '}');
}

void atoll_view_sandbox_open(struct atoll_json_out *out, const char *key,
                             const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view v;
    char host[ATOLL_PUBLIC_HOST_MAX];

    atoll_sandbox_get(sandbox, &v);
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", v.id);
    if (v.options.name)
        atoll_json_text(out, "name", v.options.name);
    atoll_view_state(out, &v);
    atoll_json_text(out, "provider", v.provider);
    atoll_json_text(out, "isolation", v.isolation);
    if (*v.handle)
        atoll_json_text(out, "handle", v.handle);
    if (atoll_sandbox_public_host(sandbox, host))
        atoll_json_text(out, "public_host", host);
    if (*v.image && !v.own_image)
        atoll_json_text(out, "image", v.image);
    else
        atoll_json_text(out, "template", v.template_name);
    if (v.options.workdir)
        atoll_json_text(out, "workdir", v.options.workdir);
    atoll_json_time(out, "created_at", v.created_unix_ms);
    atoll_json_time(out, "expires_at", v.expires_unix_ms);
    if (v.paused_unix_ms > 0)
        atoll_json_time(out, "paused_at", v.paused_unix_ms);
    if (v.memory_after > 0) {
        atoll_json_open(out, "paused_memory", '{');
        atoll_json_u64(out, "before_bytes", v.memory_before);
        atoll_json_u64(out, "after_bytes", v.memory_after);
        atoll_json_close(out, '}');
    }
    atoll_view_limits(out, "limits", &v.options.limits, true);
    view_lifetime(out, &v);
    atoll_json_raw(out, "metadata",
                   v.options.metadata_json && *v.options.metadata_json ? v.options.metadata_json
                                                                       : "{}");
    atoll_view_waived(out, v.options.waived);
    if (v.warning && *v.warning) {
        atoll_json_open(out, "warnings", '[');
        atoll_json_text(out, NULL, v.warning);
        atoll_json_close(out, ']');
    }
    if (v.options.artifacts) {
        atoll_json_open(out, "artifacts", '[');
        for (const char *const *p = v.options.artifacts; *p; p++)
            atoll_json_text(out, NULL, *p);
        atoll_json_close(out, ']');
    }
    if (v.options.mount_count > 0)
        view_mounts(out, &v);
    atoll_json_text(out, "networkMode", atoll_network_name(v.options.network));
    atoll_view_network(out, "network", &v);
    atoll_json_bool(out, "readOnly", v.options.read_only);
    atoll_json_bool(out, "recreate", v.options.recreate);
    atoll_json_text(out, "checkpoints", v.options.checkpoints ? "command" : "none");
    atoll_json_open(out, "disk", '{');
    atoll_json_text(out, "kind", atoll_rest_disk_kinds[v.options.disk_choice]);
    if (v.history_bytes > 0)
        atoll_json_u64(out, "historyMB", v.history_bytes >> 20);
    atoll_json_close(out, '}');
    atoll_json_double(out, "boot_ms", v.boot_ms, 6);
    atoll_json_bool(out, "pooled", v.pooled);
    atoll_json_text(out, "tenant", v.owner ? v.owner : "default");
}

/* null for "no limit" and for a value that is not measured. */
static void view_or_null(struct atoll_json_out *out, const char *key, uint64_t value)
{
    if (value == 0 || value == UINT64_MAX)
        atoll_json_null(out, key);
    else
        atoll_json_u64(out, key, value);
}

/* A value that only the agent can measure; null if it is unknown. */
static void view_inside(struct atoll_json_out *out, const char *key,
                        const struct atoll_sandbox_stats *s, uint64_t value)
{
    if (s->inside_unknown && value == 0)
        atoll_json_null(out, key);
    else
        atoll_json_u64(out, key, value);
}

void atoll_view_stats(struct atoll_json_out *out, const struct atoll_sandbox_stats *s,
                      const struct atoll_sandbox_view *sandbox)
{
    char silence[80];

    atoll_json_open(out, "memory", '{');
    view_or_null(out, "used_bytes", s->memory_bytes);
    view_or_null(out, "limit_bytes", s->memory_limit_bytes);
    view_or_null(out, "peak_bytes", s->memory_peak_bytes);
    atoll_json_close(out, '}');
    atoll_json_open(out, "cpu", '{');
    if (s->cpu_unknown) {
        atoll_json_null(out, "percent");
        atoll_json_null(out, "used_seconds");
    } else {
        atoll_json_double(out, "percent", s->cpu_percent, 6);
        atoll_json_double(out, "used_seconds", s->cpu_seconds, 9);
    }
    if (s->cpu_limit_millis > 0)
        atoll_json_double(out, "limit_cores", s->cpu_limit_millis / 1000.0, 9);
    else if (sandbox->options.waived & ATOLL_LIMIT_CPU)
        atoll_json_null(out, "limit_cores");
    else
        atoll_json_double(out, "limit_cores", sandbox->options.limits.cpu_millis / 1000.0, 9);
    atoll_json_close(out, '}');
    atoll_json_open(out, "disk", '{');
    view_inside(out, "used_bytes", s, s->disk_bytes);
    view_or_null(out, "limit_bytes", s->disk_limit_bytes);
    atoll_json_close(out, '}');
    atoll_json_open(out, "inodes", '{');
    view_inside(out, "used", s, s->inodes);
    view_or_null(out, "limit", s->inodes_limit);
    atoll_json_close(out, '}');
    atoll_json_open(out, "processes", '{');
    atoll_json_u64(out, "count", s->processes);
    view_or_null(out, "limit",
                 sandbox->options.waived & ATOLL_LIMIT_PIDS ? 0 : sandbox->options.limits.pids);
    if (s->processes_peak > 0)
        atoll_json_u64(out, "peak", s->processes_peak);
    atoll_json_close(out, '}');
    atoll_json_open(out, "network", '{');
    view_inside(out, "rx_bytes", s, s->net_rx_bytes);
    view_inside(out, "tx_bytes", s, s->net_tx_bytes);
    atoll_json_close(out, '}');
    if (s->inside_unknown)
        atoll_json_text(out, "unanswered",
                        sandbox->silent_ms > 0
                            ? atoll_view_silence(sandbox, silence, sizeof(silence))
                            : "the agent did not answer in time");
    atoll_json_double(out, "uptime_seconds", s->uptime_s, 9);
}

const char *atoll_view_stream_name(int stream)
{
    return stream == ATOLL_STREAM_STDERR ? "stderr" : "stdout";
}

const char *atoll_view_signal_name(int signo, char *out)
{
    const char *name = sigabbrev_np(signo);

    /* 34 is the first real-time signal available to programs; glibc reserves 32 and 33. */
    if (name)
        (void)snprintf(out, 16, "SIG%s", name);
    else if (signo >= 34 && signo <= 64)
        (void)snprintf(out, 16, "SIGRTMIN+%d", signo - 34);
    else
        (void)snprintf(out, 16, "%d", signo);
    return out;
}

int atoll_view_signal_number(const char *name)
{
    uint64_t number;

    if (atoll_text_u64(name, 1, 64, &number) == 0)
        return (int)number;
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    if (strncmp(name, "RTMIN+", 6) == 0 && atoll_text_u64(name + 6, 0, 30, &number) == 0)
        return 34 + (int)number;
    for (int i = 1; i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

static void view_oom(struct atoll_json_out *out, const struct atoll_exec_result *r)
{
    atoll_json_open(out, "oom", '{');
    if (r->oom_process[0])
        atoll_json_text(out, "process", r->oom_process);
    if (r->oom_pid > 0)
        atoll_json_u64(out, "pid", r->oom_pid);
    atoll_json_u64(out, "peak_bytes", r->oom_peak_bytes);
    atoll_json_u64(out, "limit_bytes", r->oom_limit_bytes);
    atoll_json_u64(out, "kills", r->oom_kills);
    atoll_json_close(out, '}');
}

/* All zero means not measured: code in an interpreter, or a command that was lost. */
static void view_usage(struct atoll_json_out *out, const struct atoll_exec_result *r)
{
    if (r->user_us == 0 && r->system_us == 0 && r->max_rss_bytes == 0) {
        atoll_json_null(out, "usage");
        return;
    }
    atoll_json_open(out, "usage", '{');
    atoll_json_double(out, "user_seconds", (double)r->user_us / 1e6, 12);
    atoll_json_double(out, "system_seconds", (double)r->system_us / 1e6, 12);
    atoll_json_u64(out, "max_rss_bytes", r->max_rss_bytes);
    atoll_json_close(out, '}');
}

void atoll_view_result(struct atoll_json_out *out, const char *key,
                       const struct atoll_exec_result *r)
{
    char name[16];

    atoll_json_open(out, key, '{');
    atoll_json_text(out, "kind", atoll_end_kind_name(r->kind));
    if (r->kind == ATOLL_END_EXITED)
        atoll_json_i64(out, "exit_code", r->code);
    if (r->signal > 0)
        atoll_json_text(out, "signal", atoll_view_signal_name(r->signal, name));
    if (r->reason[0])
        atoll_json_text(out, r->kind == ATOLL_END_KILLED_BY ? "who" : "reason", r->reason);
    if (r->oom_kills > 0 || r->kind == ATOLL_END_OOM_KILLED)
        view_oom(out, r);
    view_usage(out, r);
    atoll_json_u64(out, "stdout_bytes", r->stdout_bytes);
    atoll_json_u64(out, "stderr_bytes", r->stderr_bytes);
    atoll_json_i64(out, "duration_ms", r->duration_ms);
    atoll_json_close(out, '}');
}

void atoll_view_exec_of(struct atoll_json_out *out, const char *key,
                        const struct atoll_exec_view *v)
{
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "exec_id", v->id);
    atoll_json_open(out, "cmd", '[');
    for (const char *const *arg = v->argv; arg && *arg; arg++)
        atoll_json_text(out, NULL, *arg);
    atoll_json_close(out, ']');
    if (v->argv_left_out > 0)
        atoll_json_u64(out, "cmd_bytes_left_out", v->argv_left_out);
    atoll_json_text(out, "user", v->user ? v->user : "");
    atoll_json_text(out, "cwd", v->cwd ? v->cwd : "");
    atoll_json_bool(out, "pty", v->pty);
    atoll_json_text(out, "state", v->result ? "ended" : "running");
    atoll_json_u64(out, "pid", v->pid);
    atoll_json_time(out, "started_at", v->started_unix_ms);
    if (v->result)
        atoll_view_result(out, "result", v->result);
    atoll_json_close(out, '}');
}

void atoll_view_exec(struct atoll_json_out *out, const char *key, const struct atoll_exec *exec)
{
    struct atoll_exec_view v;

    atoll_exec_get(exec, &v);
    atoll_view_exec_of(out, key, &v);
}

static const char *entry_type_name(uint8_t type)
{
    static const char *const names[] = {
        [ATOLL_ENTRY_FILE] = "file",
        [ATOLL_ENTRY_DIRECTORY] = "directory",
        [ATOLL_ENTRY_SYMLINK] = "symlink",
        [ATOLL_ENTRY_OTHER] = "other",
    };
    return type < ATOLL_ARRAY_LEN(names) && names[type] ? names[type] : "other";
}

/* mtime can be any value; one without a four-digit year is clamped to the nearest that has one. */
void atoll_view_mtime(struct atoll_json_out *out, int64_t unix_ms)
{
    int64_t shown = ATOLL_MIN(ATOLL_MAX(unix_ms, INT64_C(0)), INT64_C(253402300799999));
    char text[ATOLL_CLOCK_TEXT_MAX];

    atoll_json_text(out, "mtime", atoll_clock_format(shown, text));
}

/* Names come from inside the sandbox and may not be UTF-8. */
void atoll_view_entry(struct atoll_json_out *out, const char *key, const struct atoll_am_entry *e)
{
    const char *slash = strrchr(e->path, '/');
    const char *name = slash && slash[1] ? slash + 1 : e->path;
    char mode[16];

    (void)snprintf(mode, sizeof(mode), "%04o", e->mode & 07777);
    atoll_json_open(out, key, '{');
    atoll_json_bytes(out, "path", e->path, strlen(e->path));
    atoll_json_bytes(out, "name", name, strlen(name));
    atoll_json_text(out, "type", entry_type_name(e->type));
    atoll_json_text(out, "mode", mode);
    atoll_json_text(out, "owner", e->owner);
    atoll_json_text(out, "group", e->group);
    atoll_json_u64(out, "size", e->size_bytes);
    atoll_view_mtime(out, e->mtime_ms);
    if (e->type == ATOLL_ENTRY_SYMLINK)
        atoll_json_bytes(out, "target", e->target, strlen(e->target));
    atoll_json_close(out, '}');
}

static void write_words(struct atoll_json_out *out, const char *key, const char *words)
{
    char word[ATOLL_TEMPLATE_TAG_MAX + 1];

    atoll_json_open(out, key, '[');
    while (*words) {
        size_t n = strcspn(words, " ");

        (void)snprintf(word, sizeof(word), "%.*s", (int)n, words);
        atoll_json_text(out, NULL, word);
        words += n + (words[n] == ' ');
    }
    atoll_json_close(out, ']');
}

void atoll_view_template_fields(struct atoll_json_out *out, const struct atoll_template_view *v)
{
    atoll_json_text(out, "name", v->name);
    atoll_json_text(out, "kind",
                    v->kind == ATOLL_TEMPLATE_HOST    ? "host"
                    : v->kind == ATOLL_TEMPLATE_IMAGE ? "image"
                                                      : "rootfs");
    if (*v->provider)
        atoll_json_text(out, "provider", v->provider);
    if (*v->owner) {
        atoll_json_text(out, "tenant", v->owner);
        atoll_json_bool(out, "public", strcmp(v->shares, "*") == 0);
        if (*v->shares && strcmp(v->shares, "*") != 0)
            write_words(out, "shared_with", v->shares);
    }
    atoll_json_text(out, "digest", v->digest);
    atoll_json_u64(out, "size_bytes", v->size_bytes);
    atoll_json_time(out, "created_at", v->created_unix_ms);
    if (v->kind == ATOLL_TEMPLATE_HOST)
        return;
    atoll_json_text(out, "version", v->id);
    write_words(out, "tags", v->tags);
    atoll_json_text(out, "source", v->source);
    if (*v->parent)
        atoll_json_text(out, "parent", v->parent);
    if (*v->sandbox_id)
        atoll_json_text(out, "sandbox_id", v->sandbox_id);
    atoll_json_u64(out, "versions", v->version_count);
    atoll_json_u64(out, "sandboxes", v->sandboxes);
}

void atoll_view_template(struct atoll_json_out *out, const char *key,
                         const struct atoll_template_view *v)
{
    atoll_json_open(out, key, '{');
    atoll_view_template_fields(out, v);
    atoll_json_close(out, '}');
}

void atoll_view_gap(struct atoll_json_out *out, const struct atoll_reader_item *gap)
{
    atoll_json_open(out, "truncated", '{');
    atoll_json_text(out, "stream", atoll_view_stream_name(gap->stream));
    atoll_json_u64(out, "from", gap->offset);
    atoll_json_u64(out, "to", gap->offset + gap->length);
    atoll_json_close(out, '}');
}
