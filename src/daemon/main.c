/*
 * atolld. The order of the start matters:
 * - take the lock before touching anything in the state directory;
 * - check what the operator configured before opening providers, which start programs;
 * - open providers before dropping privileges, which atoll-spawn needs;
 * - drop privileges before reading the first byte of a client.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include "access/answers.h"
#include "access/sandbox_tokens.h"
#include "api/api.h"
#include "api/rest/rest.h"
#include "api/signed_url.h"
#include "base/buf.h"
#include "daemon/config.h"
#include "daemon/downloads.h"
#include "daemon/process.h"
#include "daemon/providers.h"
#include "daemon/site.h"
#include "daemon/ssh.h"
#include "daemon/watchdog.h"
#include "engine/json_memory.h"
#include "guard/guard.h"
#include "interpreter/contexts.h"
#include "net/tls.h"
#include "net/tls_cert.h"
#include "registry/environment_pool.h"
#include "sandbox/host.h"
#include "sandbox/self.h"
#include "store/store.h"
#include "sys/landlock.h"
#include "task/swarm.h"

#define CONNECTIONS_MAX 4096
#define HOST_JSON_MAX ((size_t)256 * 1024)

struct daemon {
    struct atoll_config config;
    int state_fd, lock_fd;
    struct atoll_loop *loop;
    struct atoll_signals signals;
    struct atoll_registry *registry;
    struct atoll_environment_pool *pool;
    struct atoll_daemon_providers providers;
    char programs[ATOLL_CONFIG_PATH_MAX];
    bool on_terminal; /* started from a terminal */
    struct atoll_engine *engine;
    struct atoll_store *store; /* borrowed from the engine */
    struct atoll_sessions *sessions;
    struct atoll_tasks *tasks;
    struct atoll_swarms *swarms;
    struct atoll_guard *guard;
    struct atoll_contexts *contexts;
    struct atoll_access *access;
    struct atoll_audit *audit;
    struct atoll_previews *previews;
    struct atoll_sandbox_tokens *tokens;
    struct atoll_daemon_ssh *ssh;
    struct atoll_answers *answers;
    struct atoll_site site;
    struct atoll_api *api;
    struct atoll_http_server *server;
    char listen[300]; /* the TCP address in use; "": none */
    char tls_listen[300];
    bool stopping;
};

/* Stop. */

static void all_gone(void *arg)
{
    struct daemon *d = arg;
    atoll_loop_stop(d->loop);
}

/* Reads providers.yaml again. If the file is invalid, the providers stay as they are. */
static void reload(struct daemon *d)
{
    struct atoll_error error;
    const char *text;
    int r = atoll_daemon_providers_reload(&d->providers, d->engine, &error);

    if (r == 0) {
        atoll_log(ATOLL_LOG_INFO, "providers reloaded", NULL);
        atoll_engine_note_providers(d->engine, NULL);
        return;
    }
    atoll_log(ATOLL_LOG_ERROR, "providers not reloaded", "error", error.text, NULL);
    /* Clients do not need the path of the file. */
    text = strstr(error.text, "/providers.yaml");
    if (!text && *d->config.providers)
        text = strrchr(error.text, '/');
    atoll_engine_note_providers(d->engine, text ? text + 1 : error.text);
}

/* SIGTERM: refuses new requests; clients that wait for a command still get its end. */
static void on_signal(void *arg, int signo)
{
    struct daemon *d = arg;

    /* SIGHUP after the terminal was closed stops a daemon that was started from it; any other
     * reloads providers.yaml. */
    if (signo == SIGHUP && !d->stopping && !(d->on_terminal && !isatty(STDERR_FILENO))) {
        reload(d);
        return;
    }
    if (d->stopping) {
        atoll_log(ATOLL_LOG_WARN, "stopped without waiting", "signal", sigabbrev_np(signo), NULL);
        _exit(1);
    }
    d->stopping = true;
    atoll_log(ATOLL_LOG_INFO, "stopping", "signal", sigabbrev_np(signo), NULL);
    atoll_api_drain(d->api);
    atoll_tasks_drain(d->tasks);
    atoll_guard_drain(d->guard);
    atoll_engine_shutdown(d->engine, all_gone, d);
}

