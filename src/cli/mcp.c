#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/rand.h"
#include "cli/client.h"

/*
 * The Model Context Protocol over standard input and output: one JSON message a line. Each message becomes a
 * request to /mcp of the daemon. Requests run beside each other, so that one can be cancelled while it waits;
 * the lines of their answers are written whole.
 */
#define RUNNING_MAX 64
#define PARSE_ERROR (-32700) /* of JSON-RPC */
#define INTERNAL_ERROR (-32603)
#define AGAIN_S 1 /* before the daemon is tried again */

struct options {
    struct atoll_cli_common common;
    const char *install;
};

static const struct atoll_cli_option options_table[] = {
    {"install", 0, ATOLL_CLI_TEXT, offsetof(struct options, install), "CLIENT",
     "print the configuration of a client: claude, cursor or vscode", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

struct server {
    const struct atoll_cli *cli;
    char target[64];
    pthread_mutex_t lock; /* of the rest, and of standard output */
    pthread_cond_t ended;
    unsigned running;
    bool listens; /* a thread waits for the daemon's own messages */
    bool closing;
};

struct request {
    struct server *server;
    char *line;
    size_t len;
    size_t sent;               /* of the line */
    struct atoll_buf line_out; /* what came of the answer, up to the next newline */
};

static void print_line(struct server *server, const char *text, size_t n)
{
    (void)pthread_mutex_lock(&server->lock);
    (void)fwrite(text, 1, n, stdout);
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&server->lock);
}

/* A line of an answer: JSON, or a line of an event stream. */
static void take_line(struct request *r, const char *line, size_t n)
{
    static const char data[] = "data: ";

    if (n > 0 && line[n - 1] == '\r')
        n--;
    if (n > 0 && *line == '{')
        print_line(r->server, line, n);
    else if (n > sizeof(data) - 1 && strncmp(line, data, sizeof(data) - 1) == 0)
        print_line(r->server, line + sizeof(data) - 1, n - (sizeof(data) - 1));
}

static int take_bytes(void *arg, const void *bytes, size_t n)
{
    struct request *r = arg;
    const char *start, *newline;

    if (atoll_buf_append(&r->line_out, bytes, n) < 0)
        return -ENOBUFS;
    for (;;) {
        start = (const char *)atoll_buf_head(&r->line_out);
        newline = memchr(start, '\n', atoll_buf_size(&r->line_out));
        if (!newline)
            return 0;
        take_line(r, start, (size_t)(newline - start));
        atoll_buf_consume(&r->line_out, (size_t)(newline - start) + 1);
    }
}

static ssize_t give_bytes(void *arg, void *buf, size_t n)
{
    struct request *r = arg;
    size_t some = ATOLL_MIN(n, r->len - r->sent);

    memcpy(buf, r->line + r->sent, some);
    r->sent += some;
    return (ssize_t)some;
}

/* The daemon did not answer as the protocol says: the client still gets an answer. */
static void answer_error(struct request *r, const struct atoll_error *error)
{
    ATOLL_AUTOJSON json_t *message = json_loadb(r->line, r->len, 0, NULL);
    json_t *id = json_object_get(message, "id");
    ATOLL_AUTOJSON json_t *answer =
        id || !message ? json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error",
                                   "code", message ? INTERNAL_ERROR : PARSE_ERROR, "message",
                                   message ? error->text : "the message is not JSON")
                       : NULL;
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;

    if (text)
        print_line(r->server, text, strlen(text));
    else
        (void)fprintf(stderr, "atoll mcp: %s\n", error->text);
    free(text);
}

static void send(struct request *r)
{
    const struct atoll_http_transfer transfer = {
        .read = give_bytes,
        .length = (int64_t)r->len,
        .write = take_bytes,
        .accept = "application/json, text/event-stream",
        .arg = r,
    };
    struct atoll_cli own;
    struct atoll_error error;

    atoll_cli_init(&own);
    own.verb = r->server->cli->verb;
    own.ca_file = r->server->cli->ca_file;
    atoll_cli_set_timeout(&own, -1);
    atoll_buf_init(&r->line_out, ATOLL_LINK_REPLY_MAX);
    if (atoll_cli_stream(&own, "POST", r->server->target, &transfer, NULL, &error) < 0)
        answer_error(r, &error);
    else if (atoll_buf_size(&r->line_out) > 0)
        take_line(r, (const char *)atoll_buf_head(&r->line_out), atoll_buf_size(&r->line_out));
    atoll_buf_done(&r->line_out);
    atoll_cli_done(&own);
}

