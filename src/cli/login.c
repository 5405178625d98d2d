/*
 * Logins at MCP servers: the daemon says where the browser of the user goes, and this program serves the address
 * that the browser is sent to afterwards, for one request with a code.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/fd.h"
#include "cli/client.h"
#include "cli/print.h"
#include "net/url.h"

#define WAIT_MS (10 * 60 * 1000) /* as long as the daemon waits for the code */
#define HEAD_MS 5000             /* for the request of a browser */
#define HEAD_MAX 16384
#define TIMEOUT_MS 120000 /* of the daemon, which asks several servers */
#define PATH "/callback"

struct login_options {
    struct atoll_cli_common common;
    struct atoll_cli_list scopes;
    const char *client_id;
    uint64_t port;
};

#define AT(member) offsetof(struct login_options, member)
static const struct atoll_cli_option login_options[] = {
    {"scope", 0, ATOLL_CLI_LIST, AT(scopes), "SCOPE", "ask for this access", NULL},
    {"client-id", 0, ATOLL_CLI_TEXT, AT(client_id), "ID",
     "a client that exists at the authorization server", NULL},
    {"port", 0, ATOLL_CLI_COUNT, AT(port), "PORT", "where the browser is sent to (default: any)",
     NULL},
    ATOLL_CLI_COMMON(struct login_options),
    {0},
};
#undef AT

static int listen_here(uint64_t port, int *ret_fd, char *uri, size_t cap, struct atoll_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    ATOLL_AUTOCLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (port > UINT16_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--port must be up to 65535");
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &n) < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, errno, "listen at 127.0.0.1:%u: %s",
                          (unsigned)port, strerror(errno));
    (void)snprintf(uri, cap, "http://127.0.0.1:%u" PATH, ntohs(address.sin_port));
    *ret_fd = ATOLL_TAKE_FD(fd);
    return 0;
}

/* --- the request of the browser --- */

/* Reads the head of a request. False: none came. */
static bool read_head(int fd, char out[static HEAD_MAX])
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    size_t used = 0;
    ssize_t n;

    out[0] = '\0';
    while (used + 1 < HEAD_MAX && !strstr(out, "\r\n\r\n")) {
        if (poll(&pfd, 1, HEAD_MS) <= 0)
            return false;
        n = read(fd, out + used, HEAD_MAX - 1 - used);
        if (n <= 0)
            return false;
        used += (size_t)n;
        out[used] = '\0';
    }
    return true;
}

static void answer(int fd, const char *status, const char *text)
{
    char page[600];
    int n = snprintf(page, sizeof(page),
                     "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     status, strlen(text), text);

    (void)!send(fd, page, (size_t)n, MSG_NOSIGNAL);
}

/* The query of "GET /callback?QUERY HTTP/1.1"; NULL: it asks for something else. */
static const char *query_of(const char *head, size_t *ret_n)
{
    static const char begin[] = "GET " PATH "?";

    if (strncmp(head, begin, sizeof(begin) - 1) != 0)
        return NULL;
    *ret_n = strcspn(head + sizeof(begin) - 1, " \r\n");
    return head + sizeof(begin) - 1;
}

/* 1: *ret_request completes the login; 0: another request. */
static int take_code(const char *head, const char *state, json_t **ret_request,
                     struct atoll_error *err)
{
    struct atoll_buf pairs;
    const char *code, *iss, *error, *given, *query;
    size_t n = 0;
    int r = 0;

    query = query_of(head, &n);
    atoll_buf_init_erasing(&pairs, 2 * (size_t)HEAD_MAX);
    if (query && atoll_url_decode_query(&pairs, query, n) == 0) {
        const char *all = (const char *)atoll_buf_head(&pairs);

        n = atoll_buf_size(&pairs);
        code = atoll_url_pair(all, n, "code");
        error = atoll_url_pair(all, n, "error");
        given = atoll_url_pair(all, n, "state");
        iss = atoll_url_pair(all, n, "iss");
        if (given && strcmp(given, state) == 0 && error)
            r = atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EACCES,
                           "the authorization server does not let you in: %.100s", error);
        else if (given && strcmp(given, state) == 0 && code)
            r = (*ret_request =
                     json_pack("{s:s, s:s, s:s*}", "code", code, "state", state, "iss", iss))
                    ? 1
                    : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the code is not UTF-8");
    }
    atoll_buf_done(&pairs);
    return r;
}

static int wait_for_code(int listening, const char *state, json_t **ret_request,
                         struct atoll_error *err)
{
    struct pollfd pfd = {.fd = listening, .events = POLLIN};
    char head[HEAD_MAX];
    int r = 0;

    while (r == 0) {
        ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

        if (poll(&pfd, 1, WAIT_MS) <= 0)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "no browser has come back within ten minutes: begin again");
        fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 || !read_head(fd, head))
            continue;
        r = take_code(head, state, ret_request, err);
        answer(fd, r == 0 ? "404 Not Found" : "200 OK",
               r == 0  ? "There is nothing here.\n"
               : r > 0 ? "You can close this page; the rest is in the terminal.\n"
                       : "You are not logged in. You can close this page.\n");
    }
    explicit_bzero(head, sizeof(head));
    return r < 0 ? r : 0;
}

/* --- the verb --- */

static int begin(struct atoll_cli *cli, const struct login_options *o, const char *target,
                 const char *uri, json_t **ret_reply, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:s, s:s*}", "redirectUri", uri, "clientId", o->client_id);
    ATOLL_AUTOJSON json_t *scopes = json_array();

    for (size_t i = 0; i < o->scopes.n; i++)
        (void)json_array_append_new(scopes, json_string(o->scopes.items[i]));
    if (o->scopes.n > 0)
        (void)json_object_set(request, "scopes", scopes);
    return atoll_cli_call(cli, "POST", target, request, ret_reply, err);
}

static int login(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                 struct atoll_error *err)
{
    const struct login_options *o = options;
    ATOLL_AUTOJSON json_t *begun = NULL;
    ATOLL_AUTOJSON json_t *request = NULL;
    ATOLL_AUTOJSON json_t *reply = NULL;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct atoll_link_target target;
    char uri[64];
    int r = listen_here(o->port, &fd, uri, sizeof(uri), err);

    atoll_cli_set_timeout(cli, TIMEOUT_MS);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/connectors/%s/login", argv[0]);
    if (r == 0)
        r = begin(cli, o, target.text, uri, &begun, err);
    if (r < 0)
        return r;
    (void)fprintf(stderr, "Open this URL in a browser of this machine:\n");
    (void)fprintf(stderr, "%s\n", atoll_link_text(begun, "url", ""));
    r = wait_for_code(fd, atoll_link_text(begun, "state", ""), &request, err);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s: logged in\n", argv[0]);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_connector_login = {
    .name = "connector login",
    .args = "[OPTION]... CONNECTOR",
    .summary = "log in at an MCP server by OAuth",
    .help =
        "Prints a URL and waits until a browser of this machine has been there. The daemon keeps the\n"
        "tokens: tasks use the server from then on, and no sandbox gets a token.\n"
        "Over ssh, forward the port: ssh -L 7777:127.0.0.1:7777 HOST, and --port 7777.\n"
        "\n"
        "Examples:\n"
        "  atoll connector create linear --url https://mcp.linear.app/mcp\n"
        "  atoll connector login linear\n",
    .options = login_options,
    .options_size = sizeof(struct login_options),
    .min_args = 1,
    .max_args = 1,
    .run = login,
};