static void daemon_done(struct daemon *d)
{
    atoll_engine_stop_files(d->engine); /* its callbacks are of all those that follow */
    d->ssh = atoll_daemon_ssh_close(d->ssh);
    d->server = atoll_http_server_free(d->server);
    d->api = atoll_api_free(d->api);
    d->previews = atoll_previews_free(d->previews);
    d->tokens = atoll_sandbox_tokens_free(d->tokens);
    d->answers = atoll_answers_free(d->answers);
    d->audit = atoll_audit_close(d->audit);
    d->access = atoll_access_free(d->access);
    d->guard = atoll_guard_free(d->guard);
    d->swarms = atoll_swarms_free(d->swarms);
    d->tasks = atoll_tasks_free(d->tasks);
    d->sessions = atoll_sessions_free(d->sessions);
    d->pool = atoll_environment_pool_close(d->pool);
    d->contexts = atoll_contexts_free(d->contexts);
    d->engine = atoll_engine_free(d->engine);
    atoll_daemon_providers_done(&d->providers);
    d->registry = atoll_registry_close(d->registry);
    if (d->signals.watch.loop)
        atoll_signals_close(&d->signals);
    d->loop = atoll_loop_free(d->loop);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd);
    if (d->state_fd >= 0)
        (void)close(d->state_fd);
}

/* Start. */

/* Called before the first write to a peer that may have closed: the agent of an adopted sandbox. */
static void ignore_pipes(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
}

static int open_signals(struct daemon *d, struct atoll_error *err)
{
    struct sigaction hangup;
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    /* Under nohup SIGHUP is ignored and must stay so: a signalfd would receive it all the same. */
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        (void)sigaddset(&set, SIGHUP);
    return atoll_signals_open(&d->signals, d->loop, &set, on_signal, d, err);
}

static int probe_host(struct atoll_buf *json, struct atoll_host_caps *ret_caps,
                      struct atoll_error *err)
{
    static struct atoll_host_report report; /* too large for the stack */
    int r = atoll_host_probe(&report, err);

    *ret_caps = report.caps;
    if (r == 0 && (r = atoll_host_report_json(&report, json)) < 0)
        r = atoll_fail_errno(err, -r, "report on the host");
    return r;
}

/* Sets what the machine has and how much of it sandboxes may have as limits. Few sandboxes reach
 * their limits at the same time, so the defaults overcommit many times. */
static void set_quota(const struct daemon *d, const struct atoll_host_caps *caps,
                      struct atoll_quota *q)
{
    const struct atoll_config *c = &d->config;
    const uint64_t given[] = {c->tenant_memory, UINT64_C(1000) * c->tenant_cpus, c->tenant_disk};
    const uint64_t total[] = {c->total_memory, UINT64_C(1000) * c->total_cpus, c->total_disk};
    static const unsigned times[] = {64, 512, 64};
    struct statvfs disk = {0};

    (void)fstatvfs(d->state_fd, &disk);
    q->cpus = caps->cpus;
    q->machine[0] = caps->memory_bytes;
    q->machine[1] = UINT64_C(1000) * caps->cpus;
    q->machine[2] = (uint64_t)disk.f_blocks * disk.f_frsize;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(given); i++) {
        q->tenant_derived[i] = given[i] == 0;
        q->tenant_most[i] = given[i] ? given[i] : times[i] * q->machine[i];
        q->total_most[i] = total[i];
    }
}

/* A registry named by the operator must exist. */
static int open_registry(struct daemon *d, struct atoll_error *err)
{
    if (!*d->config.registry)
        atoll_process_find_data("registry", d->config.registry, sizeof(d->config.registry));
    return atoll_registry_open(d->loop, d->config.registry, &d->registry, err);
}

/* The CA of atoll-egress is part of the template that the providers make. */
static int make_egress_ca(struct daemon *d, struct atoll_error *err)
{
    EVP_PKEY *key;
    X509 *cert;
    int r = atoll_tls_cert_egress(d->state_fd, &cert, &key, err);

    if (r == 0) {
        EVP_PKEY_free(key);
        X509_free(cert);
    }
    return r;
}