/* The daemon's own messages, such as those about subscriptions, until the session ends. If the connection breaks,
 * the daemon keeps them for the next one. */
static void *listen_for_messages(void *arg)
{
    struct server *server = arg;
    struct request r = {.server = server};
    const struct atoll_http_transfer transfer = {
        .write = take_bytes,
        .accept = "text/event-stream",
        .arg = &r,
    };
    struct atoll_cli own;
    struct atoll_error error;
    bool closing = false;

    while (!closing) {
        atoll_cli_init(&own);
        own.verb = server->cli->verb;
        own.ca_file = server->cli->ca_file;
        atoll_cli_set_timeout(&own, -1);
        atoll_buf_init(&r.line_out, ATOLL_LINK_REPLY_MAX);
        if (atoll_cli_stream(&own, "GET", server->target, &transfer, NULL, &error) < 0)
            (void)sleep(AGAIN_S);
        atoll_buf_done(&r.line_out);
        atoll_cli_done(&own);
        (void)pthread_mutex_lock(&server->lock);
        closing = server->closing;
        (void)pthread_mutex_unlock(&server->lock);
    }
    return NULL;
}

/* A client of a version with a handshake has ended it: from now on the daemon may have messages. */
static void start_listening(struct server *server, const char *line, size_t n)
{
    ATOLL_AUTOJSON json_t *message = json_loadb(line, n, 0, NULL);
    const char *method = json_string_value(json_object_get(message, "method"));
    pthread_t thread;

    if (server->listens || !method || strcmp(method, "notifications/initialized") != 0)
        return;
    server->listens = pthread_create(&thread, NULL, listen_for_messages, server) == 0;
    if (server->listens)
        (void)pthread_detach(thread);
}

static void *run_request(void *arg)
{
    struct request *r = arg;
    struct server *server = r->server;

    send(r);
    free(r->line);
    free(r);
    (void)pthread_mutex_lock(&server->lock);
    server->running--;
    (void)pthread_cond_broadcast(&server->ended);
    (void)pthread_mutex_unlock(&server->lock);
    return NULL;
}

static void wait_for(struct server *server, unsigned most)
{
    (void)pthread_mutex_lock(&server->lock);
    while (server->running > most)
        (void)pthread_cond_wait(&server->ended, &server->lock);
    (void)pthread_mutex_unlock(&server->lock);
}

static int start_request(struct server *server, const char *line, size_t n, struct atoll_error *err)
{
    struct request *r = calloc(1, sizeof(*r));
    pthread_t thread;
    int e;

    if (!r || !(r->line = strndup(line, n))) {
        free(r);
        return atoll_fail_errno(err, ENOMEM, "message");
    }
    r->server = server;
    r->len = n;
    wait_for(server, RUNNING_MAX - 1);
    (void)pthread_mutex_lock(&server->lock);
    server->running++;
    (void)pthread_mutex_unlock(&server->lock);
    e = pthread_create(&thread, NULL, run_request, r);
    if (e != 0) {
        server->running--;
        free(r->line);
        free(r);
        return atoll_fail_errno(err, e, "thread");
    }
    (void)pthread_detach(thread);
    return 0;
}

