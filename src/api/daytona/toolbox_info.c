/*
 * Facts about a sandbox: directories, figures, ports.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "base/clock.h"
#include "base/text.h"

void atoll_daytona_version(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    static const char text[] = "{\"version\":\"v0.190.0\"}";

    atoll_api_reply_text(call, 200, "application/json", text, sizeof(text) - 1);
}

void atoll_daytona_init(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    static const char text[] = "{\"message\":\"ok\"}";

    atoll_api_reply_text(call, 200, "application/json", text, sizeof(text) - 1);
}

/* Directories. */

static void reply_dir(struct atoll_api_call *call, const char *path, size_t n)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_bytes(&out, "dir", path, n);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    if (error)
        atoll_toolbox_path_fail(arg, error);
    else
        reply_dir(arg, entry->path, strlen(entry->path));
}

void atoll_daytona_work_dir(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    atoll_files_stat(call->engine, call->params.id, NULL, ".", looked, call);
}

void atoll_daytona_home_dir(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    atoll_files_stat(call->engine, call->params.id, NULL, "~", looked, call);
}

/* Figures. */

static void measured(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view = {0};
    int64_t now = atoll_clock_unix_ms();
    struct atoll_buf buf;
    struct atoll_json_out out;
    uint32_t millis;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    millis = stats->cpu_limit_millis ? stats->cpu_limit_millis : view.options.limits.cpu_millis;
    atoll_json_open(&out, NULL, '{');
    atoll_json_double(&out, "cpuCount", millis / 1000.0, 6);
    atoll_json_double(&out, "cpuUsedPct", millis ? stats->cpu_percent * 1000.0 / millis : 0, 6);
    atoll_json_u64(&out, "diskTotal", stats->disk_limit_bytes);
    atoll_json_u64(&out, "diskUsed", stats->disk_bytes);
    atoll_json_u64(&out, "diskFree",
                   stats->disk_limit_bytes > stats->disk_bytes
                       ? stats->disk_limit_bytes - stats->disk_bytes
                       : 0);
    atoll_json_u64(&out, "memTotal", stats->memory_limit_bytes);
    atoll_json_u64(&out, "memUsed", stats->memory_bytes);
    atoll_json_u64(&out, "memCache", 0);
    atoll_json_time(&out, "timestamp", now);
    atoll_json_i64(&out, "timestampUnix", now / 1000);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_metrics(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    atoll_engine_stats(call->engine, call->params.id, measured, call);
}

/* Ports: sockets that listen on any address, as the kernel of the sandbox lists them. */

static const char list_ports[] = "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null";

struct ports {
    struct atoll_api_call *call;
    struct atoll_toolbox_output output;
};

/* The port of a line "SL: ADDRESS:PORT REMOTE:PORT STATE …" in hexadecimal; 0: it does not listen. */
static unsigned port_of(const char *line)
{
    unsigned port = 0, state = 0;

    if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &port, &state) != 2)
        return 0;
    return state == 0x0a && port <= UINT16_MAX ? port : 0;
}

static void write_ports(struct atoll_json_out *out, const struct atoll_api_call *call, char *text)
{
    uint8_t seen[(UINT16_MAX + 1) / 8] = {0};
    char *rest = NULL;
    unsigned port;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        port = port_of(line);
        seen[port / 8] |= (uint8_t)(1u << (port % 8));
    }
    for (port = 1; port <= UINT16_MAX; port++)
        if (seen[port / 8] & (1u << (port % 8)) &&
            !atoll_engine_is_network_port(call->engine, call->params.id, port))
            atoll_json_u64(out, NULL, port);
}

static void ports_read(void *arg, const struct atoll_exec_result *result ATOLL_UNUSED,
                       const struct atoll_error *error)
{
    struct ports *p = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    p->call->on_gone = NULL;
    if (atoll_api_reply_begin(p->call, error, &buf, &out)) {
        atoll_json_open(&out, NULL, '{');
        atoll_json_open(&out, "ports", '[');
        write_ports(&out, p->call, (char *)(uintptr_t)atoll_buf_str(&p->output.bytes));
        atoll_json_close(&out, ']');
        atoll_json_close(&out, '}');
        atoll_api_reply(p->call, 200, &out);
    }
    atoll_toolbox_output_done(&p->output);
    free(p);
}

static void ports_gone(struct atoll_api_call *call)
{
    struct ports *p = call->state;

    atoll_toolbox_output_done(&p->output);
    free(p);
    atoll_api_drop(call);
}

static void ports_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct ports *p;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    if (!call->req) {
        atoll_api_drop(call);
        return;
    }
    p = atoll_api_alloc(sizeof(*p));
    p->call = call;
    call->state = p;
    call->on_gone = ports_gone;
    atoll_toolbox_output_start(&p->output, atoll_http_loop(call->req), exec, true, ports_read, p);
}

void atoll_daytona_ports(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    const char *const argv[] = {"sh", "-c", list_ports, NULL};
    const struct atoll_exec_start start = {.argv = argv, .timeout_ms = 10000};

    atoll_engine_exec(call->engine, call->params.id, &start, ports_started, call);
}

static void reply_in_use(struct atoll_api_call *call, bool in_use)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_bool(&out, "isInUse", in_use);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void connected(void *arg, int fd, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (!error)
        atoll_engine_discard(call->engine, call->params.id, fd);
    if (error && (!atoll_toolbox_is_running(call) || error->kind != ATOLL_ERR_UNAVAILABLE))
        atoll_api_fail(call, error);
    else
        reply_in_use(call, !error);
}

void atoll_daytona_port_in_use(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    uint64_t port = 0;

    if (atoll_text_u64(call->params.port, 3000, 9999, &port) < 0)
        atoll_daytona_refuse(call, 400, NULL, "port out of range: must be between 3000 and 9999");
    else
        atoll_engine_connect(call->engine, call->params.id, (uint16_t)port, connected, call);
}

/* Daytona's own daemon answers like this in images without its plug-in. */
void atoll_daytona_no_desktop(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_daytona_refuse(call, 503, NULL,
                         "Computer-use functionality is not available: the sandbox has no desktop");
}