static int open_store(struct daemon *d, struct atoll_store **ret, struct atoll_error *err)
{
    int r = d->config.new_secret_key ? atoll_store_renew_key(d->state_fd, err) : 0;

    return r < 0 ? r : atoll_store_open_sqlite(d->state_fd, ret, err);
}

/* The table of downloads that are kept; NULL: none are. */
static int load_downloads(struct daemon *d, char **ret, struct atoll_error *err)
{
    char path[ATOLL_CONFIG_PATH_MAX + 32];

    if (d->config.cache_max_bytes == 0)
        return 0;
    if (*d->config.cache_table)
        return atoll_downloads_load(d->config.cache_table, ret, err);
    if (!*d->config.registry)
        atoll_process_find_data("registry", d->config.registry, sizeof(d->config.registry));
    (void)snprintf(path, sizeof(path), "%s/downloads.yaml", d->config.registry);
    return atoll_downloads_load(path, ret, err);
}

static int open_engine(struct daemon *d, struct atoll_error *err)
{
    const struct atoll_daemon_place place = {.loop = d->loop,
                                             .state_dir = d->config.state,
                                             .program_dir = d->programs,
                                             .disks = d->config.disks,
                                             .host_folders = d->config.host_folders,
                                             .file = d->config.providers};
    struct atoll_engine_provider list[ATOLL_DAEMON_PROVIDERS] = {0};
    struct atoll_engine_config config = {
        .state_dir = d->config.state,
        .pool = d->config.pool,
        .pool_max = d->config.pool_max,
        .pool_memory_bytes = d->config.pool_memory,
        .max_sandboxes = d->config.max_sandboxes,
        .quota = {.sandboxes = d->config.tenant_sandboxes,
                  .creates = d->config.tenant_creates,
                  .execs = d->config.tenant_execs,
                  .queue = d->config.tenant_queue,
                  .secrets = d->config.tenant_secrets,
                  .all_creates = d->config.creates},
        .journal_max_bytes = d->config.journal_max_bytes,
        .output = {d->config.journal_sandbox_bytes, d->config.journal_tenant_bytes,
                   d->config.journal_total_bytes, d->config.journal_days},
        .template_cache_max_bytes = d->config.template_cache_max_bytes,
        .build_step_max_bytes = d->config.build_step_max_bytes,
        .build_caches_max_bytes = d->config.build_caches_max_bytes,
        .template_history = d->config.template_history,
        .snapshots_max = d->config.tenant_snapshots,
        .snapshots_max_bytes = d->config.tenant_snapshot_bytes,
        .snapshot_days = *d->config.snapshot_days ? d->config.snapshot_days : NULL,
        .snapshot_keep = *d->config.snapshot_keep ? d->config.snapshot_keep : NULL,
        .artifacts_max_bytes = d->config.artifacts_max_bytes,
        .artifacts_days = d->config.artifacts_days,
        .ended_max = d->config.ended_max,
        .ended_days = d->config.ended_days,
        .ended_output_bytes = d->config.ended_output_bytes,
        .waived = d->config.waived,
        .offload = true,
        .io_bytes = (uint64_t)d->config.io_mbps << 20,
        .network_most = d->config.network_max,
        .network_deny = d->config.network_deny,
        .network_internal = d->config.network_internal,
        .cache_max_bytes = d->config.cache_max_bytes,
        .images = {.mirrors = d->config.image_mirrors,
                   .insecure = d->config.image_insecure,
                   .logins = *d->config.image_logins ? d->config.image_logins : NULL,
                   .max_bytes = d->config.image_max_bytes},
        .kinds = &atoll_provider_choices,
    };
    char file[ATOLL_CONFIG_PATH_MAX], egress[ATOLL_CONFIG_PATH_MAX + 16];
    ATOLL_AUTOFREE char *downloads = NULL;
    struct atoll_host_caps caps;
    struct atoll_buf json;
    int r = atoll_process_find_programs(d->programs, sizeof(d->programs), err);

    atoll_buf_init(&json, HOST_JSON_MAX);
    if (r == 0)
        r = probe_host(&json, &caps, err);
    if (r == 0)
        set_quota(d, &caps, &config.quota);
    if (r == 0 && config.pool_memory_bytes == 0)
        config.pool_memory_bytes = caps.memory_bytes / 4;
    config.host_json = atoll_buf_str(&json);
    atoll_daemon_providers_file(&place, file);
    config.providers_file = file;
    if (r == 0)
        r = load_downloads(d, &downloads, err);
    config.cache_table = downloads;
    if (r == 0)
        r = make_egress_ca(d, err);
    if (r == 0)
        r = atoll_daemon_providers_open(&d->providers, &place, list, &config.provider_count, err);
    config.providers = list;
    (void)snprintf(egress, sizeof(egress), "%s/atoll-egress", d->programs);
    config.egress_program = access(egress, X_OK) == 0 ? egress : NULL;
    if (r == 0) {
        r = open_store(d, &config.store, err);
        if (r < 0)
            atoll_daemon_providers_drop(list, config.provider_count);
    }
    if (r == 0)
        r = atoll_engine_new(d->loop, &config, &d->engine, err);
    if (r == 0)
        atoll_engine_set_placement(d->engine, d->providers.placement);
    atoll_daemon_providers_taken(&d->providers);
    if (r == 0)
        r = atoll_access_new(config.store, &d->access, err);
    d->store = config.store;
    atoll_buf_done(&json);
    return r;
}