static int serve(struct atoll_cli *cli, struct atoll_error *err)
{
    static struct server server; /* the thread that listens may live until the process ends */
    uint8_t random[16];
    size_t cap = 0, at;
    char *line = NULL;
    ssize_t n;
    int r = 0;

    server.cli = cli;
    (void)pthread_mutex_init(&server.lock, NULL);
    (void)pthread_cond_init(&server.ended, NULL);
    atoll_rand_bytes(random, sizeof(random));
    at = (size_t)snprintf(server.target, sizeof(server.target), "/mcp?session=");
    for (size_t i = 0; i < sizeof(random); i++, at += 2)
        (void)snprintf(server.target + at, 3, "%02x", random[i]);
    while (r == 0 && (n = getline(&line, &cap, stdin)) >= 0) {
        size_t len = strcspn(line, "\r\n");

        if (len == 0)
            continue;
        start_listening(&server, line, ATOLL_MIN(len, (size_t)n));
        r = start_request(&server, line, ATOLL_MIN(len, (size_t)n), err);
    }
    free(line);
    wait_for(&server, 0);
    (void)pthread_mutex_lock(&server.lock);
    server.closing = true;
    (void)pthread_mutex_unlock(&server.lock);
    if (r == 0)
        r = atoll_cli_call(cli, "DELETE", server.target, NULL, NULL, err);
    return r < 0 ? r : ATOLL_CLI_OK;
}

/* Configurations of clients: where they are, the name of the member with the servers, and how they write the value
 * of a variable of their own environment. */
static const struct {
    const char *name, *file, *member, *key;
} clients[] = {
    {"claude", ".mcp.json of the project, or `claude mcp add atoll -- atoll mcp`", "mcpServers",
     "${ATOLL_API_KEY}"},
    {"cursor", ".cursor/mcp.json of the project or of the home directory", "mcpServers",
     "${env:ATOLL_API_KEY}"},
    {"vscode", ".vscode/mcp.json of the workspace", "servers", "${env:ATOLL_API_KEY}"},
};

/* The variables that say where the daemon is: a client may start the server without them. */
static json_t *make_env(const char *key)
{
    static const struct {
        const char *name;
        bool is_file;
    } variables[] = {{"ATOLL_SOCKET", true},
                     {"ATOLL_URL", false},
                     {"ATOLL_CA_FILE", true},
                     {"ATOLL_INSECURE", false}};
    json_t *env = json_object();
    const char *value = getenv("ATOLL_API_KEY");
    char path[PATH_MAX];

    if (value && *value)
        (void)json_object_set_new(env, "ATOLL_API_KEY", json_string(key));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(variables); i++) {
        value = getenv(variables[i].name);
        if (value && *value)
            (void)json_object_set_new(
                env, variables[i].name,
                json_string(variables[i].is_file && realpath(value, path) ? path : value));
    }
    return env;
}

static json_t *make_server(const char *key)
{
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    json_t *env = make_env(key), *server;

    own[n > 0 ? n : 0] = '\0';
    server = json_pack("{s:s, s:[s]}", "command", n > 0 ? own : "atoll", "args", "mcp");
    if (json_object_size(env) > 0)
        (void)json_object_set(server, "env", env);
    json_decref(env);
    return server;
}

static int install(const char *name, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(clients); i++) {
        ATOLL_AUTOJSON json_t *config = NULL;
        char *text;

        if (strcmp(clients[i].name, name) != 0)
            continue;
        config = json_pack("{s:{s:o}}", clients[i].member, "atoll", make_server(clients[i].key));
        text = config ? json_dumps(config, JSON_INDENT(2)) : NULL;
        if (!text)
            return atoll_fail_errno(err, ENOMEM, "configuration");
        (void)fprintf(stderr, "For %s\n", clients[i].file);
        if (strstr(text, clients[i].key))
            (void)fprintf(stderr, "The key is not in it: the client needs ATOLL_API_KEY in its "
                                  "environment\n");
        (void)puts(text);
        free(text);
        return ATOLL_CLI_OK;
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "--install must be claude, cursor or vscode (got \"%.40s\")", name);
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;

    return o->install ? install(o->install, err) : serve(cli, err);
}

const struct atoll_cli_verb atoll_cli_mcp = {
    .name = "mcp",
    .args = "[OPTION]...",
    .summary = "serve the Model Context Protocol on standard input and output",
    .help =
        "Started by an MCP client, which then has sandboxes as tools: to run commands and code,\n"
        "read and write files, and more. A session has a sandbox of its own, which ends with\n"
        "it. Clients that speak HTTP use /mcp of the daemon instead.\n"
        "\n"
        "Examples:\n"
        "  claude mcp add atoll -- atoll mcp\n"
        "  atoll mcp --install cursor\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = 0,
    .run = run,
};