struct recovered {
    struct atoll_loop *loop;
    int result;
    struct atoll_error *err;
};

static void on_recovered(void *arg, const struct atoll_error *error)
{
    struct recovered *r = arg;

    r->result = error ? -EIO : 0;
    if (error)
        *r->err = *error;
    atoll_loop_stop(r->loop);
}

/* Adopts the sandboxes of an earlier daemon before the first request is read. */
static int recover(struct daemon *d, struct atoll_error *err)
{
    struct recovered recovered = {d->loop, 1, err};
    int r = 0;

    atoll_engine_recover(d->engine, on_recovered, &recovered);
    if (recovered.result > 0)
        r = atoll_loop_run(d->loop, err);
    return r < 0 ? r : recovered.result;
}

static int open_sessions(struct daemon *d, struct atoll_error *err)
{
    struct atoll_contexts_config config = {
        .loop = d->loop,
        .engine = d->engine,
        .store = d->store,
        .drivers_dir = d->config.drivers,
    };
    int r;

    if (!*d->config.drivers)
        atoll_process_find_data("drivers", d->config.drivers, sizeof(d->config.drivers));
    r = atoll_contexts_new(&config, &d->contexts, err);
    if (r == 0)
        r = atoll_sessions_new(d->engine, d->registry, d->store, &d->sessions, err);
    if (r == 0) {
        atoll_sessions_use_contexts(d->sessions, d->contexts);
        d->pool = atoll_environment_pool_open(d->engine, d->registry);
    }
    return r;
}

static int open_tasks(struct daemon *d, struct atoll_error *err)
{
    const struct atoll_tasks_config config = {
        .loop = d->loop,
        .engine = d->engine,
        .registry = d->registry,
        .store = d->store,
        .secrets = atoll_engine_secrets(d->engine),
        .state_fd = d->state_fd,
        .state_dir = d->config.state,
        .pull_request_hook = d->config.pull_request_hook,
        .decode = atoll_rest_task_decode,
        .release = atoll_rest_task_release,
    };

    int r = atoll_tasks_new(&config, &d->tasks, err);

    return r < 0 ? r : atoll_swarms_new(d->tasks, d->store, &d->swarms, err);
}

static int open_guard(struct daemon *d, struct atoll_error *err)
{
    const struct atoll_guard_config config = {
        .loop = d->loop,
        .engine = d->engine,
        .store = d->store,
        .program = d->config.tool_interceptor,
        .program_timeout_ms = d->config.tool_interceptor_s * 1000,
        .program_fails_open = d->config.tool_interceptor_allow == 1,
        .internal = d->config.webhook_internal,
    };

    return atoll_guard_new(&config, &d->guard, err);
}

/* With port 0 in `wanted`, `port` is the one the kernel chose. */
static void note_address(char *out, size_t cap, const char *wanted, uint16_t port)
{
    const char *colon = strrchr(wanted, ':');

    if (colon)
        (void)snprintf(out, cap, "%.*s:%u", (int)(colon - wanted), wanted, (unsigned)port);
}

static int listen_tcp(struct daemon *d, struct atoll_error *err)
{
    uint16_t port;
    int r = atoll_http_server_listen_tcp(d->server, d->config.listen, &port, err);

    d->site.site.port = r == 0 ? port : 0;
    if (r == 0)
        note_address(d->listen, sizeof(d->listen), d->config.listen, port);
    return r;
}

static int listen_tls(struct daemon *d, struct atoll_error *err)
{
    const struct atoll_tls_config config = {
        .cert_file = *d->config.tls_cert ? d->config.tls_cert : NULL,
        .key_file = *d->config.tls_key ? d->config.tls_key : NULL,
        .state_fd = d->state_fd,
        .domain = d->config.preview_domain,
        .names = d->config.tls_names,
    };
    uint16_t port;
    int r = atoll_http_server_listen_tls(d->server, d->config.tls_listen, &config, &port, err);

    d->site.site.tls_port = r == 0 ? port : 0;
    if (r == 0)
        note_address(d->tls_listen, sizeof(d->tls_listen), d->config.tls_listen, port);
    return r;
}

static void serve(void *arg, struct atoll_http_request *req)
{
    struct daemon *d = arg;
    atoll_api_serve(d->api, req);
}

/* From here on connections wait in the backlog until the loop runs. */
static int open_server(struct daemon *d, struct atoll_error *err)
{
    const struct atoll_http_limits limits = {.connections = CONNECTIONS_MAX};
    int r = atoll_http_server_new(d->loop, &limits, serve, d, &d->server, err);

    if (r == 0)
        r = atoll_process_make_socket_dir(d->config.socket, err);
    if (r == 0)
        r = atoll_http_server_listen_unix(d->server, d->config.socket, 0600, err);
    if (r == 0 && *d->config.listen)
        r = listen_tcp(d, err);
    if (r == 0 && *d->config.tls_listen)
        r = listen_tls(d, err);
    return r;
}

static int open_ssh(struct daemon *d, struct atoll_error *err)
{
    const struct atoll_daemon_ssh_config config = {
        .loop = d->loop,
        .server = d->server,
        .state_dir = d->config.state,
        .state_fd = d->state_fd,
        .programs = d->programs,
        .listen = d->config.ssh_listen,
        .host = d->config.ssh_host,
    };

    return atoll_daemon_ssh_open(&config, &d->ssh, err);
}

/* The first API key is printed only to a terminal, never to a log. */
static int open_keys(const struct atoll_auth *auth, struct atoll_error *err)
{
    char key[ATOLL_KEY_LEN + 1];
    int r = atoll_auth_open(auth, key, err);

    if (r < 0 || !*key)
        return r;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "The API key of the first admin (also in the file api-key): %s\n", key);
    atoll_log(ATOLL_LOG_INFO, "first API key made", "file", "api-key", NULL);
    explicit_bzero(key, sizeof(key));
    return 0;
}

static int open_api(struct daemon *d, struct atoll_error *err)
{
    struct atoll_api_config config = {
        .loop = d->loop,
        .engine = d->engine,
        .sessions = d->sessions,
        .contexts = d->contexts,
        .tasks = d->tasks,
        .swarms = d->swarms,
        .guard = d->guard,
        .secrets = atoll_engine_secrets(d->engine),
        .auth = {d->access, d->state_fd, d->config.open_loopback, NULL},
        .ssh = atoll_daemon_ssh_site(d->ssh),
        .site = &d->site.site,
        .key_rate = {d->config.key_rate, 4 * d->config.key_rate},
        .wrong_key_rate = {d->config.wrong_key_rate, 2 * d->config.wrong_key_rate},
        .facade_options = d->config.facade_options,
        .cors_origins = d->config.cors_origins,
        .access_log = d->config.log_level == ATOLL_LOG_DEBUG,
    };
    bool remote = *d->config.listen || *d->config.tls_listen;
    int r = remote ? open_keys(&config.auth, err) : 0;

    if (r == 0)
        r = atoll_audit_open(d->state_fd, 0, &d->audit, err);
    config.audit = d->audit;
    if (r == 0)
        r = atoll_previews_new(d->store, &d->previews, err);
    config.previews = d->previews;
    if (r == 0)
        r = atoll_sandbox_tokens_new(d->store, &d->tokens, err);
    config.auth.tokens = d->tokens;
    if (r == 0)
        r = atoll_answers_new(d->store, &d->answers, err);
    config.answers = d->answers;
    if (r == 0)
        r = atoll_signed_url_load(config.url_secret, d->state_fd, err);
    if (r == 0)
        d->api = atoll_api_new(&config);
    return r;
}

static int start(struct daemon *d, struct atoll_error *err)
{
    int r;

    atoll_self_raise_files();
    r = atoll_process_open_state(d->config.state, &d->state_fd, err);
    if (r == 0)
        r = atoll_process_lock_state(d->state_fd, &d->lock_fd, err);
    if (r == 0)
        r = atoll_site_init(&d->site, &d->config, err);
    if (r == 0 && (r = atoll_landlock_prepare(d->config.state)) < 0)
        r = atoll_fail_errno(err, -r, "Landlock");
    if (r == 0)
        r = atoll_loop_new(&d->loop, err);
    if (r == 0) {
        atoll_watchdog_start(d->loop);
        r = open_registry(d, err);
    }
    if (r == 0)
        r = open_engine(d, err);
    /* After the providers have started their programs, which would inherit blocked and ignored
     * signals. */
    ignore_pipes();
    if (r == 0)
        r = recover(d, err);
    if (r == 0)
        r = open_sessions(d, err);
    if (r == 0)
        r = open_tasks(d, err);
    if (r == 0)
        r = open_guard(d, err);
    if (r == 0)
        r = open_server(d, err);
    if (r == 0 && *d->config.ssh_listen)
        r = open_ssh(d, err);
    if (r == 0)
        r = open_signals(d, err);
    if (r == 0)
        r = open_api(d, err);
    if (r < 0)
        return r;
    atoll_tasks_resume(d->tasks);
    atoll_swarms_resume(d->swarms);
    atoll_process_spare();
    return atoll_self_confine(err);
}

static void report_ready(const struct daemon *d)
{
    atoll_log(ATOLL_LOG_INFO, "ready", "version", ATOLL_VERSION, "socket", d->config.socket,
              "listen", d->listen, "tls_listen", d->tls_listen, "state", d->config.state, NULL);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "atolld is ready at %s%s%s%s%s. Try: atoll run -- echo hello\n",
                d->config.socket, *d->listen ? " and http://" : "", d->listen,
                *d->tls_listen ? " and https://" : "", d->tls_listen);
}

/* Errors at start are plain text on standard error, not log lines. */
static int print_error(const struct atoll_error *error)
{
    fprintf(stderr, "atolld: %s\n", error->text);
    return error->kind == ATOLL_ERR_INVALID_ARGUMENT ? 2 : 1;
}

static void list_routes(void)
{
    struct atoll_api_route route;
    size_t pos = 0;

    while (atoll_api_next_route(&pos, &route))
        printf("%s %s %s\n", route.method, route.path, atoll_scope_name(route.scope));
}

int main(int argc, char **argv)
{
    static struct daemon d = {.state_fd = ATOLL_NO_FD, .lock_fd = ATOLL_NO_FD};
    struct atoll_error error;
    int r = atoll_config_load(&d.config, argc, argv, &error);

    if (r < 0)
        return print_error(&error);
    if (d.config.help) {
        atoll_config_print_help();
        return 0;
    }
    if (d.config.version) {
        printf("atolld %s\n", ATOLL_VERSION);
        return 0;
    }
    if (d.config.list_routes) {
        list_routes();
        return 0;
    }
    atoll_json_memory_watch();
    atoll_log_set_level(d.config.log_level);
    d.on_terminal = isatty(STDERR_FILENO);
    r = start(&d, &error);
    if (r == 0) {
        report_ready(&d);
        r = atoll_loop_run(d.loop, &error);
    }
    daemon_done(&d);
    return r < 0 ? print_error(&error) : 0;
}
